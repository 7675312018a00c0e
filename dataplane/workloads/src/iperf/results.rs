//! The results object that both sides exchange at the end.

use serde_json::{Map, Number, Value};

use super::code::{Code, Failure};
use super::report::CpuPercent;

/// Most streams that a peer may report on: 128 in each direction.
const STREAMS_MAX: usize = 256;

/// An integer as other implementations write it: plain, as a float, or negative as unsigned 64-bit
/// (versions 3.12 and 3.13), which is folded back. `None` if it is no number.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    let Value::Number(number) = value else { return None };
    if let Some(signed) = number.as_i64() {
        return Some(signed);
    }
    if let Some(unsigned) = number.as_u64() {
        // Beyond i64::MAX, or the line above had taken it.
        return Some(unsigned as i64);
    }
    // `as` saturates; a float at or beyond 2^63 is the same fold as above.
    let float = number.as_f64()?;
    if float >= 9_223_372_036_854_775_808.0 {
        return Some((float - 18_446_744_073_709_551_616.0).min(-1.0) as i64);
    }
    Some(float as i64)
}

/// A number of seconds or per cent; `None` if it is no number.
fn float(value: &Value) -> Option<f64> {
    value.as_f64().filter(|f| f.is_finite())
}

/// A float as JSON, without fraction if it has none.
pub(crate) fn number(f: f64) -> Value {
    // Whole numbers up to 2^53 are exact.
    if f.fract() == 0.0 && f.abs() <= 9_007_199_254_740_992.0 {
        return Value::from(f as i64);
    }
    Number::from_f64(f).map_or(Value::from(0), Value::Number)
}

/// One stream as its side saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StreamResult {
    pub(crate) id: u32,
    pub(crate) bytes: u64,
    /// `None` (−1 on the wire) from a side that does not send it.
    pub(crate) retransmits: Option<u64>,
    /// Seconds.
    pub(crate) start_time: f64,
    /// Seconds; 0 when the peer did not say.
    pub(crate) end_time: f64,
}

/// What a sender knows of its retransmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SenderRetransmits {
    /// A sender that reports them.
    Known,
    /// A sender that does not.
    Unknown,
    /// Only a receiver.
    NotSending,
}

/// The results object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Results {
    pub(crate) cpu: CpuPercent,
    pub(crate) sender_retransmits: SenderRetransmits,
    pub(crate) congestion_used: Option<String>,
    pub(crate) server_output_text: Option<String>,
    pub(crate) server_output_json: Option<Value>,
    pub(crate) streams: Vec<StreamResult>,
    /// Our own extension.
    pub(crate) x_stack: Option<Value>,
}

impl Results {
    pub(crate) fn to_json(&self) -> Value {
        let mut o = Map::new();
        let mut put = |key: &str, value: Value| o.insert(key.to_owned(), value);
        put("cpu_util_total", number(self.cpu.total));
        put("cpu_util_user", number(self.cpu.user));
        put("cpu_util_system", number(self.cpu.system));
        let has = match self.sender_retransmits {
            SenderRetransmits::Known => 1,
            SenderRetransmits::Unknown => 0,
            SenderRetransmits::NotSending => -1,
        };
        put("sender_has_retransmits", has.into());
        if let Some(name) = &self.congestion_used {
            put("congestion_used", name.as_str().into());
        }
        if let Some(text) = &self.server_output_text {
            put("server_output_text", text.as_str().into());
        }
        if let Some(value) = &self.server_output_json {
            put("server_output_json", value.clone());
        }
        put("streams", self.streams.iter().map(StreamResult::to_json).collect());
        if let Some(value) = &self.x_stack {
            put("x_stack", value.clone());
        }
        Value::Object(o)
    }

    /// Read a peer's results; `known` says which stream ids exist.
    pub(crate) fn from_json(bytes: &[u8], known: &dyn Fn(u32) -> bool) -> Result<Self, Failure> {
        let refuse = |why: &str| Failure::with(Code::RECV_RESULTS, why);
        let value: Value = serde_json::from_slice(bytes).map_err(|e| refuse(&e.to_string()))?;
        let required = |key: &str| value.get(key).and_then(float).ok_or(refuse(key));
        let cpu = CpuPercent {
            total: required("cpu_util_total")?,
            user: required("cpu_util_user")?,
            system: required("cpu_util_system")?,
        };
        let has = value.get("sender_has_retransmits").and_then(integer);
        let sender_retransmits = match has.ok_or(refuse("sender_has_retransmits"))? {
            1.. => SenderRetransmits::Known,
            0 => SenderRetransmits::Unknown,
            _ => SenderRetransmits::NotSending,
        };
        let Some(Value::Array(list)) = value.get("streams") else {
            return Err(refuse("streams"));
        };
        if list.len() > STREAMS_MAX {
            return Err(refuse("too many streams"));
        }
        let streams: Result<Vec<_>, _> =
            list.iter().map(|item| StreamResult::from_json(item, known)).collect();
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            cpu,
            sender_retransmits,
            congestion_used: text("congestion_used"),
            server_output_text: text("server_output_text"),
            server_output_json: value.get("server_output_json").cloned(),
            streams: streams?,
            x_stack: value.get("x_stack").cloned(),
        })
    }

    pub(crate) fn stream(&self, id: u32) -> Option<&StreamResult> {
        self.streams.iter().find(|s| s.id == id)
    }
}

impl StreamResult {
    fn to_json(&self) -> Value {
        // A count beyond 2^63 bytes cannot be reached; -1 is what the original sends for "none".
        let retransmits = self.retransmits.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
        let mut o = Map::new();
        let mut put = |key: &str, value: Value| o.insert(key.to_owned(), value);
        put("id", self.id.into());
        put("bytes", self.bytes.into());
        put("retransmits", retransmits.into());
        for key in ["jitter", "errors", "omitted_errors", "packets", "omitted_packets"] {
            put(key, 0.into());
        }
        put("start_time", number(self.start_time));
        put("end_time", number(self.end_time));
        Value::Object(o)
    }

    fn from_json(value: &Value, known: &dyn Fn(u32) -> bool) -> Result<Self, Failure> {
        let refuse = |why: &str| Failure::with(Code::RECV_RESULTS, why);
        let required = |key: &str| value.get(key).and_then(integer).ok_or(refuse(key));
        let id = required("id")?;
        let id = u32::try_from(id).ok().filter(|id| known(*id));
        let id = id.ok_or(Failure::new(Code::STREAM_ID))?;
        let bytes = required("bytes")?;
        let retransmits = required("retransmits")?;
        value.get("jitter").and_then(float).ok_or(refuse("jitter"))?;
        required("errors")?;
        required("packets")?;
        if value.get("omitted_errors").is_some() != value.get("omitted_packets").is_some() {
            return Err(refuse("omitted_errors and omitted_packets go together"));
        }
        let seconds = |key: &str| value.get(key).and_then(float).filter(|s| *s >= 0.0);
        Ok(Self {
            id,
            bytes: u64::try_from(bytes).unwrap_or(0),
            retransmits: u64::try_from(retransmits).ok(),
            start_time: seconds("start_time").unwrap_or(0.0),
            end_time: seconds("end_time").unwrap_or(0.0),
        })
    }
}
