//! Segments to connections, handshakes, listeners and TIME-WAIT records, and what follows from the
//! engine's answers.

use alloc::boxed::Box;

use base::{ConnId, Device, DropReason, Frame, ListenerId, PortId, TcpFlags};
use tcp::{
    CloseReason, Connection, Disposition, Handshake, HandshakeInput, Keep, ListenInput, PathParams,
    Segment, SeqNum, TimeWaitInput,
};
use wire::{FlowKey, Mac};

use crate::conn::{Conn, Phase};
use crate::demux::{Entry, Kind};
use crate::gro::{Burst, Frames, Run};
use crate::inner::{Core, Stopping};
use crate::isn::InitialNumbers;
use crate::storage::{COMPACT_MAX, Stored};
use crate::time_waits::Waiting;

/// Runs that are worked off before the application and the other flows have their turn: enough for
/// what is done once per round to be cheap, few enough for the peer to have something to do meanwhile.
const RUNS_PER_ROUND: u32 = 16;

/// A run of a burst that is being worked off.
struct Input<'a, F> {
    run: &'a mut Run,
    frames: Frames<'a, F>,
    /// Where it came in.
    port: PortId,
}

impl<F> Input<'_, F> {
    /// Where an answer goes that no connection sends.
    const fn back(&self) -> (PortId, Mac) {
        (self.port, self.run.from)
    }
}

impl<D: Device> Core<D> {
    /// Work off the next runs of the burst that came in by `port`. False: that were all.
    pub(crate) fn tcp_input(&mut self, port: PortId) -> bool {
        let mut burst = core::mem::replace(&mut self.burst, Burst::placeholder());
        let mut looked_at = 0;
        let more = loop {
            if looked_at == RUNS_PER_ROUND {
                break burst.has_next();
            }
            let Some((run, frames)) = burst.next_run() else { break false };
            looked_at += 1;
            let segs = run.seg.segs;
            let mut input = Input { run, frames, port };
            if let Err(reason) = self.on_run(&mut input) {
                self.drop_many(reason, segs);
            }
        };
        if !more {
            burst.clear();
        }
        self.burst = burst;
        more
    }

    fn on_run(&mut self, input: &mut Input<'_, D::Frame>) -> Result<(), DropReason> {
        match self.lookup(&input.run.key) {
            Some(entry) if entry.kind() == Kind::TimeWait => {
                self.on_time_wait(entry.index(), input)
            }
            Some(entry) => self.on_conn(entry.index(), input),
            None => self.on_listener(input, None),
        }
    }

    fn on_conn(&mut self, slot: u32, input: &mut Input<'_, D::Frame>) -> Result<(), DropReason> {
        let Some(conn) = self.conns.at_mut(slot) else { return Err(DropReason::TcpNoSocket) };
        match &mut conn.phase {
            Phase::Open(_) => self.on_open(slot, input),
            Phase::Drained(_) => Err(DropReason::TcpNoSocket),
            Phase::Handshake(handshake) => {
                let listener = conn.listener.and_then(|id| self.listeners.get(id));
                let accept_room = listener.is_none_or(|l| l.listener.has_accept_room());
                let mut cx = self.env.cx(conn.params);
                let result = handshake.on_segment(&mut cx, &input.run.seg, accept_room);
                let outcome = match result {
                    HandshakeInput::Continue => Ok(()),
                    HandshakeInput::Drop(reason) => Err(reason),
                    HandshakeInput::Reset(plan, reason) => {
                        self.reply(&input.run.key, input.back(), &plan);
                        Err(reason)
                    }
                    HandshakeInput::Established(connection) => {
                        self.establish(slot, connection);
                        return self.on_open(slot, input);
                    }
                    HandshakeInput::Closed(reason) => {
                        self.handshake_failed(slot, reason);
                        return Ok(());
                    }
                };
                self.after(slot);
                outcome
            }
        }
    }

    /// A handshake has become a connection.
    fn establish(&mut self, slot: u32, connection: Box<Connection>) {
        let Some(conn) = self.conns.at_mut(slot) else { return };
        conn.recv.start(connection.rcv_nxt());
        conn.send.start(connection.write_seq());
        conn.snd_max = connection.write_seq();
        conn.phase = Phase::Open(connection);
        match conn.listener {
            Some(id) => {
                conn.pending.accepted = true;
                self.half_open -= 1;
                if let Some(listening) = self.listeners.get_mut(id) {
                    listening.listener.syn_queue -= 1;
                    listening.listener.accept_queue += 1;
                }
            }
            None => {
                conn.pending.connected = !conn.discard;
                conn.pending.writable = conn.wants_room && !conn.discard;
            }
        }
    }

