//! A network in memory for tests: hosts with applications or scripted by hand, joined by byte pipes
//! with a delay, a rate and a chunk size, in virtual time. It knows nothing of TCP segments; what it
//! promises an application is what [`stack::Io`] promises.

// For tests only, which read it where they use it.
#![allow(missing_docs, missing_debug_implementations)]

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use base::{ConnId, Instant, ListenerId, Random, SeededRandom, WorkerId};
use stack::{
    App, AppEvent, ConnectError, Io, ListenError, Local, Message, Recv, StackParams, Unreachable,
};
use tcp::{CloseReason, ConnOptions, SendError, State, TcpInfo};

/// A run with more steps than this is a livelock.
const STEPS_MAX: u64 = 20_000_000;
pub const MSS: u32 = 1000;

/// How the pipes behave.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub delay: Duration,
    /// Bytes per second and direction of a connection.
    pub rate: u64,
    /// Bytes that arrive together at most.
    pub chunk: usize,
    /// Bytes sent and not read at most.
    pub buffer: usize,
}

impl Default for Link {
    fn default() -> Self {
        Self { delay: Duration::from_millis(1), rate: 1_000_000, chunk: 16_384, buffer: 65_536 }
    }
}

enum Packet {
    Syn,
    SynAck,
    Data(Vec<u8>),
    Window,
    Fin,
    Rst(CloseReason),
}

struct End {
    host: usize,
    local: SocketAddr,
    remote: SocketAddr,
    peer: usize,
    options: ConnOptions,
    established: bool,
    rx: VecDeque<u8>,
    fin_received: bool,
    fin_sent: bool,
    /// `close` has been called.
    orphan: bool,
    dead: bool,
    blocked: bool,
    /// Bytes sent that the peer has not read.
    outstanding: usize,
    /// When the pipe is free again.
    free_at: Instant,
    sent: u64,
}

#[derive(Default)]
struct Host {
    app: Option<Box<dyn App>>,
    events: VecDeque<AppEvent>,
    timers: BTreeMap<u64, Instant>,
    listener: Option<(u16, ConnOptions)>,
    published: Vec<Message>,
    exit: Option<u8>,
    /// Nothing goes in or out: the machine has lost power.
    silent: bool,
    /// Reports are given back.
    deaf: bool,
}

/// The network and everything on it.
pub struct Net {
    pub now: Instant,
    pub link: Link,
    hosts: Vec<Host>,
    ends: Vec<End>,
    packets: BTreeMap<(Instant, u64), (usize, Packet)>,
    serial: u64,
    random: SeededRandom,
    next_port: u16,
    params: StackParams,
    steps: u64,
}

impl Net {
    pub fn new(link: Link) -> Self {
        Self {
            now: Instant::from_millis(1),
            link,
            hosts: Vec::new(),
            ends: Vec::new(),
            packets: BTreeMap::new(),
            serial: 0,
            random: SeededRandom::new(7),
            next_port: 40_000,
            params: StackParams::default(),
            steps: 0,
        }
    }

    /// A host with an application, or without one for a script.
    pub fn add_host(&mut self, app: Option<Box<dyn App>>) -> usize {
        let host = Host { app, ..Host::default() };
        self.hosts.push(host);
        let index = self.hosts.len() - 1;
        self.event(index, AppEvent::Start);
        index
    }

    pub fn addr(host: usize) -> IpAddr {
        Self::nth_addr(host, 0)
    }

