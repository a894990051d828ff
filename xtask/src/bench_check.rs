//! What `cargo xtask bench-check` does: counts the instructions of a request's way and compares them with what was
//! recorded. Counts are the same on busy machines, so a rise is one of the code.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where counts are recorded, from the root of the repository.
const RECORD: &str = "bench/instructions.txt";
/// A count may be so much higher than the recorded one.
const TOLERANCE: f64 = 0.03;
/// The function that is counted, and after which a profile is written.
const COUNTED: &str = "request_path::measured";

const HEADING: &str = "\
# Instructions of a request, from its bytes to its answer's, in a simulated node of one shard.
# `make bench-check` compares, `make bench-record` writes this; a commit that makes one of them rise says why.
";

/// Instructions of one request of a workload.
#[derive(Debug, PartialEq)]
struct Count {
    workload: String,
    instructions: f64,
}

/// Counts, and compares with what is recorded, or records it. Did nothing rise?
pub(crate) fn run(root: &Path, record: bool) -> Result<bool, String> {
    let profiles = root.join("target/bench-check");
    let counts = count(&build(root)?, &profiles)?;
    let path = root.join(RECORD);
    let recorded = match fs::read_to_string(&path) {
        Ok(text) => read(&text)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(format!("reading {RECORD}: {error}")),
    };
    let (table, risen) = compare(&counts, &recorded);
    print!("{table}");
    println!("profiles: callgrind_annotate {}/out.N", profiles.display());
    if record {
        let text = write(&counts);
        fs::write(&path, text).map_err(|error| format!("writing {RECORD}: {error}"))?;
        return Ok(true);
    }
    if risen {
        println!(
            "error: what a request costs has risen: mend it, or `make bench-record` and say why in the commit"
        );
    }
    Ok(!risen)
}

/// The path of the bench's binary, which is built.
fn build(root: &Path) -> Result<PathBuf, String> {
    let arguments = [
        "bench",
        "-q",
        "-p",
        "sim",
        "--bench",
        "request_path",
        "--no-run",
        "--message-format=json",
    ];
    let told = output(Command::new("cargo").args(arguments).current_dir(root))?;
    let messages = told.lines().rev();
    let mut messages = messages.filter_map(|line| serde_json::from_str(line).ok());
    let executable = messages.find_map(|message: serde_json::Value| {
        let of_bench = message["target"]["name"] == "request_path";
        let path = message["executable"].as_str().map(PathBuf::from);
        path.filter(|_| of_bench)
    });
    executable.ok_or_else(|| "cargo bench names no binary of request_path".to_owned())
}

/// Runs the bench under callgrind, which leaves a profile for each workload in this folder.
fn count(bench: &Path, profiles: &Path) -> Result<Vec<Count>, String> {
    let _ = fs::remove_dir_all(profiles);
    fs::create_dir_all(profiles)
        .map_err(|error| format!("making {}: {error}", profiles.display()))?;
    let out = profiles.join("out");
    let mut command = Command::new("valgrind");
    command
        .args(["-q", "--tool=callgrind", "--toggle-collect=*measured*"])
        // Each profile is to be read without those before it.
        .arg("--compress-strings=no")
        .arg(format!("--dump-after={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(bench);
    let told = output(&mut command)?;
    let mut counts = Vec::new();
    for (index, line) in told.lines().enumerate() {
        let wrong = || format!("the bench says `{line}`, not a workload and its requests");
        let (workload, requests) = line.split_once(' ').ok_or_else(wrong)?;
        let requests: f64 = requests.parse().map_err(|_| wrong())?;
        let path = profiles.join(format!("out.{}", index + 1));
        let instructions = total(&path)?;
        counts.push(Count {
            workload: workload.to_owned(),
            instructions: instructions / requests,
        });
    }
    Ok(counts)
}

/// All instructions of a profile.
fn total(path: &Path) -> Result<f64, String> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("reading {shown}: {error}"))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let total = total.and_then(|total| total.trim().parse::<f64>().ok());
    total
        .filter(|total| *total > 0.0)
        .ok_or_else(|| format!("{shown} counts nothing: is {COUNTED} still called so?"))
}

fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::NotFound => ": `make bench-check` installs it",
            _ => "",
        };
        format!("running {name}: {error}{remedy}")
    })?;
    if !done.status.success() {
        let told = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{name} failed ({}):\n{told}", done.status));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// What is recorded: a workload and its instructions a line.
fn read(text: &str) -> Result<Vec<Count>, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let counts = lines.map(|line| {
        let wrong = || format!("{RECORD}: `{line}` is not a workload and a count");
        let (workload, instructions) = line.split_once(' ').ok_or_else(wrong)?;
        Ok(Count {
            workload: workload.to_owned(),
            instructions: instructions.trim().parse().map_err(|_| wrong())?,
        })
    });
    counts.collect()
}

fn write(counts: &[Count]) -> String {
    let mut text = HEADING.to_owned();
    for count in counts {
        let _ = writeln!(text, "{:<12} {:.0}", count.workload, count.instructions);
    }
    text
}

/// Counts beside those recorded, as a table, and whether one has risen too far.
fn compare(counts: &[Count], recorded: &[Count]) -> (String, bool) {
    let mut table = format!(
        "{:<12} {:>12} {:>12} {:>8}\n",
        "workload", "instructions", "recorded", "change"
    );
    let mut any = false;
    for count in counts {
        let before = recorded
            .iter()
            .find(|before| before.workload == count.workload);
        let Some(before) = before else {
            let _ = writeln!(
                table,
                "{:<12} {:>12.0} {:>12} {:>8}",
                count.workload, count.instructions, "-", "new"
            );
            continue;
        };
        let change = count.instructions / before.instructions - 1.0;
        let risen = change > TOLERANCE;
        any |= risen;
        let _ = writeln!(
            table,
            "{:<12} {:>12.0} {:>12.0} {:>+7.1}%{}",
            count.workload,
            count.instructions,
            before.instructions,
            change * 100.0,
            if risen { "  risen" } else { "" }
        );
    }
    (table, any)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(workload: &str, instructions: f64) -> Count {
        Count {
            workload: workload.to_owned(),
            instructions,
        }
    }

    #[test]
    fn what_is_recorded_is_read() {
        let counts = vec![count("read_one", 20_000.0), count("write_one", 31_000.0)];
        assert_eq!(read(&write(&counts)).expect("it was written"), counts);
        assert!(read("read_one many\n").is_err());
    }

    #[test]
    fn a_rise_of_more_than_three_in_a_hundred_is_told() {
        let recorded = [count("a", 1000.0), count("b", 1000.0)];
        let (table, risen) = compare(&[count("a", 1029.0), count("b", 500.0)], &recorded);
        assert!(!risen, "{table}");
        let (table, risen) = compare(&[count("a", 1031.0)], &recorded);
        assert!(risen && table.contains("risen"), "{table}");
        let (table, risen) = compare(&[count("c", 9.0)], &recorded);
        assert!(!risen && table.contains("new"), "{table}");
    }
}
