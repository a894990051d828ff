//! `duration`: months, days and nanoseconds, all of one sign; serialized as three signed vints
//! (`DurationSerializer`). Its texts are those of `org.apache.cassandra.cql3.Duration`.

use std::fmt;
use std::str::FromStr;

use crate::value::refuse;
use crate::{ValueError, vint};

const NANOS_PER_MICRO: i64 = 1_000;
const NANOS_PER_MILLI: i64 = 1_000 * NANOS_PER_MICRO;
const NANOS_PER_SECOND: i64 = 1_000 * NANOS_PER_MILLI;
const NANOS_PER_MINUTE: i64 = 60 * NANOS_PER_SECOND;
const NANOS_PER_HOUR: i64 = 60 * NANOS_PER_MINUTE;

/// A span of calendar time: its parts do not convert into each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Duration {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Nanoseconds.
    pub nanoseconds: i64,
}

impl Duration {
    /// The duration a serialized value holds. Like Cassandra, takes no notice of bytes behind it.
    pub fn decode(mut value: &[u8]) -> Result<Duration, ValueError> {
        if value.len() < 3 {
            return refuse!("Expected at least 3 bytes for a duration ({})", value.len());
        }
        let mut part = || {
            vint::read_signed(&mut value)
                .ok_or_else(|| ValueError::new("Not enough bytes to read a duration"))
        };
        let (months, days, nanoseconds) = (part()?, part()?, part()?);
        let narrow = |number: i64, name: &str| {
            i32::try_from(number).map_err(|_| {
                ValueError::new(format!(
                    "The duration {name} must be a 32 bits integer but was: {number}"
                ))
            })
        };
        let duration = Duration {
            months: narrow(months, "months")?,
            days: narrow(days, "days")?,
            nanoseconds,
        };
        duration.check_signs()?;
        Ok(duration)
    }

    /// The serialized value.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12);
        vint::write_signed(&mut out, i64::from(self.months));
        vint::write_signed(&mut out, i64::from(self.days));
        vint::write_signed(&mut out, self.nanoseconds);
        out
    }

    fn check_signs(&self) -> Result<(), ValueError> {
        let Duration {
            months,
            days,
            nanoseconds,
        } = *self;
        let negative = months < 0 || days < 0 || nanoseconds < 0;
        let positive = months > 0 || days > 0 || nanoseconds > 0;
        if negative && positive {
            return refuse!(
                "The duration months, days and nanoseconds must be all of the same sign \
                 ({months}, {days}, {nanoseconds})"
            );
        }
        Ok(())
    }
}

impl fmt::Display for Duration {
    /// As `1y2mo3d4h5m6s7ms8us9ns`, leaving out what is zero; nothing at all for no time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.months < 0 || self.days < 0 || self.nanoseconds < 0 {
            f.write_str("-")?;
        }
        let mut months = u64::from(self.months.unsigned_abs());
        let mut nanoseconds = self.nanoseconds.unsigned_abs();
        let mut part = |rest: &mut u64, size: u64, unit: &str| {
            let count = *rest / size;
            *rest %= size;
            if count == 0 {
                return Ok(());
            }
            write!(f, "{count}{unit}")
        };
        part(&mut months, 12, "y")?;
        part(&mut months, 1, "mo")?;
        part(&mut u64::from(self.days.unsigned_abs()), 1, "d")?;
        for (size, unit) in [
            (NANOS_PER_HOUR, "h"),
            (NANOS_PER_MINUTE, "m"),
            (NANOS_PER_SECOND, "s"),
            (NANOS_PER_MILLI, "ms"),
            (NANOS_PER_MICRO, "us"),
            (1, "ns"),
        ] {
            part(&mut nanoseconds, size as u64, unit)?;
        }
        Ok(())
    }
}

impl FromStr for Duration {
    type Err = ValueError;

    /// Parses `12h30m`, ISO 8601's `P1Y2M3DT4H5M6S` and `P3W`, and its alternative form
    /// `P0001-02-03T04:05:06`; each may have a minus sign before it.
    fn from_str(text: &str) -> Result<Duration, ValueError> {
        let (negative, body) = match text.strip_prefix('-') {
            Some(body) => (true, body),
            None => (false, text),
        };
        let mut builder = Builder {
            negative,
            ..Builder::default()
        };
        let parsed = match body.strip_prefix('P') {
            Some(iso) if iso.contains('-') => parse_alternative(iso, &mut builder)?,
            Some(iso) => parse_iso(iso, &mut builder)?,
            None => parse_units(body, &mut builder)?,
        };
        if parsed.is_none() {
            return refuse!("Unable to convert '{body}' to a duration");
        }
        Ok(builder.duration)
    }
}

/// The units, largest first: the order in which they may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Years,
    Months,
    Weeks,
    Days,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

