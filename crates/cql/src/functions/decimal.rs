//! Arithmetic of decimals, with the digits and scales that Cassandra's results have (`DecimalType`, on Java's
//! `BigDecimal`).

use bigdecimal::{BigDecimal, RoundingMode, Zero};
use num_bigint::{BigInt, Sign};

use super::Operator;
use super::number::fits;

/// Sums and products have no more digits (`DecimalType.MAX_PRECISION`).
const MAX_PRECISION: i64 = 10_000;
/// A number of no more bits has no more digits than that.
const SURELY_FEW_BITS: u64 = 33_219;

/// `left operator right`, or why it has no result.
pub(super) fn calculate(
    operator: Operator,
    left: BigDecimal,
    right: BigDecimal,
) -> Result<BigDecimal, &'static str> {
    match operator {
        Operator::Add => Ok(add(&left, &right)),
        Operator::Subtract => Ok(add(&left, &-right)),
        Operator::Multiply => Ok(multiply(&left, &right)),
        Operator::Divide if right.is_zero() => Err("BigInteger divide by zero"),
        Operator::Modulo if right.is_zero() && left.is_zero() => Err("Division undefined"),
        Operator::Modulo if right.is_zero() => Err("Division by zero"),
        _ if !fits(&left, &right) => Err("the exponents are too far apart"),
        Operator::Divide => Ok(divide(&left, &right)),
        Operator::Modulo => Ok(remainder(&left, &right)),
    }
}

/// So many digits, halves away from zero (`BigDecimal.doRound`).
fn rounded(unscaled: BigInt, scale: i64) -> BigDecimal {
    let is_short = unscaled.bits() <= SURELY_FEW_BITS;
    let number = BigDecimal::new(unscaled, scale);
    let excess = match is_short {
        true => 0,
        false => number.digits() as i64 - MAX_PRECISION,
    };
    if excess <= 0 {
        return number;
    }
    let number = number.with_scale_round(scale - excess, RoundingMode::HalfUp);
    // Nines may have become a digit more.
    match number.digits() as i64 > MAX_PRECISION {
        true => number.with_scale_round(scale - excess - 1, RoundingMode::HalfUp),
        false => number,
    }
}

fn multiply(left: &BigDecimal, right: &BigDecimal) -> BigDecimal {
    let (a, a_scale) = left.as_bigint_and_exponent();
    let (b, b_scale) = right.as_bigint_and_exponent();
    rounded(a * b, a_scale + b_scale)
}

/// With the larger scale of the two, as far as the digits go (`BigDecimal.add(BigDecimal, MathContext)`).
fn add(left: &BigDecimal, right: &BigDecimal) -> BigDecimal {
    let (a, a_scale) = left.as_bigint_and_exponent();
    let (b, b_scale) = right.as_bigint_and_exponent();
    let scale = a_scale.max(b_scale);
    match (a.sign(), b.sign()) {
        (Sign::NoSign, Sign::NoSign) => BigDecimal::new(BigInt::ZERO, scale),
        (Sign::NoSign, _) => beside_zero(rounded(b, b_scale), scale),
        (_, Sign::NoSign) => beside_zero(rounded(a, a_scale), scale),
        _ if a_scale < b_scale => add_aligned(left, right),
        _ => add_aligned(right, left),
    }
}

/// What is added to zero, with another scale if that is possible.
fn beside_zero(number: BigDecimal, scale: i64) -> BigDecimal {
    let (mut unscaled, mut own) = number.as_bigint_and_exponent();
    while own > scale && (&unscaled % 10u32) == BigInt::ZERO {
        unscaled /= 10;
        own -= 1;
    }
    if own >= scale {
        return BigDecimal::new(unscaled, own);
    }
    let spare = MAX_PRECISION - number.digits() as i64;
    number.with_scale(scale.min(own + spare))
}

