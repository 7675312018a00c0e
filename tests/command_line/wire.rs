//! `millrace wire`: mistakes and their messages. What it does is tested with real ports.

use std::process::Command;

use tests::binary;

/// Exit status and what was said.
fn wire(args: &[&str]) -> (Option<i32>, String) {
    let out = Command::new(binary("millrace")).arg("wire").args(args).output().expect("it starts");
    let [said, err] = [&out.stdout, &out.stderr].map(|b| String::from_utf8_lossy(b).into_owned());
    (out.status.code(), said + &err)
}

#[test]
fn mistakes_are_told_exactly_and_nothing_is_started() {
    const ENDS: [&str; 4] = ["--a", "net_null0", "--b", "net_null1"];
    for (args, expected) in [
        (
            &[][..],
            "millrace: wire: --a is missing: a wire has two ends\n  millrace wire --a net_af_packet0,iface=x0 --b \
             net_af_packet1,iface=y0 --both delay=50ms\n",
        ),
        (
            &["--a", "net_null0", "--b", "net_null0"],
            "millrace: wire: --a and --b are the same device\n",
        ),
        (
            &[&ENDS[..], &["--both", "delay=5"]].concat(),
            "millrace: wire: --both: delay: \"5\" has no unit: write a time such as \"50ms\" (units: ns, us, ms, s, min, h)\n",
        ),
        (
            &[&ENDS[..], &["--forward", "los=1%"]].concat(),
            "millrace: wire: --forward: unknown key \"los\": did you mean loss?\n  keys of a link: rate, delay, queue, ecn_mark, \
             mtu, jitter, loss, reorder, duplicate, corrupt, policer, drop_larger_than, up\n",
        ),
        (
            &[&ENDS[..], &["--both", "rate=100Gbit,delay=1s"]].concat(),
            "millrace: wire: this path holds up to 50006192 frames, more than 524288\n  lower the rate, the delay or the queue, or say \
             how many it may be with --buffers\n",
        ),
    ] {
        assert_eq!(wire(args), (Some(2), expected.to_owned()), "{args:?}");
    }
}

#[test]
fn who_asks_needs_somebody_to_answer() {
    let name = format!("nobody{}", std::process::id());
    for args in [&["show", "--instance", &name][..], &["set", "loss=1%", "--instance", &name]] {
        let (code, said) = wire(args);
        assert_eq!(code, Some(4), "{said}");
        assert!(
            said.starts_with(&format!("millrace: no instance \"{name}\" is running")),
            "{said}"
        );
    }
}
