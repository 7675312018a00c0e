//! Fixtures of the suites that run the real binary.
//!
//! A [`Lab`] is a veth pair between two network namespaces, the dataplane on one end and the kernel on
//! the other, [`TwoLinks`] are two of them with a kernel each; a [`Scratch`] is a directory for devices that need no kernel. Each has names of its own,
//! so that suites can run at the same time, and removes them when it is dropped, also when a test fails.

#![forbid(unsafe_code)]

mod lab;
pub mod pcap;
mod process;
mod scratch;
mod two_links;

pub use lab::Lab;
pub use process::{
    Dataplane, ask, binary, counter, iperf_json, iperf3, is_root, lacks, moved, received, until,
};
pub use scratch::Scratch;
pub use two_links::TwoLinks;

/// Skip the calling test, with a printed reason, unless namespaces can be made.
#[macro_export]
macro_rules! needs_root {
    () => {
        $crate::needs!($crate::is_root(), "root, for namespaces, veth and packet sockets");
    };
}

/// Skip the calling test, with a printed reason, unless the condition holds. Where
/// `MILLRACE_NO_SKIP` is set nothing may be missing, and the test fails instead.
#[macro_export]
macro_rules! needs {
    ($there:expr, $what:expr) => {
        if !$there {
            $crate::lacks($what);
            return;
        }
    };
}
