//! What [`crate::mailbox`] is built on; `tests/loom` puts something else in its place.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) use crossbeam::queue::ArrayQueue;
pub(crate) use crossbeam::utils::CachePadded;
