//! Small programs of two threads over the mailboxes of `runtime`, run by loom under every
//! interleaving that their atomics allow.
//!
//! The file under test is included as it is, over loom's atomics and a queue behind loom's mutex
//! (crossbeam's own queue is not ours to prove). So no flag and no second build of anything is
//! needed: `cargo nextest run -p loom-tests`. `LOOM_LOG=trace LOOM_LOCATION=1` show a failing
//! interleaving; `LOOM_MAX_PREEMPTIONS` bounds larger ones.

#![forbid(unsafe_code)]

#[cfg(test)]
#[allow(dead_code, reason = "each model uses a part")]
#[path = "../../../dataplane/runtime/src/mailbox.rs"]
mod mailbox;
#[cfg(test)]
mod sync;
#[cfg(test)]
mod tests;
