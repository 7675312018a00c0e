//! The control connection: exact-length reads, so that nothing is lost when TCP joins what was
//! written apart, and queued writes, so that nothing is lost when TCP takes only a part.

use base::ConnId;
use serde_json::Value;
use stack::Io;

use super::code::Code;

/// A cookie on the wire: 36 characters and a zero.
pub(crate) const COOKIE_LEN: usize = 37;
/// Longest parameter object, bytes (the original's limit since 3.18).
pub(crate) const PARAMS_MAX_BYTES: usize = 8192;
/// Longest results object, bytes; 256 streams take about 40 KiB, a server's output more.
pub(crate) const RESULTS_MAX_BYTES: usize = 1 << 20;
/// Most bytes queued for sending: an error record or state beside one message.
const QUEUE_MAX_BYTES: usize = RESULTS_MAX_BYTES + 1024;

/// What a state byte means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    TestStart,
    TestRunning,
    TestEnd,
    ParamExchange,
    CreateStreams,
    ServerTerminate,
    ClientTerminate,
    ExchangeResults,
    DisplayResults,
    IperfDone,
    AccessDenied,
    ServerError,
}

impl State {
    const ALL: [(u8, Self); 12] = [
        (1, Self::TestStart),
        (2, Self::TestRunning),
        (4, Self::TestEnd),
        (9, Self::ParamExchange),
        (10, Self::CreateStreams),
        (11, Self::ServerTerminate),
        (12, Self::ClientTerminate),
        (13, Self::ExchangeResults),
        (14, Self::DisplayResults),
        (16, Self::IperfDone),
        (0xFF, Self::AccessDenied),
        (0xFE, Self::ServerError),
    ];

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.iter().find(|(b, _)| *b == byte).map(|(_, state)| *state)
    }

    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::TestStart => 1,
            Self::TestRunning => 2,
            Self::TestEnd => 4,
            Self::ParamExchange => 9,
            Self::CreateStreams => 10,
            Self::ServerTerminate => 11,
            Self::ClientTerminate => 12,
            Self::ExchangeResults => 13,
            Self::DisplayResults => 14,
            Self::IperfDone => 16,
            Self::AccessDenied => 0xFF,
            Self::ServerError => 0xFE,
        }
    }
}

/// The first 37 bytes of every connection.
pub(crate) type Cookie = [u8; COOKIE_LEN];

/// A new random cookie.
pub(crate) fn new_cookie(io: &mut dyn Io) -> Cookie {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie = [0; COOKIE_LEN];
    let (text, _) = cookie.split_at_mut(COOKIE_LEN - 1);
    for chunk in text.chunks_mut(12) {
        let mut bits = io.random();
        for byte in chunk {
            // The mask keeps the index below 32.
            *byte = ALPHABET[(bits & 31) as usize];
            bits >>= 5;
        }
    }
    cookie
}

/// A cookie for people: its characters up to the zero, anything odd replaced.
pub(crate) fn cookie_text(cookie: &Cookie) -> String {
    let end = cookie.iter().position(|b| *b == 0).unwrap_or(COOKIE_LEN - 1);
    let text = cookie.get(..end).unwrap_or_default();
    text.iter().map(|b| if b.is_ascii_graphic() { char::from(*b) } else { '?' }).collect()
}

/// What a read found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input<T> {
    /// All of it.
    Ready(T),
    /// Not all of it yet.
    Pending,
    /// The peer has closed, or the connection is gone.
    Closed,
    /// A length of zero or beyond the limit.
    BadLength(u32),
}

/// Reads exactly so many bytes, in as many pieces as they come.
#[derive(Debug, Default)]
pub(crate) struct Exact {
    buf: Vec<u8>,
    end: bool,
}

impl Exact {
    /// Fill up to `want` bytes and say whether that many are here. The buffer grows with what
    /// arrives, never with what was announced.
    pub(crate) fn fill(&mut self, io: &mut dyn Io, conn: ConnId, want: usize) -> Input<()> {
        if self.buf.len() < want {
            let buf = &mut self.buf;
            let got = io.recv(conn, &mut |bytes| {
                let take = bytes.len().min(want.saturating_sub(buf.len()));
                buf.extend(bytes.iter().take(take));
                take
            });
            self.end |= got.is_none_or(|r| r.end);
        }
        match (self.buf.len() >= want, self.end) {
            (true, _) => Input::Ready(()),
            (false, true) => Input::Closed,
            (false, false) => Input::Pending,
        }
    }

