//! The distributions of YCSB (`site.ycsb.generator`), with its constants, so that a workload
//! touches records as often as theirs does.
//!
//! The zipfian one is that of Gray et al., "Quickly Generating Billion-Record Synthetic
//! Databases": no table of probabilities, but a sum ζ(n) that is worked out once.

/// How uneven: YCSB's constant.
const THETA: f64 = 0.99;
/// The scrambled generator draws from so many items, of which ζ is known.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// A small generator of random numbers: xoshiro256**, seeded by splitmix64
/// (Blackman and Vigna).
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: [u64; 4],
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        let mut seed = seed;
        let mut next = || {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Random {
            state: [next(), next(), next(), next()],
        }
    }

    pub(crate) fn next(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// From 0 up to, but not, `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// From 0 up to, but not, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Printable text, as YCSB's fields.
    pub(crate) fn text(&mut self, out: &mut String, length: usize) {
        out.clear();
        let mut bits = 0;
        for i in 0..length {
            if i % 10 == 0 {
                bits = self.next();
            }
            out.push(char::from(b' ' + (bits & 63) as u8));
            bits >>= 6;
        }
    }
}

/// Small numbers far more often than large ones (`ZipfianGenerator`).
#[derive(Clone, Debug)]
pub(crate) struct Zipfian {
    /// As many as it was made for.
    items: u64,
    /// As many as ζ is known of.
    counted: u64,
    zeta: f64,
    zeta_of_two: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    /// Of the numbers from 0 up to, but not, `items`.
    pub(crate) fn new(items: u64) -> Zipfian {
        Zipfian::with_zeta(items, sum_zeta(0, items, 0.0))
    }

    fn with_zeta(items: u64, zeta: f64) -> Zipfian {
        let mut generator = Zipfian {
            items,
            counted: items,
            zeta,
            zeta_of_two: sum_zeta(0, 2, 0.0),
            alpha: 1.0 / (1.0 - THETA),
            eta: 0.0,
        };
        generator.eta = generator.eta();
        generator
    }

    /// Of the first `SCRAMBLED_ITEMS` (inclusive, as YCSB has it).
    fn of_scrambled() -> Zipfian {
        Zipfian::with_zeta(SCRAMBLED_ITEMS + 1, SCRAMBLED_ZETA)
    }

    fn eta(&self) -> f64 {
        (1.0 - (2.0 / self.items as f64).powf(1.0 - THETA)) / (1.0 - self.zeta_of_two / self.zeta)
    }

    /// One of the numbers from 0 up to, but not, `items`, which may grow from call to call.
    pub(crate) fn next_of(&mut self, items: u64, random: &mut Random) -> u64 {
        if items > self.counted {
            self.zeta = sum_zeta(self.counted, items, self.zeta);
            self.counted = items;
            self.eta = self.eta();
        }
        let u = random.unit();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        (items as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64
    }

    fn next(&mut self, random: &mut Random) -> u64 {
        self.next_of(self.items, random)
    }
}

fn sum_zeta(from: u64, to: u64, sum: f64) -> f64 {
    (from..to).fold(sum, |sum, i| sum + 1.0 / ((i + 1) as f64).powf(THETA))
}

/// The popular ones are spread over the whole range (`ScrambledZipfianGenerator`).
#[derive(Clone, Debug)]
pub(crate) struct ScrambledZipfian {
    zipfian: Zipfian,
    items: u64,
}

impl ScrambledZipfian {
    /// Of the numbers from 0 up to, but not, `items`.
    pub(crate) fn new(items: u64) -> ScrambledZipfian {
        ScrambledZipfian {
            zipfian: Zipfian::of_scrambled(),
            items,
        }
    }

    pub(crate) fn next(&mut self, random: &mut Random) -> u64 {
        fnv_hash(self.zipfian.next(random)) % self.items
    }
}

/// `Utils.fnvhash64`: 64-bit FNV-1 over the eight bytes, without its sign.
pub(crate) fn fnv_hash(value: u64) -> u64 {
    const BASIS: i64 = 0xcbf2_9ce4_8422_2325_u64 as i64;
    let hash = value.to_le_bytes().iter().fold(BASIS, |hash, byte| {
        (hash ^ i64::from(*byte)).wrapping_mul(1_099_511_628_211)
    });
    hash.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_ycsb() {
        // As its load names the first records.
        assert_eq!(fnv_hash(0), 6_284_781_860_667_377_211);
        assert_eq!(fnv_hash(1), 8_517_097_267_634_966_620);
        assert_eq!(fnv_hash(2), 1_820_151_046_732_198_393);
    }

    #[test]
    fn the_first_item_is_as_popular_as_it_should_be() {
        let mut random = Random::new(1);
        let mut zipfian = Zipfian::new(1000);
        let mut counts = vec![0u32; 1000];
        for _ in 0..200_000 {
            counts[zipfian.next(&mut random) as usize] += 1;
        }
        let zeta = sum_zeta(0, 1000, 0.0);
        for (item, expected) in [(0, 1.0 / zeta), (1, 0.5f64.powf(THETA) / zeta)] {
            let share = f64::from(counts[item]) / 200_000.0;
            assert!(
                (share / expected - 1.0).abs() < 0.05,
                "{item}: {share} for {expected}"
            );
        }
    }

    #[test]
    fn growing_is_the_same_as_starting_large() {
        let mut grown = Zipfian::new(1000);
        grown.next_of(1500, &mut Random::new(1));
        assert!((grown.zeta - Zipfian::new(1500).zeta).abs() < 1e-9);
        let mut random = Random::new(2);
        assert!((0..10_000).all(|_| grown.next_of(1500, &mut random) < 1500));
    }

    #[test]
    fn scrambled_items_lie_everywhere() {
        let mut random = Random::new(3);
        let mut scrambled = ScrambledZipfian::new(1_000);
        let mut halves = [0, 0];
        let mut most = vec![0u32; 1_000];
        for _ in 0..100_000 {
            let item = scrambled.next(&mut random) as usize;
            halves[item / 500] += 1;
            most[item] += 1;
        }
        assert!(halves.iter().all(|n| *n > 30_000), "{halves:?}");
        // 1/ζ of all go to one item.
        let top = f64::from(*most.iter().max().unwrap()) / 100_000.0;
        assert!((0.03..0.06).contains(&top), "{top}");
    }

    #[test]
    fn texts_have_their_length_and_differ() {
        let mut random = Random::new(4);
        let (mut a, mut b) = (String::new(), String::new());
        random.text(&mut a, 100);
        random.text(&mut b, 100);
        assert_eq!((a.len(), b.len()), (100, 100));
        assert_ne!(a, b);
        assert!(a.bytes().all(|byte| (b' '..=b'_').contains(&byte)));
    }
}
