//! In which state is this machine? Prints `near` or `far` (round trip of a cache line between cores 0
//! and 1), and how many simple operations a nanosecond core 0 does in eight independent chains.

#![forbid(unsafe_code)]

fn main() {
    println!("{}", benches::probe::State::probe());
}
