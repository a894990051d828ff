//! The decimal digits of a binary number as Java 17 finds them, which are not always the fewest: the
//! float 98712312 is `9.8712312E7` there, although `9.871231E7` is no other float. `CAST(f AS
//! decimal)` and JSON make values of these texts, so that who moves from Cassandra must find the same.
//!
//! Source: G. L. Steele Jr. and J. L. White, "How to Print Floating-Point Numbers Accurately", PLDI
//! 1990, as `jdk.internal.math.FloatingDecimal` of Java 17 has it: written anew from the algorithm,
//! with what differs from the paper: the width of the integers (numbers that fit into an `int` or a
//! `long` are computed there, and may wrap), and that half the distance to the neighbour counts as
//! too far in short numbers and as near enough in long ones.

use std::cmp::Ordering;

use num_bigint::BigUint;

/// Bits of a double's fraction behind the point.
const FRACTION_BITS: i32 = 52;
/// From here on a whole number does not fit into a `long`.
const MAX_WHOLE_EXPONENT: i32 = 62;

/// A positive binary number: `fraction / 2^52 * 2^exponent`, the highest bit of `fraction` (2^52) set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binary {
    fraction: u64,
    exponent: i32,
    /// Bits of the fraction that the format holds: fewer than 24 or 53 in subnormal numbers.
    precision: i32,
}

/// `0.d₁d₂d₃… × 10^point`, where `digits` are d₁, d₂, … (0 to 9), and d₁ is not 0.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    pub(super) digits: Vec<u8>,
    pub(super) point: i32,
}

impl Binary {
    /// Of a finite number above zero.
    pub(super) fn of_double(value: f64) -> Binary {
        let bits = value.to_bits();
        Binary::of_parts(bits & ((1 << 52) - 1), (bits >> 52) as i32, 52, 1023)
    }

    /// Of a finite number above zero.
    pub(super) fn of_float(value: f32) -> Binary {
        let bits = value.to_bits();
        let fraction = u64::from(bits & ((1 << 23) - 1));
        Binary::of_parts(fraction, (bits >> 23) as i32, 23, 127)
    }

    fn of_parts(fraction: u64, biased: i32, width: i32, bias: i32) -> Binary {
        if biased == 0 {
            assert!(fraction != 0, "zero has no digits");
            let precision = 64 - fraction.leading_zeros() as i32;
            return Binary {
                fraction: fraction << (FRACTION_BITS + 1 - precision),
                exponent: 1 - (width + 1 - precision) - bias,
                precision,
            };
        }
        Binary {
            fraction: (fraction | 1 << width) << (FRACTION_BITS - width),
            exponent: biased - bias,
            precision: width + 1,
        }
    }

    /// Its digits.
    pub(super) fn decimal(self) -> Decimal {
        let significant = FRACTION_BITS + 1 - self.fraction.trailing_zeros() as i32;
        let behind_point = (significant - self.exponent - 1).max(0);
        if behind_point == 0 && self.exponent <= MAX_WHOLE_EXPONENT {
            return self.whole();
        }
        self.generated(significant, behind_point)
    }

    /// The digits of a whole number, without those that its precision does not reach.
    fn whole(self) -> Decimal {
        let shift = self.exponent - FRACTION_BITS;
        let mut number = match shift {
            0.. => self.fraction << shift,
            _ => self.fraction >> -shift,
        };
        let unknown_bits = self.exponent - self.precision - 1;
        let mut dropped = 0;
        if unknown_bits >= 4 {
            dropped = (1_u64 << unknown_bits).ilog10();
            let unit = 10_u64.pow(dropped);
            number = number / unit + u64::from(number % unit >= unit / 2);
        }
        let digits = number.to_string();
        let point = digits.len() as i32 + dropped as i32;
        let digits = digits
            .trim_end_matches('0')
            .bytes()
            .map(|digit| digit - b'0');
        Decimal {
            digits: digits.collect(),
            point,
        }
    }

    /// The digits of any other number, one after another until only this number can be meant.
    fn generated(self, significant: i32, behind_point: i32) -> Decimal {
        let mut exponent = self.decimal_exponent();
        let mut remainder = Scaled::new(self, exponent, significant, behind_point).remainder();
        let mut digits = Vec::with_capacity(20);
        let mut step = remainder.next_digit();
        if step.digit == 0 && !step.high {
            exponent -= 1;
        } else {
            digits.push(step.digit);
        }
        // Numbers with an exponent have two digits at least.
        if !(-3..8).contains(&exponent) {
            (step.low, step.high) = (false, false);
        }
        while !step.low && !step.high {
            step = remainder.next_digit();
            digits.push(step.digit);
        }
        let mut decimal = Decimal {
            digits,
            point: exponent + 1,
        };
        if step.high && (!step.low || remainder.rounds_up(decimal.digits.last().copied())) {
            decimal.round_up();
        }
        decimal
    }

    /// The exponent of the first digit, or one more: by the first terms of the logarithm's series.
    fn decimal_exponent(self) -> i32 {
        const ONE: u64 = 1023 << FRACTION_BITS;
        // Less exact than the constant, and so are its results.
        #[allow(clippy::approx_constant)]
        const LOG10_OF_2: f64 = 0.301_029_995_663_981;
        let mantissa = f64::from_bits(ONE | (self.fraction & ((1 << FRACTION_BITS) - 1)));
        let estimate = (mantissa - 1.5) * 0.289_529_654 + 0.176_091_259;
        (estimate + f64::from(self.exponent) * LOG10_OF_2).floor() as i32
    }
}

