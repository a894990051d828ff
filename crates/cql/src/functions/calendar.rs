//! Months in the calendar that Cassandra takes, which is Java's (`GregorianCalendar`): the Julian one before
//! 15 October 1582, and for all years that milliseconds in 64 bits reach, where libraries of dates end with 9999. The
//! algorithm is Howard Hinnant's (`days_from_civil`), for years that begin with March.

/// 15 October 1582, in days since 1970: the first day of the Gregorian calendar.
const CUTOVER: i64 = -141_427;
const CUTOVER_YEAR: i64 = 1582;

/// How a calendar has its leap years: four years are `FOUR_YEARS`, and of the Gregorian one's a hundred are a day less,
/// and four hundred a day more than that.
const YEAR: i64 = 365;
const FOUR_YEARS: i64 = 4 * YEAR + 1;
const CENTURY: i64 = 25 * FOUR_YEARS - 1;
const FOUR_CENTURIES: i64 = 4 * CENTURY + 1;
/// From 1 March of the year 0 to 1970, in either calendar.
const GREGORIAN_EPOCH: i64 = 719_468;
const JULIAN_EPOCH: i64 = 719_470;

/// A day: the year (0 is 1 BC), the month from 0 on, the day from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Civil {
    year: i64,
    month: i64,
    day: i64,
}

impl Civil {
    /// Of a day since 1970.
    fn of(day: i64) -> Civil {
        // Years begin with March, so that the day of a leap year is their last.
        let (year, day_of_year) = match day >= CUTOVER {
            true => {
                let day = day + GREGORIAN_EPOCH;
                let (era, of_era) = (
                    day.div_euclid(FOUR_CENTURIES),
                    day.rem_euclid(FOUR_CENTURIES),
                );
                let leaps =
                    of_era / (FOUR_YEARS - 1) - of_era / CENTURY + of_era / (FOUR_CENTURIES - 1);
                let year = (of_era - leaps) / YEAR;
                (
                    era * 400 + year,
                    of_era - (YEAR * year + year / 4 - year / 100),
                )
            }
            false => {
                let day = day + JULIAN_EPOCH;
                let (era, of_era) = (day.div_euclid(FOUR_YEARS), day.rem_euclid(FOUR_YEARS));
                let year = (of_era - of_era / (FOUR_YEARS - 1)) / YEAR;
                (era * 4 + year, of_era - YEAR * year)
            }
        };
        let month = (5 * day_of_year + 2) / 153;
        Civil {
            year: year + i64::from(month >= 10),
            month: (month + 2) % 12,
            day: day_of_year - (153 * month + 2) / 5 + 1,
        }
    }

    fn day_of_year(self) -> i64 {
        (153 * ((self.month + 10) % 12) + 2) / 5 + self.day - 1
    }

    /// The day since 1970: of the Gregorian calendar, if it is one of it.
    fn to_day(self) -> i64 {
        let year = self.year - i64::from(self.month < 2);
        let day = year * YEAR + year.div_euclid(4) + self.day_of_year();
        let gregorian = day - year.div_euclid(100) + year.div_euclid(400) - GREGORIAN_EPOCH;
        match gregorian >= CUTOVER {
            true => gregorian,
            false => day - JULIAN_EPOCH,
        }
    }

    fn days_of_month(self) -> i64 {
        let next = Civil {
            year: self.year + i64::from(self.month == 11),
            month: (self.month + 1) % 12,
            day: 1,
        };
        let first = Civil { day: 1, ..self };
        next.to_day() - first.to_day()
    }
}

/// A day since 1970, so many months later: the last of the month, if that is shorter (`GregorianCalendar.add`); in the
/// year of the cutover one of the next month then (`pinDayOfMonth` looks how long that one is).
pub(super) fn add_months(day: i64, months: i32) -> i64 {
    let from = Civil::of(day);
    // An int, as there.
    let month = i64::from((from.month as i32).wrapping_add(months));
    let mut moved = Civil {
        year: from.year + month.div_euclid(12),
        month: month.rem_euclid(12),
        ..from
    };
    if moved.year != CUTOVER_YEAR {
        moved.day = moved.day.min(moved.days_of_month());
    }
    moved.to_day()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_belong_together() {
        for (day, year, month, of_month) in [
            (0, 1970, 0, 1),
            (-1, 1969, 11, 31),
            (11_016, 2000, 1, 29),
            (CUTOVER, 1582, 9, 15),
            (CUTOVER - 1, 1582, 9, 4),
            (-719_164, 1, 0, 1),
            (-719_165, 0, 11, 31),
        ] {
            let civil = Civil {
                year,
                month,
                day: of_month,
            };
            assert_eq!(Civil::of(day), civil);
            assert_eq!(civil.to_day(), day);
        }
        for day in (-3_000_000..3_000_000).step_by(7) {
            assert_eq!(Civil::of(day).to_day(), day);
        }
    }

    #[test]
    fn months_end_where_they_are_shorter() {
        let day = |year, month, day| Civil { year, month, day }.to_day();
        assert_eq!(add_months(day(2000, 0, 31), 1), day(2000, 1, 29));
        assert_eq!(add_months(day(1900, 0, 31), 1), day(1900, 1, 28));
        assert_eq!(add_months(day(1500, 0, 31), 1), day(1500, 1, 29));
        assert_eq!(add_months(day(2000, 2, 31), -13), day(1999, 1, 28));
        assert_eq!(add_months(day(1582, 9, 31), 1), day(1582, 11, 1));
    }
}
