//! What no file may speak of: the machine it was written on, and places that only its author
//! could reach. What is built elsewhere must not depend on them.

use std::path::Path;

use super::{Report, SourceFile};

/// The words in two halves, so that this file does not hold them.
const WORDS: [(&str, &str, &str); 16] = [
    ("../", "shared", "a folder outside the repository"),
    ("/work/", "main", "a path of one machine"),
    ("/work/", "shared", "a path of one machine"),
    ("/work/", ".library", "a path of one machine"),
    ("/ro", "ot/", "a path of one machine"),
    ("/ho", "me/", "a path of one machine"),
    ("/Us", "ers/", "a path of one machine"),
    ("/tmp/", "target-", "a path of one machine"),
    ("/tmp/", "brief", "a path of one machine"),
    ("index.", "crates.io", "a package registry"),
    ("static.", "crates.io", "a package registry"),
    ("files.", "pythonhosted.org", "a package registry"),
    ("repo.maven.", "apache.org", "a package registry"),
    ("repo1.", "maven.org", "a package registry"),
    ("registry.", "npmjs.org", "a package registry"),
    ("proxy.", "golang.org", "a package registry"),
];

/// What looks whether a folder beside the repository is there, and goes without it if it is not.
const LOOKS_AROUND: (&str, &str) = (".ci/run", "a folder outside the repository");

pub(crate) fn check(files: &[SourceFile], report: &mut Report) {
    let words: Vec<(String, &str)> = WORDS
        .iter()
        .map(|(first, second, what)| (format!("{first}{second}"), *what))
        .collect();
    for file in files {
        let may = |what: &str| file.path == Path::new(LOOKS_AROUND.0) && what == LOOKS_AROUND.1;
        for (number, line) in file.text.lines().enumerate() {
            let found = words.iter().filter(|(word, _)| line.contains(&**word));
            for (word, what) in found.filter(|(_, what)| !may(what)) {
                report.faults.push(format!(
                    "{}:{}: `{word}` is {what}",
                    file.path.display(),
                    number + 1
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_with_their_line() {
        let mut report = Report::default();
        let file = |path: &str, text: &str| SourceFile {
            path: path.into(),
            text: text.to_owned(),
        };
        let machine = ["cd ", "/ho", "me/me"].concat();
        let beside = ["ls ", "../", "shared"].concat();
        let files = [
            file("good.md", "Homes are fine, and so is /homework."),
            file(".ci/run", &beside),
            file("bad.md", &format!("one\n{machine}\n")),
        ];
        check(&files, &mut report);
        assert_eq!(report.faults.len(), 1);
        assert!(report.faults[0].starts_with("bad.md:2: "));
    }
}
