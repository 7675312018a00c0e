//! Takes whatever arrives and throws it away (RFC 863).

use core::net::IpAddr;

use stack::{App, AppEvent, Io, ListenError};
use tcp::ConnOptions;

/// Connections waiting to be reported, per listener.
const BACKLOG: u32 = 1024;

/// Where to listen.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// One of our addresses, or all.
    pub addr: Option<IpAddr>,
    /// Local port.
    pub port: u16,
    /// Options of accepted connections.
    pub options: ConnOptions,
}

/// Published by [`Discard`] and [`crate::echo::Echo`] when they cannot listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CannotListen {
    /// The port.
    pub port: u16,
    /// Why.
    pub error: ListenError,
}

/// The application.
#[derive(Debug)]
pub struct Discard {
    config: Config,
    bytes: u64,
}

impl Discard {
    /// An application that has not started.
    pub const fn new(config: Config) -> Self {
        Self { config, bytes: 0 }
    }

    /// Bytes thrown away so far.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn drain(&mut self, io: &mut dyn Io, conn: base::ConnId) {
        let bytes = &mut self.bytes;
        let got = io.recv(conn, &mut |slice| {
            *bytes = bytes.saturating_add(slice.len() as u64);
            slice.len()
        });
        if got.is_some_and(|r| r.end) {
            io.close(conn);
        }
    }
}

/// Listen, or publish why not and end the dataplane with exit code 1.
pub(crate) fn listen(io: &mut dyn Io, config: &Config) {
    if let Err(error) = io.listen(config.addr, config.port, BACKLOG, &config.options) {
        // Without a listener nothing else ever happens here, so there is no later try.
        let _ = io.publish(Box::new(CannotListen { port: config.port, error }));
        io.exit(1);
    }
}

impl App for Discard {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        match event {
            AppEvent::Start => listen(io, &self.config),
            AppEvent::Accepted { conn, .. }
            | AppEvent::Readable { conn }
            | AppEvent::PeerClosed { conn } => self.drain(io, conn),
            AppEvent::Connected { .. }
            | AppEvent::Writable { .. }
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

    #[test]
    fn all_is_taken_and_the_end_is_answered() {
        let mut net = Net::new(Link::default());
        let config = Config { addr: None, port: 9, options: ConnOptions::default() };
        let server = net.add_host(Some(Box::new(Discard::new(config))));
        let peer = net.add_host(None);
        net.run_for(Duration::from_millis(1));
        let remote = SocketAddr::new(Net::addr(server), 9);
        let conn =
            net.io(peer).connect(remote, stack::Local::ANY, &config.options).expect("a route");
        net.run_for(Duration::from_millis(10));
        let mut left = 1_000_000;
        while left > 0 {
            left -= net.io(peer).send(conn, &vec![1; left], false).expect("open");
            net.run_for(Duration::from_millis(10));
        }
        net.io(peer).shutdown(conn);
        net.run_for(Duration::from_secs(1));
        assert_eq!((net.open_conns(server), net.open_conns(peer)), (0, 0));
    }

    #[test]
    fn a_port_that_cannot_be_had_ends_the_application() {
        let mut net = Net::new(Link::default());
        let config = Config { addr: None, port: 0, options: ConnOptions::default() };
        let server = net.add_host(Some(Box::new(Discard::new(config))));
        net.run_for(Duration::from_millis(1));
        assert_eq!(net.exit_code(server), Some(1));
        let said = net.take_published(server).pop().expect("a word");
        let expected = CannotListen { port: 0, error: ListenError::Invalid };
        assert_eq!(said.downcast_ref::<CannotListen>(), Some(&expected));
    }
}
