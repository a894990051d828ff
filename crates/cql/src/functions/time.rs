//! Times, dates and time uuids (`TimeFcts`, `UuidFcts`).

use bytes::Bytes;
use model::CqlType;
use model::duration::Duration;

use super::{Call, Scalar, calendar};
use crate::CqlError;

/// Functions that give another result each time.
pub(super) const IMPURE: [&str; 10] = [
    "now",
    "uuid",
    "currenttimeuuid",
    "current_timeuuid",
    "currenttimestamp",
    "current_timestamp",
    "currentdate",
    "current_date",
    "currenttime",
    "current_time",
];

const MILLIS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_MILLI: i64 = 1_000_000;
const NANOS_PER_DAY: i64 = MILLIS_PER_DAY * NANOS_PER_MILLI;
/// What a `date` is shifted by so that it is unsigned: 1970-01-01 is 2^31.
const DATE_EPOCH: i64 = 1 << 31;
/// 1970-01-01 in the 100 ns steps since 1582-10-15 that time uuids count.
const UUID_EPOCH: i64 = 0x01B2_1DD2_1381_4000;
const STEPS_PER_MILLI: i64 = 10_000;

/// The overloads of this name.
pub(super) fn named(name: &str) -> Vec<Scalar> {
    let one = |name, arguments: &[CqlType], result, body| {
        vec![Scalar::new(name, arguments, result, body)]
    };
    let each = |name, arguments: &[CqlType], result: CqlType, body: super::Body| {
        arguments
            .iter()
            .map(|argument| Scalar::new(name, [argument.clone()], result.clone(), body))
            .collect()
    };
    use CqlType::{Bigint, Date, Time, Timestamp, Timeuuid, Uuid};
    match name {
        "now" => one("now", &[], Timeuuid, now),
        "currenttimeuuid" => one("currenttimeuuid", &[], Timeuuid, now),
        "current_timeuuid" => one("current_timeuuid", &[], Timeuuid, now),
        "currenttimestamp" => one("currenttimestamp", &[], Timestamp, current_timestamp),
        "current_timestamp" => one("current_timestamp", &[], Timestamp, current_timestamp),
        "currentdate" => one("currentdate", &[], Date, current_date),
        "current_date" => one("current_date", &[], Date, current_date),
        "currenttime" => one("currenttime", &[], Time, current_time),
        "current_time" => one("current_time", &[], Time, current_time),
        "uuid" => one("uuid", &[], Uuid, uuid),
        "mintimeuuid" => one("mintimeuuid", &[Timestamp], Timeuuid, min_timeuuid),
        "min_timeuuid" => one("min_timeuuid", &[Timestamp], Timeuuid, min_timeuuid),
        "maxtimeuuid" => one("maxtimeuuid", &[Timestamp], Timeuuid, max_timeuuid),
        "max_timeuuid" => one("max_timeuuid", &[Timestamp], Timeuuid, max_timeuuid),
        "todate" => each("todate", &[Timeuuid, Timestamp], Date, to_date),
        "to_date" => each("to_date", &[Timeuuid, Timestamp], Date, to_date),
        "totimestamp" => each("totimestamp", &[Timeuuid, Date], Timestamp, to_timestamp),
        "to_timestamp" => each("to_timestamp", &[Timeuuid, Date], Timestamp, to_timestamp),
        "tounixtimestamp" => each(
            "tounixtimestamp",
            &[Timeuuid, Timestamp, Date],
            Bigint,
            to_timestamp,
        ),
        "to_unix_timestamp" => each(
            "to_unix_timestamp",
            &[Timeuuid, Timestamp, Date],
            Bigint,
            to_timestamp,
        ),
        "floor" => floors(),
        _ => Vec::new(),
    }
}

fn floors() -> Vec<Scalar> {
    use CqlType::{Date, Duration, Time, Timestamp, Timeuuid};
    [
        (vec![Timestamp, Duration], Timestamp),
        (vec![Timestamp, Duration, Timestamp], Timestamp),
        (vec![Timeuuid, Duration], Timestamp),
        (vec![Timeuuid, Duration, Timestamp], Timestamp),
        (vec![Date, Duration], Date),
        (vec![Date, Duration, Date], Date),
        (vec![Time, Duration], Time),
    ]
    .into_iter()
    .map(|(arguments, result)| Scalar::new("floor", arguments, result, floor))
    .collect()
}

type Outcome = Result<Option<Bytes>, CqlError>;

fn value<const N: usize>(bytes: [u8; N]) -> Outcome {
    Ok(Some(Bytes::copy_from_slice(&bytes)))
}

/// A version 1 uuid of this time, in 100 ns steps since 1970, with these low bits.
fn timeuuid(steps: i64, low: u64) -> [u8; 16] {
    let time = steps.wrapping_add(UUID_EPOCH) as u64;
    let high = (time << 32) | ((time >> 16) & 0xffff_0000) | ((time >> 48) & 0x0fff) | 0x1000;
    ((u128::from(high) << 64) | u128::from(low)).to_be_bytes()
}

