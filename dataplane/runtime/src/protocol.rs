//! The control socket's language: one JSON object per line, a hello first.
//!
//! Server, on connect: `{"millrace":"0.1.0","protocol":1,"instance":"default","pid":4711}`.
//! Client: `{"id":1,"cmd":"sysctl-get","name":"net.ipv4.tcp_sack"}`.
//! Server: `{"id":1,"ok":true,"result":…}` or `{"id":1,"ok":false,"error":"…"}`.
//!
//! Fields are only ever added; a client ignores what it does not know.

use serde_json::{Value, json};

/// Raised when an old client could misunderstand a new server.
pub const PROTOCOL: u64 = 1;

/// Longest line in either direction, bytes.
pub const LINE_MAX: usize = 4 << 20;
/// Longest request line, bytes: what a stranger can make us buffer.
pub const REQUEST_MAX: usize = 64 << 10;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Values of knobs, by full or unique short name.
    SysctlGet {
        /// The names.
        name: String,
    },
    /// Change one knob; answered when every worker runs with it.
    SysctlSet {
        /// The name.
        name: String,
        /// The new value as text.
        value: String,
    },
    /// All knobs.
    SysctlList,
    /// Connections.
    Ss,
    /// Counters and drops, summed over the workers.
    Nstat,
    /// What each worker is at.
    Workers,
    /// How a wire is doing.
    WireShow,
    /// Change a wire: all of it or nothing.
    WireSet {
        /// Such as `forward.loss=3%`.
        changes: Vec<String>,
    },
    /// An orderly stop.
    Stop,
}

impl Request {
    /// The request in this line, with the id that the answer shall carry.
    ///
    /// # Errors
    /// One sentence for the client, with the id as far as it could be read.
    pub fn parse(line: &[u8]) -> Result<(Value, Self), (Value, String)> {
        let value: Value = serde_json::from_slice(line)
            .map_err(|e| (Value::Null, format!("not a JSON object: {e}")))?;
        let id = value.get("id").cloned().unwrap_or(Value::Null);
        let text = |key: &str| match value.get(key).and_then(Value::as_str) {
            Some(s) => Ok(s.to_owned()),
            None => Err((id.clone(), format!("\"{key}\" is missing or not a string"))),
        };
        let request = match text("cmd")?.as_str() {
            "sysctl-get" => Self::SysctlGet { name: text("name")? },
            "sysctl-set" => Self::SysctlSet { name: text("name")?, value: text("value")? },
            "sysctl-list" => Self::SysctlList,
            "ss" => Self::Ss,
            "nstat" => Self::Nstat,
            "workers" => Self::Workers,
            "wire-show" => Self::WireShow,
            "wire-set" => {
                let changes = value.get("changes").and_then(Value::as_array).map(|all| {
                    all.iter().map(|c| c.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
                });
                let Some(Some(changes)) = changes else {
                    return Err((id, "\"changes\" is missing or not a list of strings".to_owned()));
                };
                Self::WireSet { changes }
            }
            "stop" => Self::Stop,
            other => return Err((id, format!("unknown command \"{other}\""))),
        };
        Ok((id, request))
    }

    /// The line that asks for it, without the line end.
    pub fn to_line(&self, id: u64) -> String {
        let mut v = match self {
            Self::SysctlGet { name } => json!({"cmd": "sysctl-get", "name": name}),
            Self::SysctlSet { name, value } => {
                json!({"cmd": "sysctl-set", "name": name, "value": value})
            }
            Self::SysctlList => json!({"cmd": "sysctl-list"}),
            Self::Ss => json!({"cmd": "ss"}),
            Self::Nstat => json!({"cmd": "nstat"}),
            Self::Workers => json!({"cmd": "workers"}),
            Self::WireShow => json!({"cmd": "wire-show"}),
            Self::WireSet { changes } => json!({"cmd": "wire-set", "changes": changes}),
            Self::Stop => json!({"cmd": "stop"}),
        };
        v["id"] = json!(id);
        v.to_string()
    }
}

/// A line that is longer than [`REQUEST_MAX`]; there is no way to go on behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Cuts what a client sends into lines, however it arrives.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where there is no line end.
    searched: usize,
}

