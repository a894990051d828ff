//! What guardrails say of how full the drives of nodes are (`Guardrails.localDataDiskUsage`,
//! `Guardrails.replicaDiskUsage`).

use crate::CqlError;

use super::{Guardrails, Limit, Setting, violated, violation};

/// After how many microseconds clients and the log are told again: they would often be told the same (`Guardrails`,
/// `cassandra.disk_usage.notify_interval_ms`).
const NOTICE_MICROS: i64 = 30 * 60 * 1_000_000;

/// How full the drive of a node is (`DiskUsageState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskUsage {
    /// There is room.
    Spacious,
    /// Clients are warned who write to the node.
    Stuffed,
    /// They are refused.
    Full,
}

impl DiskUsage {
    const ALL: [DiskUsage; 3] = [DiskUsage::Spacious, DiskUsage::Stuffed, DiskUsage::Full];

    /// As nodes tell each other of it.
    pub fn name(self) -> &'static str {
        match self {
            DiskUsage::Spacious => "SPACIOUS",
            DiskUsage::Stuffed => "STUFFED",
            DiskUsage::Full => "FULL",
        }
    }

    /// What a node has told; `None` if it is nothing that is known.
    pub fn named(name: &str) -> Option<DiskUsage> {
        DiskUsage::ALL
            .into_iter()
            .find(|usage| usage.name() == name)
    }

    fn text(self) -> &'static str {
        match self {
            DiskUsage::Spacious => "Spacious",
            DiskUsage::Stuffed => "Stuffed",
            DiskUsage::Full => "Full",
        }
    }
}

/// How full the drive of this node is, and what the log is to be told of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalDiskUsage {
    /// How full.
    pub usage: DiskUsage,
    /// A warning where it is stuffed, an error where it is full.
    pub message: Option<String>,
}

impl Guardrails {
    /// How full a drive is of which so much of a hundred is used; `None` if it is all the same.
    pub fn local_disk_usage(&self, percentage: u64) -> Option<LocalDiskUsage> {
        let limit = Limit::DataDiskUsagePercentage;
        if !self.limits(limit) {
            return None;
        }
        let beyond = |setting| self.threshold(setting).filter(|most| percentage > *most);
        let (usage, message) = if let Some(most) = beyond(Setting::Fail(limit)) {
            let usage = DiskUsage::Full;
            let message = format!(
                "Local data disk usage {percentage}%({}) exceeds failure threshold of {most}%, will stop \
                 accepting writes",
                usage.text()
            );
            (usage, Some(message))
        } else if let Some(most) = beyond(Setting::Warn(limit)) {
            let usage = DiskUsage::Stuffed;
            let message = format!(
                "Local data disk usage {percentage}%({}) exceeds warning threshold of {most}%",
                usage.text()
            );
            (usage, Some(message))
        } else {
            (DiskUsage::Spacious, None)
        };
        let message = message.map(|message| violation("local_data_disk_usage", &message, None));
        Some(LocalDiskUsage { usage, message })
    }
}

/// When clients, or the log, were told last, in microseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskUsageNotices {
    stuffed: Option<i64>,
    full: Option<i64>,
}

impl DiskUsageNotices {
    /// Is it time to tell of it (again)? `now` in microseconds since 1970.
    pub fn are_due(&mut self, usage: DiskUsage, now: i64) -> bool {
        let last = match usage {
            DiskUsage::Spacious => return false,
            DiskUsage::Stuffed => &mut self.stuffed,
            DiskUsage::Full => &mut self.full,
        };
        let due = last.is_none_or(|last| now.saturating_sub(last) >= NOTICE_MICROS);
        if due {
            *last = Some(now);
        }
        due
    }
}

/// Warns of a write to a replica whose drive is stuffed, or refuses it if it is full. Which replica that is, is
/// nothing for clients.
///
/// # Errors
/// It is full.
pub fn check_replica(
    usage: DiskUsage,
    (notices, now): (&mut DiskUsageNotices, i64),
    warnings: &mut Vec<String>,
) -> Result<(), CqlError> {
    let name = "replica_disk_usage";
    match usage {
        DiskUsage::Spacious => Ok(()),
        DiskUsage::Stuffed => {
            if notices.are_due(usage, now) {
                let message = "Replica disk usage exceeds warning threshold";
                warnings.push(violation(name, message, None));
            }
            Ok(())
        }
        DiskUsage::Full => {
            let message = "Write request failed because disk usage exceeds failure threshold";
            let message = violation(name, message, None);
            match notices.are_due(usage, now) {
                true => violated(message, warnings),
                false => Err(CqlError::Invalid(message)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guardrails(warn: Option<u64>, fail: Option<u64>) -> Guardrails {
        let mut guardrails = Guardrails::default();
        guardrails.set_warn(Limit::DataDiskUsagePercentage, warn);
        guardrails.set_fail(Limit::DataDiskUsagePercentage, fail);
        guardrails
    }

    #[test]
    fn a_drive_is_stuffed_and_then_full() {
        let told = |guardrails: &Guardrails, percentage| {
            let local = guardrails.local_disk_usage(percentage)?;
            Some((local.usage.name(), local.message.unwrap_or_default()))
        };
        let both = guardrails(Some(50), Some(90));
        assert_eq!(told(&both, 50), Some(("SPACIOUS", String::new())));
        let stuffed = "Guardrail local_data_disk_usage violated: Local data disk usage 51%(Stuffed) exceeds \
                       warning threshold of 50%";
        assert_eq!(told(&both, 51), Some(("STUFFED", stuffed.to_owned())));
        let full = "Guardrail local_data_disk_usage violated: Local data disk usage 213%(Full) exceeds failure \
                    threshold of 90%, will stop accepting writes";
        assert_eq!(told(&both, 213), Some(("FULL", full.to_owned())));
        assert_eq!(
            told(&guardrails(None, Some(90)), 90),
            Some(("SPACIOUS", String::new()))
        );
        assert_eq!(told(&guardrails(None, None), 100), None);
        for usage in DiskUsage::ALL {
            assert_eq!(DiskUsage::named(usage.name()), Some(usage));
        }
        assert_eq!(DiskUsage::named("NOT_AVAILABLE"), None);
    }

    #[test]
    fn clients_are_told_every_half_hour_and_refused_always() {
        let mut notices = DiskUsageNotices::default();
        let mut told = |usage, minute: i64| {
            let mut warnings = Vec::new();
            let at = minute * 60 * 1_000_000;
            let refused = check_replica(usage, (&mut notices, at), &mut warnings).is_err();
            (refused, warnings.len())
        };
        assert_eq!(told(DiskUsage::Spacious, 0), (false, 0));
        assert_eq!(told(DiskUsage::Stuffed, 0), (false, 1));
        assert_eq!(told(DiskUsage::Stuffed, 29), (false, 0));
        assert_eq!(told(DiskUsage::Full, 29), (true, 1));
        assert_eq!(told(DiskUsage::Stuffed, 30), (false, 1));
        assert_eq!(told(DiskUsage::Full, 58), (true, 0));
        assert_eq!(told(DiskUsage::Full, 59), (true, 1));
    }
}
