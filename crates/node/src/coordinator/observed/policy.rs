//! `speculative_retry` and `additional_write_policy` (`SpeculativeRetryPolicy`), as a schema holds them.

use std::time::Duration;

/// When one more replica is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Policy {
    /// Never.
    Never,
    /// At once.
    Always,
    /// After this time.
    Fixed(Duration),
    /// When this part of all requests would have been answered.
    Percentile(f64),
    /// After the shorter of both.
    Min(f64, Duration),
    /// After the longer of both.
    Max(f64, Duration),
}

impl Policy {
    /// Of a text in the form that a schema has it in. What is none is Cassandra's default: statements are
    /// checked, so nothing but a schema of another version may have it.
    pub(super) fn parse(text: &str) -> Policy {
        match text {
            "NEVER" | "NONE" => return Policy::Never,
            "ALWAYS" => return Policy::Always,
            _ => {}
        }
        let both = |text: &str| {
            let (percent, millis) = text.strip_suffix(')')?.split_once(',')?;
            Some((percentile(percent)?, fixed(millis)?))
        };
        let hybrid = |prefix| text.strip_prefix(prefix).and_then(both);
        let min = hybrid("MIN(").map(|(percent, time)| Policy::Min(percent, time));
        let max = || hybrid("MAX(").map(|(percent, time)| Policy::Max(percent, time));
        let simple = || {
            let fixed = fixed(text).map(Policy::Fixed);
            fixed.or_else(|| percentile(text).map(Policy::Percentile))
        };
        let known = min.or_else(max).or_else(simple);
        known.unwrap_or(Policy::Percentile(0.99))
    }

    /// The time, if what it depends on is known: `percentile` gives the latency that a part of all
    /// requests did not exceed.
    pub(super) fn threshold(
        self,
        percentile: impl FnOnce(f64) -> Option<Duration>,
    ) -> Option<Duration> {
        match self {
            Policy::Never | Policy::Always => None,
            Policy::Fixed(time) => Some(time),
            Policy::Percentile(part) => percentile(part),
            Policy::Min(part, time) => Some(percentile(part)?.min(time)),
            Policy::Max(part, time) => Some(percentile(part)?.max(time)),
        }
    }
}

/// `99.9p`, as a part of one.
fn percentile(text: &str) -> Option<f64> {
    let percent: f64 = text.trim().strip_suffix('p')?.parse().ok()?;
    (percent > 0.0 && percent < 100.0).then_some(percent / 100.0)
}

/// `50ms`
fn fixed(text: &str) -> Option<Duration> {
    let millis = text.trim().strip_suffix("ms")?.parse().ok()?;
    Some(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_schemas_have_them() {
        let ms = Duration::from_millis;
        for (text, policy) in [
            ("NEVER", Policy::Never),
            ("ALWAYS", Policy::Always),
            ("50ms", Policy::Fixed(ms(50))),
            ("99p", Policy::Percentile(0.99)),
            ("MIN(90p,50ms)", Policy::Min(0.9, ms(50))),
            ("MAX(50p,7ms)", Policy::Max(0.5, ms(7))),
            ("something", Policy::Percentile(0.99)),
        ] {
            assert_eq!(Policy::parse(text), policy);
        }
        let median = |part: f64| Some(ms((part * 100.0) as u64));
        assert_eq!(Policy::Min(0.9, ms(50)).threshold(median), Some(ms(50)));
        assert_eq!(Policy::Max(0.9, ms(50)).threshold(median), Some(ms(90)));
        assert_eq!(Policy::Max(0.9, ms(50)).threshold(|_| None), None);
        assert_eq!(Policy::Fixed(ms(3)).threshold(|_| None), Some(ms(3)));
    }
}
