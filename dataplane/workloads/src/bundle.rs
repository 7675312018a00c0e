//! Several applications on one worker.
//!
//! Each application sees only what is its own: connections that its listeners accepted or that it
//! opened, and its own timers. What the parts of a bundle would have to share, they do not.

use core::net::{IpAddr, SocketAddr};

use base::{ConnId, Instant, ListenerId, WorkerId};
use stack::{
    App, AppEvent, ConnectError, Io, ListenError, Local, Message, Recv, StackParams, Unreachable,
};
use tcp::{ConnOptions, SendError, TcpInfo};

/// Applications that a bundle can hold: their number is the top byte of a timer's token.
pub const APPS_MAX: usize = 255;
const TOKEN_BITS: u32 = 56;

/// Several applications as one.
pub struct Bundle {
    apps: Vec<Box<dyn App>>,
    owners: Owners,
}

/// Who owns what: indices of applications.
#[derive(Default)]
struct Owners {
    /// By slot of the connection, with the generation that it was for.
    conns: Vec<Option<(u32, u8)>>,
    /// By number of the listener.
    listeners: Vec<Option<u8>>,
}

impl Owners {
    fn own_conn(&mut self, conn: ConnId, app: u8) {
        let slot = conn.slot as usize;
        if self.conns.len() <= slot {
            self.conns.resize(slot + 1, None);
        }
        self.conns[slot] = Some((conn.generation, app));
    }

    fn of_conn(&self, conn: ConnId) -> Option<u8> {
        match self.conns.get(conn.slot as usize) {
            Some(Some((generation, app))) if *generation == conn.generation => Some(*app),
            _ => None,
        }
    }

    fn own_listener(&mut self, listener: ListenerId, app: u8) {
        let index = usize::from(listener.0);
        if self.listeners.len() <= index {
            self.listeners.resize(index + 1, None);
        }
        self.listeners[index] = Some(app);
    }

    fn of_listener(&self, listener: ListenerId) -> Option<u8> {
        self.listeners.get(usize::from(listener.0)).copied().flatten()
    }
}

impl Bundle {
    /// One application made of these; those beyond [`APPS_MAX`] are left out.
    pub fn new(mut apps: Vec<Box<dyn App>>) -> Self {
        apps.truncate(APPS_MAX);
        Self { apps, owners: Owners::default() }
    }

    fn give(&mut self, io: &mut dyn Io, index: u8, event: AppEvent) {
        if let Some(app) = self.apps.get_mut(usize::from(index)) {
            app.on_event(&mut Scoped { io, owners: &mut self.owners, index }, event);
        }
    }

    fn give_all(&mut self, io: &mut dyn Io, event: impl Fn() -> AppEvent) {
        for index in 0..self.apps.len() {
            self.give(io, index as u8, event());
        }
    }
}

impl App for Bundle {
    fn on_event(&mut self, io: &mut dyn Io, event: AppEvent) {
        let owner = match &event {
            AppEvent::Start => return self.give_all(io, || AppEvent::Start),
            AppEvent::Stop => return self.give_all(io, || AppEvent::Stop),
            AppEvent::Accepted { listener, conn, .. } => {
                let owner = self.owners.of_listener(*listener);
                if let Some(app) = owner {
                    self.owners.own_conn(*conn, app);
                }
                owner
            }
            AppEvent::Connected { conn }
            | AppEvent::Readable { conn }
            | AppEvent::Writable { conn }
            | AppEvent::PeerClosed { conn }
            | AppEvent::Closed { conn, .. } => self.owners.of_conn(*conn),
            AppEvent::Timer { token } => {
                let (app, token) = ((token >> TOKEN_BITS) as u8, token & ((1 << TOKEN_BITS) - 1));
                return self.give(io, app, AppEvent::Timer { token });
            }
            // Messages name no application of a bundle; the first one gets them.
            AppEvent::Message { .. } => Some(0),
        };
        match owner {
            Some(app) => self.give(io, app, event),
            // A connection that nobody claims would stay for ever.
            None => {
                if let AppEvent::Accepted { conn, .. } = event {
                    io.abort(conn);
                }
            }
        }
    }
}

/// The stack as one application of a bundle sees it.
struct Scoped<'a> {
    io: &'a mut dyn Io,
    owners: &'a mut Owners,
    index: u8,
}

impl Scoped<'_> {
    fn token(&self, token: u64) -> u64 {
        (u64::from(self.index) << TOKEN_BITS) | (token & ((1 << TOKEN_BITS) - 1))
    }
}

