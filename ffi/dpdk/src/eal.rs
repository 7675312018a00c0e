//! Start of the environment abstraction layer, once per process.

use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpdk_sys as sys;

use crate::error::{Error, errno_text, last_errno};
use crate::host::Host;
use crate::log;
use crate::preflight;
use crate::vdev::Vdev;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Where mbufs live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Ordinary memory of so many MiB: no hugepages, no hardware access.
    Software {
        /// MiB in all.
        mib: u32,
    },
    /// Hugepages without files, so that nothing is left behind.
    Hugepages {
        /// MiB at start; `None`: as needed.
        mib: Option<u32>,
    },
}

/// How EAL is started. What cannot be seen here is not started: PCI devices are allow-listed by
/// address or not scanned at all.
#[derive(Clone, Debug)]
pub struct EalConfig {
    /// Where mbufs live.
    pub memory: Memory,
    /// Name space of this process among DPDK processes.
    pub file_prefix: String,
    /// Virtual devices, [prepared](Vdev::prepare).
    pub vdevs: Vec<Vdev>,
    /// PCI addresses such as `0000:03:00.0`, with device arguments if any.
    pub pci: Vec<String>,
    /// Arguments passed on as they are.
    pub extra: Vec<String>,
}

impl EalConfig {
    /// Ordinary memory of `mib` MiB and a prefix of this process's own.
    pub fn software(mib: u32) -> Self {
        Self {
            memory: Memory::Software { mib },
            file_prefix: format!("millrace-{}", std::process::id()),
            vdevs: Vec::new(),
            pci: Vec::new(),
            extra: Vec::new(),
        }
    }

    /// Hugepages without files.
    pub fn hugepages(mib: Option<u32>) -> Self {
        Self { memory: Memory::Hugepages { mib }, ..Self::software(0) }
    }

    /// The command line for EAL, without the program's name.
    ///
    /// `cpus` are the CPUs that the process may use: EAL gets one logical core that stands for all
    /// of them, since workers pin and register themselves.
    ///
    /// ```
    /// let config = dpdk::EalConfig { file_prefix: "x".into(), ..dpdk::EalConfig::software(64) };
    /// assert_eq!(
    ///     config.args(&[0, 1]).join(" "),
    ///     "--lcores 0@(0,1) --file-prefix x --no-telemetry --no-huge --no-shconf -m 64 --no-pci"
    /// );
    /// ```
    pub fn args(&self, cpus: &[usize]) -> Vec<String> {
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        let mut args = vec!["--lcores".to_owned(), format!("0@({})", cpus.join(","))];
        args.extend(["--file-prefix".to_owned(), self.file_prefix.clone()]);
        args.push("--no-telemetry".to_owned());
        match self.memory {
            Memory::Software { mib } => {
                args.extend(["--no-huge", "--no-shconf", "-m"].map(str::to_owned));
                args.push(mib.to_string());
            }
            Memory::Hugepages { mib } => {
                args.push("--in-memory".to_owned());
                if let Some(mib) = mib {
                    args.extend(["-m".to_owned(), mib.to_string()]);
                }
            }
        }
        if self.pci.is_empty() {
            args.push("--no-pci".to_owned());
        }
        for address in &self.pci {
            args.extend(["-a".to_owned(), address.clone()]);
        }
        for vdev in &self.vdevs {
            args.extend(["--vdev".to_owned(), vdev.to_string()]);
        }
        args.extend(self.extra.iter().cloned());
        args
    }
}

/// Proof that EAL runs. Clones are the same proof. EAL stays until the process ends, since mbufs
/// may be held by anybody.
#[derive(Clone, Debug)]
pub struct Eal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    vdevs: Vec<Vdev>,
    args: Vec<String>,
}

impl Eal {
    /// Check the machine, then start EAL with `config`. Once per process: a second call is an
    /// error, and so is one after a failed start.
    ///
    /// The calling thread keeps its CPU affinity.
    pub fn init(config: &EalConfig) -> Result<Self, Error> {
        const WHAT: &str = "cannot start DPDK";
        check_version()?;
        let host = Host::probe();
        if let Some(error) = preflight::check(&host, config).into_iter().next() {
            return Err(error);
        }
        let affinity = Affinity::of_this_thread();
        let args = config.args(&affinity.cpus());
        if TAKEN.swap(true, Ordering::SeqCst) {
            return Err(Error::configuration(WHAT, "it can be started once per process"));
        }
        log::install();
        let mark = log::mark();
        let code = eal_init(&args);
        affinity.restore();
        // With neither shared configuration nor files of pages the directory stays empty; without
        // this, every run would leave one behind. It fails where there are files, as it should.
        let _ = std::fs::remove_dir(host.eal_directory(&config.file_prefix));
        if code < 0 {
            return Err(Error::environment(WHAT, last_words(mark))
                .help(format!("EAL was called with: {}", args.join(" ")))
                .detail(log::since(mark)));
        }
        let eal = Self(Arc::new(Inner { vdevs: config.vdevs.clone(), args }));
        eal.check_ports(config, mark)?;
        Ok(eal)
    }

