//! An argument passed on to EAL that it does not know: one line, not its whole help.

use dpdk::{Eal, EalConfig, ErrorKind};

#[test]
fn the_option_is_named() {
    let config = EalConfig { extra: vec!["--bogus".to_owned()], ..EalConfig::software(64) };
    let error = Eal::init(&config).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Environment);
    assert_eq!(error.to_string(), "cannot start DPDK: unrecognized option '--bogus'");
    assert!(error.help[0].contains("--no-pci --bogus"), "{error:?}");
    let again = Eal::init(&EalConfig::software(64)).unwrap_err();
    assert_eq!(again.why, "it can be started once per process");
}
