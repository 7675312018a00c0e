//! What the applications want to know of the process around them.

/// Processor time that the process has used since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuUsage {
    /// Seconds in user mode.
    pub user_secs: f64,
    /// Seconds in the kernel.
    pub system_secs: f64,
}

/// The process around an application. The defaults are those of a simulation: no processor time,
/// and time that begins in 1970.
pub trait Host: Send {
    /// Processor time used so far.
    fn cpu_usage(&self) -> CpuUsage {
        CpuUsage::default()
    }

    /// Milliseconds of civil time since 1970 in UTC; shown, never used for deciding.
    fn unix_time_ms(&self) -> u64 {
        0
    }

    /// One line about the machine, as `uname -a` prints.
    fn system_info(&self) -> String {
        String::new()
    }

    /// What we call ourselves in reports, such as `"millrace 0.1.0"`.
    fn version(&self) -> String {
        concat!("millrace ", env!("CARGO_PKG_VERSION")).to_owned()
    }
}

/// A host about which there is nothing to say: for simulation and tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct SilentHost;

impl Host for SilentHost {}