    /// The arguments that EAL was started with.
    pub fn args(&self) -> &[String] {
        &self.0.args
    }

    /// The virtual device called `name`, as it was prepared.
    pub fn vdev(&self, name: &str) -> Option<&Vdev> {
        self.0.vdevs.iter().find(|v| v.name() == name)
    }

    /// EAL goes on without a device that could not be opened: that is a failure here.
    fn check_ports(&self, config: &EalConfig, mark: log::Mark) -> Result<(), Error> {
        let pci = config.pci.iter().map(|a| a.split(',').next().unwrap_or(a));
        for name in config.vdevs.iter().map(Vdev::name).chain(pci) {
            if port_id(name).is_none() {
                let detail = log::since(mark);
                let why = detail
                    .iter()
                    .rev()
                    .find(|l| l.contains(name) || l.contains("PMD") || l.contains("_eth"))
                    .cloned()
                    .unwrap_or_else(|| "the driver did not create the port".to_owned());
                return Err(Error::environment(format!("cannot open {name}"), why).detail(detail));
            }
        }
        Ok(())
    }
}

/// The port called `name`.
pub(crate) fn port_id(name: &str) -> Option<u16> {
    let name = CString::new(name).ok()?;
    let mut id = 0u16;
    // SAFETY: a NUL-terminated string and a valid place for the result.
    (unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut id) } == 0).then_some(id)
}

fn eal_init(args: &[String]) -> c_int {
    let argv: Vec<*mut c_char> = std::iter::once("millrace")
        .chain(args.iter().map(String::as_str))
        // EAL keeps pointers into its arguments: they live as long as the process. An argument
        // cannot contain NUL, as it came from a command line or was checked by `Vdev`.
        .map(|a| CString::new(a.replace('\0', "")).unwrap_or_default().into_raw())
        .collect();
    let argv: &'static mut [*mut c_char] = argv.leak();
    // SAFETY: `argv` holds as many valid strings as its length says, for ever; the caller has made
    // sure that this is the first call in this process.
    unsafe { sys::rte_eal_init(argv.len() as c_int, argv.as_mut_ptr()) }
}

/// The most telling reason for a failed start: the last line that EAL logged, or its error number.
fn last_words(mark: log::Mark) -> String {
    let lines = log::since(mark);
    let telling = lines.iter().rev().find(|l| {
        !l.is_empty() && !l.contains("Invalid 'command line' arguments") && l.starts_with("EAL")
    });
    telling.cloned().unwrap_or_else(|| errno_text(last_errno()))
}

/// The library that is loaded is of the release whose headers the bindings were made from.
fn check_version() -> Result<(), Error> {
    // SAFETY: both functions only return a constant.
    let found = unsafe { (sys::rte_version_year(), sys::rte_version_month()) };
    let built = (sys::MR_VERSION_YEAR, sys::MR_VERSION_MONTH);
    if found == built {
        return Ok(());
    }
    Err(Error::environment(
        "cannot use the installed DPDK",
        format!(
            "this program was built for {}.{:02} and found {}.{:02}",
            built.0, built.1, found.0, found.1
        ),
    )
    .help("install the release it was built for, or build it again"))
}

/// The CPUs that a thread may run on. EAL pins the thread that starts it.
struct Affinity(libc::cpu_set_t);

impl Affinity {
    fn of_this_thread() -> Self {
        // SAFETY: a cpu_set_t is a bit mask, for which all zero is a valid (empty) value.
        let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
        // SAFETY: `set` is a valid place of the size given; 0 means the calling thread.
        unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
        Self(set)
    }

    fn cpus(&self) -> Vec<usize> {
        let limit = (libc::CPU_SETSIZE as usize).min(sys::MR_MAX_LCORE as usize);
        // SAFETY: `cpu` is below the size of the set.
        (0..limit).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &self.0) }).collect()
    }

    fn restore(&self) {
        // SAFETY: a valid set of the size given; 0 means the calling thread.
        unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), &raw const self.0) };
    }
}
