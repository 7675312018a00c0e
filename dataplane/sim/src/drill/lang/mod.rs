//! The language of packetdrill scripts: text to tree and back.
//!
//! ```text
//! text --lexer--> tokens --parser--> ast::Script --runner--> verdict
//!                                      |    ^
//!                                    print  |
//!                                      v    |
//!                                     text -+
//! ```
//!
//! - [`parse`] reads a script; [`ScriptError`] says what is wrong and where, with the line.
//! - [`Settings`] is what the options of a script and of the command line amount to.
//! - [`shell`] turns shell text into typed steps, [`python`] runs assertion snippets.
//! - [`symbols`] has the numbers behind names; `print` writes everything in script notation.
//! - [`unsupported`] lists what a script asks for that somebody cannot do.
//!
//! Nothing here runs anything, and nothing here trusts its input: nesting, lengths and numbers are
//! bounded, and every refusal names the place.

pub mod ast;
mod error;
mod lexer;
pub mod options;
mod parser;
pub mod print;
pub mod python;
pub mod shell;
pub mod symbols;
mod unsupported;

pub use error::{ScriptError, render};
pub use lexer::SCRIPT_BYTES_MAX;
pub use options::{Definitions, IpVersion, Settings};
pub use parser::{DEPTH_MAX, SECONDS_MAX, parse, parse_packet, parse_syscall};
pub use unsupported::{Capabilities, Everything, unsupported};
