//! Reading the start-up file, without ever reading too much.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::error::{ConfigError, position};

/// Bytes of a start-up file at most. Sensible ones have a few thousand.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The text of the file at `path`, without the mark that some editors put before it.
pub(super) fn read(path: &Path) -> Result<String, ConfigError> {
    let shown = path.display().to_string();
    let fail = |what: String| ConfigError::new(what).in_file(&shown);
    let io = |error: std::io::Error| explain(&shown, &error);
    let metadata = fs::metadata(path).map_err(io)?;
    if metadata.is_dir() {
        return Err(fail("is a directory".into()));
    }
    // A pipe or a device could keep us waiting, or never end.
    if !metadata.is_file() {
        return Err(fail("is not a regular file".into()));
    }
    let too_large = || fail(format!("is larger than {FILE_BYTES_MAX} bytes"));
    if metadata.len() > FILE_BYTES_MAX {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(io)?;
    // It may have grown since, so the limit is asked for again.
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large());
    }
    decode(&shown, bytes)
}

/// Why the file called `name` could not be read.
pub(super) fn explain(name: &str, error: &std::io::Error) -> ConfigError {
    let fail = |what: String| ConfigError::new(what).in_file(name);
    match error.kind() {
        ErrorKind::NotFound => {
            fail("there is no such file".into()).help("samples are in config/ of the sources")
        }
        ErrorKind::PermissionDenied => fail("permission denied".into()),
        _ => fail(format!("cannot be read: {error}")),
    }
}

/// `bytes` as text, without a byte-order mark.
pub(super) fn decode(name: &str, bytes: Vec<u8>) -> Result<String, ConfigError> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
        let mut error = ConfigError::new("is not UTF-8 text").in_file(name);
        error.line = Some(position(&text, valid));
        error
    })?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.into(),
        None => text,
    })
}
