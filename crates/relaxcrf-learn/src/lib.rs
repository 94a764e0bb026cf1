//! Learning dense CRFs: gradients through updates, losses, and fitting to labelled images.
//!
//! [`Problem`](unrolled::Problem) runs updates and returns gradients with respect to unaries, kernel weights, kernel widths,
//! features and label costs, in single precision on lattices or in double precision on the exact filter.
//! [`Task`](fit::Task) fits the parameters of a model to labelled images, and frees only those that cross-validation carries.

pub mod bootstrap;
pub mod calibration;
pub mod costs;
pub mod fit;
pub mod kernel;
pub mod lbfgs;
pub mod loss;
pub mod operator;
pub mod parameters;
pub mod real;
pub mod sample;
pub mod unrolled;
