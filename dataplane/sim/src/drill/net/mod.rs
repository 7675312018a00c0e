//! Packets between a script and the stack: bytes in both directions, and the neighbour that a stack
//! on Ethernet needs to have.

pub mod build;
pub mod gateway;
pub mod live;
pub mod options;

pub use build::Outer;
pub use live::{Live, LiveBody, LiveTcp};
pub use options::LiveOption;
