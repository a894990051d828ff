//! Sizes in bytes as people write them.

/// Units and their bytes. As in Cassandra, `G`, `GB` and `GiB` are all 2^30.
const UNITS: [(&str, u64); 5] = [
    ("", 1),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
];

/// Reads `4096`, `512M`, `1.5 GiB`: any case, one space allowed before the unit.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let error = || format!("`{text}` is no size; one looks like 512M or 11.5GiB");
    let text = text.trim();
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = unit.trim_start().to_ascii_uppercase();
    let unit = unit.strip_suffix('B').unwrap_or(&unit);
    let unit = unit.strip_suffix('I').unwrap_or(unit);
    let (_, factor) = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(error)?;
    let bytes = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(*factor),
        Err(_) => {
            let number: f64 = number.parse().map_err(|_| error())?;
            let bytes = number * *factor as f64;
            (bytes < (1u64 << 60) as f64).then_some(bytes as u64)
        }
    };
    bytes.filter(|bytes| *bytes > 0).ok_or_else(error)
}

/// Bytes with the unit that suits them: `11.5 GiB`, `512 MiB`.
pub(crate) fn display(bytes: u64) -> String {
    let (unit, factor) = match bytes {
        0..1024 => return format!("{bytes} bytes"),
        1024..0x10_0000 => ("KiB", 1u64 << 10),
        0x10_0000..0x4000_0000 => ("MiB", 1 << 20),
        _ => ("GiB", 1 << 30),
    };
    let tenths = (u128::from(bytes) * 10 / u128::from(factor)) as u64;
    match tenths % 10 {
        0 => format!("{} {unit}", tenths / 10),
        tenth => format!("{}.{tenth} {unit}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4096B", 4096),
            ("1k", 1024),
            ("512M", 512 << 20),
            ("512 MiB", 512 << 20),
            ("2gb", 2 << 30),
            ("11.5GiB", 23 << 29),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "0",
            "G",
            "-1G",
            "1X",
            "1.2.3M",
            "1e3",
            "1 2",
            "99999999999T",
            "1II",
            ".",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown() {
        for (bytes, text) in [
            (12, "12 bytes"),
            (2048, "2 KiB"),
            (512 << 20, "512 MiB"),
            (1 << 30, "1 GiB"),
            (23 << 29, "11.5 GiB"),
            ((23 << 29) + 12345, "11.5 GiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(display(bytes), text);
        }
    }
}
