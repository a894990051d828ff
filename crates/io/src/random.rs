//! Pseudo-random numbers that a seed repeats.

/// The generator SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
/// Generators", 2014): small, fast, and the same for ever, which seeds that are kept with a bug
/// report need. It is not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator whose numbers follow from `seed`.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next number, any of 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `bound`, which must not be zero. The bias is below 2^-32 for small bounds.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below zero");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with this probability (0 to 1).
    pub fn chance(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            return false;
        }
        let unit = (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        unit < probability
    }

    /// Another generator, whose numbers have nothing to do with those of this one.
    pub fn split(&mut self) -> Random {
        Random::new(self.next_u64())
    }
}

/// SplitMix64's finaliser: every bit of the input changes half of the output's.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_reference_implementation() {
        let mut random = Random::new(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(
            numbers,
            [
                6457827717110365317,
                3203168211198807973,
                9817491932198370423
            ]
        );
    }

    #[test]
    fn chances_are_as_often_as_asked() {
        let mut random = Random::new(7);
        let hits = (0..10_000).filter(|_| random.chance(0.25)).count();
        assert!((2300..2700).contains(&hits), "{hits} of 10000");
        assert!((0..1000).all(|_| random.below(3) < 3));
    }
}
