//! The parameter object that the client sends, and its limits.

use serde_json::{Map, Value};
use tcp::ConnOptions;
use tcp::params::CongestionAlgorithm;

use super::code::{Code, Failure};
use super::results::integer;

/// Longest test in seconds.
pub(super) const TIME_MAX_SECS: u32 = 86_400;
/// Longest omitted period in seconds.
pub(super) const OMIT_MAX_SECS: u32 = 600;
/// Streams per direction.
pub(super) const PARALLEL_MAX: u32 = 128;
/// Largest block in bytes.
pub(super) const BLOCK_MAX_BYTES: u32 = 1 << 20;
/// Block size unless told otherwise, bytes.
pub(super) const BLOCK_DEFAULT_BYTES: u32 = 131_072;
/// Largest socket buffer in bytes.
pub(super) const WINDOW_MAX_BYTES: u32 = 512 << 20;
/// Largest MSS in bytes.
pub(super) const MSS_MAX_BYTES: u16 = 32_767;
/// Largest burst in blocks.
pub(super) const BURST_MAX_BLOCKS: u32 = 1000;
/// Longest string that a peer may set (title, extra data, names), bytes.
const TEXT_MAX_BYTES: usize = 4096;

/// Who sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The client.
    #[default]
    Forward,
    /// The server (`-R`).
    Reverse,
    /// Both (`--bidir`).
    Bidirectional,
}

/// What carries the data. Only TCP is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP; refused.
    Udp,
    /// SCTP; refused.
    Sctp,
}

/// What a test is to do. The end condition is `num` if not zero, else `blockcount` if not zero,
/// else `time_secs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// What carries the data.
    pub protocol: Protocol,
    /// Seconds at the start that do not count (`-O`), 0..=600.
    pub omit_secs: u32,
    /// Seconds that count (`-t`), 0..=86400; 0 is until the client says so.
    pub time_secs: u32,
    /// Bytes of all streams of a direction together (`-n`); 0 is no limit.
    pub num: u64,
    /// Blocks of all streams of a direction together (`-k`); 0 is no limit.
    pub blockcount: u64,
    /// `-M`: MSS in bytes, at most 32767.
    pub mss: Option<u16>,
    /// `-N`: no Nagle.
    pub nodelay: bool,
    /// `-P`: streams per direction, 1..=128.
    pub parallel: u32,
    /// `-R`, `--bidir`.
    pub direction: Direction,
    /// `-w`: socket buffers in bytes, at most 512 MiB.
    pub window: Option<u32>,
    /// `-l`: block size in bytes, 1..=1 MiB.
    pub len: u32,
    /// `-b`: bits per second of each stream; 0 is no limit.
    pub bandwidth: u64,
    /// `-b r/n`: blocks sent back to back before the rate is looked at, 0 (as 1) to 1000.
    pub burst: u32,
    /// `--fq-rate`: bits per second; reported, not applied.
    pub fq_rate: u64,
    /// `-S`: type of service; reported, not applied.
    pub tos: u8,
    /// `-T`.
    pub title: Option<String>,
    /// `--extra-data`.
    pub extra_data: Option<String>,
    /// `-C`: congestion control by name.
    pub congestion: Option<String>,
    /// `--get-server-output`.
    pub get_server_output: bool,
    /// `--repeating-payload`: digits instead of random bytes.
    pub repeating_payload: bool,
    /// How often a paced sender may wake, microseconds; reported.
    pub pacing_timer_us: u32,
    /// The client's version.
    pub client_version: Option<String>,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            protocol: Protocol::Tcp,
            omit_secs: 0,
            time_secs: 10,
            num: 0,
            blockcount: 0,
            mss: None,
            nodelay: false,
            parallel: 1,
            direction: Direction::Forward,
            window: None,
            len: BLOCK_DEFAULT_BYTES,
            bandwidth: 0,
            burst: 0,
            fq_rate: 0,
            tos: 0,
            title: None,
            extra_data: None,
            congestion: None,
            get_server_output: false,
            repeating_payload: false,
            pacing_timer_us: 1000,
            client_version: None,
        }
    }
}

impl Params {
    /// Data connections of the test.
    pub fn streams(&self) -> usize {
        let per_direction = self.parallel as usize;
        match self.direction {
            Direction::Bidirectional => per_direction * 2,
            Direction::Forward | Direction::Reverse => per_direction,
        }
    }

