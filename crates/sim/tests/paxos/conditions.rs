//! What worlds are made of, and what is wrong with them.

use cluster::Consistency;
use sim::Random;

/// What is done wrong, so that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Replicas forget at a restart what they promised.
    ForgetsPromises,
    /// Replicas answer before what they accepted or committed is on the drive.
    AnswersEarly,
    /// Replicas note commits before they are on the drive.
    NotesCommitsEarly,
    /// One vote too few decides.
    SmallQuorum,
    /// Updates do not finish what they find accepted.
    HidesAcceptedFromUpdates,
    /// Reads do not.
    HidesAcceptedFromReads,
    /// Replicas that missed the last commit do not get it before a proposal.
    SkipsRefresh,
    /// Reads are taken to be linearizable always.
    SaysStable,
    /// Replicas do not tell of empty proposals that they accepted.
    HidesEmpty,
    /// Proposals arrive twice.
    DoublesProposals,
}

impl Fault {
    pub(crate) const ALL: [Fault; 10] = [
        Fault::ForgetsPromises,
        Fault::AnswersEarly,
        Fault::NotesCommitsEarly,
        Fault::SmallQuorum,
        Fault::HidesAcceptedFromUpdates,
        Fault::HidesAcceptedFromReads,
        Fault::SkipsRefresh,
        Fault::SaysStable,
        Fault::HidesEmpty,
        Fault::DoublesProposals,
    ];

    /// Does it make answers that no order explains? If not, then it leaves open what a client was told
    /// that nobody knows of, after others have looked.
    pub(crate) fn is_seen_by_clients(self) -> bool {
        !matches!(self, Fault::SaysStable | Fault::HidesEmpty)
    }
}

/// How many voters there are, and who else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Replicas of the coordinators' data centre.
    pub(crate) local: u32,
    /// The last of them is only becoming a replica.
    pub(crate) pending: bool,
    /// Replicas of another one, which have no vote.
    pub(crate) remote: u32,
}

const fn layout(local: u32, pending: bool, remote: u32) -> Layout {
    Layout {
        local,
        pending,
        remote,
    }
}

pub(crate) const LAYOUTS: [Layout; 5] = [
    layout(3, false, 0),
    layout(4, false, 0),
    layout(5, false, 0),
    layout(4, true, 0),
    layout(3, false, 2),
];

pub(crate) const COMMITS: [Consistency; 6] = [
    Consistency::Any,
    Consistency::One,
    Consistency::Quorum,
    Consistency::LocalQuorum,
    Consistency::EachQuorum,
    Consistency::All,
];

/// In microseconds at most, or in percent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// What a message takes, if it is not slow; a slow one; a write; a client to think.
    pub(crate) latency: u64,
    pub(crate) slow_latency: u64,
    pub(crate) drive: u64,
    pub(crate) think: u64,
    /// Messages.
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) slow: u64,
    /// The time between two crashes, and that a node is down then. `None`: there are none.
    pub(crate) crash: Option<u64>,
    pub(crate) down: u64,
    /// The time between two partitions of the network.
    pub(crate) cut: Option<u64>,
    /// How far clocks are apart.
    pub(crate) skew: u64,
}

impl Weather {
    /// Nothing goes wrong.
    pub(crate) fn calm(random: &mut Random) -> Weather {
        Weather {
            latency: 1_000,
            slow_latency: 0,
            drive: *random.pick(&[100, 1_000]),
            think: 100_000,
            lost: 0,
            doubled: 0,
            slow: 0,
            crash: None,
            down: 0,
            cut: None,
            skew: *random.pick(&[1, 6_000_000]),
        }
    }

    /// Much does.
    pub(crate) fn wild(random: &mut Random) -> Weather {
        let wild = random.below(4);
        let some = |random: &mut Random, times: &[u64]| {
            let time = *random.pick(times);
            (wild > 0).then_some(time)
        };
        Weather {
            latency: *random.pick(&[1_000, 30_000, 200_000]),
            slow_latency: 1_500_000,
            drive: *random.pick(&[100, 1_000, 30_000]),
            think: *random.pick(&[1_000, 20_000, 500_000]),
            lost: wild * random.below(8),
            doubled: wild * random.below(5),
            slow: wild * random.below(10),
            crash: some(random, &[20_000, 300_000, 3_000_000]),
            down: *random.pick(&[2_000, 50_000, 400_000]),
            cut: some(random, &[100_000, 2_000_000]),
            skew: *random.pick(&[1, 20_000, 6_000_000]),
        }
    }
}