    fn on_open(&mut self, slot: u32, input: &mut Input<'_, D::Frame>) -> Result<(), DropReason> {
        let Some(conn) = self.conns.at_mut(slot) else { return Err(DropReason::TcpNoSocket) };
        let Phase::Open(connection) = &mut conn.phase else { return Err(DropReason::TcpNoSocket) };
        let in_order = !input.run.seg.seq.after(connection.rcv_nxt());
        // What there are no buffers for is cut off a run in order, and refused after the rest was taken:
        // a sender that hears of progress goes on without waiting for its timeout.
        let (fits, refused) = if in_order {
            let most = self.env.in_order_segments();
            (most > 0, cut_after(&mut input.run.seg, most))
        } else {
            (self.env.has_room_beyond_hole(input.run.seg.segs), None)
        };
        if connection.exceeds_receive_memory() {
            let freed = conn.recv.collapse(&mut self.storage);
            self.env.tcp.rcv_collapsed += u64::from(freed);
            connection.set_receive_memory(conn.recv.memory(&self.storage, &self.env, true));
        }
        let mut cx = self.env.cx(conn.params);
        cx.can_store = fits && self.storage.has_input_room();
        let before = connection.snd_una();
        let disposition = connection.on_segments(&mut cx, &input.run.seg);
        // Before anything is stored: it may lie where something else was given up.
        if let Some(from) = connection.take_pruned() {
            conn.recv.prune(&mut self.storage, from);
        }
        let mut refusal = None;
        if let (Some(rest), Disposition::Keep(_)) = (&refused, &disposition) {
            cx.can_store = false;
            if let Disposition::Drop(reason) = connection.on_segments(&mut cx, rest) {
                refusal = Some((reason, rest.segs));
            }
        }
        let (snd_una, rcv_nxt) = (connection.snd_una(), connection.rcv_nxt());
        if snd_una != before {
            conn.send.release(&mut self.storage, snd_una);
            conn.progress = true;
        }
        let outcome = match disposition {
            Disposition::Done => Ok(()),
            Disposition::Drop(reason) => Err(reason),
            Disposition::Keep(keep) => {
                self.keep(slot, &keep, input.frames.take(input.run));
                Ok(())
            }
        };
        if let Some((reason, segs)) = refusal {
            self.drop_many(reason, segs);
        }
        // Also without payload kept: a peer's reset or a close of ours may have ended it all.
        if let Some(conn) = self.conns.at_mut(slot)
            && !conn.recv.advance(&mut self.storage, rcv_nxt)
        {
            self.lose_memory(slot);
        }
        self.count_received(slot);
        self.forget_unwanted(slot);
        self.after(slot);
        outcome
    }

    /// Tell the engine what the receive side of the connection in `slot` holds.
    fn count_received(&mut self, slot: u32) {
        let Some(conn) = self.conns.at_mut(slot) else { return };
        let Phase::Open(connection) = &mut conn.phase else { return };
        let dense = connection.receive_memory_is_short();
        connection.set_receive_memory(conn.recv.memory(&self.storage, &self.env, dense));
    }

