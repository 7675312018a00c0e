//! The control socket: a Unix stream socket that the control thread polls and never waits for.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::protocol::{Lines, PROTOCOL, REQUEST_MAX, Request, reply};

/// Clients at a time; one more is told so and closed.
const CLIENTS_MAX: usize = 16;
/// Requests of one client that wait for their answer at most; further ones stay unread.
const REQUESTS_WAITING_MAX: usize = 16;
/// Bytes of answers that a client has not read, beyond which nothing more is read from it. One answer
/// may go beyond it.
const OUTPUT_HIGH: usize = 1 << 20;
/// A client that says nothing for this long is closed.
const CLIENT_IDLE: Duration = Duration::from_secs(300);
/// A socket path must fit `sockaddr_un`.
const PATH_MAX: usize = 107;

/// Why the control socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The instance name would leave the directory or is empty.
    #[error("instance name \"{0}\" may only have letters, digits, '.', '_' and '-'")]
    Name(String),
    /// Longer than the operating system allows.
    #[error("control socket path is longer than {PATH_MAX} bytes: {0}")]
    TooLong(PathBuf),
    /// Another live instance has the name.
    #[error("instance \"{instance}\" is already running (control socket {path})")]
    InUse {
        /// Its name.
        instance: String,
        /// Its socket.
        path: PathBuf,
    },
    /// Anything else.
    #[error("control socket {path}: {error}")]
    Io {
        /// The socket or its directory.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
}

/// Where the socket of `instance` is: `/run/millrace/NAME.sock` for root, under `XDG_RUNTIME_DIR`
/// (or else the temporary directory) for everybody else.
///
/// # Errors
/// A name that is no plain file name, or a path that is too long.
pub fn socket_path(instance: &str) -> Result<PathBuf, SocketError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if instance.is_empty() || instance.starts_with('.') || !instance.chars().all(plain) {
        return Err(SocketError::Name(instance.to_owned()));
    }
    let directory = if is_root() {
        PathBuf::from("/run/millrace")
    } else {
        std::env::var_os("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|p| p.is_dir())
            .unwrap_or_else(std::env::temp_dir)
            .join("millrace")
    };
    let path = directory.join(format!("{instance}.sock"));
    if path.as_os_str().len() > PATH_MAX {
        return Err(SocketError::TooLong(path));
    }
    Ok(path)
}

/// The owner of our own `/proc` entry is the effective user.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// A client's place; survives as a name for later answers even if the client has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientId(u64);

struct Client {
    id: ClientId,
    stream: UnixStream,
    input: Lines,
    output: Vec<u8>,
    last_heard: Instant,
    /// Requests that it has not been answered.
    unanswered: usize,
    /// No more requests are read.
    closing: bool,
    /// Nothing can be written to it.
    lost: bool,
}

pub(crate) struct ControlSocket {
    path: PathBuf,
    listener: UnixListener,
    clients: Vec<Client>,
    next_id: u64,
    hello: String,
}

impl ControlSocket {
    pub(crate) fn open(instance: &str) -> Result<Self, SocketError> {
        let path = socket_path(instance)?;
        let io = |error| SocketError::Io { path: path.clone(), error };
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(io)?;
        }
        let listener = match UnixListener::bind(&path) {
            Ok(listener) => listener,
            // A file that nobody answers at was left by an instance that was killed.
            Err(e) if e.kind() == ErrorKind::AddrInUse => {
                if UnixStream::connect(&path).is_ok() {
                    return Err(SocketError::InUse { instance: instance.to_owned(), path });
                }
                fs::remove_file(&path).map_err(io)?;
                UnixListener::bind(&path).map_err(io)?
            }
            Err(e) => return Err(io(e)),
        };
        // Whoever may write to the socket can stop the dataplane.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(io)?;
        listener.set_nonblocking(true).map_err(io)?;
        let mut hello = json!({
            "millrace": env!("CARGO_PKG_VERSION"),
            "protocol": PROTOCOL,
            "instance": instance,
            "pid": std::process::id(),
        })
        .to_string();
        hello.push('\n');
        Ok(Self { path, listener, clients: Vec::new(), next_id: 0, hello })
    }

    /// Accept, read and write whatever can be without waiting; returns the requests that came.
    pub(crate) fn poll(&mut self) -> Vec<(ClientId, Value, Request)> {
        self.accept();
        let mut requests = Vec::new();
        for client in &mut self.clients {
            client.read();
            while let Some((id, request)) = client.next_request() {
                requests.push((client.id, id, request));
            }
            client.write();
        }
        self.clients.retain(|c| !c.is_done());
        requests
    }

    /// Answer; nothing happens if the client has left meanwhile.
    pub(crate) fn answer(&mut self, to: ClientId, id: &Value, result: Result<Value, String>) {
        if let Some(client) = self.clients.iter_mut().find(|c| c.id == to) {
            client.unanswered = client.unanswered.saturating_sub(1);
            client.say(id, result);
            client.write();
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.next_id += 1;
            let mut client = Client {
                id: ClientId(self.next_id),
                stream,
                input: Lines::default(),
                output: self.hello.clone().into_bytes(),
                last_heard: Instant::now(),
                unanswered: 0,
                closing: false,
                lost: false,
            };
            if self.clients.len() >= CLIENTS_MAX {
                client.say(&Value::Null, Err("too many control clients".to_owned()));
                client.write();
                continue;
            }
            self.clients.push(client);
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and a later start cleans up anyway.
        let _ = fs::remove_file(&self.path);
    }
}

impl Client {
    /// Whether more of it may be taken in: what it does not wait for, nobody has to remember.
    fn may_ask(&self) -> bool {
        self.unanswered < REQUESTS_WAITING_MAX && self.output.len() < OUTPUT_HIGH
    }

    fn read(&mut self) {
        let mut chunk = [0u8; 4096];
        while !self.closing && self.may_ask() && self.input.waiting() <= REQUEST_MAX {
            match self.stream.read(&mut chunk) {
                Ok(0) => self.closing = true,
                Ok(n) => {
                    self.input.push(&chunk[..n]);
                    self.last_heard = Instant::now();
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.closing = true,
            }
        }
        if self.last_heard.elapsed() > CLIENT_IDLE {
            self.closing = true;
            self.lost = true;
        }
    }

    /// The next request that makes sense; what does not is answered here.
    fn next_request(&mut self) -> Option<(Value, Request)> {
        while self.may_ask() {
            let Ok(line) = self.input.next_line()? else {
                self.say(&Value::Null, Err(format!("request longer than {REQUEST_MAX} bytes")));
                self.closing = true;
                return None;
            };
            match Request::parse(&line) {
                Ok(asked) => {
                    self.unanswered += 1;
                    return Some(asked);
                }
                Err((id, why)) => self.say(&id, Err(why)),
            }
        }
        None
    }

    fn say(&mut self, id: &Value, result: Result<Value, String>) {
        self.output.extend_from_slice(reply(id, result).as_bytes());
    }

    /// It asks nothing more and has all its answers, or cannot get them.
    fn is_done(&self) -> bool {
        let answered = self.output.is_empty() && self.unanswered == 0 && self.may_ask();
        self.lost || self.closing && answered
    }

    fn write(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(n) if n > 0 => drop(self.output.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                _ => {
                    self.output.clear();
                    self.lost = true;
                }
            }
        }
    }
}