impl Io for Scoped<'_> {
    fn now(&self) -> Instant {
        self.io.now()
    }

    fn worker(&self) -> WorkerId {
        self.io.worker()
    }

    fn workers(&self) -> u16 {
        self.io.workers()
    }

    fn params(&self) -> &StackParams {
        self.io.params()
    }

    fn is_local(&self, addr: IpAddr) -> bool {
        self.io.is_local(addr)
    }

    fn random(&mut self) -> u64 {
        self.io.random()
    }

    fn listen(
        &mut self,
        addr: Option<IpAddr>,
        port: u16,
        backlog: u32,
        options: &ConnOptions,
    ) -> Result<ListenerId, ListenError> {
        let listener = self.io.listen(addr, port, backlog, options)?;
        self.owners.own_listener(listener, self.index);
        Ok(listener)
    }

    fn close_listener(&mut self, listener: ListenerId) {
        self.io.close_listener(listener);
    }

    fn set_listener_options(&mut self, listener: ListenerId, options: &ConnOptions) {
        self.io.set_listener_options(listener, options);
    }

    fn set_listener_queue(&mut self, listener: ListenerId, backlog: u32, waiting: u32) {
        self.io.set_listener_queue(listener, backlog, waiting);
    }

    fn is_port_used(&self, port: u16) -> bool {
        self.io.is_port_used(port)
    }

    fn connect(
        &mut self,
        remote: SocketAddr,
        local: Local,
        options: &ConnOptions,
    ) -> Result<ConnId, ConnectError> {
        let conn = self.io.connect(remote, local, options)?;
        self.owners.own_conn(conn, self.index);
        Ok(conn)
    }

    fn local_addr(&self, conn: ConnId) -> Option<SocketAddr> {
        self.io.local_addr(conn)
    }

    fn remote_addr(&self, conn: ConnId) -> Option<SocketAddr> {
        self.io.remote_addr(conn)
    }

    fn send_room(&self, conn: ConnId) -> usize {
        self.io.send_room(conn)
    }

    fn is_writable(&self, conn: ConnId) -> bool {
        self.io.is_writable(conn)
    }

    fn want_writable(&mut self, conn: ConnId) {
        self.io.want_writable(conn);
    }

    fn send(&mut self, conn: ConnId, data: &[u8], more: bool) -> Result<usize, SendError> {
        self.io.send(conn, data, more)
    }

    fn readable(&self, conn: ConnId) -> usize {
        self.io.readable(conn)
    }

    fn recv(&mut self, conn: ConnId, take: &mut dyn FnMut(&[u8]) -> usize) -> Option<Recv> {
        self.io.recv(conn, take)
    }

    fn peek(&self, conn: ConnId, look: &mut dyn FnMut(&[u8]) -> bool) {
        self.io.peek(conn, look);
    }

    fn end_record(&mut self, conn: ConnId) {
        self.io.end_record(conn);
    }

    fn shutdown(&mut self, conn: ConnId) {
        self.io.shutdown(conn);
    }

    fn shutdown_read(&mut self, conn: ConnId) {
        self.io.shutdown_read(conn);
    }

    fn close(&mut self, conn: ConnId) {
        self.io.close(conn);
    }

    fn abort(&mut self, conn: ConnId) {
        self.io.abort(conn);
    }

    fn set_options(&mut self, conn: ConnId, options: &ConnOptions) {
        self.io.set_options(conn, options);
    }

    fn push(&mut self, conn: ConnId) {
        self.io.push(conn);
    }

    fn set_quickack(&mut self, conn: ConnId, on: bool) {
        self.io.set_quickack(conn, on);
    }

    fn is_quickack(&self, conn: ConnId) -> bool {
        self.io.is_quickack(conn)
    }

    fn unreachable(&self, conn: ConnId) -> Option<Unreachable> {
        self.io.unreachable(conn)
    }

    fn info(&self, conn: ConnId) -> Option<TcpInfo> {
        self.io.info(conn)
    }

    fn set_timer(&mut self, token: u64, at: Instant) -> bool {
        self.io.set_timer(self.token(token), at)
    }

    fn cancel_timer(&mut self, token: u64) {
        self.io.cancel_timer(self.token(token));
    }

    fn post(&mut self, to: WorkerId, message: Message) -> Result<(), Message> {
        self.io.post(to, message)
    }

    fn publish(&mut self, message: Message) -> Result<(), Message> {
        self.io.publish(message)
    }

    fn exit(&mut self, code: u8) {
        self.io.exit(code);
    }
}