    /// Take all that has been read.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buf)
    }

    pub(crate) fn has_bytes(&self) -> bool {
        !self.buf.is_empty()
    }
}

/// Our end of a control connection.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) conn: ConnId,
    input: Exact,
    output: Vec<u8>,
    sent: usize,
}

impl Control {
    pub(crate) fn new(conn: ConnId) -> Self {
        Self { conn, input: Exact::default(), output: Vec::new(), sent: 0 }
    }

    /// Read one byte.
    pub(crate) fn byte(&mut self, io: &mut dyn Io) -> Input<u8> {
        match self.input.fill(io, self.conn, 1) {
            Input::Ready(()) => match self.input.take().first() {
                Some(byte) => Input::Ready(*byte),
                None => Input::Pending,
            },
            Input::Pending => Input::Pending,
            Input::Closed => Input::Closed,
            Input::BadLength(n) => Input::BadLength(n),
        }
    }

    /// Read an error record, without the state byte before it: code and errno.
    pub(crate) fn error_record(&mut self, io: &mut dyn Io) -> Input<(Code, i32)> {
        match self.input.fill(io, self.conn, 8) {
            Input::Ready(()) => {
                let bytes = self.input.take();
                let int = |at: usize| {
                    let four = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
                    i32::from_be_bytes(four.copied().unwrap_or_default())
                };
                Input::Ready((Code(int(0)), int(4)))
            }
            Input::Pending => Input::Pending,
            Input::Closed => Input::Closed,
            Input::BadLength(n) => Input::BadLength(n),
        }
    }

    /// Read a message of at most `max` bytes.
    pub(crate) fn message(&mut self, io: &mut dyn Io, max: usize) -> Input<Vec<u8>> {
        match self.input.fill(io, self.conn, 4) {
            Input::Ready(()) => {}
            Input::Pending => return Input::Pending,
            Input::Closed => return Input::Closed,
            Input::BadLength(n) => return Input::BadLength(n),
        }
        let prefix = self.input.buf.first_chunk::<4>().copied().unwrap_or_default();
        let announced = u32::from_be_bytes(prefix);
        let len = announced as usize;
        if len == 0 || len > max {
            return Input::BadLength(announced);
        }
        match self.input.fill(io, self.conn, 4 + len) {
            Input::Ready(()) => Input::Ready(self.input.take().split_off(4)),
            Input::Pending => Input::Pending,
            Input::Closed => Input::Closed,
            Input::BadLength(n) => Input::BadLength(n),
        }
    }

    /// Something has been read of a message that is not whole yet.
    pub(crate) fn is_reading(&self) -> bool {
        self.input.has_bytes()
    }

    pub(crate) fn send_state(&mut self, io: &mut dyn Io, state: State) {
        self.send(io, &[state.byte()]);
    }

    pub(crate) fn send_error(&mut self, io: &mut dyn Io, code: Code) {
        let mut record = vec![State::ServerError.byte()];
        record.extend(code.0.to_be_bytes());
        record.extend(0i32.to_be_bytes());
        self.send(io, &record);
    }

    /// Prefix and body go into one write: apart, each message could cost a delayed-ACK time.
    pub(crate) fn send_message(&mut self, io: &mut dyn Io, value: &Value) {
        let body = value.to_string();
        let mut message = u32::try_from(body.len()).unwrap_or(0).to_be_bytes().to_vec();
        message.extend(body.as_bytes());
        self.send(io, &message);
    }

    pub(crate) fn send(&mut self, io: &mut dyn Io, bytes: &[u8]) {
        // Our own messages are bounded well below this; a peer that does not read gets no more.
        if self.output.len() + bytes.len() <= QUEUE_MAX_BYTES {
            self.output.extend(bytes);
        }
        self.flush(io);
    }

    /// Send what is queued; a closed connection shows when reading.
    pub(crate) fn flush(&mut self, io: &mut dyn Io) {
        if let Some(rest) = self.output.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match io.send(self.conn, rest, false) {
                Ok(n) => self.sent = self.sent.saturating_add(n),
                Err(_) => self.sent = self.output.len(),
            }
        }
        if self.sent >= self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
    }

    /// Everything has been handed to TCP.
    pub(crate) fn is_flushed(&self) -> bool {
        self.output.is_empty()
    }
}
