//! The methods, each of which supplies one step, and chains of them.
//!
//! Read [`Method`] first, then one method, for example `mean_field.rs`.

mod costs_below;
mod dc_gen;
mod dc_neg;
mod exact;
mod graduated;
mod lp;
mod mean_field;
mod method;
mod moves;
pub(crate) mod prox_lp;
mod qp;
mod relay;
pub(crate) mod smooth_lp;
mod tree_lp;
pub mod updates;

pub use self::graduated::Schedule;
pub use self::lp::LpOptions;
pub(crate) use self::method::Answer;
pub use self::method::{METHODS, Method, MethodInfo, Pipeline};
pub use self::prox_lp::ProxOptions;
pub use self::smooth_lp::SmoothOptions;
pub use self::tree_lp::TreeOptions;
