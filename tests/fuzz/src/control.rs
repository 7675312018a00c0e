//! The control socket: bytes from a stranger with access to it.

use config::{Knobs, Profile, Source};
use runtime::protocol::{Lines, REQUEST_MAX, Request, reply};
use serde_json::{Value, json};

/// What a client gets to hear, and how it ends.
#[derive(Debug, PartialEq)]
enum Heard {
    Asked(Value, Request),
    Refused(Value, String),
    TooLong,
}

fn feed<'a>(reads: impl Iterator<Item = &'a [u8]>) -> Vec<Heard> {
    let mut lines = Lines::default();
    let mut heard = Vec::new();
    for read in reads {
        lines.push(read);
        while let Some(line) = lines.next_line() {
            let Ok(line) = line else {
                heard.push(Heard::TooLong);
                return heard;
            };
            heard.push(match Request::parse(&line) {
                Ok((id, request)) => Heard::Asked(id, request),
                Err((id, why)) => Heard::Refused(id, why),
            });
        }
        assert!(lines.waiting() <= REQUEST_MAX, "buffers more than a request");
    }
    heard
}

/// First byte: how the stream is cut into reads. In the rest, `0xff` bytes stand for a thousand
/// blanks, so that short inputs can be long lines.
pub(crate) fn run(bytes: &[u8]) {
    let (cut, bytes) = bytes.split_first().map_or((1, bytes), |(first, rest)| (*first, rest));
    let mut stream = Vec::new();
    for byte in bytes {
        match byte {
            0xff => stream.resize(stream.len() + 1000, b' '),
            byte => stream.push(*byte),
        }
    }
    let whole = feed(core::iter::once(&stream[..]));
    let size = usize::from(cut).max(1) * if stream.len() > 10_000 { 64 } else { 1 };
    assert_eq!(feed(stream.chunks(size)), whole, "cut into reads of {size}");

    let mut knobs = Knobs::new(Profile::Millrace);
    for heard in &whole {
        let (id, result) = match heard {
            Heard::TooLong => break,
            Heard::Refused(id, why) => (id, Err(why.clone())),
            Heard::Asked(id, request) => {
                let line = request.to_line(7);
                assert!(!line.contains('\n'));
                assert_eq!(Request::parse(line.as_bytes()), Ok((json!(7), request.clone())));
                // As the control thread does it.
                let result = match request {
                    Request::SysctlGet { name } => knobs.get(name).map_err(|e| e.to_string()),
                    Request::SysctlSet { name, value } => knobs
                        .set(name, value, Source::Runtime)
                        .map(|change| change.new)
                        .map_err(|e| e.to_string()),
                    _ => Ok(String::new()),
                };
                (id, result.map(Value::from))
            }
        };
        let ok = result.is_ok();
        let line = reply(id, result);
        assert_eq!(line.find('\n'), Some(line.len() - 1), "one line per answer");
        let back: Value = serde_json::from_str(&line).expect("an answer is JSON");
        assert_eq!((&back["id"], &back["ok"]), (id, &json!(ok)));
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let requests = [
        Request::SysctlGet { name: "net.ipv4.tcp_rmem".into() },
        Request::SysctlSet { name: "tcp_sack".into(), value: "0".into() },
        Request::SysctlList,
        Request::Ss,
        Request::Nstat,
        Request::Workers,
        Request::Stop,
    ];
    let lines: Vec<String> = requests.iter().zip(1..).map(|(r, id)| r.to_line(id)).collect();
    let all = lines.join("\n");
    let long = [&[9; 1][..], b"{\"id\":1,", &[0xff; 66], b"\"cmd\":\"ss\"}\n{}\n"].concat();
    vec![
        [&[5], all.as_bytes(), b"\n"].concat(),
        b"\x01{\"id\":{\"a\":[1,2,null]},\"cmd\":\"sysctl-set\",\"name\":\"\\u0000\\n\",\"value\":5}\n\n[]\n".to_vec(),
        long,
    ]
}
