//! What applications call.

use core::cell::Cell;
use core::net::{IpAddr, SocketAddr};

use base::{ConnId, Device, Instant, ListenerId, PortId, Random, WorkerId};
use tcp::{CloseReason, ConnOptions, Handshake, SendError, SeqNum, State, TcpInfo};
use wire::FlowKey;

use crate::conn::Phase;
use crate::demux::{Entry, Kind};
use crate::inner::{APP_QUEUE, Core, Stopping};
use crate::route::{AddressClass, is_link_local};
use crate::storage::{AppendPlace, Shortage};
use crate::{
    AppEvent, ConnectError, Io, ListenError, Local, Message, Outgoing, Recv, StackParams,
    Unreachable,
};

/// Bytes under way up to which a connection counts as one that sends little.
const SMALL_SENDER: u32 = 16_384;
/// Applications told in one turn that there are buffers again.
const WOKEN_PER_TURN: u32 = 64;

impl<D: Device> Io for Core<D> {
    fn now(&self) -> Instant {
        self.env.now
    }

    fn worker(&self) -> WorkerId {
        self.config.worker
    }

    fn workers(&self) -> u16 {
        self.config.workers
    }

    fn params(&self) -> &StackParams {
        self.env.params()
    }

    fn is_local(&self, addr: IpAddr) -> bool {
        self.routes.is_local(addr)
    }

    fn random(&mut self) -> u64 {
        self.env.random.next_u64()
    }

    fn listen(
        &mut self,
        addr: Option<IpAddr>,
        port: u16,
        backlog: u32,
        options: &ConnOptions,
    ) -> Result<ListenerId, ListenError> {
        if addr.is_some_and(|a| !a.is_unspecified() && !self.is_local(a)) {
            return Err(ListenError::NotOurs);
        }
        let backlog = backlog.min(self.env.params().somaxconn);
        self.listeners.open(addr, port, backlog, options)
    }

    fn close_listener(&mut self, listener: ListenerId) {
        if !self.listeners.close(listener) {
            return;
        }
        // Half-open connections live in the table only: a walk, as rare as closing a listener.
        for slot in 0..self.conns.slots() {
            let Some(conn) = self.conns.at_mut(slot) else { continue };
            if conn.listener != Some(listener) {
                continue;
            }
            match conn.phase {
                Phase::Handshake(_) => self.abort_slot(slot),
                // Established and not yet reported: reset when its turn comes.
                _ => conn.listener = None,
            }
        }
    }

    fn set_listener_options(&mut self, listener: ListenerId, options: &ConnOptions) {
        if let Some(listening) = self.listeners.get_mut(listener) {
            listening.listener.options = *options;
        }
    }

    fn set_listener_queue(&mut self, listener: ListenerId, backlog: u32, waiting: u32) {
        if let Some(listening) = self.listeners.get_mut(listener) {
            listening.listener.backlog = backlog.max(1);
            listening.listener.waiting = waiting;
        }
    }

    fn is_port_used(&self, port: u16) -> bool {
        let of_conn = |slot| self.conns.at(slot).is_some_and(|c| c.key.local_port() == port);
        (0..self.conns.slots()).any(of_conn)
            || self.time_waits.iter().any(|waiting| waiting.key.local_port() == port)
    }