    /// Whether the values are within the limits of the protocol: for a command line before a
    /// [`super::Client`] is made of them.
    pub fn check(&self) -> Result<(), Failure> {
        let limits = [
            (self.omit_secs <= OMIT_MAX_SECS, Code::OMIT),
            (self.time_secs <= TIME_MAX_SECS, Code::DURATION),
            ((1..=PARALLEL_MAX).contains(&self.parallel), Code::PARALLEL),
            ((1..=BLOCK_MAX_BYTES).contains(&self.len), Code::BLOCK_SIZE),
            (self.window.is_none_or(|w| w <= WINDOW_MAX_BYTES), Code::BUFFER_SIZE),
            (self.mss.is_none_or(|m| m <= MSS_MAX_BYTES), Code::MSS),
            (self.burst <= BURST_MAX_BLOCKS, Code::BURST),
            (self.num == 0 || self.blockcount == 0, Code::END_CONDITIONS),
            (self.protocol != Protocol::Udp, Code::UNIMPLEMENTED),
            (self.protocol != Protocol::Sctp, Code::NO_SCTP),
        ];
        match limits.iter().find(|(fine, _)| !fine) {
            Some((_, code)) => Err(Failure::new(*code)),
            None => Ok(()),
        }
    }

    /// The options of data connections, and a warning if one cannot be had.
    pub(crate) fn conn_options(&self) -> (ConnOptions, Option<String>) {
        let congestion = self.congestion.as_deref().map(|name| {
            let known = CongestionAlgorithm::ALL.iter().find(|(known, _)| *known == name);
            known.map(|(_, algorithm)| *algorithm).ok_or(name)
        });
        let warning = match congestion {
            Some(Err(name)) => Some(format!(
                "congestion control {name:?} is not supported here; the default is used"
            )),
            Some(Ok(_)) | None => None,
        };
        let options = ConnOptions {
            nodelay: self.nodelay,
            rcvbuf: self.window.filter(|w| *w > 0),
            sndbuf: self.window.filter(|w| *w > 0),
            mss: self.mss.filter(|m| *m > 0),
            congestion: congestion.and_then(Result::ok),
            ..ConnOptions::default()
        };
        (options, warning)
    }

    /// The object as the client sends it. Flags appear only when set: a peer takes presence for
    /// truth.
    pub(crate) fn to_json(&self) -> Value {
        let mut o = Map::new();
        let mut put = |key: &str, value: Value| o.insert(key.to_owned(), value);
        match self.protocol {
            Protocol::Tcp => put("tcp", true.into()),
            Protocol::Udp => put("udp", true.into()),
            Protocol::Sctp => put("sctp", true.into()),
        };
        put("omit", self.omit_secs.into());
        let by_time = self.num == 0 && self.blockcount == 0;
        put("time", if by_time { self.time_secs } else { 0 }.into());
        put("num", self.num.into());
        put("blockcount", self.blockcount.into());
        if let Some(mss) = self.mss {
            put("MSS", mss.into());
        }
        if self.nodelay {
            put("nodelay", true.into());
        }
        put("parallel", self.parallel.into());
        match self.direction {
            Direction::Forward => {}
            Direction::Reverse => {
                put("reverse", true.into());
            }
            Direction::Bidirectional => {
                put("bidirectional", true.into());
            }
        }
        if let Some(window) = self.window {
            put("window", window.into());
        }
        put("len", self.len.into());
        for (key, value) in [("bandwidth", self.bandwidth), ("fqrate", self.fq_rate)] {
            if value != 0 {
                put(key, value.into());
            }
        }
        put("pacing_timer", self.pacing_timer_us.into());
        for (key, value) in [
            ("burst", self.burst),
            ("TOS", u32::from(self.tos)),
            ("get_server_output", u32::from(self.get_server_output)),
            ("repeating_payload", u32::from(self.repeating_payload)),
        ] {
            if value != 0 {
                put(key, value.into());
            }
        }
        for (key, value) in [
            ("title", &self.title),
            ("extra_data", &self.extra_data),
            ("congestion", &self.congestion),
            ("client_version", &self.client_version),
        ] {
            if let Some(text) = value {
                put(key, text.as_str().into());
            }
        }
        Value::Object(o)
    }

    /// Read what a client has sent. Unknown keys are ignored, keys of a wrong type are ignored
    /// with a warning, values beyond the limits are refused with the code that the original has
    /// for them.
    pub(crate) fn from_json(bytes: &[u8]) -> Result<(Self, Vec<String>), Failure> {
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|e| Failure::with(Code::PARAMETERS, e.to_string()))?;
        let Value::Object(object) = value else {
            return Err(Failure::with(Code::PARAMETERS, "not an object"));
        };
        Reader { object: &object, warnings: Vec::new() }.read()
    }
}

/// Keys that ask for something we have not got; told to the user of the server.
const NOT_APPLIED: [&str; 7] =
    ["TOS", "flowlabel", "server_affinity", "fqrate", "dont_fragment", "skip_rx_copy", "zerocopy"];

struct Reader<'a> {
    object: &'a Map<String, Value>,
    warnings: Vec<String>,
}