impl Unit {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Adds up what was given, in order and within bounds.
#[derive(Default)]
struct Builder {
    duration: Duration,
    negative: bool,
    last: Option<Unit>,
}

impl Builder {
    fn add(&mut self, unit: Unit, digits: &str) -> Result<(), ValueError> {
        if let Some(last) = self.last {
            if last == unit {
                return refuse!(
                    "Invalid duration. The {} are specified multiple times",
                    unit.name()
                );
            }
            if last > unit {
                return refuse!(
                    "Invalid duration. The {} should be after {}",
                    last.name(),
                    unit.name()
                );
            }
        }
        self.last = Some(unit);
        let Ok(count) = digits.parse::<i64>() else {
            return refuse!("For input string: \"{digits}\"");
        };
        let count = i128::from(if self.negative { -count } else { count });
        match unit {
            Unit::Years => narrow(&mut self.duration.months, count * 12, "months", i32::MAX),
            Unit::Months => narrow(&mut self.duration.months, count, "months", i32::MAX),
            Unit::Weeks => narrow(&mut self.duration.days, count * 7, "days", i32::MAX),
            Unit::Days => narrow(&mut self.duration.days, count, "days", i32::MAX),
            _ => {
                let size = match unit {
                    Unit::Hours => NANOS_PER_HOUR,
                    Unit::Minutes => NANOS_PER_MINUTE,
                    Unit::Seconds => NANOS_PER_SECOND,
                    Unit::Milliseconds => NANOS_PER_MILLI,
                    Unit::Microseconds => NANOS_PER_MICRO,
                    _ => 1,
                };
                let nanoseconds = count * i128::from(size);
                narrow(
                    &mut self.duration.nanoseconds,
                    nanoseconds,
                    "nanoseconds",
                    i64::MAX,
                )
            }
        }
    }
}

/// Adds `count` to `total`, which may not pass `max` either way.
fn narrow<N: Copy + TryFrom<i128> + Into<i128> + fmt::Display>(
    total: &mut N,
    count: i128,
    name: &str,
    max: N,
) -> Result<(), ValueError> {
    let sum = (*total).into() + count;
    match N::try_from(sum) {
        Ok(sum_fits) if sum.abs() <= max.into() => {
            *total = sum_fits;
            Ok(())
        }
        _ => {
            refuse!("Invalid duration. The total number of {name} must be less or equal to {max}")
        }
    }
}

/// Whether the text had the form at all.
type Form = Option<()>;

/// Splits digits off the front; there must be some.
fn digits(text: &str) -> Option<(&str, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// `1y2mo…`, units in any case.
fn parse_units(mut rest: &str, builder: &mut Builder) -> Result<Form, ValueError> {
    // Longer names first: `mo` and `ms` before `m`.
    const UNITS: [(&str, Unit); 11] = [
        ("mo", Unit::Months),
        ("ms", Unit::Milliseconds),
        ("us", Unit::Microseconds),
        ("\u{b5}s", Unit::Microseconds),
        ("ns", Unit::Nanoseconds),
        ("y", Unit::Years),
        ("w", Unit::Weeks),
        ("d", Unit::Days),
        ("h", Unit::Hours),
        ("s", Unit::Seconds),
        ("m", Unit::Minutes),
    ];
    if rest.is_empty() {
        return Ok(None);
    }
    while !rest.is_empty() {
        let Some((count, after)) = digits(rest) else {
            return Ok(None);
        };
        let found = UNITS.iter().find(|(name, _)| {
            after
                .get(..name.len())
                .is_some_and(|head| head.eq_ignore_ascii_case(name))
        });
        let Some((name, unit)) = found else {
            return Ok(None);
        };
        builder.add(*unit, count)?;
        rest = &after[name.len()..];
    }
    Ok(Some(()))
}

/// What follows the `P` of `P1Y2M3DT4H5M6S` or `P3W`.
fn parse_iso(text: &str, builder: &mut Builder) -> Result<Form, ValueError> {
    if let Some(weeks) = text.strip_suffix('W') {
        let Some((count, "")) = digits(weeks) else {
            return Ok(None);
        };
        return builder.add(Unit::Weeks, count).map(Some);
    }
    let (date, time) = text.split_once('T').unwrap_or((text, ""));
    let date_units = [('Y', Unit::Years), ('M', Unit::Months), ('D', Unit::Days)];
    let time_units = [
        ('H', Unit::Hours),
        ('M', Unit::Minutes),
        ('S', Unit::Seconds),
    ];
    for (mut rest, units) in [(date, date_units), (time, time_units)] {
        for (letter, unit) in units {
            if let Some((count, after)) = digits(rest)
                && let Some(after) = after.strip_prefix(letter)
            {
                builder.add(unit, count)?;
                rest = after;
            }
        }
        if !rest.is_empty() {
            return Ok(None);
        }
    }
    Ok(Some(()))
}

/// What follows the `P` of `P0001-02-03T04:05:06`.
fn parse_alternative(mut rest: &str, builder: &mut Builder) -> Result<Form, ValueError> {
    const PARTS: [(usize, &str, Unit); 6] = [
        (4, "-", Unit::Years),
        (2, "-", Unit::Months),
        (2, "T", Unit::Days),
        (2, ":", Unit::Hours),
        (2, ":", Unit::Minutes),
        (2, "", Unit::Seconds),
    ];
    for (width, separator, unit) in PARTS {
        let Some((count, after)) = digits(rest) else {
            return Ok(None);
        };
        let Some(after) = after.strip_prefix(separator) else {
            return Ok(None);
        };
        if count.len() != width {
            return Ok(None);
        }
        builder.add(unit, count)?;
        rest = after;
    }
    Ok(rest.is_empty().then_some(()))
}
