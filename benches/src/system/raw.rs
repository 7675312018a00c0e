//! The raw ping-pong of a pair of devices.

use std::time::Duration;

use serde_json::Value;

use super::millrace::document;
use super::process::Process;
use super::{Place, Role};

const PATIENCE: Duration = Duration::from_secs(60);

/// The document of `raw-ping`, which lies beside our own program.
pub fn memif(place: &Place, seconds: f64) -> Result<Value, String> {
    let ours = std::env::current_exe().map_err(|e| e.to_string())?;
    let program = ours.with_file_name("raw-ping");
    let start = |role: Role| {
        let (vdev, seconds) = (place.memif(role), seconds.to_string());
        let mut args = ["--role", role.name(), "--vdev", &vdev, "--seconds", &seconds]
            .map(str::to_owned)
            .to_vec();
        args.extend(place.hugepages.then(|| "--hugepages".to_owned()));
        let name = format!("raw-{}", role.name());
        Process::start(&place.directory, &name, role.core(), &program, &args)
    };
    let mut server = start(Role::Server)?;
    server.wait_for("listening", PATIENCE)?;
    let said = start(Role::Client)?.finish(PATIENCE)?;
    server.finish(PATIENCE)?;
    document(&said)
}
