//! The relaxed energies and what methods need of them: gradients, certificates, line searches.

pub(crate) mod cuts;
pub(crate) mod fuse;
pub(crate) mod min_cut;
pub(crate) mod quadratic;
pub(crate) mod tangent;
