//! The stack under test: one host in virtual time, whose network is the script.
//!
//! Time stands still while anything is left to do, and moves from deadline to deadline otherwise. So a
//! packet leaves at the exact time at which the stack decided to send it.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use base::mem::{MemConfig, MemDevice, MemFrame};
use base::{Device, Frame, Instant, Offloads, SeededRandom, WorkerId};
use config::{Knobs, Profile};
use stack::{
    App, ChecksumPolicy, Command, ConnRow, Limits, LocalAddress, Outgoing, PortSetup, Snapshot,
    Stack, StackConfig,
};
use wire::Mac;

use super::net::build::Macs;
use super::net::gateway::{self, GATEWAY_MAC, Link};
use super::net::live::Live;
use crate::nic;

/// When a script begins on the clock of its stack: not at zero, as no machine has just been started.
pub const START: Instant = Instant::from_micros(1_000_000_000);
/// How often the stack is told to look at what ages slowly.
const AGE_EVERY: Duration = Duration::from_secs(1);
/// Turns at one point in time after which something runs in circles.
const TURNS_MAX: u32 = 100_000;
/// Packets from the stack that wait for the script; more are an endless stream.
pub const SENT_MAX: usize = 100_000;
/// Bytes of a frame that is no packet that a report shows.
const FAULT_BYTES: usize = 64;
/// Hardware address of the stack.
const OUR_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// Bytes in one buffer at least. A script may inject a packet that no link would carry in one piece, as
/// an aggregating receiver delivers it: a chain of buffers.
const PIECE: usize = 2048;
/// Buffers of the stack.
const BUFFERS: usize = 4096;

/// What a target is made of.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// Our addresses with the lengths of their prefixes.
    pub addresses: Vec<LocalAddress>,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Knobs at the start.
    pub knobs: Knobs,
    /// For the randomness of the stack.
    pub seed: u64,
}

/// The stack does not come to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restless {
    /// When.
    pub at: Instant,
}

/// One stack, its clock, and what it has sent.
pub struct Target {
    stack: Stack<MemDevice>,
    now: Instant,
    next: Option<Instant>,
    commands: VecDeque<Command>,
    own: Vec<IpAddr>,
    knobs: Knobs,
    generation: u64,
    snapshot: Option<Box<Snapshot>>,
    /// When the slow timers of the stack run next.
    age_at: Instant,
    /// What the script has not looked at, oldest first.
    sent: VecDeque<Live>,
    /// Something left the stack that no script can speak of: the first.
    fault: Option<String>,
    /// Frames in both directions since the start, if somebody asked for them.
    trace: Option<Vec<(Instant, Vec<u8>)>>,
}

impl Target {
    /// A stack that has started and announced itself.
    ///
    /// # Errors
    /// If it does not come to rest.
    pub fn new(config: TargetConfig, app: Box<dyn App>, trace: bool) -> Result<Self, Restless> {
        let TargetConfig { addresses, mtu, knobs, seed } = config;
        let device = MemDevice::detached(&MemConfig {
            mac: OUR_MAC.0,
            mtu,
            offloads: Offloads { multi_segment: true, ..Offloads::default() },
            buffers: BUFFERS,
            payload_room: PIECE.max(usize::from(mtu) + 64),
            tx_ring: 1024,
        });
        let gateway = |v4: bool| {
            let own = addresses.iter().find(|a| a.addr.is_ipv4() == v4)?;
            Some(neighbour_of(own.addr))
        };
        let (gateway4, gateway6) = (gateway(true), gateway(false));
        let own = addresses.iter().map(|a| a.addr).collect();
        let stack_config = StackConfig {
            worker: WorkerId(0),
            workers: 1,
            ports: vec![PortSetup {
                addresses,
                gateway4: gateway4.and_then(|a| if let IpAddr::V4(a) = a { Some(a) } else { None }),
                gateway6: gateway6.and_then(|a| if let IpAddr::V6(a) = a { Some(a) } else { None }),
                mtu,
                rx_checksum: ChecksumPolicy::Verify,
            }],
            limits: Limits::default(),
            stop_limit: Duration::from_secs(2),
        };
        let params = Arc::new(knobs.to_params(1));
        let random = SeededRandom::new(seed);
        let mut target = Self {
            stack: Stack::new(stack_config, params, vec![device], random, app),
            now: START,
            next: None,
            commands: VecDeque::new(),
            own,
            knobs,
            generation: 1,
            snapshot: None,
            age_at: START + AGE_EVERY,
            sent: VecDeque::new(),
            fault: None,
            trace: trace.then(Vec::new),
        };
        target.settle()?;
        target.sent.clear();
        Ok(target)
    }

