//! Scenario files: a network, what runs on it and what is expected of it, written by hand.
//!
//! ```text
//!   text -- value (where things stand) -- parse --> model::Scenario
//! ```
//!
//! - [`units`] and [`link_keys`] are also the grammar of paths (`millrace wire`).
//! - [`Scenario::parse`] checks all there is to check before anything runs.

pub mod expect;
pub mod link_keys;
pub mod model;
mod parse;
pub mod units;
mod value;

pub use model::Scenario;
pub use parse::seeds;
pub use value::{FILE_MAX_BYTES, Fault, FaultKind, Problem};
