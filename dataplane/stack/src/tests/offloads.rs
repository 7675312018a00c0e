//! Whatever a device can do and however it behaves, the same bytes are delivered; and whatever is
//! left to it, the same bytes are on the wire.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use base::{Capabilities, Instant, Offloads, Random, SeededRandom, TcpFlags};
use proptest::prelude::*;
use tcp::CloseReason;

use super::fixture::*;
use super::nic::{Manner, Nic, Verdict};
use super::transfer::{Plan, Progress, end};
use crate::{Stack, StackParams};

/// Buffers of each kind per device.
const BUFFERS: usize = 1024;
/// A ring that refuses nothing.
const RING: u16 = 2048;

/// A device, and what happens on its way to the other one.
#[derive(Clone, Copy, Debug)]
struct Nature {
    offloads: Offloads,
    segments_max: u8,
    header_room: u32,
    payload_room: u32,
    tx_ring: u16,
    manner: Manner,
    /// Frames that leave the ring between two turns.
    rate: usize,
    /// Of 1000 frames, with a changed byte.
    corrupt: u32,
}

impl Nature {
    /// Takes what it is given, and does nothing with it.
    const fn plain(payload_room: u32) -> Self {
        Self {
            offloads: Offloads {
                rx_ip_checksum: false,
                rx_tcp_checksum: false,
                rx_udp_checksum: false,
                tx_ip_checksum: false,
                tx_tcp_checksum: false,
                tx_udp_checksum: false,
                tso: false,
                multi_segment: false,
            },
            segments_max: 1,
            header_room: 256,
            payload_room,
            tx_ring: RING,
            manner: Manner { verdict: Verdict::Truth, cuts: false, grudging: false },
            rate: usize::MAX,
            corrupt: 0,
        }
    }

    fn nic(&self, last: u8, mtu: u16, seed: u64) -> Nic {
        let capabilities = Capabilities {
            mac: [2, 0, 0, 0, 0, last],
            mtu,
            offloads: self.offloads,
            payload_room: self.payload_room,
            header_room: self.header_room,
            tx_ring: self.tx_ring,
            tx_segments_max: self.segments_max,
        };
        Nic::new(capabilities, BUFFERS, self.manner, seed)
    }
}

#[derive(Clone, Copy, Debug)]
struct Job {
    mtu: u16,
    ipv6: bool,
    totals: [u64; 2],
    writes: [usize; 2],
    /// Both ends speak ECN, and some of what may be marked is marked.
    marks: bool,
    seed: u64,
}

/// Of so many frames that may be marked, one is.
const MARKED: u32 = 20;

struct World {
    stacks: [Stack<Nic>; 2],
    progress: [Rc<RefCell<Progress>>; 2],
    natures: [Nature; 2],
    full: [[usize; 4]; 2],
    now: Instant,
    random: SeededRandom,
    /// Frames that may be marked until one is.
    unmarked: Option<u32>,
    /// What each side has put on the wire, and when.
    wire: [Vec<(Instant, Vec<u8>)>; 2],
}

impl World {
    fn new(job: &Job, natures: [Nature; 2]) -> Self {
        let nics = [0, 1].map(|i| natures[i].nic(1 + i as u8, job.mtu, job.seed ^ i as u64));
        let full = nics.each_ref().map(Nic::level);
        let remote: IpAddr = if job.ipv6 { PEER_IP6.into() } else { PEER_IP.into() };
        let progress: [Rc<RefCell<Progress>>; 2] = Default::default();
        let plans = [0, 1].map(|i| Plan { write: job.writes[i], ..Plan::bulk(job.totals[i]) });
        let [a, b] = nics;
        let mut params = StackParams::default();
        params.tcp.ecn = u8::from(job.marks);
        let params = alloc::sync::Arc::new(params);
        let stack = |nic, last: u8, app: Box<dyn crate::App>| {
            let random = SeededRandom::new(job.seed.wrapping_mul(2).wrapping_add(last.into()));
            Stack::new(
                stack_config(last, job.mtu),
                alloc::sync::Arc::clone(&params),
                Vec::from([nic]),
                random,
                app,
            )
        };
        let client = end(&progress[0], plans[0], Some(SocketAddr::new(remote, 5001)));
        let server = end(&progress[1], plans[1], None);
        let mut stacks =
            [stack(a, 1, Box::new(FnApp(client))), stack(b, 2, Box::new(FnApp(server)))];
        let now = Instant::from_millis(1000);
        stacks[1].turn(now, &mut core::iter::empty(), &mut |_| Ok(()));
        let random = SeededRandom::new(job.seed ^ 0xc0_ffee);
        let unmarked = job.marks.then_some(MARKED);
        Self { stacks, progress, natures, full, now, random, unmarked, wire: Default::default() }
    }

