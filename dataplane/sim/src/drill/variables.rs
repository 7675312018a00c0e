//! What snippets can ask for.

use sockets::LinuxTcpInfo;

use super::lang::python::{Value, Variables};

/// Names with fixed values.
const CONSTANTS: [(&str, i128); 26] = [
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16),
    ("TCPI_OPT_SYN_DATA", 32),
    ("TCPI_OPT_USEC_TS", 64),
    ("TCPI_OPT_TFO_CHILD", 128),
    ("TCP_INFINITE_SSTHRESH", 0x7fff_ffff),
    ("TCP_RTO_MAX", 120_000),
];

/// The variables of one snippet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot(pub(super) Option<LinuxTcpInfo>);

/// Whether a name means something.
pub(super) fn exists(name: &str) -> bool {
    CONSTANTS.iter().any(|(known, _)| *known == name)
        || LinuxTcpInfo::names().any(|known| known == name)
}

impl Variables for Snapshot {
    fn lookup(&self, name: &str) -> Option<Value> {
        if let Some((_, value)) = CONSTANTS.iter().find(|(known, _)| *known == name) {
            return Some(Value::Int(*value));
        }
        self.0.and_then(|info| info.field(name)).map(|n| Value::Int(i128::from(n)))
    }
}
