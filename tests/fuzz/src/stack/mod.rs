//! A whole stack against a peer, time and an application that all do what the input says.
//!
//! An input is a byte for the world and then steps: one byte that says what, and a few that say how.
//! Numbers are relative to where the connection stands, so that what is mutated still means
//! something, and steps such as "the peer behaves well for a while" take a short input deep. The high
//! bit of a step keeps the stack from turning: what several steps deliver then comes in one burst.
//!
//! What must hold, beside the assertions of the stack itself:
//! - each frame that is sent is sound: lengths, checksums, the link address of a station we know;
//! - payload on the wire is what the application wrote, at its place, also when sent again;
//! - nothing but a probe of one byte goes beyond the furthest edge that the peer has offered;
//! - the edge of the window that we offer never goes back (but for its unit);
//! - what the application reads is what the peer sent, in order;
//! - each connection that the application was told of, or asked for, ends exactly once;
//! - a stack with work has a deadline or wants to turn; at one instant it comes to rest;
//! - at the end all tables are empty and all buffers are back;
//! - and, with the bit for it, all the same when frames come cut into small buffers.

mod app;
mod peer;
mod steps;
mod watch;
mod world;

use world::World;

use crate::input::Input;

/// Steps of a run at most.
const STEPS_MAX: usize = 300;

/// Bits of the first byte.
pub(super) const TRUST: u8 = 1;
pub(super) const TINY: u8 = 2;
pub(super) const TWIN: u8 = 4;
pub(super) const QUIET_APP: u8 = 8;
/// Two bits: the window scale that the peer offers.
pub(super) const SCALE_SHIFT: u8 = 4;
/// Small tables, or ample ones.
pub(super) const TIGHT: u8 = 64;

pub(crate) fn run(bytes: &[u8]) {
    let whole = play(bytes, None);
    if bytes.first().is_some_and(|choice| choice & TWIN != 0) {
        for cuts in [&[1, 1, 1, 1, 1, 1][..], &[14, 20, 20], &[13, 1, 33, 7]] {
            assert_eq!(play(bytes, Some(cuts)), whole, "frames cut into {cuts:?}");
        }
    }
}

/// One run to its end; returns what was sent and counted, as text.
fn play(bytes: &[u8], cuts: Option<&'static [usize]>) -> String {
    let mut input = Input::new(bytes);
    let mut world = World::new(input.u8(), cuts);
    let mut steps = 0;
    while let Some(step) = input.next()
        && steps < STEPS_MAX
    {
        steps += 1;
        world.step(step, &mut input);
    }
    world.wind_down()
}

pub(crate) use steps::seeds;