    /// The present time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The stack, for counters and connections.
    pub fn stack(&self) -> &Stack<MemDevice> {
        &self.stack
    }

    /// The stack, for system calls; [`Target::settle`] afterwards.
    pub fn stack_mut(&mut self) -> &mut Stack<MemDevice> {
        &mut self.stack
    }

    /// The knobs, to be changed; [`Target::apply_knobs`] afterwards.
    pub fn knobs_mut(&mut self) -> &mut Knobs {
        &mut self.knobs
    }

    /// The knobs.
    pub fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    /// Let the stack run with the knobs as they are now.
    ///
    /// # Errors
    /// If it does not come to rest.
    pub fn apply_knobs(&mut self) -> Result<(), Restless> {
        self.generation += 1;
        let params = Arc::new(self.knobs.to_params(self.generation));
        self.commands.push_back(Command::SetParams(params));
        self.settle()
    }

    /// All sockets of the stack.
    ///
    /// # Errors
    /// If it does not come to rest.
    pub fn sockets(&mut self) -> Result<Vec<ConnRow>, Restless> {
        self.commands.push_back(Command::Snapshot { connections: u32::MAX });
        self.settle()?;
        Ok(self.snapshot.take().map(|snapshot| snapshot.connections).unwrap_or_default())
    }

    /// Hardware addresses of a frame to the stack.
    pub fn macs(&self) -> Macs {
        Macs { src: GATEWAY_MAC, dst: OUR_MAC }
    }

    /// Packets that wait for the script, oldest first.
    pub fn sent_ref(&self) -> &VecDeque<Live> {
        &self.sent
    }

    /// The same, to take some away.
    pub fn sent(&mut self) -> &mut VecDeque<Live> {
        &mut self.sent
    }

    /// What is wrong with what the stack has sent, whatever the script expects.
    pub fn take_fault(&mut self) -> Option<String> {
        self.fault.take()
    }

    /// Everything that crossed the wire, with its time.
    pub fn take_trace(&mut self) -> Vec<(Instant, Vec<u8>)> {
        self.trace.take().unwrap_or_default()
    }

    /// Let the stack receive `frames` in one burst, and answer.
    ///
    /// # Errors
    /// If it does not come to rest.
    pub fn inject(&mut self, frames: &[Vec<u8>]) -> Result<(), Restless> {
        for frame in frames {
            self.feed(frame);
        }
        self.settle()
    }

    /// Run until nothing is left to do at the present time.
    ///
    /// # Errors
    /// If that never happens.
    pub fn settle(&mut self) -> Result<(), Restless> {
        for _ in 0..TURNS_MAX {
            if !self.turn() {
                return Ok(());
            }
        }
        Err(Restless { at: self.now })
    }

    /// Move time to the next deadline of the stack, but not beyond `until`. False: `until` is reached.
    ///
    /// # Errors
    /// If the stack does not come to rest.
    pub fn step(&mut self, until: Instant) -> Result<bool, Restless> {
        let next = self.next.unwrap_or(self.age_at).min(self.age_at);
        let next = Some(next).filter(|&next| next <= until);
        // A deadline in the past is one of now.
        self.now = self.now.max(next.unwrap_or(until));
        if self.now >= self.age_at {
            self.age_at = self.now + AGE_EVERY;
            self.commands.push_back(Command::Age);
        }
        self.settle()?;
        Ok(next.is_some())
    }

