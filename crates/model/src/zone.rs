//! Time zones behind the text of a timestamp: `Z`, `+01:00`, ` UTC`, ` America/New_York`.
//!
//! Names come from the tz database that is compiled in, so that the same text means the same time
//! on every machine.

use std::sync::OnceLock;

use jiff::civil;
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// Names that are not in the tz database or mean something else there, as Java understands them.
const NAMES: [(&str, &str); 30] = [
    ("PST", "America/Los_Angeles"),
    ("PDT", "America/Los_Angeles"),
    ("MST", "America/Denver"),
    ("MDT", "America/Denver"),
    ("CST", "America/Chicago"),
    ("CDT", "America/Chicago"),
    ("EST", "America/New_York"),
    ("EDT", "America/New_York"),
    ("AKST", "America/Anchorage"),
    ("AKDT", "America/Anchorage"),
    ("HST", "Pacific/Honolulu"),
    ("CET", "Europe/Paris"),
    ("CEST", "Europe/Paris"),
    ("EET", "Europe/Athens"),
    ("EEST", "Europe/Athens"),
    ("WET", "Europe/Lisbon"),
    ("WEST", "Europe/Lisbon"),
    ("BST", "Europe/London"),
    ("MSK", "Europe/Moscow"),
    ("JST", "Asia/Tokyo"),
    ("KST", "Asia/Seoul"),
    ("Coordinated Universal Time", "UTC"),
    ("Greenwich Mean Time", "GMT"),
    ("Pacific Standard Time", "America/Los_Angeles"),
    ("Pacific Daylight Time", "America/Los_Angeles"),
    ("Mountain Standard Time", "America/Denver"),
    ("Central Standard Time", "America/Chicago"),
    ("Eastern Standard Time", "America/New_York"),
    ("Eastern Daylight Time", "America/New_York"),
    ("Central European Standard Time", "Europe/Paris"),
];

/// The seconds that the zone named by `suffix` is ahead of UTC when its clocks show
/// `local_seconds` since 1970. No suffix is UTC; names need a blank before them.
pub(crate) fn offset_at(suffix: &str, local_seconds: i64) -> Option<i32> {
    match suffix.strip_prefix(' ') {
        None if suffix.is_empty() => Some(0),
        None => fixed_offset(suffix),
        Some(name) => fixed_offset(name).or_else(|| named_offset(name, local_seconds)),
    }
}

/// `Z`, `+01`, `+0100`, `+01:00`; at most 18 hours.
fn fixed_offset(text: &str) -> Option<i32> {
    if text == "Z" {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = text.get(1..)?;
    let (hours, minutes) = match digits.len() {
        2 => (digits, "00"),
        4 => digits.split_at_checked(2)?,
        5 => digits.split_once(':')?,
        _ => return None,
    };
    let number = |digits: &str| {
        let plain = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<i32>().ok().filter(|_| plain)
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let seconds = hours * 3600 + minutes * 60;
    (minutes < 60 && seconds <= 18 * 3600).then_some(sign * seconds)
}

fn named_offset(name: &str, local_seconds: i64) -> Option<i32> {
    // As in `GMT+01:00`.
    if let Some(offset) = name
        .strip_prefix("GMT")
        .or_else(|| name.strip_prefix("UTC"))
        .filter(|rest| rest.contains(':'))
    {
        return fixed_offset(offset);
    }
    let known = NAMES.iter().find(|(known, _)| *known == name);
    let zone = zone(known.map_or(name, |(_, zone)| zone))?;
    // Beyond the calendar of the library, the nearest year it has decides.
    let local = local_seconds.clamp(-377_000_000_000, 253_000_000_000);
    let civil = civil::DateTime::from(civil::date(1970, 1, 1))
        .checked_add(jiff::SignedDuration::from_secs(local))
        .ok()?;
    let zoned = zone.to_ambiguous_zoned(civil).compatible().ok()?;
    Some(zoned.offset().seconds())
}

/// The zone of exactly this name.
fn zone(name: &str) -> Option<TimeZone> {
    static BUNDLED: OnceLock<TimeZoneDatabase> = OnceLock::new();
    let zone = BUNDLED
        .get_or_init(TimeZoneDatabase::bundled)
        .get(name)
        .ok()?;
    // The database does not mind case; Java does.
    (zone.iana_name() == Some(name)).then_some(zone)
}