    /// One of the 256 addresses that a host has.
    pub fn nth_addr(host: usize, nth: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, nth, host as u8 + 1))
    }

    /// Local and remote end of all connections that a host ever had.
    pub fn ends_of(&self, host: usize) -> impl Iterator<Item = (SocketAddr, SocketAddr)> {
        self.ends.iter().filter(move |e| e.host == host).map(|e| (e.local, e.remote))
    }

    pub fn io(&mut self, host: usize) -> FakeIo<'_> {
        FakeIo { net: self, host }
    }

    pub fn event(&mut self, host: usize, event: AppEvent) {
        self.hosts[host].events.push_back(event);
    }

    /// Events that a scripted host has seen.
    pub fn take_events(&mut self, host: usize) -> Vec<AppEvent> {
        self.hosts[host].events.drain(..).collect()
    }

    pub fn take_published(&mut self, host: usize) -> Vec<Message> {
        std::mem::take(&mut self.hosts[host].published)
    }

    pub fn exit_code(&self, host: usize) -> Option<u8> {
        self.hosts[host].exit
    }

    pub fn set_deaf(&mut self, host: usize, deaf: bool) {
        self.hosts[host].deaf = deaf;
    }

    /// As if the machine had lost power.
    pub fn silence(&mut self, host: usize) {
        self.hosts[host].silent = true;
        self.hosts[host].timers.clear();
        self.hosts[host].app = None;
    }

    /// `kill -9`: the kernel closes all sockets, with a reset where data are unread.
    pub fn kill(&mut self, host: usize) {
        self.hosts[host].app = None;
        self.hosts[host].timers.clear();
        for end in 0..self.ends.len() {
            if self.ends[end].host == host && !self.ends[end].dead {
                self.close_end(end);
            }
        }
    }

    /// Connections of a host that the application still has.
    pub fn open_conns(&self, host: usize) -> usize {
        self.ends.iter().filter(|e| e.host == host && e.established && !e.dead).count()
    }

    /// Reset a connection of `host`, by its index in the order of opening.
    pub fn reset_nth(&mut self, host: usize, nth: usize) {
        let ends = 0..self.ends.len();
        let mut ours = ends.filter(|e| self.ends[*e].host == host);
        if let Some(end) = ours.nth(nth) {
            self.abort_end(end);
        }
    }

    pub fn is_listening(&self, host: usize) -> bool {
        self.hosts[host].listener.is_some()
    }

    pub fn accept_options(&self, host: usize) -> Option<ConnOptions> {
        self.hosts[host].listener.map(|(_, options)| options)
    }

    /// Run until nothing happens before `until`.
    pub fn run_until(&mut self, until: Instant) {
        loop {
            if self.deliver_events() {
                continue;
            }
            let packet = self.packets.first_key_value().map(|(key, _)| key.0);
            let timers = self.hosts.iter().filter(|h| h.app.is_some());
            let timer = timers.flat_map(|h| h.timers.values().copied()).min();
            let Some(next) = packet.into_iter().chain(timer).min().filter(|t| *t <= until) else {
                break;
            };
            self.steps += 1;
            assert!(self.steps < STEPS_MAX, "livelock at {:?}", self.now);
            self.now = self.now.max(next);
            if packet == Some(next) {
                if let Some((_, (end, packet))) = self.packets.pop_first() {
                    self.arrive(end, packet);
                }
            } else {
                self.ring();
            }
        }
        self.now = self.now.max(until);
    }

    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    fn deliver_events(&mut self) -> bool {
        let mut any = false;
        for host in 0..self.hosts.len() {
            let Some(mut app) = self.hosts[host].app.take() else { continue };
            while let Some(event) = self.hosts[host].events.pop_front() {
                any = true;
                self.steps += 1;
                assert!(self.steps < STEPS_MAX, "livelock at {:?}", self.now);
                app.on_event(&mut FakeIo { net: self, host }, event);
            }
            self.hosts[host].app = Some(app);
        }
        any
    }

    fn ring(&mut self) {
        let now = self.now;
        for host in self.hosts.iter_mut().filter(|h| h.app.is_some()) {
            let due: Vec<u64> =
                host.timers.iter().filter(|(_, at)| **at <= now).map(|(token, _)| *token).collect();
            for token in due {
                host.timers.remove(&token);
                host.events.push_back(AppEvent::Timer { token });
            }
        }
    }

    fn post(&mut self, to: usize, at: Instant, packet: Packet) {
        self.serial += 1;
        self.packets.insert((at, self.serial), (to, packet));
    }

    /// Send on the pipe of `end`, after what is on it already.
    fn transmit(&mut self, end: usize, bytes: usize, packet: Packet) {
        let e = &mut self.ends[end];
        let nanos = bytes as u64 * 1_000_000_000 / self.link.rate;
        e.free_at = e.free_at.max(self.now) + Duration::from_nanos(nanos);
        let (peer, at) = (e.peer, e.free_at + self.link.delay);
        self.post(peer, at, packet);
    }

    fn id(end: usize) -> ConnId {
        ConnId { slot: end as u32, generation: 1 }
    }

    fn end_of(&self, host: usize, conn: ConnId) -> Option<usize> {
        let end = conn.slot as usize;
        self.ends.get(end).filter(|e| e.host == host && !e.dead && conn.generation == 1)?;
        Some(end)
    }

    fn die(&mut self, end: usize, reason: CloseReason) {
        let e = &mut self.ends[end];
        if !e.dead {
            e.dead = true;
            let host = e.host;
            self.event(host, AppEvent::Closed { conn: Self::id(end), reason });
        }
    }

    fn abort_end(&mut self, end: usize) {
        if !self.ends[end].dead {
            self.transmit(end, 0, Packet::Rst(CloseReason::ResetByPeer));
            self.die(end, CloseReason::Aborted);
        }
    }

    fn close_end(&mut self, end: usize) {
        if !self.ends[end].rx.is_empty() {
            return self.abort_end(end);
        }
        self.ends[end].orphan = true;
        self.fin(end);
    }

    fn fin(&mut self, end: usize) {
        if !std::mem::replace(&mut self.ends[end].fin_sent, true) {
            self.transmit(end, 0, Packet::Fin);
        }
        self.finish(end);
    }

    /// Gone once both sides have closed and everything is read.
    fn finish(&mut self, end: usize) {
        let e = &self.ends[end];
        if e.fin_sent && e.fin_received && (e.orphan || e.rx.is_empty()) {
            self.die(end, CloseReason::Finished);
        }
    }

    fn arrive(&mut self, end: usize, packet: Packet) {
        let (host, peer) = (self.ends[end].host, self.ends[end].peer);
        if self.hosts[host].silent || self.hosts[self.ends[peer].host].silent {
            return;
        }
        let conn = Self::id(end);
        if self.ends[end].dead {
            if matches!(packet, Packet::Data(_)) {
                self.transmit(end, 0, Packet::Rst(CloseReason::ResetByPeer));
            }
            return;
        }
        match packet {
            Packet::Syn => match self.hosts[host].listener {
                Some((port, options)) if port == self.ends[end].local.port() => {
                    self.ends[end].established = true;
                    self.ends[end].options = options;
                    self.transmit(end, 0, Packet::SynAck);
                    let syn_arrival = self.now;
                    let listener = ListenerId(0);
                    self.event(host, AppEvent::Accepted { listener, conn, syn_arrival });
                }
                _ => {
                    self.ends[end].dead = true;
                    self.transmit(end, 0, Packet::Rst(CloseReason::Refused));
                }
            },
            Packet::SynAck => {
                self.ends[end].established = true;
                self.event(host, AppEvent::Connected { conn });
            }
            Packet::Data(bytes) => {
                if self.ends[end].orphan {
                    return self.abort_end(end);
                }
                self.ends[end].rx.extend(bytes);
                self.event(host, AppEvent::Readable { conn });
            }
            Packet::Window => {
                if std::mem::replace(&mut self.ends[end].blocked, false) {
                    self.event(host, AppEvent::Writable { conn });
                }
            }
            Packet::Fin => {
                self.ends[end].fin_received = true;
                self.event(host, AppEvent::PeerClosed { conn });
                self.finish(end);
            }
            Packet::Rst(reason) => self.die(end, reason),
        }
    }
}

