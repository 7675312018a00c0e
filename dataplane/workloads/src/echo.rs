//! Sends back whatever arrives (RFC 862).
//!
//! Bytes go straight from the receive queue into the send queue; what does not fit stays unread, so
//! a peer that does not read its echo finds its own window closed, and no buffer grows here.

use stack::{App, AppEvent, Io};

pub use crate::discard::{CannotListen, Config};

/// Bytes offered to TCP at a time.
const SLICE_MAX_BYTES: usize = 16 * 1024;

/// The application.
#[derive(Debug)]
pub struct Echo {
    config: Config,
}

impl Echo {
    /// An application that has not started.
    pub const fn new(config: Config) -> Self {
        Self { config }
    }

    /// Offer the next slice to TCP first and take from the receive queue only what it took.
    fn pump(io: &mut dyn Io, conn: base::ConnId) {
        let mut scratch = [0; SLICE_MAX_BYTES];
        loop {
            let mut held = 0;
            let got = io.recv(conn, &mut |slice| {
                held = slice.len().min(SLICE_MAX_BYTES);
                for (to, from) in scratch.iter_mut().zip(slice) {
                    *to = *from;
                }
                0
            });
            let Some(got) = got else { return };
            let bytes = scratch.get(..held).unwrap_or_default();
            if bytes.is_empty() {
                if got.end {
                    io.shutdown(conn);
                }
                return;
            }
            // An error means that the connection is going; its `Closed` follows.
            let Ok(sent) = io.send(conn, bytes, got.left > held) else { return };
            let mut left = sent;
            io.recv(conn, &mut |slice| {
                let take = slice.len().min(left);
                left -= take;
                take
            });
            if sent < held {
                return;
            }
        }
    }
}

impl App for Echo {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        match event {
            AppEvent::Start => crate::discard::listen(io, &self.config),
            AppEvent::Accepted { conn, .. }
            | AppEvent::Readable { conn }
            | AppEvent::Writable { conn }
            | AppEvent::PeerClosed { conn } => Self::pump(io, conn),
            AppEvent::Connected { .. }
            | AppEvent::Closed { .. }
            | AppEvent::Timer { .. }
            | AppEvent::Message { .. }
            | AppEvent::Stop => {}
        }
    }
}
