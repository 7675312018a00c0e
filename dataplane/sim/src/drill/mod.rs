//! Packetdrill scripts in virtual time.
//!
//! [`lang`] reads scripts; it knows nothing of the stack.

pub mod lang;
