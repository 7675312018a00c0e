//! Start of the environment abstraction layer, once per process.

use std::ffi::{CString, c_char, c_int};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
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
        preflight::clear(&host, config);
        log::install();
        let mark = log::mark();
        // Our own arguments are right; after one that is not, EAL prints its whole help.
        let capture = if config.extra.is_empty() { None } else { Capture::begin() };
        let code = eal_init(&args);
        let printed = capture.map(Capture::end).unwrap_or_default();
        affinity.restore();
        // With neither shared configuration nor files of pages the directory stays empty; without
        // this, every run would leave one behind. It fails where there are files, as it should.
        let _ = std::fs::remove_dir(host.eal_directory(&config.file_prefix));
        if code < 0 {
            let logged = log::since(mark);
            return Err(Error::environment(WHAT, last_words(&printed, &logged))
                .help(format!("EAL was called with: {}", args.join(" ")))
                .detail([printed, logged].concat()));
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
                let why = driver_words(&detail, name);
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

/// Why the driver of `name` gave up: of the lines before the bus says that the device failed, the
/// first that is the driver's, as later ones only repeat that something failed.
fn driver_words(lines: &[String], name: &str) -> String {
    const END: &str = "failed to initialize";
    let end = lines.iter().position(|l| l.contains(END) && l.contains(name));
    let before = &lines[..end.unwrap_or(lines.len())];
    let first = before
        .iter()
        .rev()
        .take_while(|l| !l.starts_with("EAL:") && !l.contains(END))
        .last()
        .map(|l| without_function(l));
    first.unwrap_or("the driver did not create the port").to_owned()
}

/// The line without the name of the function that wrote it.
fn without_function(line: &str) -> &str {
    line.split_once("(): ").map_or(line, |(_, text)| text).trim()
}

/// The most telling reason for a failed start: what the option parser said, else the last line that
/// EAL logged, else its error number.
fn last_words(printed: &[String], logged: &[String]) -> String {
    let parser = printed.iter().find(|l| l.contains("option"));
    let eal = logged.iter().rev().find(|l| l.starts_with("EAL: ") && !l.contains("'command line'"));
    let line = parser.or(eal).cloned().unwrap_or_else(|| errno_text(last_errno()));
    line.trim_start_matches("EAL: ").trim_start_matches("millrace: ").to_owned()
}

/// Releases of DPDK, as year and month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// That of the headers which this program was built with.
    pub built: (u32, u32),
    /// That of the library which is loaded.
    pub loaded: (u32, u32),
}

impl Versions {
    /// Of this process.
    pub fn of_this_process() -> Self {
        // SAFETY: both functions only return a constant.
        let loaded = unsafe { (sys::rte_version_year(), sys::rte_version_month()) };
        Self { built: (sys::MR_VERSION_YEAR, sys::MR_VERSION_MONTH), loaded }
    }
}

/// The library that is loaded is of the release whose headers the bindings were made from.
fn check_version() -> Result<(), Error> {
    let Versions { built, loaded: found } = Versions::of_this_process();
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

/// Lines of printed text kept: the parser's complaint comes first, its help after it.
const PRINTED_LINES_MAX: usize = 8;

/// What this process prints, kept from the terminal for a while.
struct Capture {
    file: File,
    out: OwnedFd,
    err: OwnedFd,
}

impl Capture {
    /// `None` when the system has no descriptors left: then the text is printed, no harm done.
    fn begin() -> Option<Self> {
        // SAFETY: a NUL-terminated name; the new descriptor is ours.
        let file = unsafe { libc::memfd_create(c"eal".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return None;
        }
        // SAFETY: as just made, and owned by nobody else.
        let file = unsafe { File::from_raw_fd(file) };
        let out = std::io::stdout().as_fd().try_clone_to_owned().ok()?;
        let err = std::io::stderr().as_fd().try_clone_to_owned().ok()?;
        flush();
        point(libc::STDOUT_FILENO, &file);
        point(libc::STDERR_FILENO, &file);
        Some(Self { file, out, err })
    }

    fn end(mut self) -> Vec<String> {
        flush();
        point(libc::STDOUT_FILENO, &self.out);
        point(libc::STDERR_FILENO, &self.err);
        let mut text = Vec::new();
        let read = self.file.rewind().and_then(|()| self.file.read_to_end(&mut text));
        if read.is_err() {
            return Vec::new();
        }
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter(|l| !l.trim().is_empty());
        lines.take(PRINTED_LINES_MAX).map(str::to_owned).collect()
    }
}

/// Write out what the C library holds back.
fn flush() {
    // SAFETY: null means all streams.
    unsafe { libc::fflush(core::ptr::null_mut()) };
}

fn point(standard: c_int, to: &impl AsFd) {
    // SAFETY: replaces one of the standard descriptors, which nobody owns, by a valid one.
    unsafe { libc::dup2(to.as_fd().as_raw_fd(), standard) };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_the_driver_is_the_reason() {
        let lines = [
            "EAL: Selected IOVA mode 'VA'",
            "eth_memif_probe(): something about another device",
            "vdev_probe(): failed to initialize net_memif0 device",
            "tun_alloc(): Unable to set TUNSETIFF for lo: Invalid argument",
            "eth_dev_tap_create(): Unable to create TAP interface",
            "vdev_probe(): failed to initialize net_tap0 device",
            "EAL: Bus (vdev) probe failed.",
        ]
        .map(str::to_owned);
        assert_eq!(
            driver_words(&lines, "net_tap0"),
            "Unable to set TUNSETIFF for lo: Invalid argument"
        );
        assert_eq!(driver_words(&lines, "net_memif0"), "something about another device");
        assert_eq!(driver_words(&[], "net_x0"), "the driver did not create the port");
    }

    #[test]
    fn the_parser_is_believed_before_the_log() {
        let printed = ["millrace: unrecognized option '--bogus'".to_owned()];
        let logged = [
            "EAL: No free hugepages".to_owned(),
            "EAL: Invalid 'command line' arguments.".to_owned(),
        ];
        assert_eq!(last_words(&printed, &logged), "unrecognized option '--bogus'");
        assert_eq!(last_words(&[], &logged), "No free hugepages");
    }
}