impl Reader<'_> {
    fn read(mut self) -> Result<(Params, Vec<String>), Failure> {
        let protocol = if self.flag("udp") {
            Protocol::Udp
        } else if self.flag("sctp") {
            Protocol::Sctp
        } else {
            Protocol::Tcp
        };
        match protocol {
            Protocol::Udp => return Err(Failure::with(Code::UNIMPLEMENTED, "UDP")),
            Protocol::Sctp => return Err(Failure::new(Code::NO_SCTP)),
            Protocol::Tcp => {}
        }
        if self.flag("mptcp") {
            return Err(Failure::with(Code::UNIMPLEMENTED, "MPTCP"));
        }
        if self.object.contains_key("authtoken") {
            return Err(Failure::new(Code::AUTHORIZATION));
        }
        let direction = match (self.flag("reverse"), self.flag("bidirectional")) {
            (true, true) => return Err(Failure::new(Code::REVERSE_BIDIR)),
            (true, false) => Direction::Reverse,
            (false, true) => Direction::Bidirectional,
            (false, false) => Direction::Forward,
        };
        self.number("server_affinity", 0, 0, 1024, Code::AFFINITY)?;
        self.number("flowlabel", 0, 0, 0xF_FFFF, Code::FLOW_LABEL)?;
        let mss = self.number("MSS", 0, 0, MSS_MAX_BYTES.into(), Code::MSS)?;
        let window = self.number("window", 0, 0, WINDOW_MAX_BYTES.into(), Code::BUFFER_SIZE)?;
        let max = u64::MAX >> 1;
        let params = Params {
            protocol,
            direction,
            omit_secs: self.number("omit", 0, 0, OMIT_MAX_SECS.into(), Code::OMIT)? as u32,
            time_secs: self.number("time", 10, 0, TIME_MAX_SECS.into(), Code::DURATION)? as u32,
            num: self.number("num", 0, 0, max, Code::PARAMETERS)?,
            blockcount: self.number("blockcount", 0, 0, max, Code::PARAMETERS)?,
            mss: (mss > 0).then_some(mss as u16),
            nodelay: self.flag("nodelay"),
            parallel: self.number("parallel", 1, 1, PARALLEL_MAX.into(), Code::PARALLEL)? as u32,
            window: (window > 0).then_some(window as u32),
            len: self.number(
                "len",
                BLOCK_DEFAULT_BYTES.into(),
                1,
                BLOCK_MAX_BYTES.into(),
                Code::BLOCK_SIZE,
            )? as u32,
            bandwidth: self.number("bandwidth", 0, 0, max, Code::TOTAL_RATE)?,
            burst: self.number("burst", 0, 0, BURST_MAX_BLOCKS.into(), Code::BURST)? as u32,
            fq_rate: self.number("fqrate", 0, 0, max, Code::TOTAL_RATE)?,
            tos: self.number("TOS", 0, 0, 255, Code::TOS)? as u8,
            title: self.text("title"),
            extra_data: self.text("extra_data"),
            congestion: self.text("congestion"),
            get_server_output: self.number("get_server_output", 0, 0, max, Code::PARAMETERS)? != 0,
            repeating_payload: self.number("repeating_payload", 0, 0, max, Code::PARAMETERS)? != 0,
            pacing_timer_us: self
                .number("pacing_timer", 1000, 0, max, Code::PARAMETERS)?
                .min(1 << 30) as u32,
            client_version: self.text("client_version"),
        };
        for key in NOT_APPLIED {
            if self.object.get(key).is_some_and(|v| integer(v) != Some(0)) {
                self.warnings
                    .push(format!("the client asks for {key:?}, which has no effect here"));
            }
        }
        Ok((params, self.warnings))
    }

    /// The original looks only whether a flag is there, so all of its clients mean "on" by it.
    fn flag(&mut self, key: &str) -> bool {
        let Some(value) = self.object.get(key) else { return false };
        if !matches!(value, Value::Bool(true)) {
            let shown =
                if value.is_object() || value.is_array() { "a tree" } else { &value.to_string() };
            self.warnings
                .push(format!("the client sends {key:?}: {shown:.40}, which means it is on"));
        }
        true
    }

    fn number(
        &mut self,
        key: &str,
        default: u64,
        min: u64,
        max: u64,
        code: Code,
    ) -> Result<u64, Failure> {
        let Some(value) = self.object.get(key) else { return Ok(default) };
        // Some of these are flags to a few clients.
        let number = match value {
            Value::Bool(b) => Some(i64::from(*b)),
            other => integer(other),
        };
        let Some(number) = number else {
            self.warnings.push(format!("the client sends {key:?} with a wrong type; ignored"));
            return Ok(default);
        };
        match u64::try_from(number) {
            Ok(number) if (min..=max).contains(&number) => Ok(number),
            Ok(_) | Err(_) => Err(Failure::new(code)),
        }
    }

    fn text(&mut self, key: &str) -> Option<String> {
        match self.object.get(key)? {
            Value::String(text) if text.len() <= TEXT_MAX_BYTES => Some(text.clone()),
            _ => {
                self.warnings
                    .push(format!("the client sends {key:?} that is no short text; ignored"));
                None
            }
        }
    }
}