    /// Move what was sent to the other side; whether there was anything.
    fn carry(&mut self) -> bool {
        let mut moved = false;
        for from in 0..2 {
            for _ in 0..self.natures[from].rate {
                let Some(frames) = self.stacks[from].device_mut().transmit() else { break };
                moved = true;
                for mut bytes in frames {
                    self.wire[from].push((self.now, bytes.clone()));
                    if let Some(left) = &mut self.unmarked {
                        *left -= u32::from(mark(&mut bytes, *left == 1));
                        *left = if *left == 0 { MARKED } else { *left };
                    }
                    // An answer of ARP has no checksum: a changed one would be believed for minutes.
                    let is_arp = bytes.get(12..14) == Some(&[8, 6]);
                    if !is_arp && self.random.below(1000) < self.natures[from].corrupt {
                        let at = self.random.below(bytes.len() as u32) as usize;
                        bytes[at] ^= 1 << self.random.below(8);
                    }
                    self.stacks[1 - from].device_mut().arrive(bytes);
                }
            }
        }
        moved
    }

    fn step(&mut self) -> bool {
        let mut busy = self.carry();
        let mut next: Option<Instant> = None;
        for stack in &mut self.stacks {
            let turn = stack.turn(self.now, &mut core::iter::empty(), &mut |_| Ok(()));
            busy |= turn.pending || turn.work > 0;
            next = next.into_iter().chain(turn.next_deadline).min();
        }
        if !busy {
            let Some(at) = next else { return false };
            self.now = self.now.max(at).max(self.now + Duration::from_nanos(1));
        }
        true
    }

    fn finish(&mut self, job: &Job) -> Result<(), TestCaseError> {
        for _ in 0..400_000 {
            if self.progress.iter().all(|p| p.borrow().closed.is_some()) || !self.step() {
                break;
            }
        }
        for (i, p) in self.progress.iter().enumerate() {
            let p = p.borrow();
            prop_assert_eq!(p.closed, Some(CloseReason::Finished), "sent {}", p.sent);
            prop_assert_eq!((p.sent, p.received), (job.totals[i], job.totals[1 - i]));
        }
        // TIME-WAIT passes, and every buffer comes home.
        let end = self.now + Duration::from_secs(130);
        while self.now < end && self.step() {}
        // A device that takes frames when it likes may need to be asked again for the last ones.
        for _ in 0..1000 {
            if !self.carry() && self.stacks.iter().all(Stack::holds_no_buffers) {
                break;
            }
            self.step();
        }
        for (stack, full) in self.stacks.iter().zip(self.full) {
            prop_assert!(stack.holds_no_buffers());
            prop_assert_eq!(stack.device().level(), full, "buffers are missing");
        }
        Ok(())
    }
}

