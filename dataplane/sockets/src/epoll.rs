//! `epoll`: a set of descriptions, and a list of those that something has happened to.
//!
//! As on Linux, an event puts an entry on the list, and looking at the list asks each entry what is so
//! now. Level-triggered entries that are ready stay on it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use stack::Io;

use crate::Errno;
use crate::abi::*;
use crate::call::{EpollEvent, Outcome, Value};
use crate::file::{Kind, Watcher};
use crate::ready::NESTING_MAX;
use crate::slab::FileId;
use crate::sockets::{Patience, Pending, Sockets, Step};

/// Bits that are not events.
const PRIVATE: u32 = EPOLLWAKEUP | EPOLLONESHOT | EPOLLET | EPOLLEXCLUSIVE;
/// Bits that go with `EPOLLEXCLUSIVE`.
const EXCLUSIVE_OK: u32 =
    EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE;
/// Events that one call returns at most (`EP_MAX_EVENTS` is larger; so many fit no table of ours).
const EVENTS_MAX: usize = 65_536;

/// What names an entry: the descriptor by which it was added, and what that named then.
type Key = (i32, FileId);

#[derive(Clone, Copy, Debug)]
struct Interest {
    event: EpollEvent,
    /// On the list.
    listed: bool,
}

/// An epoll instance.
#[derive(Debug, Default)]
pub(crate) struct Epoll {
    interests: BTreeMap<Key, Interest>,
    /// Oldest first; entries that were removed meanwhile are passed over.
    ready: VecDeque<Key>,
}

impl Epoll {
    pub(crate) fn watched(&self) -> impl Iterator<Item = Key> {
        self.interests.keys().copied()
    }

    pub(crate) fn forget(&mut self, fd: i32, file: FileId) {
        self.interests.remove(&(fd, file));
        self.ready.retain(|key| *key != (fd, file));
    }

    fn list(&mut self, key: Key) {
        if let Some(interest) = self.interests.get_mut(&key)
            && !core::mem::replace(&mut interest.listed, true)
        {
            self.ready.push_back(key);
        }
    }

    /// Something happened: whether it is of interest, so that the entry is on the list now.
    fn heed(&mut self, key: Key, mask: u32) -> bool {
        let cares = self.interests.get(&key).is_some_and(|interest| {
            let events = interest.event.events & !PRIVATE;
            events != 0 && events & mask != 0
        });
        if cares {
            self.list(key);
        }
        cares
    }
}

impl Sockets {
    pub(crate) fn epoll_create(&mut self, flags: i32) -> Result<i64, Errno> {
        if flags & !O_CLOEXEC != 0 {
            return Err(Errno::EINVAL);
        }
        self.install(Kind::Epoll(Epoll::default()), flags)
    }

