//! Both pairs work in every setup; no speed is asserted.

use super::*;

fn moves(smoltcp: bool, setup: Setup) {
    let (a, b) = setup.memory();
    let mut pair = pair(smoltcp, &setup, a, b);
    let until = Until { elapsed: Duration::from_secs(60), bytes: setup.bytes_for(500) };
    let outcome = run(&mut *pair, until).unwrap_or_else(|e| panic!("{setup:?}: {e}"));
    assert!(outcome.bytes >= until.bytes, "{setup:?}: {outcome:?}");
    assert!(outcome.gbit() > 0.0 && outcome.round_trip_ns() > 0.0);
}

#[test]
fn every_setup_moves_data() {
    for smoltcp in [false, true] {
        for mtu in [1500, 9000, 65_521] {
            for checksums in [true, false] {
                for buffer in [65_536, 524_288] {
                    let rr = mtu == 1500 && buffer == 65_536;
                    for rr in [false].into_iter().chain(rr.then_some(true)) {
                        moves(smoltcp, Setup { mtu, checksums, buffer, rr });
                    }
                }
            }
        }
    }
}

#[test]
fn checksums_are_really_off_and_on() {
    // A pair that trusts its link takes frames whose checksums nobody has filled in.
    let on = Setup { mtu: 1500, checksums: true, buffer: 65_536, rr: false };
    let off = Setup { checksums: false, ..on };
    for smoltcp in [false, true] {
        let (a, b) = off.memory();
        let mut mixed = pair(smoltcp, &off, a, b);
        let until = Until { elapsed: Duration::from_secs(60), bytes: off.bytes_for(10) };
        assert!(run(&mut *mixed, until).is_ok());
    }
    let (a, b) = off.memory();
    let mut verifying = pair(false, &on, a, b);
    let until = Until { elapsed: Duration::from_millis(100), bytes: on.bytes_for(10) };
    assert_eq!(run(&mut *verifying, until).map(|o| o.bytes), Ok(0));
}
