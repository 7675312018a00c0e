use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::*;
use crate::testing::World;
use crate::{SegOptions, TcpParams, backoff_time};
use proptest::prelude::*;

const ISS: u32 = u32::MAX - 2;
const IRS: u32 = 7_000;
const S: TcpFlags = TcpFlags::SYN;
const A: TcpFlags = TcpFlags::ACK;
const R: TcpFlags = TcpFlags::RST;
const F: TcpFlags = TcpFlags::FIN;
const SA: TcpFlags = S.union(A);
const RA: TcpFlags = R.union(A);
const FA: TcpFlags = F.union(A);

fn path(iss: u32) -> PathParams {
    PathParams { mtu: 1500, ip_header: 20, gso_max: 65_536, iss, ts_offset: 1000, txhash: 1 }
}

/// A segment with numbers relative to the initial ones.
#[derive(Clone)]
struct Seg(Segment);

fn seg(flags: TcpFlags, seq: i32, ack: i32) -> Seg {
    let ack = if flags.ack() { ISS.wrapping_add_signed(ack) } else { 0 };
    Seg(Segment {
        seq: SeqNum::new(IRS.wrapping_add_signed(seq)),
        ack: SeqNum::new(ack),
        flags,
        wnd: 500,
        len: 0,
        seg_size: 0,
        segs: 1,
        options: SegOptions::default(),
        ecn: Ecn::NotEct,
        arrival: Instant::ZERO,
    })
}

impl Seg {
    fn len(mut self, len: u32) -> Self {
        (self.0.len, self.0.seg_size) = (len, len);
        self
    }

    fn ts(mut self, val: u32, ecr: u32) -> Self {
        self.0.options.timestamps = Some((val, ecr));
        self
    }

    fn options(mut self, mss: u16, scale: u8) -> Self {
        let o = &mut self.0.options;
        (o.mss, o.window_scale, o.sack_permitted) = (Some(mss), Some(scale), true);
        self
    }
}

/// As tcpdump would print it, with relative numbers.
fn show(plan: &Plan, irs: u32) -> String {
    let mut text = format!("{} {}", plan.flags, plan.seq.get().wrapping_sub(ISS));
    if plan.flags.ack() {
        text += &format!(" ack {}", plan.ack.get().wrapping_sub(irs));
    }
    text += &format!(" win {}", plan.wnd);
    let o = &plan.options;
    if let Some(mss) = o.mss {
        text += &format!(" mss {mss}");
    }
    if o.sack_permitted {
        text += " sackOK";
    }
    if let Some((val, ecr)) = o.timestamps {
        text += &format!(" TS {val} {ecr}");
    }
    if let Some(scale) = o.window_scale {
        text += &format!(" wscale {scale}");
    }
    if let Some(timeout) = o.user_timeout {
        text += &format!(" timeout {}", timeout.get().as_secs());
    }
    text
}

/// One handshake and a hand-written peer.
struct Talk {
    w: World,
    h: Handshake,
}

impl Talk {
    fn connect_with(params: TcpParams, options: &ConnOptions) -> Self {
        let mut w = World::new();
        w.params = params;
        let h = Handshake::connect(&mut w.cx(), &path(ISS), options);
        Self { w, h }
    }

    fn connect() -> Self {
        Self::connect_with(TcpParams::default(), &ConnOptions::default())
    }

    fn accept_with(params: TcpParams, syn: &Seg) -> Self {
        let mut w = World::new();
        w.params = params;
        let h = Handshake::accept(&mut w.cx(), &syn.0, &path(ISS), &ConnOptions::default());
        Self { w, h }
    }

    fn accept() -> Self {
        Self::accept_with(TcpParams::default(), &seg(S, 0, 0).options(1460, 7))
    }

    /// SYN-RECEIVED with timestamps: TS.Recent is 50.
    fn accept_ts() -> Self {
        Self::accept_with(TcpParams::default(), &seg(S, 0, 0).options(1460, 7).ts(50, 0))
    }

    /// SYN-RECEIVED from an active open.
    fn crossed() -> Self {
        let mut t = Self::connect();
        t.sent(0);
        assert_eq!(t.peer(0, &seg(S, 0, 0).options(1460, 7)), "continue");
        t
    }

    fn at(&mut self, ms: u64) {
        self.w.now = Instant::from_millis(ms);
    }

    /// Everything that goes out at `ms`.
    fn sent(&mut self, ms: u64) -> Vec<String> {
        self.at(ms);
        let mut all = Vec::new();
        while let Some(plan) = self.h.poll_transmit(&mut self.w.cx()) {
            all.push(show(&plan, IRS));
            self.h.on_transmitted(&mut self.w.cx(), &plan, true);
            assert!(all.len() < 3, "endless output");
        }
        all
    }

    fn step(&mut self, ms: u64, seg: &Seg, room: bool) -> Step {
        self.at(ms);
        self.h.step(&mut self.w.cx(), &seg.0, room)
    }

    /// The outcome in a word.
    fn peer(&mut self, ms: u64, seg: &Seg) -> String {
        word(&self.step(ms, seg, true))
    }

    fn established(&mut self, ms: u64, seg: &Seg) -> Opening {
        match self.step(ms, seg, true) {
            Step::Established(opening) => opening,
            other => panic!("not established: {other:?}"),
        }
    }

