//! Imports go downwards only, never sideways on one floor; and some crates must not know others
//! that lie below them.

use serde_json::Value;

use super::Report;

/// The floors, lowest first. A crate imports from lower floors only.
const FLOORS: [&[&str]; 5] = [
    &["model", "io"],
    &["cql", "cluster", "lua"],
    &["wire", "storage"],
    &["node"],
    &["server", "sim", "bench", "limit"],
];

/// What a crate must not know, though it lies below.
const FORBIDDEN: [(&str, &[&str], &str); 6] = [
    ("cql", &["io"], "it decides and does no I/O"),
    ("cluster", &["io"], "it decides and does no I/O"),
    ("wire", &["io", "cql"], "bytes in, bytes out"),
    (
        "storage",
        &["cql", "cluster", "lua"],
        "it knows no CQL and no other nodes",
    ),
    (
        "bench",
        &["model", "io", "cql", "cluster", "wire", "storage", "node"],
        "it speaks to any CQL server",
    ),
    (
        "limit",
        &["model", "cql", "cluster", "wire", "storage", "node"],
        "it does I/O and nothing else",
    ),
];

/// A crate of the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Crate {
    pub(crate) name: String,
    /// The crates of the workspace that it imports, for tests and builds too.
    imports: Vec<String>,
}

/// The crates in what `cargo metadata --no-deps` prints.
pub(crate) fn crates_of(metadata: &Value) -> Result<Vec<Crate>, String> {
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata lists no packages")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let crates = packages.iter().map(|package| {
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        Crate {
            name: text(&package["name"]),
            imports: dependencies
                // Only crates of the workspace have a path.
                .filter(|dependency| dependency["path"].is_string())
                .map(|dependency| text(&dependency["name"]))
                .collect(),
        }
    });
    Ok(crates.collect())
}

pub(crate) fn check(crates: &[Crate], report: &mut Report) {
    let floor_of = |name: &str| FLOORS.iter().position(|floor| floor.contains(&name));
    for Crate { name, imports } in crates {
        // The checks themselves stand beside the house.
        if name == "xtask" {
            if !imports.is_empty() {
                report
                    .faults
                    .push("xtask imports crates of the house".to_owned());
            }
            continue;
        }
        let Some(floor) = floor_of(name) else {
            report.faults.push(format!(
                "crate `{name}` has no floor: give it one in xtask/src/tidy/floors.rs and in \
                 docs/ARCHITECTURE.md"
            ));
            continue;
        };
        for import in imports {
            match floor_of(import) {
                Some(below) if below < floor => {}
                Some(_) => report.faults.push(format!(
                    "crate `{name}` (floor {floor}) imports `{import}`: imports go downwards only"
                )),
                None => report.faults.push(format!(
                    "crate `{name}` imports `{import}`, which has no floor"
                )),
            }
            for (_, forbidden, why) in FORBIDDEN.iter().filter(|(who, ..)| who == name) {
                if forbidden.contains(&&**import) {
                    report
                        .faults
                        .push(format!("crate `{name}` must not import `{import}`: {why}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(crates: &[(&str, &[&str])]) -> Vec<String> {
        let packages: Vec<Value> = crates
            .iter()
            .map(|(name, imports)| {
                let dependencies: Vec<Value> = imports
                    .iter()
                    .map(|import| serde_json::json!({"name": import, "path": "/somewhere"}))
                    .chain([serde_json::json!({"name": "bytes", "path": null})])
                    .collect();
                serde_json::json!({"name": name, "dependencies": dependencies})
            })
            .collect();
        let metadata = serde_json::json!({ "packages": packages });
        let mut report = Report::default();
        check(&crates_of(&metadata).unwrap(), &mut report);
        report.faults
    }

    #[test]
    fn imports_downwards_are_right() {
        assert!(faults(&[("node", &["model", "io", "cql", "wire"]), ("model", &[])]).is_empty());
    }

    #[test]
    fn imports_sideways_and_upwards_are_wrong() {
        assert_eq!(faults(&[("model", &["io"])]).len(), 1);
        assert_eq!(faults(&[("cql", &["model", "node"])]).len(), 1);
        assert_eq!(faults(&[("server", &["sim"])]).len(), 1);
    }

    #[test]
    fn some_imports_downwards_are_wrong() {
        assert_eq!(faults(&[("wire", &["model", "io"])]).len(), 1);
        assert_eq!(faults(&[("bench", &["model"])]).len(), 1);
        assert_eq!(faults(&[("xtask", &["model"])]).len(), 1);
    }

    #[test]
    fn a_new_crate_needs_a_floor() {
        assert_eq!(faults(&[("utils", &[])]).len(), 1);
        assert_eq!(faults(&[("node", &["utils"])]).len(), 1);
    }
}
