//! The receiving half of a connection.

pub(crate) mod ack;
pub mod assembler;
pub(crate) mod autotune;
pub(crate) mod space;
pub(crate) mod window;

pub use assembler::{Assembler, Inserted};