    pub(crate) fn epoll_ctl(
        &mut self,
        io: &mut dyn Io,
        epoll: i32,
        operation: i32,
        fd: i32,
        event: Option<EpollEvent>,
    ) -> Result<(), Errno> {
        let adds = matches!(operation, EPOLL_CTL_ADD | EPOLL_CTL_MOD);
        let mut event = match event {
            Some(event) => event,
            None if operation != EPOLL_CTL_DEL => return Err(Errno::EFAULT),
            None => EpollEvent { events: 0, data: 0 },
        };
        let (epoll, file) = (self.file_of(epoll)?, self.file_of(fd)?);
        if epoll == file || self.epoll_mut(epoll).is_none() {
            return Err(Errno::EINVAL);
        }
        let nested = self.epoll_mut(file).is_some();
        let exclusive = event.events & EPOLLEXCLUSIVE != 0;
        if adds && exclusive {
            let fits = operation == EPOLL_CTL_ADD && event.events & !EXCLUSIVE_OK == 0;
            if !fits || nested {
                return Err(Errno::EINVAL);
            }
        }
        if operation == EPOLL_CTL_ADD
            && nested
            && (self.watches(file, epoll, 0) || self.depth(file, 0) >= NESTING_MAX)
        {
            return Err(Errno::ELOOP);
        }
        let key = (fd, file);
        let known = self.epoll_mut(epoll).and_then(|e| e.interests.get(&key).copied());
        match (operation, known) {
            (EPOLL_CTL_ADD, Some(_)) => return Err(Errno::EEXIST),
            (EPOLL_CTL_ADD, None) | (EPOLL_CTL_MOD, Some(_)) => {
                if known.is_some_and(|known| known.event.events & EPOLLEXCLUSIVE != 0) {
                    return Err(Errno::EINVAL);
                }
                event.events |= EPOLLERR | EPOLLHUP;
                if known.is_none()
                    && let Some(file) = self.files.get_mut(file)
                {
                    file.watchers.push(Watcher { epoll, fd, exclusive });
                }
                if let Some(own) = self.epoll_mut(epoll) {
                    let listed = known.is_some_and(|known| known.listed);
                    own.interests.insert(key, Interest { event, listed });
                }
                // What is so already counts as news.
                if self.readiness(io, file, 0) & event.events & !PRIVATE != 0 {
                    if let Some(own) = self.epoll_mut(epoll) {
                        own.list(key);
                    }
                    self.wake(epoll, EPOLLIN | EPOLLRDNORM);
                }
            }
            (EPOLL_CTL_DEL, Some(_)) => {
                if let Some(own) = self.epoll_mut(epoll) {
                    own.forget(fd, file);
                }
                if let Some(file) = self.files.get_mut(file) {
                    file.watchers.retain(|w| (w.epoll, w.fd) != (epoll, fd));
                }
            }
            (EPOLL_CTL_MOD | EPOLL_CTL_DEL, None) => return Err(Errno::ENOENT),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    /// Whether `epoll` watches `target`, itself or through others.
    fn watches(&self, epoll: FileId, target: FileId, depth: u32) -> bool {
        let Some(Kind::Epoll(own)) = self.files.get(epoll).map(|file| &file.kind) else {
            return false;
        };
        depth > NESTING_MAX
            || own
                .watched()
                .any(|(_, file)| file == target || self.watches(file, target, depth + 1))
    }

    fn depth(&self, epoll: FileId, level: u32) -> u32 {
        let Some(Kind::Epoll(own)) = self.files.get(epoll).map(|file| &file.kind) else {
            return level;
        };
        if level > NESTING_MAX {
            return level;
        }
        own.watched().map(|(_, file)| self.depth(file, level + 1)).max().unwrap_or(level + 1)
    }

    pub(crate) fn epoll_wait(
        &mut self,
        io: &mut dyn Io,
        epoll: i32,
        most: i32,
        timeout: Option<Duration>,
    ) -> Result<Outcome, Errno> {
        let file = self.file_of(epoll)?;
        let most = usize::try_from(most).unwrap_or(0).min(EVENTS_MAX);
        if most == 0 || self.epoll_mut(file).is_none() {
            return Err(Errno::EINVAL);
        }
        let patience = Patience::new(io, false, timeout);
        Ok(self.begin(io, Pending::EpollWait { file, most }, patience))
    }

    pub(crate) fn try_epoll_wait(&mut self, io: &mut dyn Io, file: FileId, most: usize) -> Step {
        let events = self.harvest(io, file, most);
        if events.is_empty() { Step::Wait } else { Step::Done(Ok(Value::Events(events))) }
    }

    /// What is on the list and still so, at most `most` events.
    fn harvest(&mut self, io: &mut dyn Io, id: FileId, most: usize) -> Vec<EpollEvent> {
        let mut events = Vec::new();
        let mut stay = Vec::new();
        while events.len() < most {
            let Some(epoll) = self.epoll_mut(id) else { break };
            let Some(key) = epoll.ready.pop_front() else { break };
            let Some(interest) = epoll.interests.get_mut(&key) else { continue };
            interest.listed = false;
            let asked = interest.event;
            let so = self.readiness(io, key.1, 1) & asked.events & !PRIVATE;
            if so == 0 {
                continue;
            }
            events.push(EpollEvent { events: so, data: asked.data });
            if asked.events & EPOLLONESHOT != 0 {
                if let Some(epoll) = self.epoll_mut(id)
                    && let Some(interest) = epoll.interests.get_mut(&key)
                {
                    interest.event.events &= PRIVATE;
                }
            } else if asked.events & EPOLLET == 0 {
                stay.push(key);
            }
        }
        if let Some(epoll) = self.epoll_mut(id) {
            for key in stay {
                epoll.list(key);
            }
        }
        events
    }

    /// An epoll instance can be read when something on its list is so.
    pub(crate) fn epoll_readiness(&mut self, io: &mut dyn Io, id: FileId, depth: u32) -> u32 {
        if depth > NESTING_MAX {
            return 0;
        }
        let Some(epoll) = self.epoll_mut(id) else { return 0 };
        let listed: Vec<(Key, u32)> = epoll
            .ready
            .iter()
            .filter_map(|key| Some((*key, epoll.interests.get(key)?.event.events)))
            .collect();
        let any = listed.into_iter().any(|((_, file), events)| {
            self.readiness(io, file, depth + 1) & events & !PRIVATE != 0
        });
        if any { EPOLLIN | EPOLLRDNORM } else { 0 }
    }

    /// Tell the epoll instances that watch `id`. Of those that do so exclusively, one that somebody
    /// sleeps on is enough.
    pub(crate) fn notify_watchers(&mut self, id: FileId, mask: u32) {
        let Some(file) = self.files.get(id) else { return };
        let watchers = file.watchers.clone();
        let mut one_woken = false;
        for watcher in watchers {
            if watcher.exclusive && one_woken {
                continue;
            }
            let sleeps =
                self.files.get(watcher.epoll).is_some_and(|epoll| !epoll.waiters.is_empty());
            let Some(epoll) = self.epoll_mut(watcher.epoll) else { continue };
            if epoll.heed((watcher.fd, id), mask) {
                one_woken |= watcher.exclusive && sleeps;
                self.wake(watcher.epoll, EPOLLIN | EPOLLRDNORM);
            }
        }
    }
}
