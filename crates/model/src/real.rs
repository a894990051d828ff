//! The texts of `float` and `double`, as Java 17 reads and writes them (`Float.toString`).

mod digits;

use digits::{Binary, Decimal};

/// A finite or infinite number, or NaN, from its text: blanks around it, a sign, and a `f` or `d`
/// behind it are allowed. What is too large is infinite.
pub(crate) fn from_text<F: std::str::FromStr>(text: &str) -> Option<F> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned {
        "NaN" => return "NaN".parse().ok(),
        "Infinity" => return text.parse().ok(),
        _ => {}
    }
    let digits = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    if !digits.chars().all(plain) {
        return None;
    }
    digits.parse().ok()
}

/// The text of a `float`.
pub(crate) fn float_to_text(value: f32) -> String {
    to_text(value.into(), || Binary::of_float(value.abs()))
}

/// The text of a `double`.
pub(crate) fn double_to_text(value: f64) -> String {
    to_text(value, || Binary::of_double(value.abs()))
}

fn to_text(value: f64, binary: impl FnOnce() -> Binary) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_infinite() {
        return format!("{sign}Infinity");
    }
    if value == 0.0 {
        return format!("{sign}0.0");
    }
    laid_out(sign, &binary().decimal())
}

/// Java writes at least one digit on both sides of the point, and an exponent outside
/// 0.001..10 000 000.
fn laid_out(sign: &str, decimal: &Decimal) -> String {
    let digits: String = decimal
        .digits
        .iter()
        .map(|digit| char::from(b'0' + digit))
        .collect();
    let or_zero = |fraction: &str| if fraction.is_empty() { "0" } else { fraction }.to_owned();
    match decimal.point {
        -2..=0 => {
            let zeros = "0".repeat(decimal.point.unsigned_abs() as usize);
            format!("{sign}0.{zeros}{digits}")
        }
        1..=7 => {
            let point = decimal.point as usize;
            let padded = format!("{digits:0<point$}");
            let (whole, fraction) = padded.split_at(point);
            format!("{sign}{whole}.{}", or_zero(fraction))
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            format!("{sign}{first}.{}E{}", or_zero(rest), decimal.point - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What Java 17 prints. Half of these have digits that are not needed to tell the number.
    #[test]
    fn doubles_print_as_in_java() {
        for (bits, text) in [
            (0x3f60_624d_d2f1_a9fc, "0.002"),
            (0x36dc_8b82_1885_4567, "2.0E-44"),
            (0x44b5_2d02_c7e1_4af6, "9.999999999999999E22"),
            (0x0010_0000_0000_0000, "2.2250738585072014E-308"),
            (0x0000_0000_0000_0001, "4.9E-324"),
            (0x0000_0000_0000_000e, "6.9E-323"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157E308"),
            (0x4163_12d0_0000_0000, "1.0E7"),
            (0x4163_12cf_ffff_ffff, "9999999.999999998"),
            (0x3f50_624d_d2f1_a9fc, "0.001"),
            (0x3f50_624d_d2f1_a9ce, "9.9999999999999E-4"),
            (0x43d0_0000_0000_0000, "4.6116860184273879E18"),
            (0x43db_0ce1_086c_6b64, "7.7967206601581896E18"),
            (0xc3a8_58fd_2ed5_2441, "-8.7721521622352704E17"),
            (0x46d0_0000_0000_0000, "1.2980742146337069E33"),
            (0x5940_0000_0000_0000, "8.2631996098781075E121"),
            (0xc530_0cad_845c_e9c0, "-1.9402682336108375E25"),
            (0x3d30_0000_0000_0000, "5.6843418860808015E-14"),
            (0x4059_0000_0000_0000, "100.0"),
            (0x8000_0000_0000_0000, "-0.0"),
            (0xfff0_0000_0000_0000, "-Infinity"),
            (0xfff8_0000_0000_0000, "NaN"),
        ] {
            assert_eq!(double_to_text(f64::from_bits(bits)), text);
        }
    }

    #[test]
    fn floats_print_as_in_java() {
        for (bits, text) in [
            (0x4cbc_475f, "9.8712312E7"),
            (0x5015_02f9, "1.0E10"),
            (0x7f7f_ffff, "3.4028235E38"),
            (0x0000_0001, "1.4E-45"),
            (0x0000_0004, "5.6E-45"),
            (0x0000_000e, "2.0E-44"),
            (0x0080_0000, "1.17549435E-38"),
            (0x4b80_0000, "1.6777216E7"),
            (0x4b18_967f, "9999999.0"),
            (0x3a83_126f, "0.001"),
            (0x3dcc_cccd, "0.1"),
            (0xda40_3a02, "-1.35267439E16"),
            (0x5739_25ba, "2.03571685E14"),
            (0xcf54_a351, "-3.5674729E9"),
            (0xddfe_1ac0, "-2.28876979E18"),
        ] {
            assert_eq!(float_to_text(f32::from_bits(bits)), text);
        }
    }

    proptest! {
        #[test]
        fn texts_are_read_back_as_the_number(double: f64, float: f32) {
            let back: Option<f64> = from_text(&double_to_text(double));
            prop_assert_eq!(back, Some(double));
            let back: Option<f32> = from_text(&float_to_text(float));
            prop_assert_eq!(back, Some(float));
        }
    }
}
