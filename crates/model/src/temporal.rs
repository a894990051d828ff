//! `date`, `time` and `timestamp`: their texts, as Cassandra reads and writes them
//! (`SimpleDateSerializer`, `TimeSerializer`, `TimestampSerializer`).
//!
//! Both `date` and `timestamp` reach far beyond the years of calendar libraries, so days are
//! turned into dates here, in the proleptic Gregorian calendar (the algorithm is Howard Hinnant's,
//! "chrono-Compatible Low-Level Date Algorithms").

use crate::value::refuse;
use crate::{ValueError, zone};

/// What a `date` is shifted by so that it is unsigned: 1970-01-01 is 2^31.
const DATE_EPOCH: i64 = 1 << 31;
const MILLIS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_DAY: i64 = 86_400_000_000_000;

/// A day of the calendar; year 0 is the one before year 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Day {
    pub(crate) year: i64,
    pub(crate) month: u8,
    pub(crate) day: u8,
}

impl Day {
    /// Counted from 1970-01-01.
    pub(crate) fn from_epoch_days(days: i64) -> Day {
        // Years start in March, so that the leap day is the last one.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 {
            month_from_march + 3
        } else {
            month_from_march - 9
        };
        Day {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month: month as u8,
            day: day as u8,
        }
    }

    /// Since 1970-01-01.
    pub(crate) fn epoch_days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month_from_march = (i64::from(self.month) + 9) % 12;
        let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(self.day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - 719_468
    }

    /// The last day of its month.
    fn month_length(year: i64, month: u8) -> u8 {
        match month {
            2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// As in `2015-05-03`; years of more than four digits have a sign.
    fn print(self, year: i64) -> String {
        let Day { month, day, .. } = self;
        match year {
            0..=9999 => format!("{year:04}-{month:02}-{day:02}"),
            _ => format!("{year:+05}-{month:02}-{day:02}"),
        }
    }
}

/// A point in time as `java.time.Instant.toString` shows it: UTC, and a fraction of three, six or
/// nine digits if there is any. `nanos` is less than a second.
pub fn instant_to_text(seconds: i64, nanos: u32) -> String {
    let day = Day::from_epoch_days(seconds.div_euclid(86_400));
    let time = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    let fraction = match nanos {
        0 => String::new(),
        n if n % 1_000_000 == 0 => format!(".{:03}", n / 1_000_000),
        n if n % 1_000 == 0 => format!(".{:06}", n / 1_000),
        n => format!(".{n:09}"),
    };
    let date = day.print(day.year);
    format!("{date}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// The text of a `date`.
pub fn date_to_text(date: u32) -> String {
    let day = Day::from_epoch_days(i64::from(date) - DATE_EPOCH);
    day.print(day.year)
}

/// The `date` of `2015-05-03`, or of the digits of its number.
pub fn date_from_text(text: &str) -> Result<u32, ValueError> {
    if is_integer(text) {
        return text.parse().map_err(|_| {
            ValueError::new(format!(
                "Unable to make unsigned int (for date) from: '{text}'"
            ))
        });
    }
    let parsed = read_day(text)
        .filter(|(day, rest)| rest.is_empty() && day.day <= Day::month_length(day.year, day.month));
    let Some((day, _)) = parsed else {
        return refuse!("Unable to coerce '{text}' to a formatted date (long)");
    };
    let days = day.epoch_days() + DATE_EPOCH;
    if days < 0 {
        let first = date_to_text(0);
        return refuse!("Input date {text} is less than min supported date {first}T00:00Z");
    }
    u32::try_from(days)
        .map_err(|_| ValueError::new(format!("Input date {text} is beyond the supported dates")))
}

/// The text of a `time`; what is no time of day is cut to one.
pub fn time_to_text(nanoseconds: i64) -> String {
    let nanoseconds = nanoseconds.rem_euclid(NANOS_PER_DAY);
    let seconds = nanoseconds / 1_000_000_000;
    format!(
        "{:02}:{:02}:{:02}.{:09}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        nanoseconds % 1_000_000_000
    )
}

/// The `time` of `12:34:56.789`, or of the digits of its nanoseconds.
pub fn time_from_text(text: &str) -> Result<i64, ValueError> {
    if is_integer(text) {
        return match text.parse::<i64>() {
            Ok(nanoseconds) if (0..NANOS_PER_DAY).contains(&nanoseconds) => Ok(nanoseconds),
            _ => refuse!("Unable to make long (for time) from: '{text}'"),
        };
    }
    let read = || {
        // As Java trims.
        let (hours, rest) = text.trim_matches(|c: char| c <= ' ').split_once(':')?;
        let (minutes, rest) = rest.split_once(':')?;
        let (seconds, fraction) = match rest.split_once('.') {
            Some((seconds, fraction)) => (seconds, fraction_nanos(fraction, 1)?),
            None => (rest, 0),
        };
        let hours = below(hours, 24)?;
        let minutes = below(minutes, 60)?;
        let seconds = below(seconds, 60)?;
        Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + fraction)
    };
    read().ok_or_else(|| {
        ValueError::new(format!(
            "(TimeType) Unable to coerce '{text}' to a formatted time (long)"
        ))
    })
}

/// The text of a `timestamp`, with `separator` between day and time: `T` in CQL, a blank in JSON.
pub fn timestamp_to_text(milliseconds: i64, separator: char) -> String {
    let day = Day::from_epoch_days(milliseconds.div_euclid(MILLIS_PER_DAY));
    let time = milliseconds.rem_euclid(MILLIS_PER_DAY);
    // Cassandra prints the year of the era, so that year 0 (1 BC) looks like year 1.
    let year = if day.year > 0 { day.year } else { 1 - day.year };
    format!(
        "{}{separator}{:02}:{:02}:{:02}.{:03}Z",
        day.print(year),
        time / 3_600_000,
        time / 60_000 % 60,
        time / 1000 % 60,
        time % 1000
    )
}

/// The `timestamp` of a text: milliseconds, or a day with or without a time and a time zone (UTC
/// if none is given), as `2015-05-03 13:30:54.234+0100`.
///
/// Cassandra also takes `now`, which whoever knows the time must replace before.
pub fn timestamp_from_text(text: &str) -> Result<i64, ValueError> {
    if is_integer(text) {
        return text.parse().map_err(|_| {
            ValueError::new(format!("Unable to make long (for date) from: '{text}'"))
        });
    }
    read_timestamp(text)
        .ok_or_else(|| ValueError::new(format!("Unable to parse a date/time from '{text}'")))
}

fn read_timestamp(text: &str) -> Option<i64> {
    let (seconds, nanoseconds, rest) = match read_day_and_time(text) {
        Some(read) => read,
        None => {
            let (mut day, rest) = read_day(text)?;
            day.day = day.day.min(Day::month_length(day.year, day.month));
            // Directly behind a day, and nowhere else, Cassandra reads the zone's letter as a small one, too.
            let zone = if rest == "z" { "Z" } else { rest };
            (day.epoch_days() * 86_400, 0, zone)
        }
    };
    let offset = zone::offset_at(rest, seconds)?;
    let milliseconds =
        (i128::from(seconds) - i128::from(offset)) * 1000 + i128::from(nanoseconds / 1_000_000);
    i64::try_from(milliseconds).ok()
}

/// `y-M-d H:m[:s[.fraction]]`, with a blank or a `T`: seconds since 1970, nanoseconds, and what
/// follows. Numbers may have fewer digits here than in a day alone.
fn read_day_and_time(text: &str) -> Option<(i64, i64, &str)> {
    // Cassandra prints a plus sign before long years, but does not read it.
    let (year, rest) = number(text.strip_prefix('+').unwrap_or(text), 1..=9)?;
    let (month, rest) = number(rest.strip_prefix('-')?, 1..=2)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 1..=2)?;
    let day = checked_day(year, month, day).filter(|day| day.year > 0)?;
    let (hours, rest) = number(rest.strip_prefix([' ', 'T'])?, 1..=2)?;
    let (minutes, rest) = number(rest.strip_prefix(':')?, 1..=2)?;
    let (seconds, rest) = match rest.strip_prefix(':') {
        Some(rest) => number(rest, 1..=2)?,
        None => (0, rest),
    };
    let (nanoseconds, rest) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            (fraction_nanos(&rest[..end], 0)?, &rest[end..])
        }
        None => (0, rest),
    };
    // Midnight may also be called 24:00.
    let whole_day = hours == 24 && minutes == 0 && seconds == 0 && nanoseconds == 0;
    if (hours > 23 && !whole_day) || minutes > 59 || seconds > 59 {
        return None;
    }
    let seconds = day.epoch_days() * 86_400 + (hours * 60 + minutes) * 60 + seconds;
    Some((seconds, nanoseconds, rest))
}