    /// When the stack will do something by itself.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.next
    }

    /// One turn. True: another one at the same time has something to do.
    fn turn(&mut self) -> bool {
        let Self { stack, commands, snapshot, .. } = self;
        let mut to_self = VecDeque::new();
        let mut source = core::iter::from_fn(|| commands.pop_front());
        let turn = stack.turn(self.now, &mut source, &mut |out| {
            match out {
                Outgoing::ToWorker(from, message) => {
                    to_self.push_back(Command::Message { from: Some(from), message });
                }
                Outgoing::Snapshot(taken) => *snapshot = Some(taken),
                // Nobody is there to be told.
                Outgoing::Publish(_)
                | Outgoing::ParamsApplied(_)
                | Outgoing::Exit(_)
                | Outgoing::ChecksumTrap(_)
                | Outgoing::Stopped => {}
            }
            Ok(())
        });
        self.commands.append(&mut to_self);
        self.next = turn.next_deadline;
        let mut answered = false;
        while let Some(frame) = self.stack.device_mut().take_sent() {
            for bytes in nic::egress(&frame) {
                answered |= self.take(bytes);
            }
        }
        let due = self.next.is_some_and(|at| at <= self.now) && turn.work > 0;
        turn.pending || answered || due || !self.commands.is_empty()
    }

    /// A frame has left the stack. True: it was answered.
    fn take(&mut self, bytes: Vec<u8>) -> bool {
        let Self { own, .. } = self;
        match gateway::handle(&bytes, OUR_MAC, |addr| own.contains(&addr)) {
            Link::Handled(answer) => {
                let answered = answer.is_some();
                if let Some(answer) = answer {
                    self.feed(&answer);
                }
                answered
            }
            Link::Script => {
                match Live::of_frame(&bytes, self.now) {
                    Some(_) if self.sent.len() >= SENT_MAX => {
                        self.fault.get_or_insert_with(|| {
                            format!("the stack has sent {SENT_MAX} packets that the script did not ask for")
                        });
                    }
                    Some(live) => self.sent.push_back(live),
                    None => {
                        self.fault.get_or_insert_with(|| {
                            let octets: Vec<String> =
                                bytes.iter().take(FAULT_BYTES).map(|b| format!("{b:02x}")).collect();
                            format!(
                                "the stack has sent a frame of {} bytes that is no well-formed packet: {}",
                                bytes.len(),
                                octets.join(" ")
                            )
                        });
                    }
                }
                self.record(&bytes);
                false
            }
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.record(bytes);
        let device = self.stack.device_mut();
        let room = device.capabilities().payload_room as usize;
        let mut chain: Option<MemFrame> = None;
        for piece in bytes.chunks(room) {
            // A pool without a buffer drops the frame, as a card would; the script sees no answer.
            let Some(mut frame) = device.payload_alloc() else { return };
            let Some(to) = frame.push_back(piece.len()) else { return };
            to.copy_from_slice(piece);
            match &mut chain {
                Some(chain) => chain.chain(frame),
                None => chain = Some(frame),
            }
        }
        if let Some(frame) = chain {
            device.deliver_frame(frame);
        }
    }

    fn record(&mut self, bytes: &[u8]) {
        if let Some(trace) = &mut self.trace {
            trace.push((self.now, bytes.to_vec()));
        }
    }
}

/// The knobs of a script before it has said anything: those of Linux.
pub fn linux_knobs() -> Knobs {
    Knobs::new(Profile::Linux)
}

/// Some other address of the same link. Whichever it is, the gateway answers for it.
fn neighbour_of(own: IpAddr) -> IpAddr {
    match own {
        IpAddr::V4(own) => {
            let [a, b, c, d] = own.octets();
            IpAddr::from([a, b, c, if d == 1 { 2 } else { 1 }])
        }
        IpAddr::V6(own) => {
            let mut segments = own.segments();
            segments[7] = if segments[7] == 1 { 2 } else { 1 };
            IpAddr::from(segments)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockets::Sockets;

    #[test]
    fn what_is_no_packet_is_told_and_so_is_what_nobody_looks_at() {
        let addr = IpAddr::from([192, 168, 0, 1]);
        let config = TargetConfig {
            addresses: vec![LocalAddress { addr, prefix: 16 }],
            mtu: 1500,
            knobs: linux_knobs(),
            seed: 1,
        };
        let mut target = Target::new(config, Box::new(Sockets::default()), false).unwrap();
        assert_eq!(target.take_fault(), None);
        // An IPv4 packet that says that it is longer than it is.
        let mut frame = vec![0; 14];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame.extend([0x45, 0, 0, 100, 0, 0, 0, 0, 64, 6, 0, 0, 192, 168, 0, 1, 192, 0, 2, 1]);
        assert!(!target.take(frame));
        let fault = target.take_fault().expect("it is told");
        assert!(fault.contains("34 bytes") && fault.contains("45 00 00 64"), "{fault}");
        assert!(target.sent.is_empty());
        assert_eq!(target.take_fault(), None, "once");
    }
}
