//! `millrace sim run`: exit statuses, documents, files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tests::binary;

fn sim(args: &[&str]) -> Output {
    Command::new(binary("millrace")).args(["sim", "run"]).args(args).output().expect("it starts")
}

fn scenario(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    folder.join(name).to_string_lossy().into_owned()
}

/// A file of this process in the temporary directory, gone when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("mrt-sim-{}-{name}", std::process::id())))
    }

    fn with(name: &str, text: &str) -> Self {
        let scratch = Self::new(name);
        std::fs::write(&scratch.0, text).expect("the temporary directory is writable");
        scratch
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("plain")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b));
    format!("{out}{err}")
}

const SMALL: &str = "[host.a]\n[host.b]\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10Mbit\"\n\
                     delay = \"1ms\"\n[[app]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n\
                     bytes = \"100KiB\"\n";

#[test]
fn what_holds_exits_zero_and_what_fails_one() {
    let good = Scratch::with(
        "good.toml",
        &format!("{SMALL}[[expect]]\nwhat = \"bytes_intact\"\nop = \"==\"\nvalue = 1\n"),
    );
    let out = sim(&[good.path()]);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert!(said(&out).contains("PASS  bytes_intact == 1: 1"), "{}", said(&out));
    let out = sim(&[&scenario("must_fail")]);
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    assert!(said(&out).contains("FAIL  goodput of f >= 11Mbit"), "{}", said(&out));
    assert!(said(&out).contains("(line 26)"), "{}", said(&out));
}

