//! `helenus sstable load`: sstables from anywhere into a table of a running node, as
//! `sstableloader` does (`org.apache.cassandra.tools.BulkLoader`).
//!
//! The node imports the files itself (its REST API, as `helenus nodetool import` does). Writing
//! their rows over CQL would lose what CQL cannot say: the ids of list elements, counters, how long
//! ago something was deleted. So the node has to see the files: on its own machine, or on a drive
//! that both share.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use storage::sstable::{Component, Descriptor};

use super::foreign::LoaderOptions;
use super::{ToolError, files, shard};
use crate::nodetool::api::{Api, NodetoolError};

/// The options of `helenus sstable load`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LoadOptions {
    /// Folders KEYSPACE/TABLE with sstables, or files of sstables in such folders
    #[arg(required = true, value_name = "FILE|DIR")]
    files: Vec<PathBuf>,

    /// The node, or several with commas between them: the first one that answers takes the files
    #[arg(
        short = 'd',
        long,
        value_name = "HOST,…",
        required = true,
        value_delimiter = ','
    )]
    nodes: Vec<String>,

    /// Port of the node's REST API
    #[arg(long, value_name = "N", default_value_t = 10000)]
    api_port: u16,

    /// The keyspace, if it is not the name of the folder above that of the table
    #[arg(short = 'k', long, value_name = "NAME")]
    target_keyspace: Option<String>,

    /// The table, if it is not the name of the folder
    #[arg(long, value_name = "NAME")]
    target_table: Option<String>,

    /// Do not read the files before
    #[arg(long)]
    no_verify: bool,

    /// Say more
    #[arg(short = 'v', long)]
    verbose: bool,

    /// For scripts that call sstableloader; no progress is shown
    #[arg(long)]
    no_progress: bool,

    #[command(flatten)]
    foreign: LoaderOptions,
}

pub(crate) fn run(options: LoadOptions) -> ExitCode {
    options.foreign.say();
    let mut sound = true;
    let sources = match sources(&options.files) {
        Ok(sources) => sources,
        Err(error) => {
            shard::complain(&error);
            return ExitCode::FAILURE;
        }
    };
    for source in sources {
        if let Err(error) = load(&source, &options) {
            shard::complain(&error);
            sound = false;
        }
    }
    match sound {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// What is loaded from one folder.
#[derive(Debug, PartialEq)]
struct Source {
    dir: PathBuf,
    /// These sstables of it; all, if none are named.
    chosen: Vec<Descriptor>,
}

/// The folders, each with those of its sstables that are named.
fn sources(given: &[PathBuf]) -> Result<Vec<Source>, ToolError> {
    let mut sources: Vec<Source> = Vec::new();
    for path in given {
        let (dir, chosen) = if path.is_dir() {
            (absolute(path)?, None)
        } else {
            let descriptor = files::descriptor(path)?;
            (descriptor.dir.clone(), Some(descriptor))
        };
        match sources.iter_mut().find(|source| source.dir == dir) {
            Some(source) => source.chosen.extend(chosen),
            None => sources.push(Source {
                dir,
                chosen: chosen.into_iter().collect(),
            }),
        }
    }
    Ok(sources)
}

fn absolute(path: &Path) -> Result<PathBuf, ToolError> {
    path.canonicalize().map_err(|source| ToolError::Io {
        what: path.display().to_string(),
        source,
    })
}

/// Keyspace and table by the names of a folder and the one above; an id may follow the table's
/// name, as in a data folder.
fn names(dir: &Path) -> Option<(String, String)> {
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let table = name(dir)?;
    let table = match table.rsplit_once('-') {
        Some((table, id)) if id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()) => table,
        _ => &table,
    };
    Some((name(dir.parent()?)?, table.to_owned()))
}

fn load(source: &Source, options: &LoadOptions) -> Result<(), ToolError> {
    let (keyspace, table) = names(&source.dir).unwrap_or_default();
    let keyspace = options.target_keyspace.clone().unwrap_or(keyspace);
    let table = options.target_table.clone().unwrap_or(table);
    if options.verbose {
        println!("Loading {} into {keyspace}.{table}", source.dir.display());
    }
    let staged = match source.chosen.is_empty() {
        true => None,
        false => Some(Staged::link(source)?),
    };
    let dir = staged.as_ref().map_or(&source.dir, |staged| &staged.dir);
    let query = [
        ("cf", table.as_str()),
        ("path", &dir.display().to_string()),
        ("verify", if options.no_verify { "false" } else { "true" }),
        ("copy", "true"),
    ];
    let parts = ["storage_service", "import", keyspace.as_str()];
    let mut unreachable = None;
    for host in &options.nodes {
        let api = Api {
            host: host.trim().to_owned(),
            port: options.api_port,
        };
        match api.post(parts, &query) {
            Ok(count) => {
                let from = source.dir.display();
                println!("Loaded {count} sstables of {from} into {keyspace}.{table} of {host}");
                return Ok(());
            }
            Err(error @ NodetoolError::NoConnection { .. }) => unreachable = Some(error),
            Err(error) => return Err(ToolError::Argument(error.to_string())),
        }
    }
    let error = unreachable.map_or_else(String::new, |error| error.to_string());
    Err(ToolError::Argument(error))
}

/// A folder with links to some sstables of another one, which goes with this.
struct Staged {
    dir: PathBuf,
}

impl Staged {
    fn link(source: &Source) -> Result<Staged, ToolError> {
        let dir = source.dir.join(format!(".load-{}", std::process::id()));
        let failed = |source| ToolError::Io {
            what: dir.display().to_string(),
            source,
        };
        std::fs::create_dir(&dir).map_err(failed)?;
        let staged = Staged { dir: dir.clone() };
        for entry in std::fs::read_dir(&source.dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let parsed = name
                .to_str()
                .and_then(|name| Descriptor::parse(&source.dir, name));
            let wanted = parsed.is_some_and(|(descriptor, component)| {
                // What Helenus notes of an sstable is about where it was written.
                component != Component::Helenus.name() && source.chosen.contains(&descriptor)
            });
            if wanted {
                std::fs::hard_link(source.dir.join(&name), dir.join(&name)).map_err(failed)?;
            }
        }
        Ok(staged)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Links that cannot be removed harm nobody.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_name_their_tables() {
        let found = |path| names(Path::new(path));
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(found("/backup/shop/orders"), pair("shop", "orders"));
        assert_eq!(
            found("/data/shop/orders-5a53559364974a9dbb0b658acf0b8fcb"),
            pair("shop", "orders")
        );
        assert_eq!(found("/data/shop/a-b"), pair("shop", "a-b"));
        assert_eq!(found("/"), None);
    }
}