    fn connect(
        &mut self,
        remote: SocketAddr,
        local: Local,
        options: &ConnOptions,
    ) -> Result<ConnId, ConnectError> {
        if remote.port() == 0 || local.port == Some(0) {
            return Err(ConnectError::Invalid);
        }
        let own = local.addr.filter(|a| !a.is_unspecified());
        let own_port = match own {
            Some(addr) => Some(self.routes.port_of(addr).ok_or(ConnectError::NotOurs)?),
            None => None,
        };
        match self.routes.classify(remote.ip()) {
            AddressClass::Unicast => {}
            // Frames to ourselves do not leave the device, and come back from none.
            AddressClass::Local => return Err(ConnectError::NoRoute),
            _ => return Err(ConnectError::Invalid),
        }
        if self.stopping != Stopping::No || self.conns.is_full() {
            return Err(ConnectError::Limit);
        }
        let now = self.env.now;
        let link = scope(remote);
        let route = self.routes.lookup(now, remote.ip(), link.or(own_port)).ok();
        // A scope, and a link-local address of ours, hold on their own link only (RFC 4007).
        let own_link = own_port.filter(|_| own.is_some_and(is_link_local));
        let route = route.filter(|route| {
            link.is_none_or(|link| link == route.port)
                && own_link.is_none_or(|link| link == route.port)
                && own.is_none_or(|addr| addr.is_ipv4() == remote.is_ipv4())
        });
        let Some(route) = route else {
            self.env.counters.ip_out_no_routes += 1;
            return Err(ConnectError::NoRoute);
        };
        let source = own.unwrap_or(route.source);
        let (key, iss) = self.choose_key(source, remote, local.port)?;
        let path = self.path(route.port, &key, iss);
        let params = self.env.current_params();
        let handshake = Handshake::connect(&mut self.env.cx(params), &path, options);
        let slot = self
            .add_conn((key, route.port), handshake, None, path.iss)
            .ok_or(ConnectError::Limit)?;
        if let Some(conn) = self.conns.at_mut(slot) {
            conn.set_marks(options);
        }
        self.after(slot);
        self.id(slot).ok_or(ConnectError::Limit)
    }

    fn local_addr(&self, conn: ConnId) -> Option<SocketAddr> {
        self.conns.get(conn).map(|c| c.key.local_addr())
    }

    fn remote_addr(&self, conn: ConnId) -> Option<SocketAddr> {
        self.conns.get(conn).map(|c| c.key.remote_addr())
    }

    fn send_room(&self, conn: ConnId) -> usize {
        let Some(conn) = self.conns.get(conn) else { return 0 };
        match &conn.phase {
            Phase::Open(connection) => {
                let room = self.env.view(conn.params, |cx| connection.send_room(cx, u32::MAX));
                let under_way = connection.write_seq().bytes_since(connection.snd_una());
                let buffers = self.env.payload_buffers(under_way < SMALL_SENDER);
                let bytes = bytes_in(buffers, connection.snd_mss().max(1), self.env.payload_room());
                room.min(bytes) as usize
            }
            _ => 0,
        }
    }

    fn is_writable(&self, conn: ConnId) -> bool {
        let Some(conn) = self.conns.get(conn) else { return false };
        match &conn.phase {
            Phase::Open(connection) => {
                self.env.view(conn.params, |cx| connection.is_writable(cx.params))
            }
            _ => false,
        }
    }

    fn want_writable(&mut self, conn: ConnId) {
        if let Some(conn) = self.conns.get_mut(conn)
            && let Phase::Open(connection) = &mut conn.phase
        {
            connection.want_writable();
        }
    }

    fn send(&mut self, conn: ConnId, data: &[u8], more: bool) -> Result<usize, SendError> {
        let slot = conn.slot;
        let Self { conns, env, ports, storage, .. } = self;
        let conn = conns.get_mut(conn).ok_or(SendError::Closed)?;
        if conn.discard {
            return Err(SendError::Closing);
        }
        let connection = match &mut conn.phase {
            Phase::Open(connection) => connection,
            Phase::Handshake(_) => {
                conn.wants_room = true;
                return Ok(0);
            }
            Phase::Drained(_) => return Err(SendError::Closed),
        };
        if conn.pending.closed.is_some() {
            return Err(SendError::Closed);
        }
        let params = conn.params;
        let want = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let room = connection.send_room(&env.cx(params), want) as usize;
        if room == 0 {
            // The engine says whether this is for now or for ever.
            connection.send(&mut env.cx(params), 0, more)?;
        }
        let offered = data.get(..data.len().min(room)).unwrap_or(data);
        let write_seq = connection.write_seq();
        let small = write_seq.bytes_since(connection.snd_una()) < SMALL_SENDER;
        let place = AppendPlace {
            write_seq,
            mss: connection.snd_mss().max(1),
            all_sent: conn.snd_max.at_or_after(write_seq),
        };
        let device = &mut ports[conn.port].device;
        let (taken, shortage) = conn.send.append(storage, device, place, offered, || {
            let may = env.may_take_payload_buffer(small);
            if may {
                env.buffer_used();
            }
            may
        });
        if taken > 0 {
            connection.send(&mut env.cx(params), taken as u32, more)?;
        }
        if shortage == Shortage::Buffers {
            env.wait_for_buffers();
            self.starved.push_back(conns, slot);
        } else if taken < data.len() {
            connection.want_writable();
        }
        if taken > 0 {
            self.after(slot);
        }
        Ok(taken)
    }

