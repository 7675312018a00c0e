//! Standard output, whose reader may leave at any time.

use std::io::{self, ErrorKind, Write};

use crate::fault::{FAILED, Fault, Outcome};

/// Print `text` as it is and flush. A reader that has gone (`| head`) is the end of the program, not
/// an error.
pub(crate) fn print(text: &str) -> Outcome {
    match write(text) {
        Ok(()) => Ok(0),
        Err(e) => Err(Fault::new(FAILED, format!("cannot write to standard output: {e}"))),
    }
}

pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        other => other,
    }
}