/// Of numbers that are not zero, the first of which has the smaller scale, or none has. Of the other, what is so far
/// behind the digits of the result that it decides but their rounding, stays its sign (`BigDecimal.preAlign`).
fn add_aligned(big: &BigDecimal, small: &BigDecimal) -> BigDecimal {
    let (a, a_scale) = big.as_bigint_and_exponent();
    let (mut b, mut b_scale) = small.as_bigint_and_exponent();
    let last_of_result = a_scale - big.digits() as i64 + MAX_PRECISION;
    let first_of_small = b_scale - small.digits() as i64 + 1;
    if first_of_small > a_scale.max(last_of_result) + 2 {
        b = BigInt::from(if b.sign() == Sign::Minus { -1 } else { 1 });
        b_scale = a_scale.max(last_of_result) + 3;
    }
    let shift =
        u32::try_from(b_scale - a_scale).expect("no more digits than there are and will be");
    rounded(a * BigInt::from(10).pow(shift) + b, b_scale)
}

/// At least 32 digits that count, and at least 32 behind the point (`DecimalType.divide`).
fn divide(left: &BigDecimal, right: &BigDecimal) -> BigDecimal {
    const MIN_DIGITS: i64 = 32;
    const MAX_SCALE: i64 = 1000;
    let whole_digits = |n: &BigDecimal| {
        let (unscaled, scale) = n.as_bigint_and_exponent();
        unscaled.magnitude().to_string().len() as i64 - scale
    };
    let (a, a_scale) = left.as_bigint_and_exponent();
    let (b, b_scale) = right.as_bigint_and_exponent();
    let wanted = MIN_DIGITS - (whole_digits(left) - whole_digits(right));
    let scale = wanted.max(a_scale).max(b_scale);
    let scale = scale.clamp(MIN_DIGITS, MAX_SCALE);
    // One digit more than wanted, and whether anything follows, decide the rounding.
    let shift = scale + 1 - a_scale + b_scale;
    let ten = |n: i64| BigInt::from(10).pow(n.unsigned_abs() as u32);
    let (numerator, denominator) = if shift >= 0 {
        (a * ten(shift), b)
    } else {
        (a, b * ten(shift))
    };
    let quotient = BigDecimal::new(numerator / denominator, scale + 1);
    let rounded = quotient.with_scale_round(scale, RoundingMode::HalfUp);
    if rounded.is_zero() {
        return BigDecimal::zero();
    }
    rounded.normalized()
}

/// The unscaled numbers of both at the larger of their scales, and that scale.
pub(super) fn aligned(left: &BigDecimal, right: &BigDecimal) -> (BigInt, BigInt, i64) {
    let (a, a_scale) = left.as_bigint_and_exponent();
    let (b, b_scale) = right.as_bigint_and_exponent();
    let scale = a_scale.max(b_scale);
    let at_scale = |n: BigInt, from: i64| n * BigInt::from(10).pow((scale - from) as u32);
    (at_scale(a, a_scale), at_scale(b, b_scale), scale)
}

/// `left - quotient * right` with the scale that Java gives it: the one of the left operand, or
/// what the whole quotient times the right one has once zeros are stripped from the quotient
/// (`BigDecimal.divideToIntegralValue`).
fn remainder(left: &BigDecimal, right: &BigDecimal) -> BigDecimal {
    let (_, left_scale) = left.as_bigint_and_exponent();
    let (_, right_scale) = right.as_bigint_and_exponent();
    let (a, b, scale) = aligned(left, right);
    let mut quotient = &a / &b;
    let rest = BigDecimal::new(a % b, scale);
    let preferred = left_scale - right_scale;
    let mut quotient_scale = preferred.max(0);
    if quotient == BigInt::ZERO {
        quotient_scale = preferred;
    }
    while quotient_scale > preferred && &quotient % 10 == BigInt::ZERO {
        quotient /= 10;
        quotient_scale -= 1;
    }
    rest.with_scale(left_scale.max(quotient_scale + right_scale))
}
