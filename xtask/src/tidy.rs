//! What `cargo xtask tidy` checks. Each check is a function from what it looks at to faults.

mod docs;
mod features;
mod floors;
mod sizes;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Worth a look, but allowed.
    pub(crate) remarks: Vec<String>,
    /// Must be mended.
    pub(crate) faults: Vec<String>,
}

/// A file of the repository.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// From the root of the repository.
    pub(crate) path: PathBuf,
    /// All of it; files that are no UTF-8 are left out.
    pub(crate) text: String,
}

/// Runs all checks on the repository at `root`.
pub(crate) fn check(root: &Path) -> Result<Report, String> {
    let mut report = Report::default();
    let files = repository_files(root)?;
    let metadata = output(
        root,
        "cargo",
        &["metadata", "--format-version=1", "--no-deps"],
    )?;
    let metadata = serde_json::from_str(&metadata)
        .map_err(|error| format!("cargo metadata cannot be read: {error}"))?;
    let crates = floors::crates_of(&metadata)?;

    floors::check(&crates, &mut report);
    sizes::check(&files, &mut report);
    words::check(&files, &mut report);
    docs::check(&files, &crates, &mut report);
    let [server, sim] = features::PROGRAMS
        .map(|name| Ok::<_, String>((name, output(root, "cargo", &features::tree(name))?)));
    features::check([server?, sim?], &mut report);
    Ok(report)
}

/// The files that git knows, or would if they were added.
fn repository_files(root: &Path) -> Result<Vec<SourceFile>, String> {
    let arguments = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    let listed = output(root, "git", &arguments)?;
    let mut files = Vec::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        // A link's target is checked under its own name; a deleted file is no more.
        let full = root.join(path);
        if full.is_symlink() || !full.is_file() {
            continue;
        }
        let bytes = std::fs::read(&full).map_err(|error| format!("{path}: {error}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(SourceFile {
                path: PathBuf::from(path),
                text,
            });
        }
    }
    Ok(files)
}

fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("{program} cannot be run: {error}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "{program} {} failed: {errors}",
            arguments.join(" ")
        ));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{program} printed no UTF-8"))
}
