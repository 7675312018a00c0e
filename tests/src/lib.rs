//! Fixtures of the suites that run the real binary: network namespaces with a veth pair, the dataplane
//! on one end and the kernel on the other.
//!
//! Each [`Lab`] has names of its own, so that suites can run at the same time, and removes them when
//! it is dropped, also when a test fails.

#![forbid(unsafe_code)]

mod lab;

pub use lab::{Dataplane, Lab, binary, is_root};

/// Skip the calling test with a printed reason unless namespaces can be made.
#[macro_export]
macro_rules! needs_root {
    () => {
        if !$crate::is_root() {
            eprintln!("skipped: needs root for namespaces, veth and packet sockets");
            return;
        }
    };
}
