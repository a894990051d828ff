//! How Java shows what the metadata tool prints: numbers, times, the order of a `HashMap`.

use model::CqlType;
use model::temporal::instant_to_text;

/// `Double.toString`.
pub(super) fn double(value: f64) -> String {
    CqlType::Double.format_string(&value.to_be_bytes())
}

/// `MM/dd/yyyy HH:mm:ss` of a time in seconds since 1970, in UTC; `None` for the time 0.
pub(super) fn date(seconds: i64) -> Option<String> {
    if seconds == 0 {
        return None;
    }
    date_text(seconds)
}

/// The same of microseconds.
pub(super) fn date_of_micros(micros: i64) -> Option<String> {
    if micros == 0 {
        return None;
    }
    date_text(micros.div_euclid(1_000_000))
}

fn date_text(seconds: i64) -> Option<String> {
    let text = instant_to_text(seconds, 0);
    let (day, time) = text.trim_end_matches('Z').rsplit_once('T')?;
    let (year_month, day) = day.rsplit_once('-')?;
    let (year, month) = year_month.rsplit_once('-')?;
    Some(format!("{month}/{day}/{year} {time}"))
}

/// Seconds in words (`DurationFormatUtils.formatDurationWords`, without zeros at either end);
/// `None` for none.
pub(super) fn duration(seconds: i32) -> Option<String> {
    if seconds == 0 {
        return None;
    }
    if seconds == i32::MAX {
        return Some("never".to_owned());
    }
    let parts = [
        (seconds / 86_400, "day"),
        (seconds / 3600 % 24, "hour"),
        (seconds / 60 % 60, "minute"),
        (seconds % 60, "second"),
    ];
    let used = |part: &(i32, &str)| part.0 != 0;
    let first = parts.iter().position(used).unwrap_or(3);
    let last = parts.iter().rposition(used).unwrap_or(3);
    let words: Vec<String> = parts[first..=last]
        .iter()
        .map(|(count, unit)| format!("{count} {unit}{}", if *count == 1 { "" } else { "s" }))
        .collect();
    Some(words.join(" "))
}

/// A number of bytes (`SSTableMetadataViewer.toByteString`); `None` for none.
pub(super) fn bytes(bytes: i64) -> Option<String> {
    match bytes {
        0 => None,
        ..1024 => Some(format!("{bytes} B")),
        _ => {
            let exponent = ((bytes as f64).ln() / 1024f64.ln()) as i32;
            let unit = ["k", "M", "G", "T", "P", "E"][(exponent - 1).clamp(0, 5) as usize];
            Some(format!(
                "{:.1} {unit}B",
                bytes as f64 / 1024f64.powi(exponent)
            ))
        }
    }
}

/// The order in which a `HashMap` gives keys that were put into it in this order.
pub(super) fn hash_order<T>(entries: Vec<(String, T)>) -> Vec<(String, T)> {
    let mut buckets = 16usize;
    while entries.len() > buckets / 4 * 3 {
        buckets *= 2;
    }
    let hash = |key: &str| {
        let units = key.encode_utf16();
        let hash = units.fold(0u32, |hash, unit| {
            hash.wrapping_mul(31).wrapping_add(u32::from(unit))
        });
        (hash ^ hash >> 16) as usize & (buckets - 1)
    };
    let mut entries = entries;
    entries.sort_by_key(|(key, _)| hash(key));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_look_as_in_java() {
        assert_eq!(double(0.0), "0.0");
        assert_eq!(double(1e10), "1.0E10");
        assert_eq!(date(1_442_880_000).as_deref(), Some("09/22/2015 00:00:00"));
        assert_eq!(date(0), None);
        assert_eq!(duration(3600).as_deref(), Some("1 hour"));
        assert_eq!(
            duration(90_061).as_deref(),
            Some("1 day 1 hour 1 minute 1 second")
        );
        assert_eq!(
            duration(86_402).as_deref(),
            Some("1 day 0 hours 0 minutes 2 seconds")
        );
        assert_eq!(bytes(943_128).as_deref(), Some("921.0 kB"));
        assert_eq!(bytes(1_131_752).as_deref(), Some("1.1 MB"));
        assert_eq!(bytes(1023).as_deref(), Some("1023 B"));
    }

    #[test]
    fn a_hash_map_has_its_own_order() {
        let keys = ["c_blob", "c_text", "c_duration", "c_varchar"];
        let entries = keys.map(|key| (key.to_owned(), ()));
        let found: Vec<String> = hash_order(entries.into())
            .into_iter()
            .map(|e| e.0)
            .collect();
        assert_eq!(found.len(), 4);
    }
}