impl Lines {
    /// Bytes have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that wait, in whole lines or not.
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// The next line without its end; `None` if it is not whole yet.
    pub fn next_line(&mut self) -> Option<Result<Vec<u8>, TooLong>> {
        let rest = self.bytes.get(self.searched..).unwrap_or_default();
        match rest.iter().position(|b| *b == b'\n') {
            Some(at) if self.searched + at - self.start <= REQUEST_MAX => {
                let end = self.searched + at;
                let line = self.bytes.get(self.start..end).unwrap_or_default().to_vec();
                (self.start, self.searched) = (end + 1, end + 1);
                Some(Ok(line))
            }
            None if self.waiting() <= REQUEST_MAX => {
                // Once per round and not once per line, or many short lines would be slow.
                self.bytes.drain(..self.start);
                (self.start, self.searched) = (0, self.bytes.len());
                None
            }
            _ => {
                *self = Self::default();
                Some(Err(TooLong))
            }
        }
    }
}

/// The answer line to request `id`, with its line end.
pub fn reply(id: &Value, result: Result<Value, String>) -> String {
    let mut line = match result {
        Ok(result) => json!({"id": id, "ok": true, "result": result}),
        Err(error) => json!({"id": id, "ok": false, "error": error}),
    }
    .to_string();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_round_trip() {
        for request in [
            Request::SysctlGet { name: "a.b".into() },
            Request::SysctlSet { name: "a".into(), value: "1 2 \"3".into() },
            Request::SysctlList,
            Request::Ss,
            Request::Nstat,
            Request::Workers,
            Request::WireShow,
            Request::WireSet { changes: vec!["forward.loss=3%".into(), "up=false".into()] },
            Request::Stop,
        ] {
            let (id, back) = Request::parse(request.to_line(7).as_bytes()).unwrap();
            assert_eq!((id, back), (json!(7), request));
        }
    }

    #[test]
    fn lines_are_whole_however_they_arrive_and_have_a_limit() {
        let long = "x".repeat(REQUEST_MAX);
        for (text, expected) in [
            ("a\n\nbc\nd", vec![Ok(1), Ok(0), Ok(2)]),
            (&format!("{long}\ny\n"), vec![Ok(REQUEST_MAX), Ok(1)]),
            (&format!("a\n{long}x\n"), vec![Ok(1), Err(TooLong)]),
            (&format!("a\n{long}x"), vec![Ok(1), Err(TooLong)]),
        ] {
            for size in [1, 4096, text.len()] {
                let mut lines = Lines::default();
                let mut found = Vec::new();
                for read in text.as_bytes().chunks(size) {
                    lines.push(read);
                    while let Some(line) =
                        lines.next_line().filter(|_| found.last() != Some(&Err(TooLong)))
                    {
                        found.push(line.map(|l| l.len()));
                    }
                }
                assert_eq!(found, expected, "reads of {size}");
            }
        }
    }

    #[test]
    fn nonsense_gets_a_sentence_and_keeps_its_id() {
        assert!(Request::parse(b"\xff\x00").unwrap_err().1.starts_with("not a JSON object"));
        assert!(Request::parse(b"[]").unwrap_err().1.contains("\"cmd\""));
        let (id, why) = Request::parse(br#"{"id":"x","cmd":"fly"}"#).unwrap_err();
        assert_eq!((id, why.as_str()), (json!("x"), "unknown command \"fly\""));
        let (_, why) = Request::parse(br#"{"cmd":"sysctl-get","name":5}"#).unwrap_err();
        assert!(why.contains("\"name\""));
        for changes in ["5", "[5]", "null"] {
            let line = format!(r#"{{"cmd":"wire-set","changes":{changes}}}"#);
            let (_, why) = Request::parse(line.as_bytes()).unwrap_err();
            assert_eq!(why, "\"changes\" is missing or not a list of strings");
        }
    }
}
