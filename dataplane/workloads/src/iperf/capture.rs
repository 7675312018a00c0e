//! What a server keeps of its output for a client that asks for it.

use super::host::Host;
use super::report::Report;
use super::results::Results;
use super::{json, text};

/// Longest text kept, bytes.
const TEXT_MAX_BYTES: usize = 256 * 1024;
/// Rows kept for JSON; they take about half of the largest message.
const ROWS_MAX: usize = 1024;

/// The reports of one test, in the form in which the client will get them.
pub(crate) enum Capture {
    /// Lines.
    Text { renderer: text::Renderer, text: String },
    /// A document.
    Json(Box<json::Builder>),
}

impl Capture {
    pub(crate) fn new(host: &dyn Host, as_json: bool, format: text::Format) -> Self {
        if as_json {
            return Self::Json(Box::new(json::Builder::with_rows_max(host, ROWS_MAX)));
        }
        let options = text::Options { format, ..text::Options::default() };
        Self::Text { renderer: text::Renderer::new(options), text: String::new() }
    }

    pub(crate) fn add(&mut self, report: &Report) {
        match self {
            Self::Text { renderer, text } => {
                let lines = renderer.render(report);
                if text.len() + lines.out.len() <= TEXT_MAX_BYTES {
                    text.push_str(&lines.out);
                }
            }
            Self::Json(builder) => {
                // The document is taken before the last report.
                let _ = builder.push(report);
            }
        }
    }

    pub(crate) fn put_into(self, results: &mut Results) {
        match self {
            Self::Text { text, .. } => results.server_output_text = Some(text),
            Self::Json(builder) => results.server_output_json = Some(builder.so_far()),
        }
    }
}
