//! `exp`, `log` and `log10` of numbers of any length (`DecimalType.exp`, `IntegerType.exp` and their like).
//!
//! All is computed with integers that stand for fractions of a power of ten, with digits to spare, and
//! rounded once at the end: the result is the true value to as many digits as the argument has, 32 at least.

use bigdecimal::{BigDecimal, RoundingMode};
use num_bigint::BigInt;

/// Fewer significant digits have no result (`DecimalType.MIN_SIGNIFICANT_DIGITS`).
const MIN_DIGITS: u64 = 32;
/// More have none either: what they cost grows with their square, and a request may ask for many.
const MAX_DIGITS: u64 = 1000;
/// Digits behind those that are wanted: what is cut off, some thousand times, does not reach them.
const SPARE_DIGITS: u64 = 20;
/// A decimal has a scale of 32 bits, and so many digits beside it.
const MAX_EXPONENT: i64 = i32::MAX as i64 - 2 * MAX_DIGITS as i64;

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Undefined {
    #[error("Natural log of number zero or less")]
    Log,
    #[error("Log10 of number zero or less")]
    Log10,
    #[error("Overflow")]
    Overflow,
}

/// e to the power of `x`. Fails where the result is beyond what a decimal can be.
pub(super) fn exp(x: &BigDecimal) -> Result<BigDecimal, Undefined> {
    let (_, scale) = x.as_bigint_and_exponent();
    let digits = result_digits(x);
    let magnitude = x.digits() as i64 - scale;
    if is_zero(x) {
        return Ok(BigDecimal::from(1));
    }
    // Ten digits before the point are too many, whatever they are.
    if magnitude > 10 {
        return Err(Undefined::Overflow);
    }
    if magnitude < -(digits as i64) - 1 {
        // One and a little, which rounding leaves nothing of.
        return Ok(round(BigDecimal::from(1), digits));
    }
    let fixed = Fixed::with_digits(digits + SPARE_DIGITS + 10);
    let value = fixed.of(x);
    let ln_10 = fixed.ln_10();
    let tens = nearest(&value, &ln_10);
    let exponent = i64::try_from(&tens).map_err(|_| Undefined::Overflow)?;
    if exponent.abs() > MAX_EXPONENT {
        return Err(Undefined::Overflow);
    }
    let power = fixed.exp_near_zero(&(value - tens * ln_10));
    let result = BigDecimal::new(power, fixed.digits as i64 - exponent);
    Ok(round(result, digits))
}

/// The natural logarithm.
pub(super) fn log(x: &BigDecimal) -> Result<BigDecimal, Undefined> {
    if x <= &BigDecimal::from(0) {
        return Err(Undefined::Log);
    }
    if is_one(x) {
        return Ok(BigDecimal::from(0));
    }
    let (fixed, log) = fixed_log(x);
    let result = BigDecimal::new(log, fixed.digits as i64);
    Ok(round(result, result_digits(x)))
}

/// The logarithm to the base of ten; of a power of ten it is whole.
pub(super) fn log10(x: &BigDecimal) -> Result<BigDecimal, Undefined> {
    if x <= &BigDecimal::from(0) {
        return Err(Undefined::Log10);
    }
    let (unscaled, scale) = x.normalized().into_bigint_and_exponent();
    if unscaled == BigInt::from(1) {
        return Ok(BigDecimal::from(-scale));
    }
    let (fixed, log) = fixed_log(x);
    let quotient = log * &fixed.one / fixed.ln_10();
    let result = BigDecimal::new(quotient, fixed.digits as i64);
    Ok(round(result, result_digits(x)))
}

fn is_zero(x: &BigDecimal) -> bool {
    x.sign() == num_bigint::Sign::NoSign
}

fn is_one(x: &BigDecimal) -> bool {
    let one = BigDecimal::from(1);
    *x == one
}

/// As many as the argument has, within bounds.
fn result_digits(x: &BigDecimal) -> u64 {
    x.digits().clamp(MIN_DIGITS, MAX_DIGITS)
}

/// To so many significant digits: zeros at the end are among them.
fn round(number: BigDecimal, digits: u64) -> BigDecimal {
    let (_, scale) = number.as_bigint_and_exponent();
    let wanted = scale + digits as i64 - number.digits() as i64;
    let rounded = number.with_scale_round(wanted, RoundingMode::HalfEven);
    // 9.99… may have become 10.00…, which has one digit more.
    match rounded.digits() > digits {
        true => rounded.with_scale_round(wanted - 1, RoundingMode::HalfEven),
        false => rounded,
    }
}

/// The logarithm of a positive number, with digits enough that as many significant ones are left of it as
/// it has: that of a number next to one begins with as many zeros as it has digits.
fn fixed_log(x: &BigDecimal) -> (Fixed, BigInt) {
    let rounded = round(x.clone(), x.digits().min(MAX_DIGITS));
    let (unscaled, scale) = rounded.as_bigint_and_exponent();
    let length = rounded.digits();
    let fixed = Fixed::with_digits(result_digits(x) + length + SPARE_DIGITS + 10);
    // Between a tenth and ten, where a double knows it well enough to begin with; below one it is scaled up.
    let exponent = length as i64 - 1 - scale;
    let mantissa = fixed.of(&BigDecimal::new(unscaled, length as i64 - 1));
    let log = fixed.log_of_digit(&mantissa) + BigInt::from(exponent) * fixed.ln_10();
    (fixed, log)
}

