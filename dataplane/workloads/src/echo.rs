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

#[cfg(test)]
mod tests {
    use core::net::SocketAddr;
    use core::time::Duration;

    use super::*;
    use crate::fake::{Link, Net};

    fn run(link: Link, bytes: usize, reader_pauses: bool) {
        let mut net = Net::new(link);
        let config = Config { addr: None, port: 7, options: Default::default() };
        let server = net.add_host(Some(Box::new(Echo::new(config))));
        let peer = net.add_host(None);
        net.run_for(Duration::from_millis(1));
        let remote = SocketAddr::new(Net::addr(server), 7);
        let conn =
            net.io(peer).connect(remote, stack::Local::ANY, &Default::default()).expect("a route");
        net.run_for(Duration::from_millis(10));
        let data: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        let (mut sent, mut shut) = (0, false);
        let mut got: Vec<u8> = Vec::new();
        for step in 0..10_000 {
            if !shut {
                sent += net.io(peer).send(conn, &data[sent..], false).expect("open");
                shut = sent == bytes;
                if shut {
                    net.io(peer).shutdown(conn);
                }
            }
            net.run_for(Duration::from_millis(5));
            if !reader_pauses || step % 40 == 39 {
                net.io(peer).recv(conn, &mut |slice| {
                    got.extend(slice);
                    slice.len()
                });
            }
            if got.len() == bytes {
                break;
            }
        }
        assert!(got == data, "{} of {bytes} came back", got.len());
        net.run_for(Duration::from_secs(1));
        assert_eq!(
            (net.open_conns(server), net.open_conns(peer)),
            (0, 0),
            "half-close is answered"
        );
    }

    #[test]
    fn all_comes_back_and_then_the_end() {
        run(Link::default(), 0, false);
        run(Link::default(), 1, false);
        run(Link::default(), 500_000, false);
        run(Link { chunk: 1, ..Link::default() }, 20_000, false);
    }

    #[test]
    fn a_peer_that_reads_late_holds_only_itself_up() {
        run(Link { buffer: 10_000, ..Link::default() }, 300_000, true);
    }
}
