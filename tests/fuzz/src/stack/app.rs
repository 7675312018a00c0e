//! The application: it writes a pattern, checks the pattern that it reads, and keeps book.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use base::{ConnId, ListenerId};
use stack::{App, AppEvent, Io};
use tcp::ConnOptions;

/// The port on which the application listens.
pub(super) const PORT: u16 = 80;

/// After this many bytes the pattern repeats. A power of two, so that it goes on over the wrap of
/// sequence numbers.
pub(super) const PERIOD: u32 = 1024;

/// The byte at this place of a stream, in both directions.
pub(super) fn pattern(place: u32) -> u8 {
    let place = place % PERIOD;
    (place ^ place >> 6) as u8
}

/// One connection, as the application sees it.
#[derive(Debug, Default)]
pub(super) struct Stream {
    written: u32,
    read: u32,
}

/// What application and script share.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) streams: BTreeMap<ConnId, Stream>,
    /// Each that was ever told of and has ended.
    ended: BTreeSet<ConnId>,
    pub(super) listener: Option<ListenerId>,
    /// Reads and answers by itself.
    pub(super) eager: bool,
    /// Something got in whose bytes are not the pattern.
    pub(super) tainted: bool,
}

impl Book {
    pub(super) fn new(eager: bool, tainted: bool) -> Self {
        Self { eager, tainted, ..Self::default() }
    }

    pub(super) fn nth(&self, choice: u8) -> Option<ConnId> {
        self.streams.keys().nth(usize::from(choice) % self.streams.len().max(1)).copied()
    }

    pub(super) fn begin(&mut self, conn: ConnId) {
        assert!(!self.ended.contains(&conn), "{conn:?} comes again");
        assert!(self.streams.insert(conn, Stream::default()).is_none(), "{conn:?} twice");
    }

    /// Write up to `len` bytes of the pattern.
    pub(super) fn send(&mut self, io: &mut dyn Io, conn: ConnId, len: u32) {
        let Some(stream) = self.streams.get_mut(&conn) else { return };
        let data: Vec<u8> = (0..len).map(|i| pattern(stream.written + i)).collect();
        let room = io.send_room(conn);
        if let Ok(taken) = io.send(conn, &data, len.is_multiple_of(3)) {
            assert!(
                taken <= data.len() && taken >= room.min(data.len()),
                "room {room}, took {taken}"
            );
            stream.written += taken as u32;
        }
    }

    /// Read up to `most` bytes; returns how many.
    pub(super) fn recv(&mut self, io: &mut dyn Io, conn: ConnId, most: usize) -> usize {
        let Some(stream) = self.streams.get_mut(&conn) else { return 0 };
        let (readable, tainted) = (io.readable(conn), self.tainted);
        let mut left = most;
        let got = io.recv(conn, &mut |bytes| {
            let n = bytes.len().min(left);
            for byte in &bytes[..n] {
                assert!(
                    tainted || *byte == pattern(stream.read),
                    "byte {} of a stream",
                    stream.read
                );
                stream.read = stream.read.wrapping_add(1);
            }
            left -= n;
            n
        });
        let Some(got) = got else {
            panic!("{conn:?} has not ended, and recv does not know it");
        };
        assert_eq!(got.taken, most - left);
        assert_eq!(got.left, readable - got.taken);
        got.taken
    }
}

pub(super) struct Script(pub(super) Rc<RefCell<Book>>);

impl App for Script {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        let book = &mut *self.0.borrow_mut();
        match event {
            AppEvent::Start => {
                let options = ConnOptions::default();
                book.listener = io.listen(None, PORT, 4, &options).ok();
                assert!(book.listener.is_some());
            }
            AppEvent::Accepted { conn, .. } => book.begin(conn),
            AppEvent::Connected { conn } | AppEvent::Writable { conn } => {
                assert!(book.streams.contains_key(&conn), "{conn:?} is not known");
            }
            AppEvent::Readable { conn } => {
                assert!(book.streams.contains_key(&conn), "{conn:?} is not known");
                if book.eager {
                    let got = book.recv(io, conn, usize::MAX);
                    book.send(io, conn, got.min(4000) as u32);
                }
            }
            AppEvent::PeerClosed { conn } => {
                assert!(book.streams.contains_key(&conn), "{conn:?} is not known");
                if book.eager {
                    io.close(conn);
                }
            }
            AppEvent::Closed { conn, .. } => {
                assert!(book.streams.remove(&conn).is_some(), "{conn:?} ends, but never began");
                assert!(book.ended.insert(conn), "{conn:?} ends twice");
            }
            AppEvent::Timer { .. } | AppEvent::Message { .. } | AppEvent::Stop => {}
        }
    }
}
