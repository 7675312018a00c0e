//! Splitting shell text.
use super::Step;
/// Splits.
pub fn parse(_text: &str, _line: u32) -> Vec<Step> {
    Vec::new()
}