#[test]
fn a_bad_file_exits_two_and_nothing_is_run() {
    let bad = Scratch::with("bad.toml", &SMALL.replace("rate =", "raet ="));
    let out = sim(&[&scenario("must_fail"), bad.path()]);
    assert_eq!(out.status.code(), Some(2));
    assert!(out.stdout.is_empty());
    let expected = format!("{}:5:1: link[0]: unknown key \"raet\": did you mean rate?", bad.path());
    assert!(said(&out).contains(&expected), "{}", said(&out));
    for (args, expected) in [
        (&["no-such-file.toml"][..], "cannot read no-such-file.toml"),
        (&[], "SCENARIO"),
        (&[bad.path(), "--seeds"], "--seeds"),
    ] {
        let out = sim(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(said(&out).contains(expected), "{args:?}: {}", said(&out));
    }
    let good = Scratch::with("usage.toml", SMALL);
    for (args, expected) in [
        (&["--seeds", "3..1"][..], "--seeds: \"3..1\" is empty"),
        (&["--variant", "x"], "there is no variant x"),
        (&["--pcap", "/dev/null", "--seeds", "1..2"], "--pcap takes one scenario"),
        (&["--jobs", "0"], "--jobs"),
    ] {
        let args: Vec<&str> = [good.path()].into_iter().chain(args.iter().copied()).collect();
        let out = sim(&args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(said(&out).contains(expected), "{args:?}: {}", said(&out));
    }
}

#[test]
fn what_does_not_exist_exits_three_with_its_line() {
    let out = sim(&[&scenario("unsupported")]);
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    for line in ["later.toml:5:", "later.toml:6:", "later.toml:17:6: app[0].cc: bbr"] {
        assert!(said(&out).contains(line), "{line}\n{}", said(&out));
    }
    // One that fails counts more.
    let out = sim(&[&scenario("unsupported"), &scenario("must_fail")]);
    assert_eq!(out.status.code(), Some(1));
}

#[test]
fn the_document_has_what_is_promised_and_does_not_depend_on_jobs() {
    let file = scenario("basics/variants.toml");
    let one = sim(&[&file, "--json", "--jobs", "1"]);
    let two = sim(&[&file, "--json", "--jobs", "2"]);
    assert_eq!(one.status.code(), Some(0), "{}", said(&one));
    assert!(one.stdout == two.stdout, "the document depends on --jobs");
    let doc: Value = serde_json::from_slice(&one.stdout).expect("JSON");
    assert_eq!(doc["schema"], "millrace-sim/1");
    assert_eq!(doc["passed"], true);
    let s = &doc["scenarios"][0];
    assert_eq!(s["variants"], serde_json::json!(["small", "large"]));
    let runs = s["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 4);
    for run in runs {
        assert_eq!(run["trace"].as_str().map(str::len), Some(16));
        let flow = &run["flows"][0];
        for key in [
            "goodput_bits_per_second",
            "mss_bytes",
            "rtos",
            "retransmits",
            "spurious_retransmits",
            "rcvbuf_max_bytes",
        ] {
            assert!(flow[key].is_number(), "{key}: {flow}");
        }
        assert!(flow["rehashes"]["by_reason"].is_object());
        let samples = run["series"]["seconds"].as_array().map(Vec::len);
        assert!(samples.is_some_and(|n| n > 100));
        for key in
            ["goodput_bits_per_second", "cwnd_bytes", "rcv_wnd_bytes", "srtt_seconds", "path"]
        {
            let series = run["series"]["flows"][0][key].as_array().map(Vec::len);
            assert_eq!(series, samples, "{key}");
        }
    }
    let expectations = s["expectations"].as_array().expect("expectations");
    assert_eq!(expectations.len(), 4);
    for e in expectations {
        assert!(e["text"].is_string() && e["value"].is_number() && e["verdict"] == "pass", "{e}");
        assert_eq!(e["seeds"].as_array().map(Vec::len), Some(2));
    }
    // One variant alone: what needs the other is not run, and does not fail.
    let out = sim(&[&file, "--variant", "small", "--seeds", "7"]);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert!(said(&out).contains("not run"), "{}", said(&out));
}

#[test]
fn pictures_and_captures_are_written() {
    let good = Scratch::with("files.toml", SMALL);
    let (svg, pcap) = (Scratch::new("out.svg"), Scratch::new("out.pcap"));
    let out = sim(&[good.path(), "--plot", svg.path(), "--pcap", pcap.path()]);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let picture = std::fs::read_to_string(&svg.0).expect("it was written");
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    for title in ["goodput (Mbit/s)", "congestion window (KiB)", "smoothed round-trip time (ms)"] {
        assert!(picture.contains(title), "{title}");
    }
    let capture = std::fs::read(&pcap.0).expect("it was written");
    assert!(capture.len() > 100_000 && capture[..4] == 0xA1B2_3C4D_u32.to_le_bytes());
    let out = sim(&[good.path(), "--plot", "/no/such/folder/x.svg"]);
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
}

fn swarm(args: &[&str]) -> Output {
    Command::new(binary("millrace")).args(["sim", "swarm"]).args(args).output().expect("it starts")
}

#[test]
fn a_swarm_is_the_same_for_any_number_of_jobs_and_tells_how_to_replay() {
    let document = |jobs: &str| -> Value {
        let out = swarm(&["--seeds", "6", "--first", "40", "--jobs", jobs, "--json"]);
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
        serde_json::from_slice(&out.stdout).expect("a document")
    };
    let one = document("1");
    assert_eq!((&one["schema"], &one["worlds"]), (&"millrace-swarm/1".into(), &6.into()));
    assert_eq!(one, document("3"));

    let out = swarm(&["--seeds", "3", "--first", "1", "--sabotage", "stray-reset"]);
    assert_eq!(out.status.code(), Some(1));
    let line = said(&out).lines().find(|l| l.starts_with("FAIL  replay: ")).map(str::to_owned);
    let line = line.unwrap_or_else(|| panic!("{}", said(&out)));
    let words: Vec<&str> = line.split(' ').skip_while(|word| *word != "swarm").skip(1).collect();
    let again = swarm(&words);
    assert_eq!(again.status.code(), Some(1), "{line}");
    assert!(said(&again).contains("the client is sabotaged: stray-reset"), "{}", said(&again));

    let pcap = Scratch::new("swarm.pcap");
    let out = swarm(&["--seed", "3", "--pcap", pcap.path()]);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert!(said(&out).contains("seed 3: all oracles hold, trace "));
    assert!(std::fs::metadata(&pcap.0).is_ok_and(|m| m.len() > 100));
}

#[test]
fn a_swarm_names_its_faults() {
    let out = swarm(&["--sabotage", "gremlins"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(said(&out).contains("there are: wrong-byte, wrong-number,"), "{}", said(&out));
}
