//! The other end of the control socket, for `millrace sysctl`, `ss` and `nstat`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::protocol::{LINE_MAX, PROTOCOL, Request};
use crate::socket::{SocketError, socket_path};

/// An instance that answers within its control loop needs milliseconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Why an instance could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Bad instance name.
    #[error(transparent)]
    Name(#[from] SocketError),
    /// Nobody listens there.
    #[error("no instance \"{instance}\" is running (nothing answers at {path})")]
    NoInstance {
        /// The name asked for.
        instance: String,
        /// Its socket.
        path: PathBuf,
    },
    /// The connection broke or took too long.
    #[error("instance \"{instance}\" does not answer: {error}")]
    Io {
        /// The name asked for.
        instance: String,
        /// What happened.
        error: io::Error,
    },
    /// It is of another generation.
    #[error("instance speaks protocol {theirs}, this program {PROTOCOL}")]
    Protocol {
        /// What it said.
        theirs: u64,
    },
    /// It refused.
    #[error("{0}")]
    Refused(String),
}

/// A connection to a running instance.
pub struct Client {
    instance: String,
    stream: BufReader<UnixStream>,
    next_id: u64,
    /// The hello of the instance.
    pub hello: Value,
}

impl Client {
    /// Connect to `instance`.
    ///
    /// # Errors
    /// No such instance, or it does not speak our protocol.
    pub fn connect(instance: &str) -> Result<Self, ClientError> {
        let path = socket_path(instance)?;
        let stream = UnixStream::connect(&path)
            .map_err(|_| ClientError::NoInstance { instance: instance.to_owned(), path })?;
        let broken = |error| ClientError::Io { instance: instance.to_owned(), error };
        stream.set_read_timeout(Some(ANSWER_LIMIT)).map_err(broken)?;
        stream.set_write_timeout(Some(ANSWER_LIMIT)).map_err(broken)?;
        let mut client = Self {
            instance: instance.to_owned(),
            stream: BufReader::new(stream),
            next_id: 0,
            hello: Value::Null,
        };
        client.hello = client.read()?;
        match client.hello.get("protocol").and_then(Value::as_u64) {
            Some(PROTOCOL) => Ok(client),
            theirs => Err(ClientError::Protocol { theirs: theirs.unwrap_or(0) }),
        }
    }

    /// Ask and wait for the answer.
    ///
    /// # Errors
    /// The instance refused (its sentence), or does not answer.
    pub fn ask(&mut self, request: &Request) -> Result<Value, ClientError> {
        self.next_id += 1;
        let line = request.to_line(self.next_id) + "\n";
        self.stream.get_mut().write_all(line.as_bytes()).map_err(|e| self.broken(e))?;
        loop {
            let mut answer = self.read()?;
            if answer.get("id").and_then(Value::as_u64) != Some(self.next_id) {
                continue;
            }
            return if answer.get("ok").and_then(Value::as_bool) == Some(true) {
                Ok(answer["result"].take())
            } else {
                Err(ClientError::Refused(
                    answer.get("error").and_then(Value::as_str).unwrap_or("refused").to_owned(),
                ))
            };
        }
    }

    fn read(&mut self) -> Result<Value, ClientError> {
        let mut line = Vec::new();
        let read = (&mut self.stream).take(LINE_MAX as u64).read_until(b'\n', &mut line);
        match read {
            Ok(0) => Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => serde_json::from_slice(&line)
                .map_err(|e| self.broken(io::Error::new(io::ErrorKind::InvalidData, e))),
            Err(e) => Err(self.broken(e)),
        }
    }

    fn broken(&self, error: io::Error) -> ClientError {
        ClientError::Io { instance: self.instance.clone(), error }
    }
}
