//! Conformance of the stack as a peer sees it: frames in, frames out, over IPv4 and IPv6.
//!
//! [`matrix`] crosses every state with flags, sequence numbers, acknowledgement numbers, payloads and
//! timestamps, and holds each answer against [`spec`], which was written from the texts of the RFCs
//! and shares nothing with the engine. [`summary`] keeps the answers that a reviewer wants to see at a
//! glance in a small committed table. [`orders`] lets five segments arrive in
//! all their orders, and [`attacks`] sends what takes more than one segment.
//!
//! A cell that fails prints its name; `MILLRACE_CELL=<part of the name>` runs only the cells whose
//! name contains that text, and prints what is sent.

#![forbid(unsafe_code)]

mod attacks;
mod host;
mod matrix;
mod orders;
mod scene;
mod spec;
mod summary;
