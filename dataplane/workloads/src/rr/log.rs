//! The text format of HdrHistogram logs.

use core::time::Duration;
use std::io::{self, Write};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};

use super::hist::Latencies;

/// A log in the making: one line per interval and histogram.
pub struct HdrLog<W> {
    to: W,
    serializer: V2DeflateSerializer,
}

impl<W: Write> HdrLog<W> {
    /// Begin with the lines that readers expect. `unix_secs` is civil time of the start.
    ///
    /// # Errors
    /// What writing answers.
    pub fn begin(mut to: W, unix_secs: f64) -> io::Result<Self> {
        writeln!(to, "#[Histogram log format version 1.3]")?;
        writeln!(to, "#[millrace rr: times in nanoseconds; those without a tag are round trips]")?;
        writeln!(to, "#[StartTime: {unix_secs:.3} (seconds since epoch)]")?;
        writeln!(
            to,
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
        )?;
        Ok(Self { to, serializer: V2DeflateSerializer::new() })
    }

    /// One line.
    ///
    /// # Errors
    /// What writing answers.
    pub fn add(
        &mut self,
        tag: Option<&str>,
        start: Duration,
        length: Duration,
        times: &Latencies,
    ) -> io::Result<()> {
        let mut writer =
            IntervalLogWriterBuilder::new().begin_log_with(&mut self.to, &mut self.serializer)?;
        writer.write_histogram(times.inner(), start, length, tag.and_then(Tag::new)).map_err(
            |e| match e {
                IntervalLogWriterError::IoError(e) => e,
                IntervalLogWriterError::SerializeError(e) => io::Error::other(e),
            },
        )?;
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn a_reader_finds_what_was_written() {
        let mut bytes = Vec::new();
        let mut times = Latencies::new();
        for us in [1, 2, 3000] {
            times.record(Duration::from_micros(us));
        }
        let mut log = HdrLog::begin(&mut bytes, 1000.5).expect("memory");
        let second = Duration::from_secs(1);
        log.add(None, Duration::ZERO, second, &times).expect("memory");
        log.add(Some("setup"), second, second, &times).expect("memory");
        let mut tags = Vec::new();
        for entry in IntervalLogIterator::new(&bytes) {
            if let LogEntry::Interval(line) = entry.expect("a line") {
                tags.push(line.tag().map(|t| t.as_str().to_owned()));
                let packed = line.encoded_histogram().as_bytes();
                let raw = base64_decode(packed);
                let mut reader = Deserializer::new();
                let back = reader.deserialize::<u64, _>(&mut raw.as_slice()).expect("a histogram");
                assert_eq!(back.len(), 3);
                assert_eq!(back.max(), times.figures().max);
            }
        }
        assert_eq!(tags, [None, Some("setup".to_owned())]);
    }

    /// Enough of base64 to read what the crate under test wrote.
    fn base64_decode(text: &[u8]) -> Vec<u8> {
        const SIGNS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut out = Vec::new();
        let (mut bits, mut count) = (0u32, 0);
        for sign in text.iter().filter(|s| **s != b'=') {
            let value = SIGNS.iter().position(|s| s == sign).expect("base64") as u32;
            bits = (bits << 6) | value;
            count += 6;
            if count >= 8 {
                count -= 8;
                out.push((bits >> count) as u8);
            }
        }
        out
    }
}