/// Mark a frame, if it may be marked and is to be; whether it may.
fn mark(frame: &mut [u8], now: bool) -> bool {
    let v4 = frame[12..14] == [8, 0];
    let (place, capable, ce) = if v4 { (15, 2, 3) } else { (15, 0x20, 0x30) };
    if frame[place] & ce != capable {
        return false;
    }
    if now {
        frame[place] |= ce;
        if v4 {
            frame[24..26].fill(0);
            let sum = wire::checksum::of(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
    }
    true
}

fn offloads() -> impl Strategy<Value = Offloads> {
    let all = prop_oneof![1 => Just([true; 8]), 4 => any::<[bool; 8]>()];
    all.prop_map(|[a, b, c, d, e, f, tso, multi_segment]| Offloads {
        rx_ip_checksum: a,
        rx_tcp_checksum: b,
        rx_udp_checksum: c,
        tx_ip_checksum: d,
        tx_tcp_checksum: e,
        tx_udp_checksum: f,
        tso,
        multi_segment,
    })
}

prop_compose! {
    fn nature(mtu: u16)(
        offloads in offloads(),
        segments_max in 2..9_u8,
        header_room in prop_oneof![Just(256_u32), Just(384), 256..2000_u32],
        more_room in prop_oneof![Just(0_u32), 0..3000_u32],
        tx_ring in prop_oneof![2 => 1..20_u16, 1 => Just(512_u16)],
        verdict in prop_oneof![
            Just(Verdict::Truth),
            Just(Verdict::Sometimes),
            Just(Verdict::AlwaysBad),
            Just(Verdict::Mixed),
        ],
        cuts in any::<bool>(),
        grudging in any::<bool>(),
        rate in prop_oneof![1 => Just(usize::MAX), 2 => 1..30_usize],
        corrupt in prop_oneof![2 => Just(0_u32), 1 => 1..20_u32],
    ) -> Nature {
        Nature {
            offloads,
            segments_max: if offloads.multi_segment { segments_max } else { 1 },
            header_room,
            // A whole frame fits a buffer, as it does on every port that we start.
            payload_room: u32::from(mtu) + 26 + more_room,
            tx_ring,
            manner: Manner { verdict, cuts, grudging },
            rate,
            corrupt,
        }
    }
}

prop_compose! {
    fn job()(
        mtu in prop_oneof![2 => Just(1500_u16), 2 => 1280..1600_u16, 1 => 1600..9001_u16],
        small in 576..1500_u16,
        ipv6 in any::<bool>(),
        there in 0..150_000_u64,
        back in prop_oneof![Just(0_u64), 0..60_000_u64],
        writes in [
            prop_oneof![2 => Just(32_768_usize), 1 => 20..9000_usize],
            prop_oneof![2 => Just(32_768_usize), 1 => 20..9000_usize],
        ],
        marks in any::<bool>(),
        seed in any::<u32>(),
    ) -> Job {
        let mtu = if !ipv6 && seed % 3 == 0 { small } else { mtu };
        Job { mtu, ipv6, totals: [there, back], writes, marks, seed: seed.into() }
    }
}

fn job_and_natures() -> impl Strategy<Value = (Job, [Nature; 2])> {
    job().prop_flat_map(|job| (Just(job), [nature(job.mtu), nature(job.mtu)]))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn every_device_delivers_every_byte((job, natures) in job_and_natures()) {
        World::new(&job, natures).finish(&job)?;
    }

    #[test]
    fn what_is_left_to_the_device_is_on_the_wire_as_if_it_were_not(
        (job, natures) in job_and_natures(),
    ) {
        let natures = natures.map(|n| Nature {
            tx_ring: RING,
            rate: usize::MAX,
            corrupt: 0,
            manner: Manner { grudging: false, cuts: false, ..n.manner },
            ..n
        });
        let mut plain = World::new(&job, natures.map(|n| Nature::plain(n.payload_room)));
        plain.finish(&job)?;
        let mut world = World::new(&job, natures);
        world.finish(&job)?;
        for (got, expected) in world.wire.iter().zip(&plain.wire) {
            for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
                prop_assert_eq!(got, expected, "frame {}", i);
            }
            prop_assert_eq!(got.len(), expected.len());
        }
    }
}

#[test]
fn large_frames_are_cut_up_by_the_device_that_can() {
    let job = Job {
        mtu: 1500,
        ipv6: false,
        totals: [1 << 20, 0],
        writes: [32_768; 2],
        marks: false,
        seed: 1,
    };
    let all =
        Offloads { tx_ip_checksum: true, tx_tcp_checksum: true, tso: true, ..plain_offloads() };
    let run = |offloads, ipv6| {
        let job = Job { ipv6, ..job };
        let nature = Nature { offloads, segments_max: 8, ..Nature::plain(2048) };
        let mut world = World::new(&job, [nature; 2]);
        world.finish(&job).unwrap();
        let nic = world.stacks[0].device();
        (nic.requests, nic.large)
    };
    let (requests, large) = run(all, false);
    assert!(large > 80, "{large} large frames of {requests}");
    let no_ip_sum = Offloads { tx_ip_checksum: false, ..all };
    assert_eq!(run(no_ip_sum, false).1, 0, "an IPv4 header that is not summed cannot be copied");
    assert!(run(no_ip_sum, true).1 > 80, "IPv6 has none");
    assert_eq!(run(plain_offloads(), false).1, 0);
}

/// A segment that says that the window was reduced is never part of what a device cuts up ([`Nic`] would
/// object), and says so alone.
#[test]
fn the_answer_to_a_mark_leaves_alone() {
    let offloads =
        Offloads { tx_ip_checksum: true, tx_tcp_checksum: true, tso: true, ..plain_offloads() };
    for ipv6 in [false, true] {
        let job = Job {
            mtu: 1500,
            ipv6,
            totals: [1 << 20, 0],
            writes: [32_768; 2],
            marks: true,
            seed: 1,
        };
        let nature = Nature { offloads, segments_max: 8, ..Nature::plain(2048) };
        let mut world = World::new(&job, [nature; 2]);
        world.finish(&job).unwrap();
        assert!(world.stacks[0].device().large > 20, "large frames all the same");
        let reductions = world.stacks[0].tcp_counters().ecn_reductions;
        assert!(reductions > 5, "{reductions} reductions");
        let answers = world.wire[0].iter().filter_map(|(_, frame)| parse_sent(frame));
        let answers =
            answers.filter(|s| !s.tcp.flags.syn() && s.tcp.flags.intersects(TcpFlags::CWR)).count();
        // A reduction that nothing new follows has no answer.
        assert!((1..=reductions).contains(&(answers as u64)), "{answers} of {reductions}");
        assert!(answers as u64 + 2 >= reductions, "{answers} of {reductions}");
    }
}
