//! What snippets can ask for.

use sockets::LinuxTcpInfo;

use super::lang::python::{Value, Variables};
use super::lang::symbols;

/// The symbols that snippets may use.
const SYMBOLS: [&str; 25] = [
    "TCP_ESTABLISHED",
    "TCP_SYN_SENT",
    "TCP_SYN_RECV",
    "TCP_FIN_WAIT1",
    "TCP_FIN_WAIT2",
    "TCP_TIME_WAIT",
    "TCP_CLOSE",
    "TCP_CLOSE_WAIT",
    "TCP_LAST_ACK",
    "TCP_LISTEN",
    "TCP_CLOSING",
    "TCP_CA_Open",
    "TCP_CA_Disorder",
    "TCP_CA_CWR",
    "TCP_CA_Recovery",
    "TCP_CA_Loss",
    "TCPI_OPT_TIMESTAMPS",
    "TCPI_OPT_SACK",
    "TCPI_OPT_WSCALE",
    "TCPI_OPT_ECN",
    "TCPI_OPT_ECN_SEEN",
    "TCPI_OPT_SYN_DATA",
    "TCPI_OPT_USEC_TS",
    "TCPI_OPT_TFO_CHILD",
    "TCP_INFINITE_SSTHRESH",
];
/// A name that scripts outside of snippets do not have.
const RTO_MAX: (&str, i64) = ("TCP_RTO_MAX", 120_000);

fn constant(name: &str) -> Option<i64> {
    if name == RTO_MAX.0 {
        return Some(RTO_MAX.1);
    }
    SYMBOLS.contains(&name).then(|| symbols::value(name)).flatten()
}

/// The variables of one snippet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot(pub(super) Option<LinuxTcpInfo>);

/// Whether a name means something.
pub(super) fn exists(name: &str) -> bool {
    constant(name).is_some() || LinuxTcpInfo::names().any(|known| known == name)
}

impl Variables for Snapshot {
    fn lookup(&self, name: &str) -> Option<Value> {
        let constant = constant(name).map(i128::from);
        let field = || Some(i128::from(self.0?.field(name)?));
        constant.or_else(field).map(Value::Int)
    }
}
