//! The randomness door.
//!
//! Bits that appear on the wire and bits that stay secret come from two different generators, so
//! that a port number tells an attacker nothing about a key: see [`Random::secret`].

/// A source of random numbers. In production it is seeded from the operating system, in a test
/// from the seed that the test prints.
pub trait Random {
    /// Sixty-four bits that may become visible on the wire (ports, jitter, identifiers).
    fn next_u64(&mut self) -> u64;

    /// Sixty-four bits that never leave the process (hash keys, cookie secrets).
    fn secret(&mut self) -> u64;

    /// A number in `0..bound`; zero when `bound` is zero. The bias is below 2^-32.
    fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u32
    }
}

/// A small fast generator (xoshiro256**, seeded through splitmix64), twice: one stream for visible
/// and one for secret bits. Not a cryptographic generator; keys are drawn from it only after the
/// operating system has seeded it.
#[derive(Clone, Debug)]
pub struct SeededRandom {
    visible: Xoshiro,
    hidden: Xoshiro,
}

impl SeededRandom {
    /// A generator whose whole output follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut mix = SplitMix(seed);
        Self { visible: Xoshiro::new(&mut mix), hidden: Xoshiro::new(&mut mix) }
    }

    /// A generator from two independent seeds, for production use.
    pub fn from_seeds(visible: u64, hidden: u64) -> Self {
        Self {
            visible: Xoshiro::new(&mut SplitMix(visible)),
            hidden: Xoshiro::new(&mut SplitMix(hidden)),
        }
    }
}

impl Random for SeededRandom {
    fn next_u64(&mut self) -> u64 {
        self.visible.next()
    }

    fn secret(&mut self) -> u64 {
        self.hidden.next()
    }
}

#[derive(Clone, Debug)]
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[derive(Clone, Debug)]
struct Xoshiro([u64; 4]);

impl Xoshiro {
    fn new(mix: &mut SplitMix) -> Self {
        Self([mix.next(), mix.next(), mix.next(), mix.next()])
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence_and_two_streams() {
        let mut a = SeededRandom::new(7);
        let mut b = SeededRandom::new(7);
        for _ in 0..100 {
            let x = a.next_u64();
            assert_eq!(x, b.next_u64());
            assert_ne!(x, a.secret());
            b.secret();
        }
    }

    #[test]
    fn below_stays_below() {
        let mut r = SeededRandom::new(1);
        assert_eq!(r.below(0), 0);
        for bound in [1, 2, 3, 1000, u32::MAX] {
            for _ in 0..1000 {
                assert!(r.below(bound) < bound);
            }
        }
    }
}