/// `yyyy-MM-dd`, with a sign if the year has more than four digits.
fn read_day(text: &str) -> Option<(Day, &str)> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let (year, rest) = number(unsigned, 4..=9)?;
    let digits = unsigned.len() - rest.len();
    let signed = unsigned.len() < text.len();
    if digits > 4 && !signed || digits == 4 && text.starts_with('+') {
        return None;
    }
    let (month, rest) = number(rest.strip_prefix('-')?, 2..=2)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 2..=2)?;
    let (month, day) = (u8::try_from(month).ok()?, u8::try_from(day).ok()?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = sign * year;
    Some((Day { year, month, day }, rest))
}

/// A day; one that its month does not have becomes the last one of the month.
fn checked_day(year: i64, month: i64, day: i64) -> Option<Day> {
    let (month, day) = (u8::try_from(month).ok()?, u8::try_from(day).ok()?);
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day);
    valid.then(|| Day {
        year,
        month,
        day: day.min(Day::month_length(year, month)),
    })
}

/// A number of so many digits, and what follows.
fn number(text: &str, width: std::ops::RangeInclusive<usize>) -> Option<(i64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    if !width.contains(&end) {
        return None;
    }
    Some((text[..end].parse().ok()?, &text[end..]))
}

fn below(digits: &str, limit: i64) -> Option<i64> {
    let (value, rest) = number(digits, 1..=9)?;
    (rest.is_empty() && value < limit).then_some(value)
}

/// The nanoseconds of the digits behind a decimal point.
fn fraction_nanos(digits: &str, at_least: usize) -> Option<i64> {
    if digits.is_empty() && at_least == 0 {
        return Some(0);
    }
    let (value, rest) = number(digits, 1..=9)?;
    rest.is_empty()
        .then(|| value * 10i64.pow(9 - digits.len() as u32))
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_shown_as_java_shows_them() {
        assert_eq!(instant_to_text(0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(
            instant_to_text(1_700_000_168, 40_360_000),
            "2023-11-14T22:16:08.040360Z"
        );
        assert_eq!(instant_to_text(-1, 5_000_000), "1969-12-31T23:59:59.005Z");
        assert_eq!(
            instant_to_text(-9_223_372_036_854, 224_192_000),
            "-290308-12-21T19:59:06.224192Z"
        );
    }
}
