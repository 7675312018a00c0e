//! Commands that ask a running instance.

pub(crate) mod nstat;
pub(crate) mod ss;
pub(crate) mod sysctl;
pub(crate) mod workers;

use runtime::client::{Client, ClientError};

use crate::fault::{FAILED, Fault, NO_INSTANCE, USAGE};

pub(crate) fn connect(instance: &str) -> Result<Client, Fault> {
    Client::connect(instance).map_err(|e| match e {
        ClientError::NoInstance { .. } => Fault::new(NO_INSTANCE, e.to_string())
            .help("start one: millrace run --config FILE, or millrace iperf -s …"),
        ClientError::Name(_) => Fault::new(USAGE, e.to_string()),
        _ => Fault::new(FAILED, e.to_string()),
    })
}

pub(crate) fn failed(e: &ClientError) -> Fault {
    Fault::new(FAILED, e.to_string())
}
