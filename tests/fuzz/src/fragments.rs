//! The reassembly table: frames go in and come out once, as part of a whole datagram or as dropped.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeSet;

use base::{Ecn, Instant};
use stack::reassembly::{DatagramKey, Fragment, Reassembly, TIMEOUT_V4, TIMEOUT_V6};

use crate::input::Input;

/// Datagrams that the table holds.
const DATAGRAMS: u16 = 4;

/// Bytes of one operation in an input.
const STEP: usize = 6;

fn key(choice: u8) -> DatagramKey {
    let v6 = choice & 1 == 1;
    let host = choice >> 1 & 3;
    let addr = |last: u8| -> IpAddr {
        if v6 {
            [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last].into()
        } else {
            [10, 0, 0, last].into()
        }
    };
    DatagramKey {
        source: addr(2 + host),
        destination: addr(1),
        id: u32::from(choice >> 3 & 7),
        protocol: if v6 { 0 } else { 17 },
    }
}

/// Six bytes each: whose datagram; offset in units of eight bytes; length; flags; time.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut table: Reassembly<u32> = Reassembly::new(DATAGRAMS, 1);
    let mut now = Instant::from_millis(1000);
    // Frames that the table has.
    let mut held: BTreeSet<u32> = BTreeSet::new();
    for frame in 0.. {
        let Some(choice) = input.next() else { break };
        let key = key(choice);
        let offset = (input.u16() & 0x1fff) << 3;
        let (len, flags, time) = (input.u8(), input.u8(), input.u8());
        let len = u16::from(len) * if flags & 4 == 0 { 8 } else { 1 };
        let protocol = [17, 6, 58, 99][usize::from(flags >> 4 & 3)];
        let fragment = Fragment {
            offset,
            len,
            more: flags & 1 == 1,
            header_len: if flags & 8 == 0 { 20 } else { 60 },
            protocol,
            ecn: Ecn::from_bits(flags >> 6),
            frame,
        };
        held.insert(frame);
        let gone = |held: &mut BTreeSet<u32>, frame| {
            assert!(held.remove(&frame), "{frame} came out twice")
        };
        let done = table.insert(now, key, fragment, &mut |_, frame| gone(&mut held, frame));
        if let Some(datagram) = done {
            let mut at =
                if datagram.parts.len() == 1 { datagram.parts[0].offset.into() } else { 0 };
            for part in datagram.parts {
                assert_eq!(u32::from(part.offset), at, "a gap or an overlap");
                at += u32::from(part.len);
                gone(&mut held, part.frame);
            }
            assert_eq!(at, datagram.len);
            assert!(datagram.len <= 65_535);
        }
        now += Duration::from_millis(u64::from(time) * u64::from(time));
        table.expire(now, &mut |_, frame| gone(&mut held, frame));
        assert_eq!(table.frames() as usize, held.len(), "each frame is somewhere once");
        assert!(table.len() <= u32::from(DATAGRAMS));
        assert_eq!(table.next_deadline().is_some(), !table.is_empty(), "a lost timer");
        assert!(table.next_deadline().is_none_or(|at| at > now && at <= now + TIMEOUT_V6));
    }
    now += TIMEOUT_V4.max(TIMEOUT_V6);
    table.expire(now, &mut |_, frame| assert!(held.remove(&frame)));
    assert!(held.is_empty() && table.is_empty() && table.frames() == 0, "{held:?} stay");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let two_parts: [[u8; STEP]; 2] = [[0, 0, 0, 2, 1, 0], [0, 0, 2, 1, 0, 0]];
    let reversed: [[u8; STEP]; 3] = [[1, 0, 9, 5, 0, 1], [1, 0, 4, 5, 1, 0], [1, 0, 0, 4, 1, 0]];
    let overlap: [[u8; STEP]; 4] =
        [[0, 0, 0, 4, 1, 0], [0, 0, 3, 4, 1, 0], [0, 0, 3, 4, 1, 200], [0, 0, 0, 4, 1, 0]];
    // More datagrams than there is room for, from several sources, then time passes.
    let flood: Vec<u8> = (0..12).flat_map(|n| [n * 9, 0, n, 2, 1, n * 20]).collect();
    let ping_of_death: [[u8; STEP]; 2] = [[0, 0, 0, 8, 1, 0], [0, 0x1f, 0xff, 255, 0, 0]];
    vec![two_parts.concat(), reversed.concat(), overlap.concat(), flood, ping_of_death.concat()]
}
