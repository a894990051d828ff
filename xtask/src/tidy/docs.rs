//! The documents name what exists, and the map of the house names every crate.
//!
//! In documents, `` `crate::module` `` must be a module of that crate, and `` `crate::Item` ``
//! something it defines; `` `path/to/file` `` with a known first folder must exist.

use std::collections::BTreeSet;
use std::path::Path;

use super::floors::Crate;
use super::{Report, SourceFile};

const MAP: &str = "docs/ARCHITECTURE.md";

pub(crate) fn check(files: &[SourceFile], crates: &[Crate], report: &mut Report) {
    let Some(map) = files.iter().find(|file| file.path == Path::new(MAP)) else {
        report.faults.push(format!("{MAP} is missing"));
        return;
    };
    let named: BTreeSet<&str> = code_words(&map.text).map(|(_, word)| word).collect();
    for Crate { name, .. } in crates {
        if !named.contains(&**name) {
            report
                .faults
                .push(format!("{MAP} does not name crate `{name}`"));
        }
    }
    let documents = files.iter().filter(|file| {
        file.path
            .extension()
            .is_some_and(|extension| extension == "md")
            && (file.path.starts_with("docs") || file.path.parent() == Some(Path::new("")))
    });
    for document in documents {
        for (line, word) in code_words(&document.text) {
            if let Some(why) = missing(word, files, crates) {
                report.faults.push(format!(
                    "{}:{line}: `{word}` is named, but {why}",
                    document.path.display()
                ));
            }
        }
    }
}

/// What is between backticks in a line, with the number of the line. Blocks of code are passed
/// over.
fn code_words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    let lines = text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        !in_block && !fence
    });
    lines.flat_map(|(i, line)| {
        let words = line.split('`').skip(1).step_by(2);
        words.map(move |word| (i + 1, word))
    })
}

/// Why what `word` names does not exist; `None` if it does, or names nothing of the house.
fn missing(word: &str, files: &[SourceFile], crates: &[Crate]) -> Option<String> {
    if let Some((name, rest)) = word.split_once("::") {
        let known = crates.iter().any(|c| c.name == name);
        return known.then(|| missing_item(name, rest, files)).flatten();
    }
    let path = word.trim_end_matches('/');
    let first = path.split('/').next()?;
    let ours = ["crates", "docs", "xtask", "tests", "bench", "fuzz"].contains(&first);
    let plain = path.contains('/')
        && path
            .chars()
            .all(|c| c.is_alphanumeric() || "/._-".contains(c));
    if !ours || !plain || files.iter().any(|file| file.path.starts_with(path)) {
        return None;
    }
    Some("there is no such file or folder".to_owned())
}

/// Looks for `module::module::Item` in a crate.
fn missing_item(name: &str, rest: &str, files: &[SourceFile]) -> Option<String> {
    let mut place = if name == "xtask" {
        Path::new("xtask/src").to_owned()
    } else {
        Path::new("crates").join(name).join("src")
    };
    for part in rest.split("::") {
        // As in `Store::open()` or `model::{Mutation, …}`: what has another form is not checked.
        if !part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        let inner = place.join(part);
        let is_module = |file: &SourceFile| {
            file.path == inner.with_extension("rs") || file.path.starts_with(&inner)
        };
        if files.iter().any(is_module) {
            place = inner;
            continue;
        }
        let src = Path::new("crates").join(name).join("src");
        let defined = files
            .iter()
            .filter(|file| file.path.starts_with(&src))
            .any(|file| defines(&file.text, part));
        // What is in a type is the reader's to find.
        return (!defined).then(|| format!("crate `{name}` has no `{part}`"));
    }
    None
}

/// Does a source define something of this name?
fn defines(text: &str, name: &str) -> bool {
    const KINDS: [&str; 9] = [
        "struct",
        "enum",
        "trait",
        "fn",
        "type",
        "const",
        "static",
        "mod",
        "macro_rules!",
    ];
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    KINDS.iter().any(|kind| {
        let definition = format!("{kind} {name}");
        text.match_indices(&definition)
            .any(|(at, _)| ends(&text[at + definition.len()..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(map: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile {
            path: path.into(),
            text: text.to_owned(),
        };
        let files = [
            file(MAP, map),
            file("crates/node/src/lib.rs", "mod session;\npub struct Node;"),
            file(
                "crates/node/src/session.rs",
                "pub(crate) async fn serve() {}",
            ),
        ];
        let metadata = serde_json::json!({"packages": [{"name": "node", "dependencies": []}]});
        let crates = super::super::floors::crates_of(&metadata).unwrap();
        let mut report = Report::default();
        check(&files, &crates, &mut report);
        report.faults
    }

    #[test]
    fn what_exists_may_be_named() {
        let map = "`node` has `node::session`, `node::session::serve`, `node::Node`, `std::fs`, \
                   `Node::new`, `crates/node/`, `a/b` and `node::{A, B}`.\n```\n`node::gone`\n```";
        assert_eq!(faults(map), Vec::<String>::new());
    }

    #[test]
    fn what_does_not_exist_may_not() {
        for word in [
            "node::gone",
            "node::session::Gone",
            "crates/gone",
            "docs/gone.md",
        ] {
            let found = faults(&format!("`node`\nand `{word}`"));
            assert_eq!(found.len(), 1, "{word}");
            assert!(
                found[0].starts_with("docs/ARCHITECTURE.md:2: "),
                "{found:?}"
            );
        }
    }

    #[test]
    fn every_crate_is_named() {
        assert_eq!(faults("nothing").len(), 1);
    }
}
