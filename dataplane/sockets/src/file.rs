//! Open file descriptions and the descriptors that name them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::abi::O_RDWR;
use crate::call::OpId;
use crate::epoll::Epoll;
use crate::slab::FileId;
use crate::socket::Socket;

/// What a description is of.
#[derive(Debug)]
pub(crate) enum Kind {
    Socket(Box<Socket>),
    Epoll(Epoll),
}

/// An epoll instance that watches a description, by one of its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watcher {
    pub(crate) epoll: FileId,
    pub(crate) fd: i32,
    pub(crate) exclusive: bool,
}

/// An open file description: what `dup` shares.
#[derive(Debug)]
pub(crate) struct File {
    /// Descriptors, blocked operations and queues that hold it.
    pub(crate) refs: u32,
    /// `O_*`.
    pub(crate) flags: i32,
    /// Operations that sleep on it, oldest first.
    pub(crate) waiters: Vec<OpId>,
    /// In the order in which they came.
    pub(crate) watchers: Vec<Watcher>,
    pub(crate) kind: Kind,
}

impl File {
    pub(crate) fn new(kind: Kind, flags: i32) -> Self {
        Self { refs: 1, flags: O_RDWR | flags, waiters: Vec::new(), watchers: Vec::new(), kind }
    }
}

/// A descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    pub(crate) file: FileId,
    pub(crate) close_on_exec: bool,
}

/// Descriptors by number; the lowest free one is given next.
#[derive(Debug)]
pub(crate) struct Descriptors {
    slots: Vec<Option<Descriptor>>,
    first: i32,
    limit: usize,
}

impl Descriptors {
    /// Numbers from `first`, all of them below `limit`.
    pub(crate) const fn new(first: u16, limit: u16) -> Self {
        Self { slots: Vec::new(), first: first as i32, limit: limit as usize }
    }

    pub(crate) fn get(&self, fd: i32) -> Option<Descriptor> {
        *self.slots.get(usize::try_from(fd).ok()?)?
    }

    pub(crate) fn get_mut(&mut self, fd: i32) -> Option<&mut Descriptor> {
        self.slots.get_mut(usize::try_from(fd).ok()?)?.as_mut()
    }

    /// The lowest free number from `least`. `None`: there is none.
    pub(crate) fn lowest_free(&self, least: i32) -> Option<i32> {
        (least.max(self.first)..)
            .take_while(|fd| self.is_valid(*fd))
            .find(|fd| self.get(*fd).is_none())
    }

    /// Whether there could be a descriptor of this number.
    pub(crate) fn is_valid(&self, fd: i32) -> bool {
        usize::try_from(fd).is_ok_and(|fd| fd < self.limit)
    }

    /// Let `fd`, which is valid, name a file; what it named before.
    pub(crate) fn set(&mut self, fd: i32, descriptor: Option<Descriptor>) -> Option<Descriptor> {
        let index = usize::try_from(fd).ok().filter(|index| *index < self.limit)?;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, None);
        }
        core::mem::replace(self.slots.get_mut(index)?, descriptor)
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = i32> {
        self.slots.iter().zip(0..).filter_map(|(slot, fd)| slot.is_some().then_some(fd))
    }
}
