//! The side that answers.

use core::net::IpAddr;

use base::ConnId;
use stack::{App, AppEvent, Io};
use tcp::ConnOptions;

use super::header::{HEADER_BYTES, Header};
use super::table::Table;
use crate::discard::CannotListen;

/// Connections waiting to be reported, and half-open ones, per port (`somaxconn` bounds it as well).
const BACKLOG: u32 = 4096;
/// Connections closed per event while stopping.
const CLOSED_AT_ONCE: u32 = 4096;
/// What responses are made of.
const FILLER: [u8; 16 * 1024] = [b'.'; 16 * 1024];

/// Where to listen, and for whom.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// One of our addresses, or all.
    pub addr: Option<IpAddr>,
    /// Local ports.
    pub ports: Vec<u16>,
    /// Bytes of requests and responses of clients that do not say; `None`: as many bytes go back
    /// as came.
    pub sizes: Option<(u32, u32)>,
}

/// The application.
pub struct Server {
    config: ServerConfig,
    sessions: Table<Session>,
}

/// One connection.
#[derive(Clone, Copy, Debug)]
struct Session {
    request: u32,
    response: u32,
    /// Bytes of the request that is under way.
    got: u32,
    closes: bool,
    /// Bytes of `header` that have come; [`DECIDED`] once that is over.
    header_len: u8,
    header: [u8; HEADER_BYTES],
    /// Bytes of responses still to send.
    owed: u64,
}

const DECIDED: u8 = u8::MAX;

impl Session {
    const fn new(sizes: Option<(u32, u32)>) -> Self {
        let (request, response) = match sizes {
            Some(sizes) => sizes,
            None => (1, 1),
        };
        Self {
            request,
            response,
            got: 0,
            closes: false,
            header_len: 0,
            header: [0; HEADER_BYTES],
            owed: 0,
        }
    }

    /// Look at received bytes.
    fn take(&mut self, bytes: &[u8]) {
        let count = match self.header_len {
            DECIDED => bytes.len(),
            _ => self.look_for_header(bytes),
        };
        let request = u64::from(self.request.max(1));
        let got = u64::from(self.got).saturating_add(count as u64);
        // Less than a request, which has 32 bits.
        self.got = (got % request) as u32;
        let owed = (got / request).saturating_mul(u64::from(self.response));
        self.owed = self.owed.saturating_add(owed);
    }

    /// Returns how many bytes count now: none while it is not clear what they are, and all that came
    /// once it is.
    fn look_for_header(&mut self, bytes: &[u8]) -> usize {
        let before = usize::from(self.header_len);
        let mut len = before;
        for (to, from) in self.header.iter_mut().skip(before).zip(bytes) {
            *to = *from;
            len += 1;
        }
        let plain = !Header::may_begin_with(self.header.get(..len).unwrap_or_default());
        if !plain && len < HEADER_BYTES {
            self.header_len = len as u8;
            return 0;
        }
        self.header_len = DECIDED;
        if let Some(header) = Header::decode(&self.header).filter(|_| !plain) {
            self.request = header.request;
            self.response = header.response;
            self.closes = header.server_closes;
        }
        before + bytes.len()
    }
}

/// What is left of a connection after it was served.
#[derive(PartialEq, Eq)]
enum Next {
    Wait,
    Close,
}

impl Server {
    /// Bytes that a connection takes in this application.
    pub const CONNECTION_BYTES: usize = Table::<Session>::ENTRY_BYTES;

    /// An application that has not started.
    pub const fn new(config: ServerConfig) -> Self {
        Self { config, sessions: Table::new() }
    }

    fn start(&self, io: &mut dyn Io) {
        let options = ConnOptions { nodelay: true, ..ConnOptions::default() };
        for &port in &self.config.ports {
            if let Err(error) = io.listen(self.config.addr, port, BACKLOG, &options) {
                // Without its listeners this server is none; there is no later try.
                let _ = io.publish(Box::new(CannotListen { port, error }));
                io.exit(1);
                return;
            }
        }
    }

    fn serve(&mut self, io: &mut dyn Io, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        if Self::step(io, conn, session) == Next::Close {
            self.sessions.remove(conn);
            io.close(conn);
        }
    }

    /// Answer what has come. Nothing is read while an answer is still to be sent, so a peer that
    /// does not read finds its own window closed.
    fn step(io: &mut dyn Io, conn: ConnId, session: &mut Session) -> Next {
        loop {
            let answered = session.owed > 0;
            while session.owed > 0 {
                let len = session.owed.min(FILLER.len() as u64) as usize;
                let more = session.owed > len as u64;
                let chunk = FILLER.get(..len).unwrap_or(&FILLER);
                // An error means that the connection is going; its `Closed` follows.
                let Ok(sent) = io.send(conn, chunk, more) else { return Next::Wait };
                session.owed = session.owed.saturating_sub(sent as u64);
                if sent < len {
                    return Next::Wait;
                }
            }
            if answered && session.closes {
                return Next::Close;
            }
            let got = io.recv(conn, &mut |slice| {
                session.take(slice);
                slice.len()
            });
            match got {
                Some(_) if session.owed > 0 => {}
                Some(got) if got.end => return Next::Close,
                _ => return Next::Wait,
            }
        }
    }

    fn stop(&mut self, io: &mut dyn Io) {
        let mut at = 0;
        for _ in 0..CLOSED_AT_ONCE {
            let Some(conn) = self.sessions.next_from(at) else { return };
            at = conn.slot.saturating_add(1);
            self.sessions.remove(conn);
            io.close(conn);
        }
        // The rest in turns to come; without a timer the limit of the stop would do it.
        let now = io.now();
        io.set_timer(0, now);
    }
}

impl App for Server {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        match event {
            AppEvent::Start => self.start(io),
            AppEvent::Accepted { conn, .. } => {
                self.sessions.insert(conn, Session::new(self.config.sizes));
            }
            AppEvent::Readable { conn }
            | AppEvent::Writable { conn }
            | AppEvent::PeerClosed { conn } => self.serve(io, conn),
            AppEvent::Closed { conn, .. } => {
                self.sessions.remove(conn);
            }
            AppEvent::Timer { .. } | AppEvent::Stop => self.stop(io),
            AppEvent::Connected { .. } | AppEvent::Message { .. } => {}
        }
    }
}