    /// Store the part of a run's payload that the engine has taken in.
    fn keep(&mut self, slot: u32, keep: &Keep, frames: impl Iterator<Item = D::Frame>) {
        let Some(conn) = self.conns.at_mut(slot) else { return };
        // Above half of what it may hold, a connection uses its buffers to the last byte.
        let dense = match &conn.phase {
            Phase::Open(connection) => connection.receive_memory_is_short(),
            _ => false,
        };
        let (mut skip, mut left) = (keep.skip as usize, keep.len as usize);
        let mut seq = keep.seq;
        let mut lost = false;
        'frames: for frame in frames {
            let mut rest = Some(frame);
            while let Some(chain) = rest {
                if left == 0 {
                    break 'frames;
                }
                let (mut buffer, tail) = chain.split_head();
                rest = tail;
                let len = buffer.len();
                if skip >= len {
                    skip -= len;
                    continue;
                }
                buffer.trim_front(skip);
                skip = 0;
                buffer.truncate(left);
                let len = buffer.len();
                left -= len;
                let stored = if keep.in_order {
                    conn.recv.append(&mut self.storage, buffer, dense)
                } else {
                    conn.recv.insert(&mut self.storage, seq, buffer, dense)
                };
                seq = seq.add(len as u32);
                match stored {
                    Stored::Kept => self.env.buffer_used(),
                    Stored::Copied if len > COMPACT_MAX => self.env.tcp.rcv_collapsed += 1,
                    Stored::Copied => self.env.tcp.rcv_coalesce += 1,
                    Stored::Full => lost = true,
                }
            }
        }
        debug_assert_eq!(left, 0, "the engine took in more than the segments carried");
        if lost || left != 0 {
            self.lose_memory(slot);
        }
    }

    /// Bytes that were acknowledged could not be stored. The connection cannot go on.
    fn lose_memory(&mut self, slot: u32) {
        debug_assert!(false, "storage is laid out so that this cannot happen");
        let Some(conn) = self.conns.at_mut(slot) else { return };
        if let Phase::Open(connection) = &mut conn.phase {
            let mut cx = self.env.cx(conn.params);
            cx.counters.abort_on_memory += 1;
            connection.abort(&mut cx);
        }
    }

    /// A segment that no connection claims.
    fn on_listener(
        &mut self,
        input: &mut Input<'_, D::Frame>,
        iss: Option<u32>,
    ) -> Result<(), DropReason> {
        let key = input.run.key;
        let Some(id) = self.listeners.find(key.local(), key.local_port()) else {
            self.reset(&key, input.back(), &input.run.seg);
            return Err(DropReason::TcpNoSocket);
        };
        if self.stopping != Stopping::No {
            return Err(DropReason::Stopping);
        }
        // Without a route it will not get far; the peer's SYN came from somewhere, though.
        let port = self.port_for(&key).unwrap_or(input.port);
        let path = self.path(port, &key, iss);
        let Some(listening) = self.listeners.get(id) else { return Err(DropReason::TcpNoSocket) };
        let mut cx = self.env.cx(self.env.current_params());
        match listening.listener.on_segment(&mut cx, &input.run.seg, &path) {
            ListenInput::Drop(reason) => Err(reason),
            ListenInput::Reset(plan, reason) => {
                self.reply(&key, input.back(), &plan);
                Err(reason)
            }
            ListenInput::SynReceived(handshake) => {
                if self.half_open >= self.config.limits.half_open {
                    self.env.tcp.listen_drops += 1;
                    return Err(DropReason::ListenSynQueue);
                }
                let Some(slot) = self.add_conn((key, port), handshake, Some(id), path.iss) else {
                    self.env.tcp.listen_drops += 1;
                    return Err(DropReason::ConnLimit);
                };
                self.half_open += 1;
                if let Some(listening) = self.listeners.get_mut(id) {
                    listening.listener.syn_queue += 1;
                    if let Some(conn) = self.conns.at_mut(slot) {
                        conn.set_marks(&listening.listener.options);
                    }
                }
                self.after(slot);
                Ok(())
            }
        }
    }

    /// Whether another half-open connection of this listener can be taken in; if not, the SYN that
    /// would open it is counted as dropped.
    fn has_place(&mut self, id: ListenerId) -> Result<(), DropReason> {
        if self.stopping != Stopping::No {
            return Err(DropReason::Stopping);
        }
        let Some(listening) = self.listeners.get(id) else { return Err(DropReason::TcpNoSocket) };
        listening.listener.has_place(&mut self.env.tcp)?;
        let refusal = if self.half_open >= self.config.limits.half_open {
            DropReason::ListenSynQueue
        } else if self.conns.is_full() {
            DropReason::ConnLimit
        } else {
            return Ok(());
        };
        self.env.tcp.listen_drops += 1;
        Err(refusal)
    }

    /// Take a handshake into the table. `None`: no room.
    pub(crate) fn add_conn(
        &mut self,
        (key, port): (FlowKey, PortId),
        handshake: Handshake,
        listener: Option<ListenerId>,
        iss: u32,
    ) -> Option<u32> {
        if self.conns.is_full() {
            return None;
        }
        let params = self.env.acquire_params();
        let conn =
            Conn::new((key, port), params, handshake, listener, SeqNum::new(iss), self.env.now);
        let Ok(id) = self.conns.insert(conn) else {
            self.env.release_params(params);
            return None;
        };
        let entry = Entry::new(Kind::Connection, id.slot);
        if self.demux.insert(|hasher| hasher.hash(&key), entry).is_err() {
            self.conns.remove(id);
            self.env.release_params(params);
            return None;
        }
        Some(id.slot)
    }

    fn on_time_wait(
        &mut self,
        slot: u32,
        input: &mut Input<'_, D::Frame>,
    ) -> Result<(), DropReason> {
        let Some(waiting) = self.time_waits.at_mut(slot) else {
            return Err(DropReason::TcpNoSocket);
        };
        let mut cx = self.env.cx(waiting.params);
        match waiting.record.on_segment(&mut cx, &input.run.seg) {
            TimeWaitInput::Drop(reason) => Err(reason),
            TimeWaitInput::Ack(plan, reason) => {
                self.reply(&input.run.key, input.back(), &plan);
                Err(reason)
            }
            TimeWaitInput::Remove => {
                self.remove_time_wait(slot);
                Ok(())
            }
            TimeWaitInput::NewConnection { iss } => {
                let local = (input.run.key.local(), input.run.key.local_port());
                let Some(id) = self.listeners.find(local.0, local.1) else {
                    self.reset(&input.run.key, input.back(), &input.run.seg);
                    return Err(DropReason::TcpNoSocket);
                };
                // Whoever cannot be served now must not end the record either: it still keeps old
                // segments out, and the peer's next SYN finds it.
                self.has_place(id)?;
                self.env.tcp.tw_recycled += 1;
                self.remove_time_wait(slot);
                self.on_listener(input, Some(iss))
            }
        }
    }

    pub(crate) fn remove_time_wait(&mut self, slot: u32) {
        if let Some(waiting) = self.time_waits.remove_at(slot) {
            self.forget_time_wait(slot, &waiting);
        }
    }

    fn forget_time_wait(&mut self, slot: u32, waiting: &Waiting) {
        let entry = Entry::new(Kind::TimeWait, slot);
        self.demux.remove(|hasher| hasher.hash(&waiting.key), entry);
        self.env.release_params(waiting.params);
    }

    /// End TIME-WAIT records whose time is over.
    pub(crate) fn expire_time_waits(&mut self) -> u32 {
        let Self { time_waits, demux, env, .. } = self;
        time_waits.expire(env.now, |slot, waiting| {
            let entry = Entry::new(Kind::TimeWait, slot);
            demux.remove(|hasher| hasher.hash(&waiting.key), entry);
            env.release_params(waiting.params);
        })
    }

    /// What the engine is told about the path to a new connection's peer.
    pub(crate) fn path(&mut self, port: PortId, key: &FlowKey, iss: Option<u32>) -> PathParams {
        let iss =
            iss.unwrap_or_else(|| self.isn.isn(self.env.now, key.local_addr(), key.remote_addr()));
        PathParams {
            mtu: self.routes.path_mtu(self.env.now, port, key.remote()),
            ip_header: if key.is_ipv6() { 40 } else { 20 },
            gso_max: self.env.params().gso_max,
            iss,
            ts_offset: self.isn.timestamp_offset(key.local(), key.remote()),
            txhash: InitialNumbers::txhash(&mut self.env.random),
        }
    }

    /// After any call into the engine for the connection in `slot`: collect its events, and put it on
    /// the lists that it belongs to. Its timer is kept once at the end of the turn, however often it
    /// is called for.
    pub(crate) fn after(&mut self, slot: u32) {
        let Some(conn) = self.conns.at_mut(slot) else { return };
        if conn.is_noted() {
            return;
        }
        let may_send = conn.take_events();
        let (news, ready) = (conn.pending.any(), may_send && !conn.ready.is_linked());
        let port = conn.port;
        if !conn.unfiled {
            self.note_unfiled(slot);
        }
        if ready {
            self.ports[port].ready.push_back(&mut self.conns, slot);
        }
        if news {
            self.news.push_back(&mut self.conns, slot);
        }
    }

    /// The deadline of the connection in `slot` may have changed.
    #[inline]
    pub(crate) fn note_unfiled(&mut self, slot: u32) {
        if let Some(conn) = self.conns.at_mut(slot) {
            self.unfiled.note(slot, conn);
            if self.unfiled.is_full() {
                self.file_timers();
            }
        }
    }

    /// Let the wheel know the deadlines of the connections that were looked at since it was done last.
    pub(crate) fn file_timers(&mut self) {
        while let Some(slot) = self.unfiled.take() {
            let Some(conn) = self.conns.at_mut(slot) else { continue };
            if !core::mem::take(&mut conn.unfiled) {
                continue;
            }
            match conn.next_deadline() {
                Some(at) => self.wheel.arm(slot, at),
                None => self.wheel.cancel(slot),
            }
        }
    }

    /// A handshake is over without a connection.
    pub(crate) fn handshake_failed(&mut self, slot: u32, reason: CloseReason) {
        let Some(conn) = self.conns.at_mut(slot) else { return };
        if conn.listener.is_some() {
            // Nobody knows of it.
            self.detach(slot, false);
            self.remove_conn(slot);
        } else {
            conn.pending.closed = Some((reason, false));
            conn.unfiled = false;
            self.wheel.cancel(slot);
            self.unmake_ready(slot);
            self.news.push_back(&mut self.conns, slot);
        }
    }

    /// Let no segment find the connection any more; keep a TIME-WAIT record in its place if
    /// `time_wait` says so and there is room.
    pub(crate) fn detach(&mut self, slot: u32, time_wait: bool) {
        let Some(conn) = self.conns.at_mut(slot) else { return };
        let (key, params) = (conn.key, conn.params);
        if core::mem::take(&mut conn.orphan) {
            self.orphans -= 1;
        }
        if self.last_flow.is_some_and(|(last, _)| last == key) {
            self.last_flow = None;
        }
        conn.unfiled = false;
        self.wheel.cancel(slot);
        let entry = Entry::new(Kind::Connection, slot);
        let mut record = None;
        if let (true, Phase::Open(connection)) = (time_wait, &conn.phase) {
            if self.time_waits.is_full() {
                self.env.tcp.time_wait_overflow += 1;
            } else {
                record = Some(connection.time_wait(&self.env.cx(params)));
            }
        }
        if conn.listener.is_some() && matches!(conn.phase, Phase::Handshake(_)) {
            self.half_open -= 1;
        }
        self.leave_listener(slot);
        self.unmake_ready(slot);
        if let Some(record) = record {
            let params = self.env.share_params(params);
            let waiting = Waiting { record, key, params };
            match self.time_waits.insert(waiting) {
                Ok(id) => {
                    let to = Entry::new(Kind::TimeWait, id.slot);
                    self.demux.replace(|hasher| hasher.hash(&key), entry, to);
                    return;
                }
                Err(waiting) => self.env.release_params(waiting.params),
            }
        }
        self.demux.remove(|hasher| hasher.hash(&key), entry);
    }

    /// The connection leaves the queue of its listener in which it is counted.
    pub(crate) fn leave_listener(&mut self, slot: u32) {
        let Some(conn) = self.conns.at_mut(slot) else { return };
        let half_open = matches!(conn.phase, Phase::Handshake(_));
        let Some(id) = conn.listener.take() else { return };
        let Some(listening) = self.listeners.get_mut(id) else { return };
        let queue = if half_open {
            &mut listening.listener.syn_queue
        } else {
            &mut listening.listener.accept_queue
        };
        debug_assert!(*queue > 0);
        *queue = queue.saturating_sub(1);
    }

    /// Give back all that a detached connection holds.
    pub(crate) fn remove_conn(&mut self, slot: u32) {
        self.unmake_ready(slot);
        self.news.remove(&mut self.conns, slot);
        self.starved.remove(&mut self.conns, slot);
        let Some(id) = self.conns.id_at(slot) else { return };
        if let Some(mut conn) = self.conns.remove(id) {
            self.storage.clear(&mut conn.recv, &mut conn.send);
            self.env.release_params(conn.params);
        }
    }

    /// A deadline of the connection in `slot` may have passed.
    pub(crate) fn on_deadline(&mut self, slot: u32) {
        let Some(conn) = self.conns.at_mut(slot) else { return };
        let mut cx = self.env.cx(conn.params);
        let mut doubt = None;
        match &mut conn.phase {
            Phase::Open(connection) => {
                connection.on_deadline(&mut cx);
                if connection.doubts_path(cx.params) {
                    conn.mac = None;
                    conn.progress = false;
                    doubt = Some((conn.port, conn.key.remote()));
                }
            }
            Phase::Handshake(handshake) => {
                if let Some(reason) = handshake.on_deadline(&mut cx) {
                    self.handshake_failed(slot, reason);
                    return;
                }
            }
            Phase::Drained(_) => {}
        }
        if let Some((port, remote)) = doubt
            && let Ok(next_hop) = self.routes.next_hop(port, remote)
        {
            self.ports[port].neighbors.doubt(self.env.now, next_hop);
        }
        self.after(slot);
    }

    /// The id of the connection in `slot`.
    pub(crate) fn id(&self, slot: u32) -> Option<ConnId> {
        self.conns.id_at(slot)
    }
}

/// Leave the first `most` segments of a run in `seg`, at least one, and return the others.
fn cut_after(seg: &mut Segment, most: u32) -> Option<Segment> {
    if most == 0 || u32::from(seg.segs) <= most {
        return None;
    }
    let len = most.saturating_mul(seg.seg_size).min(seg.len);
    let mut rest = seg.clone();
    rest.seq = seg.seq.add(len);
    rest.len = seg.len - len;
    rest.segs = seg.segs - most as u16;
    seg.len = len;
    seg.segs = most as u16;
    seg.flags = seg.flags.without(TcpFlags::FIN | TcpFlags::PSH);
    Some(rest)
}
