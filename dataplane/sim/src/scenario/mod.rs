//! Scenario files: a network, what runs on it and what is expected of it, written by hand.
//!
//! ```text
//!   text -- value (where things stand) -- parse --> model::Scenario
//!                                                     | seed, variant
//!                 evaluate  <--- record::Run <--- run (build: World, time line)
//! ```
//!
//! - [`units`] and [`link_keys`] are also the grammar of paths (`millrace wire`).
//! - [`Scenario::parse`] checks all there is to check before anything runs.

mod build;
mod evaluate;
pub mod expect;
pub mod link_keys;
pub mod model;
mod parse;
pub mod path_text;
pub mod record;
mod run;
pub mod units;
mod value;

pub use evaluate::{Outcome, Verdict, evaluate, measure};
pub use model::Scenario;
pub use parse::seeds;
pub use record::Run;
pub use run::{Order, SAMPLES, SERIES_FLOWS_MAX, SERIES_LINKS_MAX, run};
pub use value::{FILE_MAX_BYTES, Fault, FaultKind, Problem};
