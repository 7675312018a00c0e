//! The receiving half of a connection.

pub mod assembler;

pub use assembler::{Assembler, Inserted};