    fn end_record(&mut self, conn: ConnId) {
        if let Some(conn) = self.conns.get_mut(conn)
            && let Phase::Open(connection) = &mut conn.phase
        {
            connection.end_record(&self.env.cx(conn.params));
        }
    }

    fn readable(&self, conn: ConnId) -> usize {
        self.conns.get(conn).map_or(0, |c| c.recv.readable() as usize)
    }

    fn recv(&mut self, conn: ConnId, take: &mut dyn FnMut(&[u8]) -> usize) -> Option<Recv> {
        let slot = conn.slot;
        let conn = self.conns.get_mut(conn)?;
        if conn.discard || conn.deaf {
            return Some(Recv { taken: 0, left: 0, end: true });
        }
        let taken = conn.recv.read(&mut self.storage, take);
        let left = conn.recv.readable();
        let end = left == 0 && conn.peer_closed;
        if taken > 0 {
            match &mut conn.phase {
                Phase::Open(connection) => {
                    let memory = conn.recv.memory(&self.storage, &self.env, false);
                    connection.set_receive_memory(memory);
                    connection.consume(&mut self.env.cx(conn.params), taken);
                    self.after(slot);
                }
                Phase::Drained(_) => self.finish_if_drained(slot),
                Phase::Handshake(_) => {}
            }
        }
        Some(Recv { taken: taken as usize, left: left as usize, end })
    }

    fn peek(&self, conn: ConnId, look: &mut dyn FnMut(&[u8]) -> bool) {
        if let Some(conn) = self.conns.get(conn)
            && !conn.discard
            && !conn.deaf
        {
            conn.recv.peek(&self.storage, look);
        }
    }

    fn shutdown(&mut self, conn: ConnId) {
        self.close_with(conn, false);
    }

    fn shutdown_read(&mut self, conn: ConnId) {
        let slot = conn.slot;
        let Some(own) = self.conns.get_mut(conn) else { return };
        own.deaf = true;
        self.forget_unwanted(slot);
        self.finish_if_drained(slot);
        self.after(slot);
    }

    fn close(&mut self, conn: ConnId) {
        self.close_with(conn, true);
    }

    fn abort(&mut self, conn: ConnId) {
        if let Some(own) = self.conns.get_mut(conn) {
            own.discard = true;
            self.storage.clear_received(&mut own.recv);
            self.abort_slot(conn.slot);
        }
    }

    fn set_options(&mut self, conn: ConnId, options: &ConnOptions) {
        let slot = conn.slot;
        let Some(conn) = self.conns.get_mut(conn) else { return };
        conn.set_marks(options);
        match &mut conn.phase {
            Phase::Open(connection) => {
                connection.set_options(&mut self.env.cx(conn.params), options);
                self.after(slot);
            }
            Phase::Handshake(handshake) => handshake.set_options(options),
            Phase::Drained(_) => {}
        }
    }

    fn push(&mut self, conn: ConnId) {
        let slot = conn.slot;
        let Some(conn) = self.conns.get_mut(conn) else { return };
        if let Phase::Open(connection) = &mut conn.phase {
            connection.push(&mut self.env.cx(conn.params));
            self.after(slot);
        }
    }

    fn set_quickack(&mut self, conn: ConnId, on: bool) {
        let slot = conn.slot;
        let Some(conn) = self.conns.get_mut(conn) else { return };
        if let Phase::Open(connection) = &mut conn.phase {
            connection.set_quickack(&mut self.env.cx(conn.params), on);
            self.after(slot);
        }
    }

    fn is_quickack(&self, conn: ConnId) -> bool {
        match self.conns.get(conn).map(|conn| &conn.phase) {
            Some(Phase::Open(connection)) => connection.is_quickack(),
            _ => true,
        }
    }