/// The whole number nearest to a quotient.
fn nearest(value: &BigInt, by: &BigInt) -> BigInt {
    let half = by / 2;
    match value.sign() {
        num_bigint::Sign::Minus => (value - half) / by,
        _ => (value + half) / by,
    }
}

/// Numbers as multiples of the inverse of a power of ten.
struct Fixed {
    /// Digits behind the point.
    digits: u64,
    one: BigInt,
}

impl Fixed {
    fn with_digits(digits: u64) -> Fixed {
        let one = BigInt::from(10).pow(digits as u32);
        Fixed { digits, one }
    }

    fn of(&self, x: &BigDecimal) -> BigInt {
        let scaled = x.with_scale_round(self.digits as i64, RoundingMode::HalfEven);
        scaled.into_bigint_and_exponent().0
    }

    fn times(&self, a: &BigInt, b: &BigInt) -> BigInt {
        a * b / &self.one
    }

    /// e to the power of a number of at most two: by its series, of a number so many times halved that
    /// this is short, and then squared as often.
    fn exp_near_zero(&self, x: &BigInt) -> BigInt {
        let halvings = self.digits.isqrt() + 4;
        // A squaring doubles the error.
        let finer = Fixed::with_digits(self.digits + halvings / 3 + 5);
        let scale = BigInt::from(10).pow((finer.digits - self.digits) as u32);
        let x = (x * &scale) >> halvings;
        let mut sum = finer.one.clone();
        let mut term = finer.one.clone();
        for number in 1u32.. {
            term = finer.times(&term, &x) / number;
            if term == BigInt::ZERO {
                break;
            }
            sum += &term;
        }
        for _ in 0..halvings {
            sum = finer.times(&sum, &sum);
        }
        sum / scale
    }

    /// The logarithm of a number from one to ten, by Halley's method: each step triples the digits.
    fn log_of_digit(&self, x: &BigInt) -> BigInt {
        let double = |x: &BigInt| {
            let digits = BigDecimal::new(x.clone(), self.digits as i64);
            digits.to_string().parse::<f64>().unwrap_or(1.0)
        };
        let guess = double(x).ln();
        // What a double says of it, in units of its last digit or so.
        let unit = BigInt::from(10).pow(self.digits as u32 - 15);
        let mut log = BigInt::from((guess * 1e15) as i64) * unit;
        let mut right = 14;
        while right < self.digits {
            let power = self.exp_of_small(&log);
            let step = (x - &power) * &self.one / (x + &power);
            log += step * 2;
            right *= 3;
        }
        log
    }

    /// e to the power of a number from zero to three.
    fn exp_of_small(&self, x: &BigInt) -> BigInt {
        let half = self.exp_near_zero(&(x / 2));
        let rest = self.exp_near_zero(&(x - x / 2));
        self.times(&half, &rest)
    }

    /// The logarithm of ten: of 31/30, 49/48 and 161/160, whose factors are 2, 3, 5 and 7, each by the
    /// series of the inverse hyperbolic tangent.
    fn ln_10(&self) -> BigInt {
        let finer = Fixed::with_digits(self.digits + 5);
        let parts = [(46, 31), (34, 49), (20, 161)];
        let sum: BigInt = parts
            .iter()
            .map(|(times, inverse)| finer.atanh_of_inverse(*inverse) * *times)
            .sum();
        sum / BigInt::from(100_000)
    }

    /// The inverse hyperbolic tangent of 1/n.
    fn atanh_of_inverse(&self, n: u32) -> BigInt {
        let mut power = &self.one / n;
        let mut sum = power.clone();
        for odd in (3u32..).step_by(2) {
            power /= n * n;
            if power == BigInt::ZERO {
                break;
            }
            sum += &power / odd;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> BigDecimal {
        text.parse().expect("a number")
    }

    /// What Cassandra 5.0.6 gives: function, argument, result. `!` is why there is none.
    const ANSWERS: &str = include_str!("golden/transcendental.txt");

    #[test]
    fn they_are_cassandras() {
        let mut count = 0;
        for line in ANSWERS.lines() {
            let [function, argument, expected] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("three words: {line}");
            };
            let x = number(argument);
            let result = match function {
                "exp" => exp(&x),
                "log" => log(&x),
                _ => log10(&x),
            };
            count += 1;
            match expected {
                "!" => assert!(result.is_err(), "{line}: {result:?}"),
                _ => {
                    let result = result.expect(line);
                    assert_eq!(result, number(expected), "{line}");
                    // Powers of ten have digits in Cassandra that depend on what it computed before.
                    let is_whole = function == "log10" && result.is_integer();
                    let digits = number(expected).digits();
                    assert!(is_whole || result.digits() == digits, "{line}: {result}");
                }
            }
        }
        assert!(count > 100, "{count}");
    }

    #[test]
    fn long_numbers_have_a_bound() {
        let long = format!("1.{}", "7".repeat(9000));
        for result in [
            exp(&number(&long)),
            log(&number(&long)),
            log10(&number(&long)),
        ] {
            assert_eq!(result.expect("defined").digits(), MAX_DIGITS);
        }
        for large in ["1E+2147483000", "-1E+30", "123456789012"] {
            assert_eq!(exp(&number(large)), Err(Undefined::Overflow));
        }
        assert_eq!(
            exp(&number("1E-2147483000")).expect("one").digits(),
            MIN_DIGITS
        );
        let log = log(&number("1E+2147483000")).expect("defined");
        assert!(log.to_string().starts_with("4944762"), "{log}");
    }
}
