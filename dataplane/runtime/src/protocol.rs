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
            Self::Stop => json!({"cmd": "stop"}),
        };
        v["id"] = json!(id);
        v.to_string()
    }
}

/// The answer line to request `id`, with its line end.
pub(crate) fn reply(id: &Value, result: Result<Value, String>) -> String {
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
            Request::Stop,
        ] {
            let (id, back) = Request::parse(request.to_line(7).as_bytes()).unwrap();
            assert_eq!((id, back), (json!(7), request));
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
    }
}
