//! What two programs are made of is built once if it has the same features in both, and else twice, with all that
//! stands on it: minutes of each build on a machine that has nothing yet.

use std::collections::{BTreeMap, BTreeSet};

use super::Report;

/// The programs that `make test` builds as they are released.
pub(crate) const PROGRAMS: [&str; 2] = ["server", "sim"];

/// What `cargo tree` is to print of one of them: a line for each crate, `NAME VERSION ...[FEATURES]`.
pub(crate) fn tree(program: &str) -> [&str; 10] {
    [
        "tree",
        "--package",
        program,
        "--edges",
        "no-dev",
        "--prefix",
        "none",
        "--no-dedupe",
        "--format",
        "{p} [{f}]",
    ]
}

/// Compares what was printed of each.
pub(crate) fn check([first, second]: [(&str, String); 2], report: &mut Report) {
    let (ours, theirs) = (features(&first.1), features(&second.1));
    for (package, ours) in ours {
        let Some(theirs) = theirs.get(package).filter(|theirs| **theirs != ours) else {
            continue;
        };
        let (first, second) = (first.0, second.0);
        report.faults.push(format!(
            "{package} has the features {ours:?} in {first} and {theirs:?} in {second}: each builds all that stands on \
             it; crates/sim/Cargo.toml may give it what it lacks there"
        ));
    }
}

/// With what features a program has each crate: with several sets if what it is built by, as macros, has it, too.
fn features(tree: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (package, features) in tree.lines().filter_map(|line| line.split_once(" [")) {
        let features = features.split(']').next().unwrap_or_default();
        found.entry(package).or_default().insert(features);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(server: &str, sim: &str) -> Vec<String> {
        let mut report = Report::default();
        check(
            [("server", server.to_owned()), ("sim", sim.to_owned())],
            &mut report,
        );
        report.faults
    }

    #[test]
    fn what_both_have_is_the_same() {
        let server = "a v1.0.0 [std]\nb v1.0.0 []\nonly v2.0.0 [x]\n";
        assert!(faults(server, "b v1.0.0 []\na v1.0.0 [std]\na v1.0.0 [std] (*)\n").is_empty());
        let found = faults(server, "a v1.0.0 [default,std]\na v1.0.0 [default,std]\n");
        assert_eq!(found.len(), 1);
        let said = "a v1.0.0 has the features {\"std\"} in server and {\"default,std\"} in sim";
        assert!(found[0].starts_with(said), "{}", found[0]);
        // Another version is another crate.
        assert!(faults(server, "a v2.0.0 [default]\n").is_empty());
    }
}