/// The view of one host.
pub struct FakeIo<'a> {
    net: &'a mut Net,
    host: usize,
}

impl Io for FakeIo<'_> {
    fn now(&self) -> Instant {
        self.net.now
    }

    fn worker(&self) -> WorkerId {
        WorkerId(0)
    }

    fn workers(&self) -> u16 {
        1
    }

    fn params(&self) -> &StackParams {
        &self.net.params
    }

    fn is_local(&self, addr: IpAddr) -> bool {
        Net::addr(self.host) == addr
    }

    fn random(&mut self) -> u64 {
        self.net.random.next_u64()
    }

    fn listen(
        &mut self,
        _addr: Option<IpAddr>,
        port: u16,
        _backlog: u32,
        options: &ConnOptions,
    ) -> Result<ListenerId, ListenError> {
        let host = &mut self.net.hosts[self.host];
        if port == 0 {
            return Err(ListenError::Invalid);
        }
        if host.listener.is_some() {
            return Err(ListenError::InUse);
        }
        host.listener = Some((port, *options));
        Ok(ListenerId(0))
    }

    fn close_listener(&mut self, _listener: ListenerId) {
        self.net.hosts[self.host].listener = None;
    }

    fn set_listener_options(&mut self, _listener: ListenerId, options: &ConnOptions) {
        if let Some((_, old)) = &mut self.net.hosts[self.host].listener {
            *old = *options;
        }
    }

    fn set_listener_queue(&mut self, _listener: ListenerId, _backlog: u32, _waiting: u32) {}

    fn is_port_used(&self, port: u16) -> bool {
        self.net.ends.iter().any(|end| end.host == self.host && end.local.port() == port)
    }

    fn connect(
        &mut self,
        remote: SocketAddr,
        local: Local,
        options: &ConnOptions,
    ) -> Result<ConnId, ConnectError> {
        let net = &mut *self.net;
        let Some(peer_host) = (0..net.hosts.len()).find(|h| Net::addr(*h) == remote.ip()) else {
            return Err(ConnectError::NoRoute);
        };
        let own = local.addr.unwrap_or(Net::addr(self.host));
        if !(0..=u8::MAX).any(|nth| Net::nth_addr(self.host, nth) == own) {
            return Err(ConnectError::NotOurs);
        }
        net.next_port += 1;
        let local = SocketAddr::new(own, local.port.unwrap_or(net.next_port));
        let index = net.ends.len();
        let end = |host, local, remote, peer| End {
            host,
            local,
            remote,
            peer,
            options: *options,
            established: false,
            rx: VecDeque::new(),
            fin_received: false,
            fin_sent: false,
            orphan: false,
            dead: false,
            blocked: false,
            outstanding: 0,
            free_at: Instant::ZERO,
            sent: 0,
        };
        net.ends.push(end(self.host, local, remote, index + 1));
        net.ends.push(end(peer_host, remote, local, index));
        net.transmit(index, 0, Packet::Syn);
        Ok(Net::id(index))
    }

    fn local_addr(&self, conn: ConnId) -> Option<SocketAddr> {
        self.net.end_of(self.host, conn).map(|e| self.net.ends[e].local)
    }

    fn remote_addr(&self, conn: ConnId) -> Option<SocketAddr> {
        self.net.end_of(self.host, conn).map(|e| self.net.ends[e].remote)
    }

    fn send_room(&self, conn: ConnId) -> usize {
        let Some(end) = self.net.end_of(self.host, conn) else { return 0 };
        self.net.link.buffer.saturating_sub(self.net.ends[end].outstanding)
    }

    fn is_writable(&self, conn: ConnId) -> bool {
        self.send_room(conn) > self.net.link.buffer / 3
    }

    fn want_writable(&mut self, conn: ConnId) {
        if let Some(end) = self.net.end_of(self.host, conn) {
            self.net.ends[end].blocked = true;
        }
    }

    fn send(&mut self, conn: ConnId, data: &[u8], _more: bool) -> Result<usize, SendError> {
        let room = self.send_room(conn);
        let Some(end) = self.net.end_of(self.host, conn) else { return Err(SendError::Closed) };
        if self.net.ends[end].fin_sent {
            return Err(SendError::Closing);
        }
        let taken = data.len().min(room);
        for chunk in data[..taken].chunks(self.net.link.chunk) {
            self.net.transmit(end, chunk.len(), Packet::Data(chunk.to_vec()));
        }
        let e = &mut self.net.ends[end];
        e.outstanding += taken;
        e.sent += taken as u64;
        e.blocked |= taken < data.len();
        Ok(taken)
    }

    fn readable(&self, conn: ConnId) -> usize {
        self.net.end_of(self.host, conn).map_or(0, |e| self.net.ends[e].rx.len())
    }

    fn recv(&mut self, conn: ConnId, take: &mut dyn FnMut(&[u8]) -> usize) -> Option<Recv> {
        let end = self.net.end_of(self.host, conn)?;
        let mut taken = 0;
        while !self.net.ends[end].rx.is_empty() {
            let e = &mut self.net.ends[end];
            let (slice, _) = e.rx.as_slices();
            let len = slice.len();
            let n = take(slice);
            assert!(n <= len, "took more than it was lent");
            e.rx.drain(..n);
            taken += n;
            if n < len {
                break;
            }
        }
        let peer = self.net.ends[end].peer;
        let p = &mut self.net.ends[peer];
        p.outstanding -= taken;
        if taken > 0 && p.blocked {
            let at = self.net.now + self.net.link.delay;
            self.net.post(peer, at, Packet::Window);
        }
        let e = &self.net.ends[end];
        let recv = Recv { taken, left: e.rx.len(), end: e.rx.is_empty() && e.fin_received };
        self.net.finish(end);
        Some(recv)
    }

    fn peek(&self, conn: ConnId, look: &mut dyn FnMut(&[u8]) -> bool) {
        if let Some(end) = self.net.end_of(self.host, conn) {
            let (front, back) = self.net.ends[end].rx.as_slices();
            if look(front) && !back.is_empty() {
                look(back);
            }
        }
    }

    fn end_record(&mut self, _conn: ConnId) {}

    fn shutdown(&mut self, conn: ConnId) {
        if let Some(end) = self.net.end_of(self.host, conn) {
            self.net.fin(end);
        }
    }

    fn shutdown_read(&mut self, conn: ConnId) {
        if let Some(end) = self.net.end_of(self.host, conn) {
            self.net.ends[end].rx.clear();
        }
    }

    fn close(&mut self, conn: ConnId) {
        if let Some(end) = self.net.end_of(self.host, conn) {
            self.net.close_end(end);
        }
    }

    fn abort(&mut self, conn: ConnId) {
        if let Some(end) = self.net.end_of(self.host, conn) {
            self.net.abort_end(end);
        }
    }

    fn set_options(&mut self, conn: ConnId, options: &ConnOptions) {
        if let Some(end) = self.net.end_of(self.host, conn) {
            self.net.ends[end].options = *options;
        }
    }

    fn push(&mut self, _conn: ConnId) {}

    fn set_quickack(&mut self, _conn: ConnId, _on: bool) {}

    fn is_quickack(&self, _conn: ConnId) -> bool {
        true
    }

    fn unreachable(&self, _conn: ConnId) -> Option<Unreachable> {
        None
    }

    fn info(&self, conn: ConnId) -> Option<TcpInfo> {
        let end = self.net.end_of(self.host, conn)?;
        let e = &self.net.ends[end];
        let doubled = |asked: Option<u32>, default| {
            asked.map_or(default, |w: u32| w.min(4_194_304).saturating_mul(2))
        };
        Some(TcpInfo {
            state: State::Established,
            congestion: e.options.congestion.unwrap_or_default().name(),
            snd_wscale: 7,
            rcv_wscale: 7,
            timestamps: true,
            sack: true,
            ecn: false,
            ecn_seen: false,
            rto: Duration::from_millis(201),
            backoff: 0,
            ato: Duration::from_millis(40),
            snd_mss: MSS,
            rcv_mss: MSS,
            advmss: MSS,
            pmtu: 1500,
            snd_cwnd: 10,
            snd_ssthresh: u32::MAX,
            rtt: self.net.link.delay * 2,
            rttvar: self.net.link.delay / 2,
            min_rtt: self.net.link.delay * 2,
            unacked: 0,
            sacked: 0,
            lost: 0,
            retrans: 0,
            // Something that grows and can be foretold: one segment in every 100 kB.
            total_retrans: e.sent / 100_000,
            reordering: 3,
            bytes_sent: e.sent,
            bytes_retrans: 0,
            bytes_acked: e.sent,
            bytes_received: 0,
            segs_in: 0,
            segs_out: 0,
            notsent_bytes: (e.outstanding - self.net.ends[e.peer].rx.len()) as u32,
            snd_wnd: 65_536,
            rcv_wnd: 65_536,
            rcvbuf: doubled(e.options.rcvbuf, 131_072),
            rcv_memory: 0,
            rcv_ssthresh: 65_536,
            rcv_rtt: Duration::ZERO,
            rcv_space: 14_600,
            sndbuf: doubled(e.options.sndbuf, 16_384),
            rcv_queue: e.rx.len() as u32,
            snd_queue: e.outstanding as u32,
            rcv_ooo_bytes: 0,
            rto_count: 0,
            rehash: 0,
            ca_state: 0,
            retransmits: 0,
            probes: 0,
            busy_time: Duration::ZERO,
            rwnd_limited: Duration::ZERO,
            sndbuf_limited: Duration::ZERO,
            last_data_sent: Duration::ZERO,
            last_data_recv: Duration::ZERO,
            last_ack_recv: Duration::ZERO,
            data_segs_in: 0,
            data_segs_out: 0,
            delivered: 0,
            delivered_ce: 0,
            delivery_rate: 0,
            delivery_rate_app_limited: false,
            dsack_dups: 0,
            reord_seen: 0,
            rcv_ooopack: 0,
            total_rto_recoveries: 0,
            total_rto_time: Duration::ZERO,
            cc: tcp::CcInfo::Nothing,
        })
    }

    fn set_timer(&mut self, token: u64, at: Instant) -> bool {
        self.net.hosts[self.host].timers.insert(token, at);
        true
    }

    fn cancel_timer(&mut self, token: u64) {
        self.net.hosts[self.host].timers.remove(&token);
    }

    fn post(&mut self, _to: WorkerId, message: Message) -> Result<(), Message> {
        Err(message)
    }

    fn publish(&mut self, message: Message) -> Result<(), Message> {
        let host = &mut self.net.hosts[self.host];
        if host.deaf {
            return Err(message);
        }
        host.published.push(message);
        Ok(())
    }

    fn exit(&mut self, code: u8) {
        let old = self.net.hosts[self.host].exit.replace(code);
        assert_eq!(old, None, "exit was called twice");
    }
}
