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
//! Nothing here runs anything, and nothing here trusts its input: nesting, lengths and numbers are
//! bounded, and every refusal names the place.

pub mod ast;
pub mod python;
pub mod shell;
