//! Exact numbers that are divided and rounded as `BigDecimal` does it.

use bigdecimal::BigDecimal;
use num_bigint::BigInt;

use super::native::Thrown;
use crate::decimal::MAX_DIGITS;

/// Where a number goes that is between two others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rounding {
    Up,
    Down,
    Ceiling,
    Floor,
    HalfUp,
    HalfDown,
    HalfEven,
    Unnecessary,
}

/// Java's names of them.
pub(super) const ROUNDINGS: [(&str, Rounding); 8] = [
    ("UP", Rounding::Up),
    ("DOWN", Rounding::Down),
    ("CEILING", Rounding::Ceiling),
    ("FLOOR", Rounding::Floor),
    ("HALF_UP", Rounding::HalfUp),
    ("HALF_DOWN", Rounding::HalfDown),
    ("HALF_EVEN", Rounding::HalfEven),
    ("UNNECESSARY", Rounding::Unnecessary),
];

impl Rounding {
    pub(super) fn of(name: &str) -> Option<Rounding> {
        let found = ROUNDINGS.iter().find(|(known, _)| *known == name);
        found.map(|(_, rounding)| *rounding)
    }
}

/// Errors: more digits behind the point than can be worked with.
pub(super) fn check_scale(scale: i64) -> mlua::Result<()> {
    match scale.unsigned_abs() > MAX_DIGITS as u64 {
        true => Err(mlua::Error::runtime("a number has too many digits")),
        false => Ok(()),
    }
}

fn power_of_ten(exponent: i64) -> BigInt {
    BigInt::from(10).pow(u32::try_from(exponent).unwrap_or_default())
}

/// A quotient of integers, rounded. `below` is not zero.
fn rounded(above: &BigInt, below: &BigInt, rounding: Rounding) -> Result<BigInt, Thrown> {
    let (quotient, rest) = (above / below, above % below);
    if rest == BigInt::ZERO {
        return Ok(quotient);
    }
    let is_negative = (*above < BigInt::ZERO) != (*below < BigInt::ZERO);
    let twice = BigInt::from(rest.magnitude() * 2u32);
    let half = twice.cmp(&BigInt::from(below.magnitude().clone()));
    let is_odd = &quotient % 2 != BigInt::ZERO;
    let goes_away = match rounding {
        Rounding::Up => true,
        Rounding::Down => false,
        Rounding::Ceiling => !is_negative,
        Rounding::Floor => is_negative,
        Rounding::HalfUp => half.is_ge(),
        Rounding::HalfDown => half.is_gt(),
        Rounding::HalfEven => half.is_gt() || half.is_eq() && is_odd,
        Rounding::Unnecessary => {
            return Err("java.lang.ArithmeticException: Rounding necessary".to_owned());
        }
    };
    Ok(match (goes_away, is_negative) {
        (false, _) => quotient,
        (true, false) => quotient + 1,
        (true, true) => quotient - 1,
    })
}

/// The number with so many digits behind the point.
pub(super) fn rescaled(
    number: &BigDecimal,
    scale: i64,
    rounding: Rounding,
) -> Result<BigDecimal, Thrown> {
    let (digits, of) = number.as_bigint_and_scale();
    let digits = match scale >= of {
        true => &*digits * power_of_ten(scale - of),
        false => rounded(&digits, &power_of_ten(of - scale), rounding)?,
    };
    Ok(BigDecimal::new(digits, scale))
}

fn by_zero(above: &BigInt) -> Thrown {
    let what = match *above == BigInt::ZERO {
        true => "Division undefined",
        false => "Division by zero",
    };
    format!("java.lang.ArithmeticException: {what}")
}

/// A quotient with so many digits behind the point.
pub(super) fn quotient(
    above: &BigDecimal,
    below: &BigDecimal,
    scale: i64,
    rounding: Rounding,
) -> Result<BigDecimal, Thrown> {
    let (a, a_scale) = above.as_bigint_and_scale();
    let (b, b_scale) = below.as_bigint_and_scale();
    if *b == BigInt::ZERO {
        return Err(by_zero(&a));
    }
    let shift = scale + b_scale - a_scale;
    let digits = match shift >= 0 {
        true => rounded(&(&*a * power_of_ten(shift)), &b, rounding)?,
        false => rounded(&a, &(&*b * power_of_ten(-shift)), rounding)?,
    };
    Ok(BigDecimal::new(digits, scale))
}

/// What is left of a quotient without digits behind the point.
pub(super) fn rest(above: &BigDecimal, below: &BigDecimal) -> Result<BigDecimal, Thrown> {
    match *below.as_bigint_and_scale().0 == BigInt::ZERO {
        true => Err(by_zero(&above.as_bigint_and_scale().0)),
        false => Ok(above % below),
    }
}

/// Of more bits no divisor is looked for: it takes as many steps as there are bits.
const MAX_BITS: u64 = 8192;

fn check_bits(a: &BigInt, b: &BigInt) -> Result<(), Thrown> {
    match a.bits().max(b.bits()) > MAX_BITS {
        true => Err(format!(
            "java.lang.ArithmeticException: divisors of numbers of more than {MAX_BITS} bits are not available in Helenus"
        )),
        false => Ok(()),
    }
}

/// `gcd`.
pub(super) fn divisor(a: &BigDecimal, b: &BigDecimal) -> Result<BigDecimal, Thrown> {
    let (a, b) = (a.as_bigint_and_scale().0, b.as_bigint_and_scale().0);
    check_bits(&a, &b)?;
    Ok(common_divisor(&a, &b).into())
}

fn common_divisor(a: &BigInt, b: &BigInt) -> BigInt {
    let (mut a, mut b) = (a.magnitude().clone(), b.magnitude().clone());
    while b != Default::default() {
        (a, b) = (b.clone(), a % b);
    }
    a.into()
}

/// The quotient that has an end, with no fewer digits behind the point than Java wants.
pub(super) fn exact_quotient(above: &BigDecimal, below: &BigDecimal) -> Result<BigDecimal, Thrown> {
    let (a, a_scale) = above.as_bigint_and_scale();
    let (b, b_scale) = below.as_bigint_and_scale();
    if *b == BigInt::ZERO {
        return Err(by_zero(&a));
    }
    check_bits(&a, &b)?;
    let preferred = a_scale - b_scale;
    let mut rest = &*b / common_divisor(&a, &b);
    let mut more = 0;
    for prime in [2, 5] {
        let mut count = 0;
        while &rest % prime == BigInt::ZERO {
            rest /= prime;
            count += 1;
        }
        more = count.max(more);
    }
    match *rest.magnitude() == 1u32.into() {
        true => quotient(above, below, preferred + more, Rounding::Unnecessary),
        false => Err(
            "java.lang.ArithmeticException: Non-terminating decimal expansion; no exact representable decimal result."
                .to_owned(),
        ),
    }
}
