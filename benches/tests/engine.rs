//! The command runs and writes what it measured. No speed is asserted.

use std::process::Command;

#[test]
fn a_short_run_gives_a_row_for_each_setup() {
    let file = std::env::temp_dir().join(format!("millrace-engine-{}.json", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_engine"))
        .args([
            "--segments",
            "200",
            "--repeats",
            "1",
            "--at-most",
            "1",
            "--buffer",
            "65536",
            "--json",
        ])
        .arg(&file)
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&file).expect("written");
    std::fs::remove_file(&file).expect("just read");
    let written: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let setups = written.as_array().expect("an array");
    assert_eq!(setups.len(), 2, "checksums on and off");
    for setup in setups {
        let repeat = &setup["repeats"][0];
        for figure in ["millrace, Gbit/s", "smoltcp, Gbit/s", "ratio"] {
            assert!(repeat["figures"][figure].as_f64().expect("a figure") > 0.0, "{setup}");
        }
        assert!(repeat["before"].as_str().expect("a state").contains("operations/ns"));
    }
    let table = String::from_utf8(output.stdout).expect("text");
    assert_eq!(table.lines().filter(|l| l.starts_with("| bulk, MTU 1500")).count(), 2, "{table}");
}