    fn unreachable(&self, conn: ConnId) -> Option<Unreachable> {
        self.conns.get(conn)?.unreachable
    }

    fn info(&self, conn: ConnId) -> Option<TcpInfo> {
        let conn = self.conns.get(conn)?;
        match &conn.phase {
            Phase::Open(connection) => Some(self.env.view(conn.params, |cx| connection.info(cx))),
            _ => None,
        }
    }

    fn set_timer(&mut self, token: u64, at: Instant) -> bool {
        self.timers.set(token, at)
    }

    fn cancel_timer(&mut self, token: u64) {
        self.timers.cancel(token);
    }

    fn post(&mut self, to: WorkerId, message: Message) -> Result<(), Message> {
        if to.0 >= self.config.workers {
            return Err(message);
        }
        if to != self.config.worker {
            return self.outbox.push_message(message, |m| Outgoing::ToWorker(to, m));
        }
        if self.app_queue.len() >= APP_QUEUE {
            return Err(message);
        }
        let from = Some(self.config.worker);
        self.app_queue.push_back(AppEvent::Message { from, message });
        Ok(())
    }

    fn publish(&mut self, message: Message) -> Result<(), Message> {
        self.outbox.push_message(message, Outgoing::Publish)
    }

    fn exit(&mut self, code: u8) {
        self.outbox.push_answer(Outgoing::Exit(code));
    }
}

/// The port that a scope (RFC 4007) names: its number, counted from one.
fn scope(remote: SocketAddr) -> Option<PortId> {
    match remote {
        SocketAddr::V6(addr) if addr.scope_id() != 0 => {
            Some(PortId(u8::try_from(addr.scope_id() - 1).unwrap_or(u8::MAX)))
        }
        _ => None,
    }
}

/// Payload that fits `buffers` of `room` bytes when it is cut for segments of `mss` bytes.
const fn bytes_in(buffers: u32, mss: u32, room: u32) -> u32 {
    if room == 0 {
        return 0;
    }
    (buffers / mss.div_ceil(room)).saturating_mul(mss)
}

impl<D: Device> Core<D> {
    /// The addresses and ports of a connection to `remote`, and the initial sequence number if it
    /// takes over a TIME-WAIT record.
    fn choose_key(
        &mut self,
        local: IpAddr,
        remote: SocketAddr,
        local_port: Option<u16>,
    ) -> Result<(FlowKey, Option<u32>), ConnectError> {
        let Self { demux, conns, time_waits, env, local_ports, .. } = self;
        let key_of = |port: u16| FlowKey::from_parts(local, port, remote.ip(), remote.port());
        let find = |key: &FlowKey| {
            demux.find(
                |hasher| hasher.hash(key),
                |entry| match entry.kind() {
                    Kind::TimeWait => time_waits.at(entry.index()).is_some_and(|w| w.key == *key),
                    _ => conns.at(entry.index()).is_some_and(|c| c.key == *key),
                },
            )
        };
        let params = env.current_params();
        // A port is free, or is held by a record that may be taken over (`tcp_tw_reuse`). Who holds the
        // port that was asked for last, which is the one chosen:
        let held = Cell::new(None);
        let usable = |port: u16| {
            let Some(key) = key_of(port) else { return false };
            held.set(find(&key));
            held.get().is_none_or(|entry: Entry| {
                let record =
                    time_waits.at(entry.index()).filter(|_| entry.kind() == Kind::TimeWait);
                record.is_some_and(|w| env.view(params, |cx| w.record.reuse(cx, false)).is_some())
            })
        };
        let port = match local_port {
            Some(port) => usable(port).then_some(port),
            None => {
                let mut random = env.random.clone();
                let chosen = local_ports.choose(&mut random, local, remote, usable).ok();
                env.random = random;
                chosen
            }
        };
        let key = port.and_then(key_of).ok_or(ConnectError::PortsExhausted)?;
        let Some(entry) = held.get() else { return Ok((key, None)) };
        let iss = time_waits
            .at(entry.index())
            .and_then(|w| env.view(params, |cx| w.record.reuse(cx, false)));
        self.env.tcp.tw_recycled += 1;
        self.remove_time_wait(entry.index());
        Ok((key, iss))
    }

