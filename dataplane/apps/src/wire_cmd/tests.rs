use clap::Parser;

use super::*;

#[derive(Parser, Debug)]
struct Command {
    #[command(flatten)]
    wire: WireArgs,
}

/// What `words` ask for, or the message.
fn asked(words: &[&str]) -> Result<(LinkConfig, LinkConfig, u32), String> {
    let all = ["wire", "--a", "net_af_packet0,iface=x", "--b", "net_af_packet1,iface=y"];
    let args = Command::try_parse_from(all.iter().chain(words)).map_err(|e| e.to_string())?;
    let wire = Wire::of(&args.wire).map_err(|fault| fault.to_string())?;
    Ok((wire.configs[0], wire.configs[1], wire.buffers))
}

#[test]
fn a_direction_has_what_is_said_of_both_and_of_itself() {
    let (forward, reverse, _) =
        asked(&["--both", "delay=5ms,loss=1%", "--forward", "loss=3%", "--reverse", "rate=1Gbit"])
            .unwrap();
    assert_eq!(forward.delay, reverse.delay);
    assert_ne!(forward.loss, reverse.loss);
    assert_eq!(forward.rate, base::Rate::UNLIMITED);
    assert_eq!((forward.mtu, reverse.mtu), (1500, 1500), "that of the ports");
    let (forward, ..) = asked(&["--mtu", "9000", "--forward", "mtu=1400"]).unwrap();
    assert_eq!(forward.mtu, 1400);
}

#[test]
fn there_are_buffers_for_what_the_path_holds() {
    let (.., few) = asked(&[]).unwrap();
    assert_eq!(u64::from(few), BUFFERS_SPARE);
    let (.., some) = asked(&["--both", "rate=200Mbit,delay=50ms,queue=1MiB"]).unwrap();
    let each = 200_000_000 / 8 / 20 / FRAME_BYTES_MEAN + (1 << 20) / FRAME_BYTES_MEAN;
    assert_eq!(u64::from(some), BUFFERS_SPARE + 2 * each);
    let (.., own) = asked(&["--both", "rate=10Gbit,delay=1s", "--buffers", "10000"]).unwrap();
    assert_eq!(own, 10_000);
    let why = asked(&["--both", "rate=10Gbit,delay=1s"]).unwrap_err();
    assert!(why.contains("holds up to"), "{why}");
}

#[test]
fn mistakes_are_named() {
    for (words, why) in [
        (&["--both", "delay=5"][..], "wire: --both: delay: \"5\" has no unit"),
        (&["--forward", "lag=5ms"], "wire: --forward: unknown key \"lag\""),
        (&["--reverse", "loss=1%,loss=2%"], "wire: --reverse: loss: comes twice"),
        (&["-t", "-1"], "-1"),
    ] {
        let error = asked(words).unwrap_err();
        assert!(error.contains(why), "{words:?}: {error}");
    }
}
