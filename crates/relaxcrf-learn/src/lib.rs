//! Learning dense CRFs: gradients through updates, losses, and fitting to labelled images.
//!
//! [`Problem`](unrolled::Problem) runs updates and returns gradients with respect to unaries, kernel weights, kernel widths,
//! features and label costs, in single precision on lattices or in double precision on the exact filter.

pub mod costs;
pub mod kernel;
pub mod lbfgs;
pub mod loss;
pub mod operator;
pub mod real;
pub mod unrolled;