/// Milliseconds since 1970 of a version 1 uuid.
fn timeuuid_millis(uuid: &[u8]) -> Option<i64> {
    let high = u64::from_be_bytes(uuid.first_chunk::<8>().copied()?);
    let time = (high >> 32) | ((high & 0xffff_0000) << 16) | ((high & 0x0fff) << 48);
    Some((time as i64).wrapping_sub(UUID_EPOCH) / STEPS_PER_MILLI)
}

fn now(call: &Call<'_>) -> Outcome {
    let steps = call.context.now_micros * 10 + call.context.next_timeuuid();
    // The variant of RFC 4122; the rest is random, with the multicast bit that says so.
    let low = call.context.next_random() & 0x3fff_ffff_ffff_ffff | 0x8000_0100_0000_0000;
    value(timeuuid(steps, low))
}

fn uuid(call: &Call<'_>) -> Outcome {
    let high = call.context.next_random() & 0xffff_ffff_ffff_0fff | 0x4000;
    let low = call.context.next_random() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
    value(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
}

fn now_millis(call: &Call<'_>) -> i64 {
    call.context.now_micros.div_euclid(1000)
}

fn current_timestamp(call: &Call<'_>) -> Outcome {
    value(now_millis(call).to_be_bytes())
}

fn current_date(call: &Call<'_>) -> Outcome {
    value(date_of(now_millis(call)))
}

fn current_time(call: &Call<'_>) -> Outcome {
    let nanos = call.context.now_micros.rem_euclid(MILLIS_PER_DAY * 1000) * 1000;
    value(nanos.to_be_bytes())
}

/// Cut towards 1970, as Cassandra does: the last millisecond of 1969 is still its first day.
fn date_of(millis: i64) -> [u8; 4] {
    ((millis / MILLIS_PER_DAY + DATE_EPOCH) as u32).to_be_bytes()
}

/// Milliseconds since 1970 of a value of any type that is a point in time.
fn millis_of(ty: &CqlType, value: &[u8]) -> Option<i64> {
    match ty {
        CqlType::Timeuuid => timeuuid_millis(value),
        CqlType::Timestamp => Some(i64::from_be_bytes(value.try_into().ok()?)),
        CqlType::Date => {
            let days = u32::from_be_bytes(value.try_into().ok()?);
            Some((i64::from(days) - DATE_EPOCH) * MILLIS_PER_DAY)
        }
        _ => None,
    }
}

fn millis_argument(call: &Call<'_>, index: usize) -> Option<i64> {
    millis_of(call.function.arguments.get(index)?, call.argument(index)?)
}

fn min_timeuuid(call: &Call<'_>) -> Outcome {
    match millis_argument(call, 0) {
        None => Ok(None),
        Some(millis) => value(timeuuid(
            millis.wrapping_mul(STEPS_PER_MILLI),
            0x8080_8080_8080_8080,
        )),
    }
}

fn max_timeuuid(call: &Call<'_>) -> Outcome {
    match millis_argument(call, 0) {
        None => Ok(None),
        Some(millis) => value(timeuuid(
            millis.wrapping_add(1).wrapping_mul(STEPS_PER_MILLI) - 1,
            0x7f7f_7f7f_7f7f_7f7f,
        )),
    }
}

/// From a timestamp or a time uuid.
pub(super) fn to_date(call: &Call<'_>) -> Outcome {
    match millis_argument(call, 0) {
        None => Ok(None),
        Some(millis) => value(date_of(millis)),
    }
}

/// From a date, a timestamp or a time uuid; also as a plain number.
pub(super) fn to_timestamp(call: &Call<'_>) -> Outcome {
    match millis_argument(call, 0) {
        None => Ok(None),
        Some(millis) => value(millis.to_be_bytes()),
    }
}

/// A timestamp or date moved by a duration.
pub(super) fn shift(
    ty: &CqlType,
    moment: &[u8],
    duration: &[u8],
    back: bool,
) -> Result<Bytes, String> {
    let mut duration = Duration::decode(duration).map_err(|e| e.to_string())?;
    let (unit, precision) = match ty {
        CqlType::Date => (NANOS_PER_DAY, "day"),
        _ => (NANOS_PER_MILLI, "millisecond"),
    };
    if duration.nanoseconds % unit != 0 {
        return Err(format!(
            "The duration must have a {precision} precision. Was: {duration}"
        ));
    }
    if back {
        duration = Duration {
            months: duration.months.wrapping_neg(),
            days: duration.days.wrapping_neg(),
            nanoseconds: duration.nanoseconds.wrapping_neg(),
        };
    }
    let millis = millis_of(ty, moment).ok_or("it is no point in time")?;
    let millis = add(millis, &duration);
    Ok(match ty {
        CqlType::Date => Bytes::copy_from_slice(&date_of(millis)),
        _ => Bytes::copy_from_slice(&millis.to_be_bytes()),
    })
}

/// `millis` moved by a duration (`Duration.addTo`): months by the calendar, the rest by the clock. Beyond what there is
/// it begins anew, as there.
fn add(millis: i64, duration: &Duration) -> i64 {
    let Duration {
        months,
        days,
        nanoseconds,
    } = *duration;
    if months == 0 {
        return millis.wrapping_add(clock_millis(duration));
    }
    let day = calendar::add_months(millis.div_euclid(MILLIS_PER_DAY), months);
    let moved = day
        .wrapping_mul(MILLIS_PER_DAY)
        .wrapping_add(millis.rem_euclid(MILLIS_PER_DAY));
    // The calendar takes milliseconds as an int.
    let rest = i64::from((nanoseconds / NANOS_PER_MILLI) as i32);
    moved.wrapping_add(i64::from(days) * MILLIS_PER_DAY + rest)
}

/// The part of a duration that every calendar measures alike.
fn clock_millis(duration: &Duration) -> i64 {
    i64::from(duration.days) * MILLIS_PER_DAY + duration.nanoseconds / NANOS_PER_MILLI
}

/// The start of the span of this duration that a moment lies in (`Duration.floorTimestamp`).
fn floor(call: &Call<'_>) -> Outcome {
    let result = &call.function.result;
    let refuse = |message: &str| Err(CqlError::Invalid(message.to_owned()));
    // What has no value is asked before what has a wrong one (`Arguments.containsNulls`).
    let mut arguments = 0..call.function.arguments.len();
    let Some(duration) = call.argument(1) else {
        return Ok(None);
    };
    if arguments.any(|at| call.argument(at).is_none()) {
        return Ok(None);
    }
    let duration = Duration::decode(duration).map_err(|e| CqlError::Invalid(e.to_string()))?;
    if *result == CqlType::Time {
        return floor_time(call, &duration);
    }
    if *result == CqlType::Date && duration.nanoseconds % NANOS_PER_DAY != 0 {
        return refuse(&format!(
            "The floor on date values cannot be computed for the {duration} duration as precision \
             is below 1 day"
        ));
    }
    if *result != CqlType::Date && duration.nanoseconds % NANOS_PER_MILLI != 0 {
        return refuse(&format!(
            "The floor cannot be computed for the {duration} duration as precision is below 1 \
             millisecond"
        ));
    }
    let Some(millis) = millis_argument(call, 0) else {
        return Ok(None);
    };
    let start = match call.function.arguments.len() {
        3 => match millis_argument(call, 2) {
            Some(start) => start,
            None => return Ok(None),
        },
        _ => 0,
    };
    if start > millis {
        return refuse("The floor function starting time is greater than the provided time");
    }
    refuse_negative(&duration)?;
    let floor = floor_millis(millis, start, &duration)
        .ok_or_else(|| CqlError::Invalid("The floor is out of range".to_owned()))?;
    match result {
        CqlType::Date => value(date_of(floor)),
        _ => value(floor.to_be_bytes()),
    }
}

fn floor_millis(millis: i64, start: i64, duration: &Duration) -> Option<i64> {
    let clock = clock_millis(duration);
    if duration.months == 0 {
        if clock == 0 {
            return Some(millis);
        }
        return Some(millis - (millis.checked_sub(start)?) % clock);
    }
    let end = |count: i64| {
        let days = i64::from(duration.days).checked_mul(count)?;
        let duration = Duration {
            months: i64::from(duration.months)
                .checked_mul(count)?
                .try_into()
                .ok()?,
            days: days.try_into().ok()?,
            nanoseconds: duration.nanoseconds.checked_mul(count)?,
        };
        Some(add(start, &duration))
    };
    // The largest count of durations that fits, found by halving: the longest month has 31 days,
    // the shortest 28.
    let shortest = i64::from(duration.months) * 28 * MILLIS_PER_DAY + clock;
    let (mut low, mut high) = (0, millis.checked_sub(start)? / shortest + 1);
    while low < high {
        let middle = low + (high - low + 1) / 2;
        if end(middle).is_some_and(|end| end <= millis) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    end(low)
}

fn refuse_negative(duration: &Duration) -> Result<(), CqlError> {
    if duration.months < 0 || duration.days < 0 || duration.nanoseconds < 0 {
        let message = "Negative durations are not supported by the floor function";
        return Err(CqlError::Invalid(message.to_owned()));
    }
    Ok(())
}

fn floor_time(call: &Call<'_>, duration: &Duration) -> Outcome {
    let nanos = call
        .argument(0)
        .and_then(|time| <[u8; 8]>::try_from(time.as_ref()).ok())
        .map(i64::from_be_bytes);
    let Some(nanos) = nanos else {
        return Ok(None);
    };
    refuse_negative(duration)?;
    if duration.months != 0 || duration.days != 0 || duration.nanoseconds > NANOS_PER_DAY {
        return Err(CqlError::Invalid(
            "For time values, the floor can only be computed for durations smaller that a day"
                .to_owned(),
        ));
    }
    if duration.nanoseconds <= 0 {
        return value(nanos.to_be_bytes());
    }
    value((nanos - nanos % duration.nanoseconds).to_be_bytes())
}