impl Decimal {
    fn round_up(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        // All were nines. The zeros stay, as in Java.
        if let Some(first) = self.digits.first_mut() {
            *first = 1;
            self.point += 1;
        }
    }
}

/// `number = (fraction · 5^b5 · 2^b2) / (5^s5 · 2^s2)`, and half the distance to its neighbour over
/// the same divisor: `5^b5 · 2^m2`.
struct Scaled {
    fraction: u64,
    significant: i32,
    b5: i32,
    b2: i32,
    s5: i32,
    s2: i32,
    m2: i32,
}

impl Scaled {
    fn new(number: Binary, exponent: i32, significant: i32, behind_point: i32) -> Scaled {
        let (b5, s5) = ((-exponent).max(0), exponent.max(0));
        let all_b2 = b5 + behind_point + number.exponent;
        let b2 = all_b2 - (significant - 1);
        let s2 = s5 + behind_point;
        let common = b2.min(s2);
        let (mut b2, mut s2) = (b2 - common, s2 - common);
        let mut m2 = all_b2 - number.precision - common;
        if significant == 1 {
            // A power of two: the neighbour below is nearer.
            m2 -= 1;
        }
        if m2 < 0 {
            b2 -= m2;
            s2 -= m2;
            m2 = 0;
        }
        let fraction = number.fraction >> number.fraction.trailing_zeros();
        Scaled {
            fraction,
            significant,
            b5,
            b2,
            s5,
            s2,
            m2,
        }
    }

    fn remainder(&self) -> Remainder {
        let bits = self.significant + self.b2 + bits_of_power_of_five(self.b5);
        let divisor_bits = self.s2 + 1 + bits_of_power_of_five(self.s5 + 1);
        let longest = bits.max(divisor_bits);
        if longest >= 64 {
            return Remainder::long(self);
        }
        let power = |five: i32| 5_i64.wrapping_pow(five as u32);
        let s = power(self.s5) << self.s2;
        Remainder::Short {
            b: (self.fraction as i64).wrapping_mul(power(self.b5)) << self.b2,
            s,
            m: power(self.b5) << self.m2,
            tens: s.wrapping_mul(10),
            wrap: if longest < 32 {
                |number| i64::from(number as i32)
            } else {
                |number| number
            },
        }
    }
}

/// Bits of 5^n as the algorithm estimates them.
fn bits_of_power_of_five(n: i32) -> i32 {
    match n {
        0 => 0,
        // Those that a `long` holds are known.
        1..27 => (5_u64.pow(n as u32).ilog2() + 1) as i32,
        _ => 3 * n,
    }
}

/// A digit, and whether the number that ends with it (`low`), or with the next higher digit
/// (`high`), can only mean this one.
struct Step {
    digit: u8,
    low: bool,
    high: bool,
}

/// What is left of a number behind the digits that were found, `b / s`, and half the distance to
/// its neighbour, `m / s`.
enum Remainder {
    /// In integers of Java, which wrap.
    Short {
        b: i64,
        s: i64,
        m: i64,
        tens: i64,
        wrap: fn(i64) -> i64,
    },
    Long {
        b: BigUint,
        s: BigUint,
        m: BigUint,
        tens: BigUint,
    },
}

impl Remainder {
    fn long(scaled: &Scaled) -> Remainder {
        let power = |five: i32, two: i32| BigUint::from(5_u8).pow(five as u32) << two;
        let s = power(scaled.s5, scaled.s2);
        Remainder::Long {
            b: power(scaled.b5, scaled.b2) * scaled.fraction,
            tens: &s * 10_u8,
            s,
            m: power(scaled.b5, scaled.m2),
        }
    }

    fn next_digit(&mut self) -> Step {
        match self {
            Remainder::Short {
                b,
                s,
                m,
                tens,
                wrap,
            } => {
                let digit = (*b / *s) as u8;
                *b = wrap((*b % *s).wrapping_mul(10));
                *m = wrap(m.wrapping_mul(10));
                if *m <= 0 {
                    return Step {
                        digit,
                        low: true,
                        high: true,
                    };
                }
                let high = wrap(b.wrapping_add(*m)) > *tens;
                Step {
                    digit,
                    low: b < m,
                    high,
                }
            }
            Remainder::Long { b, s, m, tens } => {
                let quotient = &*b / &*s;
                *b = (&*b % &*s) * 10_u8;
                *m *= 10_u8;
                Step {
                    digit: quotient
                        .to_u32_digits()
                        .first()
                        .map_or(0, |&digit| digit as u8),
                    low: b < m,
                    high: &*b + &*m >= *tens,
                }
            }
        }
    }

    /// Is what is left more than half of the last digit, or half of an odd one?
    fn rounds_up(&self, last: Option<u8>) -> bool {
        let half = match self {
            Remainder::Short { b, tens, wrap, .. } => {
                wrap(wrap(b << 1).wrapping_sub(*tens)).cmp(&0)
            }
            Remainder::Long { b, tens, .. } => (b * 2_u8).cmp(tens),
        };
        match half {
            Ordering::Less => false,
            Ordering::Equal => last.is_some_and(|digit| digit % 2 == 1),
            Ordering::Greater => true,
        }
    }
}
