//! How nodetool prints: tables, sizes, numbers, as Cassandra's does.

use std::fmt::Write;

/// Rows whose columns are as wide as their widest cell, with a blank between them (Cassandra's
/// `TableBuilder`).
#[derive(Debug, Default)]
pub(super) struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// One more row.
    pub(super) fn add<S: Into<String>>(&mut self, row: impl IntoIterator<Item = S>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// All rows, each with the blanks that fill its last column.
    pub(super) fn text(&self) -> String {
        self.text_with(" ")
    }

    /// As [`TextTable::text`], with this between the columns.
    pub(super) fn text_with(&self, between: &str) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            for (column, width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                let blank = if column == 0 { "" } else { between };
                // Writing to a string does not fail.
                let _ = write!(text, "{blank}{cell:<width$}");
            }
            text.push('\n');
        }
        text
    }
}

const UNITS: [&str; 4] = ["TiB", "GiB", "MiB", "KiB"];

/// A number of bytes as `FileUtils.stringifyFileSize` puts it: `15.34 KiB`, `0 bytes`.
pub(super) fn file_size(bytes: u64) -> String {
    for (at, unit) in UNITS.iter().enumerate() {
        let shift = 10 * (UNITS.len() - at);
        if bytes >= 1 << shift {
            let number = bytes as f64 / (1u64 << shift) as f64;
            return format!("{} {unit}", two_digits(number));
        }
    }
    format!("{bytes} bytes")
}

/// At most two digits behind the point, without zeros at the end (`DecimalFormat("#.##")`).
fn two_digits(number: f64) -> String {
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

/// A number of bytes as `FBUtilities.prettyPrintMemory` puts it: `15.344KiB`, `0B`.
pub(super) fn memory_size(bytes: u64) -> String {
    match bytes {
        ..1024 => format!("{bytes}B"),
        1024..0x10_0000 => format!("{:.3}KiB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.3}MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.3}GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// A number as Java's `Double.toString` puts it where it is neither very large nor very small.
pub(super) fn double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    format!("{number:?}")
}

/// A number with so many digits behind the point; Java has a name of its own for what is none.
pub(super) fn fixed(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    format!("{number:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_cassandras() {
        for (bytes, file, memory) in [
            (0, "0 bytes", "0B"),
            (26, "26 bytes", "26B"),
            (15712, "15.34 KiB", "15.344KiB"),
            (1055, "1.03 KiB", "1.030KiB"),
            (1229, "1.2 KiB", "1.200KiB"),
            (51 << 20, "51 MiB", "51.000MiB"),
            (3 << 30, "3 GiB", "3.000GiB"),
        ] {
            assert_eq!(file_size(bytes), file);
            assert_eq!(memory_size(bytes), memory);
        }
        assert_eq!(file_size(5 << 40), "5 TiB");
    }

    #[test]
    fn numbers_are_javas() {
        assert_eq!(double(f64::NAN), "NaN");
        assert_eq!(double(10.0), "10.0");
        assert_eq!(double(0.3549), "0.3549");
        assert_eq!(fixed(f64::NAN, 3), "NaN");
        assert_eq!(fixed(0.0644, 3), "0.064");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = TextTable::default();
        table.add(["a", "long name", "c"]);
        table.add(["abc", "d"]);
        assert_eq!(table.text(), "a   long name c\nabc d          \n");
    }
}