    /// Times (ms) at which something goes out when nothing comes in, then when and why it ends.
    fn abandoned(&mut self) -> (Vec<u64>, u64, CloseReason) {
        let mut times = Vec::new();
        loop {
            for _ in self.sent(self.w.now.as_millis()) {
                times.push(self.w.now.as_millis());
            }
            let deadline = self.h.next_deadline().expect("work without a deadline");
            self.w.now = deadline - Duration::from_nanos(1);
            assert_eq!(self.h.on_deadline(&mut self.w.cx()), None, "before its deadline");
            self.w.now = deadline;
            if let Some(reason) = self.h.on_deadline(&mut self.w.cx()) {
                return (times, deadline.as_millis(), reason);
            }
        }
    }
}

fn word(step: &Step) -> String {
    match step {
        Step::Continue => "continue".to_string(),
        Step::Drop(reason) => format!("drop {}", reason.name()),
        Step::Reset(reason) => format!("reset {}", reason.name()),
        Step::Established(_) => "established".to_string(),
        Step::Closed(reason) => format!("closed {reason:?}"),
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn active_open() {
    let mut t = Talk::connect();
    assert_eq!(t.h.state(), State::SynSent);
    assert_eq!(t.sent(5), ["S 0 win 64240 mss 1460 sackOK TS 1005 0 wscale 10"]);
    assert_eq!(t.h.next_deadline(), Some(Instant::from_millis(1005)));
    let o = t.established(35, &seg(SA, 0, 1).options(1400, 7).ts(50, 1005));
    assert_eq!((o.iss.get(), o.snd_nxt.get(), o.irs.get()), (ISS, ISS.wrapping_add(1), IRS));
    assert_eq!((o.snd_wnd, o.snd_wl1.get(), o.snd_wl2.get()), (500, IRS, ISS.wrapping_add(1)));
    assert_eq!((o.snd_wscale, o.rcv_wscale, o.rcv_wnd), (7, 10, 64_240));
    assert_eq!((o.window_scaling, o.sack, o.ts_recent), (true, true, Some(50)));
    assert_eq!((o.peer_mss, o.rtt), (Some(1400), Some(Duration::from_millis(30))));
    assert_eq!((o.syn_retransmits, o.active, o.close_requested), (0, true, false));
    assert_eq!((t.w.counters.active_opens, t.w.counters.passive_opens), (1, 0));
}

#[test]
fn passive_open() {
    let mut t = Talk::accept_ts();
    let o = t.established(0, &seg(A, 9, 1).len(5).ts(99, 1000));
    assert_eq!(o.ts_recent, Some(50), "only what begins where we wait may set it");

    let mut t = Talk::accept_ts();
    assert_eq!(t.h.state(), State::SynReceived);
    assert_eq!(t.sent(5), ["S. 0 ack 1 win 65160 mss 1460 sackOK TS 1005 50 wscale 10"]);
    let o = t.established(25, &seg(A, 1, 1).ts(52, 1005));
    assert_eq!((o.snd_wnd, o.snd_wl1.get()), (500 << 7, IRS + 1), "no SYN: scaled");
    assert_eq!((o.ts_recent, o.rcv_wnd, o.active), (Some(52), 65_160, false));
    assert_eq!(o.rtt, Some(Duration::from_millis(20)));
    assert_eq!((t.w.counters.active_opens, t.w.counters.passive_opens), (0, 1));
}

#[test]
fn payload_of_a_syn_is_neither_acknowledged_nor_kept() {
    let mut t = Talk::accept_with(TcpParams::default(), &seg(S, 0, 0).len(500));
    assert_eq!(t.sent(0), ["S. 0 ack 1 win 64240 mss 1460"]);
    let o = t.established(10, &seg(A, 1, 1).len(500));
    assert_eq!(o.irs.get(), IRS, "the payload comes again, from the first byte on");
}

/// RFC 7323 section 2.2, RFC 7323 section 3.2, RFC 2018 section 2.
#[test]
fn options_are_in_force_only_if_both_want_them() {
    let off =
        TcpParams { sack: false, timestamps: false, window_scaling: false, ..TcpParams::default() };
    let on = TcpParams::default();
    let plain = seg(SA, 0, 1);
    let full = seg(SA, 0, 1).options(1400, 7).ts(50, 1000);
    // Name, our parameters, SYN-ACK, then sack, scaling, our scale, peer's scale, TS, MSS.
    for (name, params, syn_ack, expected) in [
        ("both", &on, &full, (true, true, 10, 7, Some(50), Some(1400))),
        ("only we", &on, &plain, (false, false, 0, 0, None, None)),
        ("only the peer", &off, &full, (false, false, 0, 0, None, Some(1400))),
        ("nobody", &off, &plain, (false, false, 0, 0, None, None)),
        ("scale 15", &on, &full.clone().options(0, 15), (true, true, 10, 14, Some(50), None)),
        ("scale 255", &on, &full.clone().options(1, 255), (true, true, 10, 14, Some(50), Some(1))),
    ] {
        let mut t = Talk::connect_with(params.clone(), &ConnOptions::default());
        let syn = t.sent(0);
        assert_eq!(syn[0].contains("wscale"), params.window_scaling, "{name}");
        assert_eq!(syn[0].contains("TS"), params.timestamps, "{name}");
        assert_eq!(syn[0].contains("sackOK"), params.sack, "{name}");
        let o = t.established(0, syn_ack);
        let got = (o.sack, o.window_scaling, o.rcv_wscale, o.snd_wscale, o.ts_recent, o.peer_mss);
        assert_eq!(got, expected, "{name}");
    }
}

#[test]
fn a_syn_ack_answers_only_what_was_offered() {
    let mut t = Talk::accept_with(TcpParams::default(), &seg(S, 0, 0));
    assert_eq!(t.sent(0), ["S. 0 ack 1 win 64240 mss 1460"]);
    let fixed = TcpParams { timestamp_offset: false, ..TcpParams::default() };
    let mut t = Talk::accept_with(fixed, &seg(S, 0, 0).ts(9, 0));
    assert_eq!(t.sent(3), ["S. 0 ack 1 win 65160 mss 1460 TS 3 9"]);
}

#[test]
fn lost_syns_are_repeated_linearly_then_exponentially() {
    let seconds = |v: &[u64]| v.iter().map(|s| s * 1000).collect::<Vec<_>>();
    for (name, linear, retries, times, end) in [
        ("defaults", 4, 6, &[0, 1, 2, 3, 4, 5, 7, 11, 19, 35, 67][..], 131),
        ("no linear ones", 0, 6, &[0, 1, 3, 7, 15, 31, 63], 127),
        ("none", 0, 0, &[0], 1),
        ("only linear ones", 2, 0, &[0, 1, 2], 3),
    ] {
        let params =
            TcpParams { syn_linear_timeouts: linear, syn_retries: retries, ..TcpParams::default() };
        let mut t = Talk::connect_with(params, &ConnOptions::default());
        let got = t.abandoned();
        assert_eq!(got, (seconds(times), end * 1000, CloseReason::TimedOut), "{name}");
        let model = Duration::from_secs(u64::from(linear))
            + backoff_time(Duration::from_secs(1), retries, t.w.params.rto_max);
        assert_eq!(model, Duration::from_secs(end), "{name}");
        let c = &t.w.counters;
        assert_eq!((c.out_segs, c.attempt_fails, c.abort_on_timeout), (1, 1, 1), "{name}");
        assert_eq!((c.retrans_segs, c.syn_retrans), (got.0.len() as u64 - 1, c.retrans_segs));
    }
}

#[test]
fn lost_syn_acks_are_repeated_exponentially() {
    let mut t = Talk::accept();
    let times = [0, 1000, 3000, 7000, 15_000, 31_000];
    assert_eq!(t.abandoned(), (times.to_vec(), 63_000, CloseReason::TimedOut));
    let c = &t.w.counters;
    assert_eq!((c.out_segs, c.syn_retrans, c.attempt_fails), (1, 5, 1));
    assert_eq!((c.timeouts, c.abort_on_timeout), (0, 0), "those are for connections");
}

#[test]
fn the_user_timeout_bounds_an_active_open() {
    let options =
        ConnOptions { user_timeout: Some(Duration::from_millis(2500)), ..ConnOptions::default() };
    let mut t = Talk::connect_with(TcpParams::default(), &options);
    assert_eq!(t.abandoned(), (Vec::from([0, 1000, 2000]), 2500, CloseReason::TimedOut));
}

#[test]
fn a_lost_syn_is_not_measured_without_timestamps() {
    for (name, ts, rtt) in [("timestamps", true, Some(40)), ("none", false, None)] {
        let mut t = Talk::connect();
        t.sent(0);
        t.at(1000);
        assert_eq!(t.h.on_deadline(&mut t.w.cx()), None);
        assert_eq!(t.sent(1000).len(), 1);
        let syn_ack = seg(SA, 0, 1);
        let syn_ack = if ts { syn_ack.ts(50, 2000) } else { syn_ack };
        let o = t.established(1040, &syn_ack);
        assert_eq!(o.rtt, rtt.map(Duration::from_millis), "{name}");
        assert_eq!(o.syn_retransmits, 1, "{name}");
    }
}

#[test]
fn a_retransmitted_syn_takes_another_path_and_keeps_its_numbers() {
    let mut t = Talk::connect();
    let first = t.h.poll_transmit(&mut t.w.cx()).unwrap();
    t.h.on_transmitted(&mut t.w.cx(), &first, true);
    t.at(1000);
    t.h.on_deadline(&mut t.w.cx());
    let second = t.h.poll_transmit(&mut t.w.cx()).unwrap();
    assert_ne!(first.txhash, second.txhash);
    assert_eq!((first.seq, first.wnd), (second.seq, second.wnd));
    assert_eq!(second.options.timestamps, Some((2000, 0)));
}

#[test]
fn what_the_device_refuses_is_no_timeout() {
    let mut t = Talk::connect();
    for ms in [0, 500, 1000] {
        t.at(ms);
        assert_eq!(t.h.on_deadline(&mut t.w.cx()), None);
        let plan = t.h.poll_transmit(&mut t.w.cx()).expect("a SYN is owed");
        t.h.on_transmitted(&mut t.w.cx(), &plan, false);
        assert!(t.h.poll_transmit(&mut t.w.cx()).is_none());
        assert_eq!(t.h.next_deadline(), Some(Instant::from_millis(ms + 500)));
    }
    t.at(1500);
    t.h.on_deadline(&mut t.w.cx());
    assert_eq!(t.sent(1500), ["S 0 win 64240 mss 1460 sackOK TS 2500 0 wscale 10"]);
    assert_eq!(t.h.next_deadline(), Some(Instant::from_millis(2500)));
    let o = t.established(1510, &seg(SA, 0, 1));
    assert_eq!((o.rtt, o.syn_retransmits), (Some(Duration::from_millis(10)), 0));
    assert_eq!((t.w.counters.syn_retrans, t.w.counters.timeouts), (0, 0));
}

#[test]
fn a_repeated_syn_ends_the_pause_after_a_refusal() {
    let mut t = Talk::accept();
    let plan = t.h.poll_transmit(&mut t.w.cx()).unwrap();
    t.h.on_transmitted(&mut t.w.cx(), &plan, false);
    assert_eq!(t.h.next_deadline(), Some(Instant::from_millis(500)));
    assert_eq!(t.peer(100, &seg(S, 0, 0)), "continue");
    assert_eq!(t.sent(100).len(), 1);
    assert_eq!(t.h.next_deadline(), Some(Instant::from_millis(1100)), "a timeout as after any SYN");
    assert_eq!(t.w.counters.syn_retrans, 0);
}

#[test]
fn a_syn_ack_stands_in_for_an_acknowledgement() {
    let mut t = Talk::accept();
    t.sent(0);
    assert_eq!(t.peer(1000, &seg(R, 2, 0)), "drop tcp_rst_challenged");
    t.h.on_deadline(&mut t.w.cx());
    assert_eq!(t.sent(1000), ["S. 0 ack 1 win 64240 mss 1460 sackOK wscale 10"]);
}

#[test]
fn segments_in_syn_sent() {
    // Our SYN left at 0 ms with TSval 1000; it is 20 ms later.
    for (name, segment, expected, state) in [
        ("SYN-ACK", seg(SA, 0, 1), "established", State::SynSent),
        ("SYN-ACK with data", seg(SA, 0, 1).len(10), "established", State::SynSent),
        ("SYN-ACK, acks nothing", seg(SA, 0, 0), "reset tcp_ack_unsent", State::SynSent),
        ("SYN-ACK, acks too much", seg(SA, 0, 2), "reset tcp_ack_unsent", State::SynSent),
        ("SYN-ACK, echo from before", seg(SA, 0, 1).ts(5, 999), "reset tcp_paws", State::SynSent),
        ("SYN-ACK, echo from later", seg(SA, 0, 1).ts(5, 1021), "reset tcp_paws", State::SynSent),
        ("SYN-ACK, echo of now", seg(SA, 0, 1).ts(5, 1020), "established", State::SynSent),
        ("SYN-ACK, no echo", seg(SA, 0, 1).ts(5, 0), "established", State::SynSent),
        ("ACK of an older life", seg(A, 5, 70), "reset tcp_ack_unsent", State::SynSent),
        ("ACK that fits", seg(A, 5, 1), "drop tcp_ignored", State::SynSent),
        ("RST+ACK that fits", seg(RA, 0, 1), "closed Refused", State::SynSent),
        ("RST+ACK that does not", seg(RA, 0, 0), "drop tcp_rst_ignored", State::SynSent),
        ("RST+ACK, foreign echo", seg(RA, 0, 1).ts(5, 999), "closed Refused", State::SynSent),
        ("RST without ACK", seg(R, 0, 0), "drop tcp_rst_ignored", State::SynSent),
        ("SYN", seg(S, 0, 0), "continue", State::SynReceived),
        ("SYN with data", seg(S, 0, 0).len(10), "continue", State::SynReceived),
        ("SYN+FIN", seg(S | F, 0, 0), "drop tcp_flags", State::SynSent),
        ("SYN+RST+ACK", seg(SA | R, 0, 1), "drop tcp_flags", State::SynSent),
        ("FIN", seg(F, 0, 0), "drop tcp_ignored", State::SynSent),
        ("data without ACK", seg(TcpFlags::PSH, 0, 0).len(5), "drop tcp_ignored", State::SynSent),
        ("no flag", seg(TcpFlags::empty(), 0, 0), "drop tcp_ignored", State::SynSent),
    ] {
        let mut t = Talk::connect();
        t.sent(0);
        assert_eq!(t.peer(20, &segment), expected, "{name}");
        assert_eq!(t.h.state(), state, "{name}");
        assert_eq!(t.w.counters.attempt_fails, u64::from(expected.starts_with("closed")), "{name}");
        assert_eq!(t.w.counters.paws_active, u64::from(expected == "reset tcp_paws"), "{name}");
        if state == State::SynSent {
            assert_eq!(t.sent(20), NOTHING, "{name}");
        }
    }
}

/// RFC 9293 section 3.10.7.4, RFC 5961 section 4.
#[test]
fn segments_in_syn_received() {
    const ACK: [&str; 1] = [". 1 ack 1 win 511"];
    const SYN_ACK: [&str; 1] = ["S. 0 ack 1 win 65535 mss 1460 sackOK wscale 7"];
    let wnd = 65_535;
    // A fixed buffer, so that the window is 65535 and the scale 7. Name, segment, outcome after a
    // passive open, after an active one (the same if empty), and what goes out.
    let rows: &[(&str, Seg, &str, &str, &[&str])] = &[
        ("final ACK", seg(A, 1, 1), "established", "", &[]),
        ("final ACK with data", seg(A, 1, 1).len(100), "established", "", &[]),
        ("data ahead of a lost final ACK", seg(A, 500, 1).len(9), "established", "", &[]),
        ("final ACK with FIN", seg(FA, 1, 1), "established", "", &[]),
        ("data that straddle the left edge", seg(A, -3, 1).len(10), "established", "", &[]),
        ("FIN without ACK", seg(F, 1, 0), "drop tcp_no_ack", "", &[]),
        ("ACK of nothing", seg(A, 1, 0), "reset tcp_ack_unsent", "", &[]),
        ("ACK of too much", seg(A, 1, 2), "reset tcp_ack_unsent", "", &[]),
        ("ACK left of the window", seg(A, 0, 1), "drop tcp_out_of_window", "", &ACK),
        ("last of the window", seg(A, wnd, 1), "established", "", &[]),
        ("right of the window", seg(A, wnd + 1, 1), "drop tcp_out_of_window", "", &ACK),
        ("RST, exact", seg(R, 1, 0), "closed ResetByPeer", "closed Refused", &[]),
        ("RST in the window", seg(R, 2, 0), "drop tcp_rst_challenged", "", &ACK),
        ("RST, last of the window", seg(RA, wnd, 1), "drop tcp_rst_challenged", "", &ACK),
        ("RST left of the window", seg(R, 0, 0), "drop tcp_rst_ignored", "", &[]),
        ("RST right of the window", seg(R, wnd + 1, 0), "drop tcp_rst_ignored", "", &[]),
        ("same SYN", seg(S, 0, 0), "continue", "", &SYN_ACK),
        ("same SYN with data", seg(S, 0, 0).len(10), "continue", "", &SYN_ACK),
        ("other SYN left", seg(S, -9, 0), "drop tcp_out_of_window", "", &ACK),
        ("other SYN right", seg(S, wnd + 9, 0), "drop tcp_out_of_window", "", &ACK),
        ("other SYN", seg(S, 9, 0), "closed ResetByPeer", "drop tcp_syn_challenged", &ACK),
        ("SYN-ACK that crossed", seg(SA, 0, 1), "drop tcp_out_of_window", "established", &ACK),
        (
            "SYN-ACK, wrong ACK",
            seg(SA, 0, 5),
            "drop tcp_out_of_window",
            "reset tcp_ack_unsent",
            &ACK,
        ),
        ("SYN+FIN", seg(S | F, 0, 0), "drop tcp_flags", "", &[]),
        ("no flag", seg(TcpFlags::empty(), 1, 0), "drop tcp_no_ack", "", &[]),
    ];
    for (name, segment, passive, active, out) in rows {
        for (opened, expected) in [(false, passive), (true, active)] {
            let expected = if expected.is_empty() { passive } else { expected };
            let mut w = World::new();
            w.params.timestamps = false;
            let options = ConnOptions { rcvbuf: Some(u32::MAX), ..ConnOptions::default() };
            let syn = seg(S, 0, 0).options(1460, 7);
            let mut t = if opened {
                let h = Handshake::connect(&mut w.cx(), &path(ISS), &options);
                let mut t = Talk { w, h };
                t.sent(0);
                t.peer(0, &syn);
                t
            } else {
                let h = Handshake::accept(&mut w.cx(), &syn.0, &path(ISS), &options);
                Talk { w, h }
            };
            assert_eq!(t.sent(0), SYN_ACK, "{name}");
            assert_eq!(t.peer(10, segment), *expected, "{name}, active {opened}");
            let over = ["closed", "established"].iter().any(|e| expected.starts_with(e));
            let silent = over || expected.starts_with("reset");
            let out = if silent { &[] } else { *out };
            assert_eq!(t.sent(10), out, "{name}, active {opened}");
            assert_eq!(t.w.counters.embryonic_rsts, u64::from(*name == "RST, exact"), "{name}");
        }
    }
}

#[test]
fn timestamps_in_syn_received() {
    for (name, segment, expected, answered) in [
        ("newer", seg(A, 1, 1).ts(51, 1000), "established", false),
        ("same", seg(A, 1, 1).ts(50, 1000), "established", false),
        ("older", seg(A, 1, 1).ts(49, 1000), "drop tcp_paws", true),
        ("missing", seg(A, 1, 1), "drop tcp_ts_missing", false),
        ("missing on a RST", seg(R, 1, 0), "closed ResetByPeer", false),
        ("older on a RST", seg(R, 1, 0).ts(1, 0), "closed ResetByPeer", false),
    ] {
        let mut t = Talk::accept_ts();
        t.w.params.require_timestamps = true;
        t.sent(0);
        assert_eq!(t.peer(10, &segment), expected, "{name}");
        assert_eq!(!t.sent(10).is_empty(), answered, "{name}");
        assert_eq!(t.w.counters.paws_estab, u64::from(answered), "{name}");
    }
}

#[test]
fn the_same_syn_gets_the_same_syn_ack_at_a_limited_rate() {
    let mut t = Talk::accept();
    let first = t.sent(0);
    let syn = seg(S, 0, 0).options(1460, 7);
    for (ms, answered) in [(100, true), (599, false), (600, true), (700, false)] {
        assert_eq!(t.peer(ms, &syn), "continue");
        let out = t.sent(ms);
        assert_eq!(out, if answered { first.clone() } else { Vec::new() }, "at {ms}");
    }
    // Repeating SYNs does not prolong the attempt: the first timeout is where it was.
    assert_eq!(t.h.next_deadline(), Some(Instant::from_millis(1000)));
    assert_eq!(t.w.counters.syn_retrans, 2);
    assert_eq!(t.established(800, &seg(A, 1, 1)).rtt, None, "which copy was answered?");
}

#[test]
fn a_syn_repeated_before_the_first_answer_is_no_retransmission() {
    let mut t = Talk::accept();
    assert_eq!(t.peer(0, &seg(S, 0, 0)), "continue");
    assert_eq!(t.sent(0).len(), 1);
    assert_eq!((t.w.counters.syn_retrans, t.w.counters.out_segs), (0, 1));
    assert_eq!(t.established(20, &seg(A, 1, 1)).rtt, Some(Duration::from_millis(20)));
}

#[test]
fn answers_to_nonsense_are_limited() {
    let mut t = Talk::accept();
    t.sent(0);
    for (ms, sent) in [(10, 1), (20, 0), (509, 0), (510, 1)] {
        t.peer(ms, &seg(R, 2, 0));
        assert_eq!(t.sent(ms).len(), sent, "at {ms}");
    }
    assert_eq!((t.w.counters.challenge_ack, t.w.counters.ack_skipped), (2, 2));
}

/// RFC 5482 section 3.1.
#[test]
fn syns_tell_the_user_timeout_if_that_is_switched_on() {
    let own = ConnOptions { user_timeout: Some(Duration::from_secs(90)), ..ConnOptions::default() };
    for (switch, told) in [(0, false), (1, false), (2, true)] {
        let params = TcpParams { user_timeout_option: switch, ..TcpParams::default() };
        let mut t = Talk::connect_with(params, &own);
        for ms in [0, 1000] {
            t.at(ms);
            assert!(t.h.on_deadline(&mut t.w.cx()).is_none());
            let sent = t.sent(ms).pop().unwrap();
            assert_eq!(sent.ends_with(" timeout 90"), told, "{switch}: {sent}");
        }
    }
    let params = TcpParams { user_timeout_option: 2, ..TcpParams::default() };
    let mut syn = seg(S, 0, 0).options(1460, 7);
    syn.0.options.user_timeout = UserTimeoutOption::from_field(700);
    let mut t = Talk::accept_with(params, &syn);
    let sent = t.sent(0).pop().unwrap();
    assert!(!sent.contains("timeout"), "none is set: {sent}");
    let told = t.established(10, &seg(A, 1, 1)).user_timeout;
    assert_eq!(told.map(|o| o.get()), Some(Duration::from_secs(700)));
}

/// RFC 5961 section 7.
#[test]
fn challenges_of_handshakes_count_against_the_limit_of_the_worker() {
    let params = TcpParams { challenge_ack_limit: 0, ..TcpParams::default() };
    let mut t = Talk::accept_with(params, &seg(S, 0, 0).options(1460, 7));
    t.sent(0);
    assert_eq!(t.peer(1, &seg(R, 2, 0)), "drop tcp_rst_challenged");
    assert!(t.sent(1).is_empty());
    let counters = &t.w.counters;
    assert_eq!((counters.challenge_ack, counters.ack_skipped), (0, 1));
    // An acknowledgement for something out of place is no challenge.
    assert_eq!(t.peer(600, &seg(A, 70_000, 1)), "drop tcp_out_of_window");
    assert_eq!(t.sent(600).len(), 1);
}

#[test]
fn a_full_accept_queue_drops_the_final_ack_and_keeps_the_timer() {
    let mut t = Talk::accept();
    t.sent(0);
    let step = t.step(10, &seg(A, 1, 1), false);
    assert_eq!(word(&step), "drop listen_overflow");
    let step = t.step(11, &seg(A, 1, 1).len(100), false);
    assert_eq!(word(&step), "drop listen_overflow");
    assert_eq!(t.sent(11), NOTHING);
    assert_eq!((t.w.counters.listen_overflows, t.w.counters.listen_drops), (2, 2));
    t.at(1000);
    assert_eq!(t.h.on_deadline(&mut t.w.cx()), None);
    assert_eq!(t.sent(1000).len(), 1);
    assert_eq!(t.peer(1010, &seg(A, 1, 1)), "established");
}

#[test]
fn abort_on_overflow_resets_and_ends_the_attempt() {
    let params = TcpParams { abort_on_overflow: true, ..TcpParams::default() };
    let mut t = Talk::accept_with(params, &seg(S, 0, 0));
    t.sent(0);
    assert_eq!(word(&t.step(10, &seg(A, 1, 1), false)), "reset listen_overflow");
    assert!(t.h.next_deadline().is_some_and(|d| d <= t.w.now));
    assert_eq!(t.h.on_deadline(&mut t.w.cx()), Some(CloseReason::Resources));
    assert_eq!(t.sent(10), NOTHING);
}

#[test]
fn icmp_errors() {
    for (name, mut t, hard, ends) in [
        ("hard in SYN-SENT", Talk::connect(), true, true),
        ("soft in SYN-SENT", Talk::connect(), false, false),
        ("hard in SYN-RECEIVED", Talk::accept(), true, false),
        ("hard after crossing SYNs", Talk::crossed(), true, false),
    ] {
        t.sent(0);
        let got = t.h.on_unreachable(&mut t.w.cx(), hard);
        assert_eq!(got, ends.then_some(CloseReason::Unreachable), "{name}");
        if !ends {
            assert_eq!(t.abandoned().2, CloseReason::Unreachable, "{name}: told at the end");
        }
    }
}

#[test]
fn closing_and_aborting_early() {
    let mut t = Talk::connect();
    t.sent(0);
    t.h.close();
    assert!(t.established(10, &seg(SA, 0, 1)).close_requested);

    let mut t = Talk::connect();
    t.sent(0);
    assert_eq!(t.h.abort(&mut t.w.cx()), None, "nobody knows of us yet");
    assert_eq!(t.h.on_deadline(&mut t.w.cx()), Some(CloseReason::Aborted));

    let mut t = Talk::accept();
    t.sent(0);
    let plan = t.h.abort(&mut t.w.cx()).unwrap();
    assert_eq!((plan.kind, show(&plan, IRS).as_str()), (PlanKind::Reset, "R. 1 ack 1 win 0"));
    assert_eq!(t.h.abort(&mut t.w.cx()), None, "once");
    assert_eq!(t.w.counters.attempt_fails, 1);
    assert_eq!(t.peer(20, &seg(A, 1, 1)), "closed Aborted");
}

#[test]
fn the_application_may_limit_segments_and_there_may_be_no_memory() {
    let options = ConnOptions { mss: Some(1000), ..ConnOptions::default() };
    let mut w = World::new();
    w.rcv_room = 0;
    let h = Handshake::connect(&mut w.cx(), &path(ISS), &options);
    let mut t = Talk { w, h };
    assert_eq!(t.sent(0), ["S 0 win 0 mss 1000 sackOK TS 1000 0 wscale 10"]);
    assert_eq!(t.peer(0, &seg(S, 0, 0)), "continue");
    assert_eq!(t.peer(1, &seg(A, 1, 1).len(50)), "established", "an ACK counts at a closed window");
}

/// Two ends that open towards each other; the last column is when the wire falls silent.
struct Crossing {
    now: u64,
    ends: [(World, Result<Handshake, Opening>); 2],
    /// Arrival time, destination, segment.
    wire: Vec<(u64, usize, Segment)>,
    /// Which transmissions of each end get lost, by number.
    lost: [&'static [u32]; 2],
    counts: [u32; 2],
}

impl Crossing {
    const DELAY_MS: u64 = 20;

    fn new(lost: [&'static [u32]; 2]) -> Self {
        let end = |iss| {
            let mut w = World::new();
            let h = Handshake::connect(&mut w.cx(), &path(iss), &ConnOptions::default());
            (w, Ok(h))
        };
        let ends = [end(ISS), end(IRS)];
        Self { now: 0, ends, wire: Vec::new(), lost, counts: [0; 2] }
    }

    fn send(&mut self, from: usize, plan: &Plan) {
        self.counts[from] += 1;
        if self.lost[from].contains(&self.counts[from]) {
            return;
        }
        let o = &plan.options;
        let segment = Segment {
            seq: plan.seq,
            ack: plan.ack,
            flags: plan.flags,
            wnd: plan.wnd,
            len: 0,
            seg_size: 0,
            segs: 1,
            options: SegOptions {
                user_timeout: plan.options.user_timeout,
                mss: o.mss,
                window_scale: o.window_scale,
                sack_permitted: o.sack_permitted,
                timestamps: o.timestamps,
                sack: o.sack.clone(),
            },
            ecn: Ecn::NotEct,
            arrival: Instant::ZERO,
        };
        self.wire.push((self.now + Self::DELAY_MS, 1 - from, segment));
    }

    /// The acknowledgement that an established connection gives, also to a repeated SYN-ACK.
    fn established_acks(&mut self, end: usize) {
        let (w, Err(o)) = &self.ends[end] else { return };
        let plan = Plan {
            kind: PlanKind::Ack,
            seq: o.snd_nxt,
            len: 0,
            seg_size: 0,
            flags: A,
            ack: o.irs.add(1),
            wnd: 100,
            options: SegOptions {
                timestamps: o.ts_recent.map(|ts| (ts_val(w.now, o.path.ts_offset), ts)),
                ..SegOptions::default()
            },
            ecn: Ecn::NotEct,
            txhash: 1,
        };
        self.send(end, &plan);
    }

    fn run(mut self) -> (u64, [Opening; 2]) {
        for _ in 0..100 {
            for end in 0..2 {
                let (w, state) = &mut self.ends[end];
                w.now = Instant::from_millis(self.now);
                let mut plans = Vec::new();
                if let Ok(h) = state {
                    assert_eq!(h.on_deadline(&mut w.cx()), None);
                    while let Some(plan) = h.poll_transmit(&mut w.cx()) {
                        h.on_transmitted(&mut w.cx(), &plan, true);
                        plans.push(plan);
                    }
                }
                for plan in plans {
                    self.send(end, &plan);
                }
            }
            let deadlines = self.ends.iter().filter_map(|e| e.1.as_ref().ok()?.next_deadline());
            let deadline = deadlines.map(Instant::as_millis).min();
            let Some(next) = self.wire.iter().map(|p| p.0).chain(deadline).min() else { break };
            self.now = next;
            while let Some(i) = self.wire.iter().position(|p| p.0 == next) {
                let (_, end, segment) = self.wire.remove(i);
                let (w, state) = &mut self.ends[end];
                w.now = Instant::from_millis(next);
                match state {
                    Ok(h) => match h.step(&mut w.cx(), &segment, true) {
                        Step::Established(o) => {
                            *state = Err(o);
                            if segment.flags.syn() {
                                self.established_acks(end);
                            }
                        }
                        Step::Continue | Step::Drop(_) => {}
                        other => panic!("{other:?}"),
                    },
                    Err(_) if segment.flags.syn() => self.established_acks(end),
                    Err(_) => {}
                }
            }
        }
        let [(_, Err(a)), (_, Err(b))] = self.ends else { panic!("not both established") };
        (self.now, [a, b])
    }
}

#[test]
fn crossing_syns_make_one_connection_whatever_gets_lost() {
    for (name, lost, end_ms) in [
        ("nothing lost", [&[][..], &[][..]], 60),
        ("one SYN lost", [&[1], &[]], 60),
        ("both SYNs lost", [&[1], &[1]], 1060),
        ("one SYN-ACK lost: the ACK of the other stands in", [&[2], &[]], 60),
        ("both SYN-ACKs lost", [&[2], &[2]], 1060),
        ("SYN and SYN-ACK of one end lost", [&[1, 2], &[]], 1060),
        ("final ACKs lost", [&[3], &[3]], 40),
    ] {
        let (end, [a, b]) = Crossing::new(lost).run();
        assert_eq!(end, end_ms, "{name}");
        assert_eq!((a.iss, a.irs), (b.irs, b.iss), "{name}");
        assert_eq!((a.iss.get(), b.iss.get()), (ISS, IRS), "{name}");
        for (me, peer) in [(&a, &b), (&b, &a)] {
            assert_eq!((me.snd_wscale, me.rcv_wscale), (peer.rcv_wscale, peer.snd_wscale));
            assert!(me.sack && me.window_scaling && me.ts_recent.is_some(), "{name}");
            assert_eq!(me.peer_mss, Some(1460), "{name}");
        }
    }
}

#[test]
fn crossing_syns_step_by_step() {
    let mut t = Talk::crossed();
    assert_eq!(t.h.state(), State::SynReceived);
    assert_eq!(t.sent(0), ["S. 0 ack 1 win 64240 mss 1460 sackOK wscale 10"]);
    assert_eq!(t.w.counters.syn_retrans, 0, "the SYN-ACK says something new");
    let o = t.established(20, &seg(SA, 0, 1).options(1460, 7));
    assert_eq!((o.rtt, o.syn_retransmits, o.active), (None, 0, true));
    assert_eq!(o.snd_wnd, 500, "the window of a SYN is never scaled");
}

#[test]
fn connecting_to_oneself_works() {
    let mut t = Talk::connect();
    let syn = t.h.poll_transmit(&mut t.w.cx()).unwrap();
    t.h.on_transmitted(&mut t.w.cx(), &syn, true);
    let own = |flags, ack| {
        let mut s = seg(flags, 0, ack);
        s.0.seq = SeqNum::new(ISS);
        s
    };
    assert_eq!(t.peer(0, &own(S, 0)), "continue");
    assert_eq!(t.sent(0).len(), 1);
    assert_eq!(t.peer(0, &own(SA, 1)), "established");
}

proptest! {
    /// No segment panics, and an established connection has acknowledged numbers.
    #[test]
    fn any_segments_are_survived(
        active in any::<bool>(),
        segments in proptest::collection::vec(
            (0u16..512, -3i32..70_000, -2i32..4, 0u32..100, any::<Option<(u32, u32)>>(), any::<u8>()), 1..40),
    ) {
        let mut t = if active { Talk::connect() } else { Talk::accept_ts() };
        for (i, (bits, seq, ack, len, ts, scale)) in segments.into_iter().enumerate() {
            let ms = i as u64 * 100;
            t.sent(ms);
            let mut s = seg(TcpFlags::from_bits(bits), seq, ack).len(len).options(1460, scale);
            s.0.options.timestamps = ts;
            match t.step(ms, &s, i % 5 != 0) {
                Step::Established(o) => {
                    prop_assert_eq!(s.0.ack.get(), ISS.wrapping_add(1));
                    prop_assert!(o.snd_wscale <= 14 && o.rcv_wscale <= 14);
                    break;
                }
                Step::Closed(_) => {
                    prop_assert!(t.h.poll_transmit(&mut t.w.cx()).is_none());
                    break;
                }
                _ => prop_assert!(t.h.next_deadline().is_some() || t.h.syn_due),
            }
        }
    }
}

/// The parent's part: what the checks decide becomes a connection or a reset.
#[test]
fn the_segment_that_completes_a_handshake_is_the_first_of_the_connection() {
    let syn_ack = seg(SA, 0, 1).options(1400, 7).ts(50, 1000);
    let request = seg(A, 1, 1).len(100).ts(50, 1000);
    let request_fin = seg(FA, 1, 1).len(100).ts(50, 1000);
    for (name, mut t, segment, kept, ack, state) in [
        ("SYN-ACK", Talk::connect(), &syn_ack, 0, 1, State::Established),
        ("final ACK with data", Talk::accept_ts(), &request, 100, 101, State::Established),
        (
            "final ACK with data and FIN",
            Talk::accept_ts(),
            &request_fin,
            100,
            102,
            State::CloseWait,
        ),
    ] {
        t.sent(0);
        t.at(20);
        let mut connection = match t.h.on_segment(&mut t.w.cx(), &segment.0, true) {
            HandshakeInput::Established(connection) => connection,
            other => panic!("{name}: {other:?}"),
        };
        let disposition = connection.on_segments(&mut t.w.cx(), &segment.0);
        let stored = match disposition {
            crate::Disposition::Keep(keep) => keep.len,
            crate::Disposition::Done => 0,
            crate::Disposition::Drop(reason) => panic!("{name}: {reason:?}"),
        };
        assert_eq!((stored, connection.state()), (kept, state), "{name}");
        let plan = connection.poll_transmit(&mut t.w.cx(), 10);
        let plan = plan.unwrap_or_else(|| panic!("{name}: no acknowledgement"));
        assert_eq!((plan.flags, plan.seq.get()), (A, ISS.wrapping_add(1)), "{name}");
        assert_eq!(plan.ack.get(), IRS + ack, "{name}");
        assert_eq!(plan.options.timestamps, Some((1020, 50)), "{name}");
    }
}

#[test]
fn a_wrong_acknowledgement_is_reset_with_its_own_number() {
    for mut t in [Talk::connect(), Talk::accept()] {
        t.sent(0);
        let before = t.h.state();
        match t.h.on_segment(&mut t.w.cx(), &seg(A, 1, 700).0, true) {
            HandshakeInput::Reset(plan, DropReason::TcpAckUnsent) => {
                assert_eq!((plan.flags, plan.kind), (R, PlanKind::Reset));
                assert_eq!(plan.seq.get(), ISS.wrapping_add(700));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(t.h.state(), before, "the handshake goes on");
    }
}
