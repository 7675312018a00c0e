//! What people can set, and nothing that acts on it.
//!
//! - [`knobs`] is the table of run-time parameters: one row per knob with name, unit, range, both
//!   defaults, the moment at which it takes effect and a text. Everything else is derived from it:
//!   parsing, range checks, `millrace sysctl`, `docs/knobs.md`. A [`Knobs`] is one registry: the
//!   values of one instance and where each came from; [`Knobs::to_params`] turns it into the
//!   immutable set that workers run with.
//! - [`startup`] is the start-up file and the same things as flags. What a person wrote and what
//!   the program needs are two types: [`Startup`] holds only what has been checked.
//! - [`docs`] renders the knob list.
//!
//! The parameter structs live with the code that uses them (`tcp::TcpParams`,
//! `stack::StackParams`, `stack::StackConfig`). This crate reads the start-up file and applies
//! nothing: no thread, no device, no socket.

#![forbid(unsafe_code)]

pub mod docs;
pub mod error;
pub mod knobs;
mod profile;
pub mod startup;
mod text;

pub use error::{ConfigError, position};
pub use knobs::{Change, Entry, Knob, KnobError, Knobs, Source};
pub use profile::Profile;
pub use startup::{AppConfig, AppKind, PortFlags, Startup};
pub use text::{glob, nearest, quote};
