//! Benchmarks of whole processes: `millrace` on a software device, and `dpdk-testpmd` on the same kind
//! of device in the same run.
//!
//! Client and sender run on core 0, server and receiver on core 1, each process with all its threads.

pub mod idle;
pub mod millrace;
pub mod process;
pub mod raw;
pub mod testpmd;

use std::path::PathBuf;

/// Core of clients and senders.
pub const CLIENT_CORE: usize = 0;
/// Core of servers and receivers.
pub const SERVER_CORE: usize = 1;

/// What all runs of a benchmark share.
#[derive(Debug)]
pub struct Place {
    /// For logs and sockets; its path is absolute, as the memif driver demands.
    pub directory: PathBuf,
    /// The binary.
    pub millrace: PathBuf,
    /// Memory in hugepages, or ordinary pages.
    pub hugepages: bool,
}

impl Place {
    /// A directory of our own, removed when dropped.
    pub fn new(millrace: PathBuf, hugepages: bool) -> Result<Self, String> {
        let directory = std::env::temp_dir().join(format!("millrace-bench-{}", std::process::id()));
        std::fs::create_dir_all(&directory)
            .map_err(|e| format!("cannot create {}: {e}", directory.display()))?;
        Ok(Self { directory, millrace, hugepages })
    }

    /// A memif device. Called as server first, which removes what an earlier process left behind.
    fn memif(&self, role: Role) -> String {
        let socket = self.directory.join("memif.sock");
        if role == Role::Server {
            // Most often there is none.
            let _ = std::fs::remove_file(&socket);
        }
        let name = role.name();
        format!("net_memif0,role={name},id=0,socket={},socket-abstract=no", socket.display())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed from a directory for temporary files is removed by its owner.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Which end of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Listens, receives bulk.
    Server,
    /// Connects, sends bulk.
    Client,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }

    const fn core(self) -> usize {
        match self {
            Self::Server => SERVER_CORE,
            Self::Client => CLIENT_CORE,
        }
    }
}
