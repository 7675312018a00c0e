//! More than one segment: what a single cell of the matrix cannot show.

use std::time::Duration;

use base::TcpFlags;
use tcp::State;

use crate::host::Family;
use crate::scene::{Hosts, Kind, Origin, Scene, Style};
use crate::spec::{Seg, Stamp};

const ACK: TcpFlags = TcpFlags::ACK;

/// States in which a challenge can be asked for.
const SYNCHRONISED: [Kind; 7] = [
    Kind::SynReceivedActive,
    Kind::Established,
    Kind::FinWait1,
    Kind::FinWait2,
    Kind::Closing,
    Kind::CloseWait,
    Kind::LastAck,
];

/// The peer's last accepted timestamp, if it uses them.
fn stamp(scene: &Scene) -> Option<Stamp> {
    scene.style.ts.then_some(Stamp { newer: 0, echo_ok: true })
}

/// Send the segment; how many bare acknowledgements come back at once.
fn answers(scene: &mut Scene, seg: &Seg) -> usize {
    scene.host.now += Duration::from_millis(1);
    let segment = scene.on_wire(seg);
    let sent = scene.host.give(&segment);
    let nxt = scene.tcb.nxt;
    sent.iter()
        .filter(|s| s.tcp.flags == ACK && s.payload.is_empty() && scene.ours(s.tcp.seq) == nxt)
        .count()
}

/// Of a hundred segments in a tenth of a second only the first is answered; after half a second one
/// more is. The connection stays what it was.
fn one_answer_each_half_second(kinds: &[Kind], seg: impl Fn(&Scene) -> Seg) {
    let mut hosts = Hosts::default();
    for family in Family::BOTH {
        for &kind in kinds {
            let mut scene = Scene::new(&mut hosts, kind, family, Style::FULL, Origin::WRAP);
            let seg = seg(&scene);
            let burst: usize = (0..100).map(|_| answers(&mut scene, &seg)).sum();
            assert_eq!(burst, 1, "{family:?} {}", kind.name());
            scene.host.run_for(Duration::from_millis(450));
            assert_eq!(answers(&mut scene, &seg), 1, "{family:?} {}", kind.name());
            let row = scene.host.row();
            assert_eq!(scene.state_of(row.as_ref()), kind.state(), "{family:?}");
            hosts.give_back(scene).expect("nothing left over");
        }
    }
}

/// RFC 5961 section 7.
#[test]
fn h85_resets_in_a_row_get_one_challenge() {
    let mut kinds = SYNCHRONISED.to_vec();
    kinds.push(Kind::SynReceived);
    one_answer_each_half_second(&kinds, |scene| Seg {
        flags: TcpFlags::RST | ACK,
        seq: scene.tcb.rcv_nxt + 20,
        ack: scene.tcb.una,
        payload: 10,
        ts: None,
    });
}

/// RFC 5961 section 7, for section 4.
#[test]
fn h86_syns_in_a_row_get_one_challenge() {
    let mut kinds = SYNCHRONISED.to_vec();
    kinds.extend([Kind::SynReceived, Kind::TimeWait]);
    one_answer_each_half_second(&kinds, |scene| Seg {
        flags: TcpFlags::SYN,
        seq: scene.tcb.rcv_nxt - 1000,
        ack: 0,
        payload: 0,
        ts: stamp(scene),
    });
}

/// RFC 5961 section 7, for section 5. (SYN-RECEIVED resets what acknowledges nothing of ours.)
#[test]
fn h87_acknowledgements_of_nothing_in_a_row_get_one_challenge() {
    one_answer_each_half_second(&SYNCHRONISED[1..], |scene| Seg {
        flags: ACK,
        seq: scene.tcb.rcv_nxt,
        ack: scene.tcb.nxt + 1,
        payload: 0,
        ts: stamp(scene),
    });
}

/// DEVIATION: RFC 5961 section 3.2 has only RCV.NXT. As on Linux a peer that has lost its state may
/// reset with the number that our SACK told it; its guess is as hard for anybody else.
#[test]
fn h84_a_reset_may_hit_the_end_of_what_is_held() {
    let mut hosts = Hosts::default();
    for family in Family::BOTH {
        for (beyond, state) in [
            (199, State::Established),
            (200, State::Closed),
            (201, State::Established),
            (100, State::Established),
        ] {
            let (style, origin) = (Style::SACK, Origin::WRAP);
            let mut scene = Scene::new(&mut hosts, Kind::Established, family, style, origin);
            let (next, ack) = (scene.tcb.rcv_nxt, scene.tcb.una);
            let held = Seg { flags: ACK, seq: next + 100, ack, payload: 100, ts: None };
            assert_eq!(answers(&mut scene, &held), 1);
            let flags = TcpFlags::RST;
            let reset = Seg { flags, seq: next + beyond, ack: 0, payload: 0, ts: None };
            let challenges = answers(&mut scene, &reset);
            assert_eq!(challenges, usize::from(state != State::Closed), "{family:?} {beyond}");
            let row = scene.host.row();
            assert_eq!(scene.state_of(row.as_ref()), state, "{family:?} {beyond}");
            hosts.give_back(scene).expect("nothing left over");
        }
    }
}

/// RFC 7323 section 5.3: what is not acceptable does not set TS.Recent, so nobody can put the peer's
/// clock forward and stall the connection (CVE-2005-0356).
#[test]
fn h95_a_timestamp_from_outside_the_window_poisons_nothing() {
    let mut hosts = Hosts::default();
    for family in Family::BOTH {
        for kind in [Kind::Established, Kind::FinWait2, Kind::CloseWait, Kind::TimeWait] {
            for origin in [Origin::LOW, Origin::WRAP, Origin::SIGN] {
                let mut scene = Scene::new(&mut hosts, kind, family, Style::FULL, origin);
                let (next, edge, ack) = (scene.tcb.rcv_nxt, scene.tcb.edge, scene.tcb.nxt);
                let far = Stamp { newer: (1 << 31) - 1, echo_ok: true };
                for seq in [next - 5000, next - 31, edge + 1, edge + 5000] {
                    let poison = Seg { flags: ACK, seq, ack, payload: 30, ts: Some(far) };
                    scene.host.now += Duration::from_millis(600);
                    answers(&mut scene, &poison);
                }
                // The true peer's next SYN or text still counts.
                let soon = Stamp { newer: 5, echo_ok: true };
                let (flags, ack) = match kind {
                    Kind::TimeWait => (TcpFlags::SYN, 0),
                    _ => (ACK, ack),
                };
                let seg = Seg { flags, seq: next, ack, payload: 0, ts: Some(soon) };
                let before = scene.host.drops();
                answers(&mut scene, &seg);
                assert_eq!(scene.host.drops(), before, "{family:?} {} {origin:?}", kind.name());
                let row = scene.host.row();
                let expected = match kind {
                    Kind::TimeWait => State::SynReceived,
                    _ => kind.state(),
                };
                assert_eq!(row.map(|row| row.state), Some(expected), "{family:?} {origin:?}");
                hosts.give_back(scene).expect("nothing left over");
            }
        }
    }
}