    fn close_with(&mut self, id: ConnId, discard: bool) {
        let slot = id.slot;
        let Some(conn) = self.conns.get_mut(id) else { return };
        let orphaned = discard && !conn.discard;
        conn.discard |= discard;
        match &mut conn.phase {
            // RFC 9293 section 3.10.4: in SYN-SENT there is nobody to say goodbye to.
            Phase::Handshake(handshake) if discard && handshake.state() == State::SynSent => {
                self.abort_slot(slot);
                return;
            }
            Phase::Handshake(handshake) => handshake.close(),
            Phase::Open(connection) => {
                let mut cx = self.env.cx(conn.params);
                connection.close(&mut cx, discard);
                let over = matches!(connection.state(), State::Closed | State::TimeWait);
                if orphaned && !over {
                    conn.orphan = true;
                    self.orphans += 1;
                    if self.orphans > self.env.params().max_orphans {
                        connection.give_up(&mut self.env.cx(conn.params));
                    }
                }
            }
            Phase::Drained(_) => {}
        }
        if conn.discard {
            self.storage.clear_received(&mut conn.recv);
        }
        self.finish_if_drained(slot);
        self.after(slot);
    }

    /// Take from the receive queue what the application has said it will not read.
    pub(crate) fn forget_unwanted(&mut self, slot: u32) {
        let Some(conn) = self.conns.at_mut(slot) else { return };
        if !conn.deaf || conn.recv.readable() == 0 {
            return;
        }
        let taken = conn.recv.read(&mut self.storage, &mut |bytes| bytes.len());
        conn.pending.readable = false;
        if let Phase::Open(connection) = &mut conn.phase {
            connection.set_receive_memory(conn.recv.memory(&self.storage, &self.env, false));
            connection.consume(&mut self.env.cx(conn.params), taken);
        }
    }

    /// The application has read or given up the rest of a connection that is over.
    fn finish_if_drained(&mut self, slot: u32) {
        let Some(conn) = self.conns.at_mut(slot) else { return };
        if let Phase::Drained(reason) = conn.phase
            && conn.recv.readable() == 0
        {
            conn.pending.closed = Some((reason, false));
            self.news.push_back(&mut self.conns, slot);
        }
    }

    /// Reset the connection in `slot`, in whatever phase it is.
    pub(crate) fn abort_slot(&mut self, slot: u32) {
        let Some(conn) = self.conns.at_mut(slot) else { return };
        let port = conn.port;
        let mut cx = self.env.cx(conn.params);
        match &mut conn.phase {
            Phase::Open(connection) => {
                connection.abort(&mut cx);
                self.after(slot);
            }
            Phase::Handshake(handshake) => {
                // Many may go at once; a reset that does not fit is one that got lost.
                if let Some(plan) = handshake.abort(&mut cx)
                    && self.ports[port].has_answer_room()
                {
                    self.send_plan(slot, &plan);
                }
                self.handshake_failed(slot, CloseReason::Aborted);
            }
            Phase::Drained(_) => self.finish_if_drained(slot),
        }
    }

    /// Tell applications that wait for buffers once there are some.
    pub(crate) fn wake_starved(&mut self) {
        for _ in 0..WOKEN_PER_TURN {
            if !self.env.may_take_payload_buffer(false) {
                return;
            }
            let Some(id) = self.starved.pop_front(&mut self.conns) else { return };
            let Some(conn) = self.conns.get_mut(id) else { continue };
            if !conn.discard {
                conn.pending.writable = true;
                self.news.push_back(&mut self.conns, id.slot);
            }
        }
    }

    /// For ICMP errors: whether `seq` is in flight on the connection in `slot`.
    pub(crate) fn in_flight(&self, slot: u32, seq: u32) -> bool {
        match self.conns.at(slot).map(|conn| &conn.phase) {
            Some(Phase::Open(connection)) => connection.in_flight(SeqNum::new(seq)),
            Some(Phase::Handshake(_)) => {
                self.conns.at(slot).is_some_and(|c| c.snd_max.get() == seq)
            }
            _ => false,
        }
    }
}
