//! `helenus cluster`: a cluster on one machine, to try things with. Each node is a process of its own,
//! `helenus start` on an address and with a folder of its own; this one starts them, passes on what they say
//! and stops them when it is stopped.

mod node_process;
mod options;
mod plan;

use std::ffi::OsString;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitStatus;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use self::node_process::{News, NodeProcess, Stream};
pub(crate) use self::options::ClusterOptions;
use self::plan::PlannedNode;
use crate::config_file::ConfigFileError;
use crate::machine::Machine;
use crate::settings::{Settings, SettingsError};
use crate::start::{self, READY, StartError};

/// How many lines of nodes wait to be passed on; a node that says more waits.
const WAITING_LINES: usize = 1024;

/// Why a cluster does not start, or did not end as it should have.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    /// The configuration file is no good.
    #[error(transparent)]
    ConfigFile(#[from] ConfigFileError),
    /// The options do not fit together.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// There are too few addresses.
    #[error(
        "the addresses of this machine run out behind {first}: it is too late a --first for {nodes} nodes"
    )]
    NoAddress {
        /// The address of the first node.
        first: Ipv4Addr,
        /// How many there are to be.
        nodes: u16,
    },
    /// A port of a node is taken.
    #[error("{node}: {source}")]
    Port {
        /// Which node.
        node: String,
        /// Which port, and why.
        source: StartError,
    },
    /// A process cannot be started.
    #[error("{node} cannot be started: {source}")]
    Spawn {
        /// Which node.
        node: String,
        /// Why.
        source: std::io::Error,
    },
    /// Signals cannot be caught, or the binary is not found.
    #[error("cannot start processes: {0}")]
    System(#[from] std::io::Error),
    /// Nobody stopped them.
    #[error("all nodes have ended")]
    AllEnded,
    /// Some did not drain.
    #[error("not stopped as they should have: {0}")]
    Unclean(String),
}

/// Starts a cluster and waits until it is stopped.
pub(crate) fn run(options: &ClusterOptions) -> Result<(), ClusterError> {
    let planned = plan::plan(options, Machine::inspect())?;
    for node in &planned {
        let free = start::check_all_ports(&node.settings);
        free.map_err(|source| ClusterError::Port {
            node: node.name.clone(),
            source,
        })?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(Cluster::new(planned, options.shared.data()).run())
}

/// A node, and how far it is.
#[derive(Debug)]
struct Member {
    planned: PlannedNode,
    /// `None` before it was started.
    process: Option<NodeProcess>,
    is_ready: bool,
    last_line: String,
    /// Was it told to stop?
    is_told: bool,
    /// What came of it.
    ended: Option<std::io::Result<ExitStatus>>,
}

impl Member {
    fn runs(&self) -> bool {
        self.process.is_some() && self.ended.is_none()
    }
}

/// The nodes, as the process that started them sees them.
struct Cluster {
    members: Vec<Member>,
    data: PathBuf,
    /// Were clients told that they can come?
    is_announced: bool,
    is_stopping: bool,
}

impl Cluster {
    fn new(planned: Vec<PlannedNode>, data: PathBuf) -> Cluster {
        let member = |planned| Member {
            planned,
            process: None,
            is_ready: false,
            last_line: String::new(),
            is_told: false,
            ended: None,
        };
        Cluster {
            members: planned.into_iter().map(member).collect(),
            data,
            is_announced: false,
            is_stopping: false,
        }
    }

    /// Starts all, and waits until all have ended.
    async fn run(mut self) -> Result<(), ClusterError> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (sender, mut news) = channel(WAITING_LINES);
        if let Err(error) = self.start(&sender) {
            self.stop_all();
            self.wait_for_all(&mut news).await;
            return Err(error);
        }
        while self.members.iter().any(Member::runs) {
            tokio::select! {
                Some(news) = news.recv() => self.take(news),
                Some(()) = terminate.recv() => self.stop(),
                Some(()) = interrupt.recv() => self.stop(),
            }
        }
        self.outcome()
    }

    fn start(&mut self, news: &Sender<News>) -> Result<(), ClusterError> {
        let binary = std::env::current_exe()?;
        for (number, member) in self.members.iter_mut().enumerate() {
            let arguments = &member.planned.arguments;
            let started = NodeProcess::start(&binary, arguments, number, news);
            let process = started.map_err(|source| ClusterError::Spawn {
                node: member.planned.name.clone(),
                source,
            })?;
            member.process = Some(process);
        }
        Ok(())
    }

    async fn wait_for_all(&mut self, news: &mut Receiver<News>) {
        while self.members.iter().any(Member::runs) {
            if let Some(news) = news.recv().await {
                self.take(news);
            }
        }
    }

    /// A second time they stop at once.
    fn stop(&mut self) {
        let count = self.members.iter().filter(|member| member.runs()).count();
        let count = nodes(count);
        say(&match std::mem::replace(&mut self.is_stopping, true) {
            false => {
                format!("helenus cluster: stopping {count}; a second signal stops them at once")
            }
            true => format!("helenus cluster: stopping {count} at once"),
        });
        self.stop_all();
    }

    fn stop_all(&mut self) {
        for member in self.members.iter_mut().filter(|member| member.runs()) {
            member.is_told = true;
            if let Some(process) = &member.process {
                process.stop();
            }
        }
    }

    fn take(&mut self, news: News) {
        match news {
            News::Line { node, stream, line } => {
                let longest = self.members.iter().map(|m| m.planned.name.len()).max();
                let member = &mut self.members[node];
                let width = longest.unwrap_or(0);
                let told = format!("{:<width$} | {line}\n", member.planned.name);
                // Whoever reads it may have gone; the nodes serve all the same.
                let _ = match stream {
                    Stream::Output => std::io::stdout().write_all(told.as_bytes()),
                    Stream::Log => std::io::stderr().write_all(told.as_bytes()),
                };
                member.is_ready |= stream == Stream::Output && line.starts_with(READY);
                member.last_line = line;
            }
            News::Ended { node, status } => {
                let member = &mut self.members[node];
                if !self.is_stopping {
                    say(&obituary(member, &status));
                }
                member.ended = Some(status);
            }
        }
        self.announce();
    }

    /// Says once that all that run are ready, and what to do with them.
    fn announce(&mut self) {
        let mut running = self.members.iter().filter(|member| member.runs());
        let Some(first) = running.clone().next() else {
            return;
        };
        if self.is_announced || self.is_stopping || !running.all(|member| member.is_ready) {
            return;
        }
        self.is_announced = true;
        let count = self.members.iter().filter(|member| member.runs()).count();
        let of = match count == self.members.len() {
            true => nodes(count),
            false => format!("{count} of {}", nodes(self.members.len())),
        };
        let data = self.data.display();
        say(&format!(
            "helenus cluster ready: {of}, their data in {data}"
        ));
        for (command, what) in commands(&first.planned.settings) {
            say(&format!("  {command:<40} {what}"));
        }
        say(&format!("  {:<40} stop all of them", "Ctrl-C"));
    }

    fn outcome(self) -> Result<(), ClusterError> {
        if !self.is_stopping {
            return Err(ClusterError::AllEnded);
        }
        let told = self.members.iter().filter(|member| member.is_told);
        let unclean = told.filter_map(|member| match &member.ended {
            None => None,
            Some(Ok(status)) if status.success() => None,
            Some(status) => Some(format!("{} ({})", member.planned.name, end(status))),
        });
        let unclean: Vec<String> = unclean.collect();
        match unclean.is_empty() {
            true => Ok(()),
            false => Err(ClusterError::Unclean(unclean.join(", "))),
        }
    }
}

fn nodes(count: usize) -> String {
    match count {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    }
}

/// A line of this process's own.
fn say(line: &str) {
    // As with those of the nodes.
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}

/// How a process ended, in words.
fn end(status: &std::io::Result<ExitStatus>) -> String {
    match status {
        // As `exit status: 1`, `signal: 9 (SIGKILL)`.
        Ok(status) => status.to_string(),
        Err(error) => format!("nobody knows how: {error}"),
    }
}

/// What is said of a node that ends though nobody told it to.
fn obituary(member: &Member, status: &std::io::Result<ExitStatus>) -> String {
    let PlannedNode {
        name, arguments, ..
    } = &member.planned;
    let last = match member.last_line.as_str() {
        "" => "it said nothing".to_owned(),
        line => format!("its last line: {line}"),
    };
    let words: Vec<String> = arguments.iter().map(quoted).collect();
    format!(
        "{name} has ended: {}; {last}\n  helenus {}\n  starts it again",
        end(status),
        words.join(" ")
    )
}

/// A word as a shell takes it.
fn quoted(word: &OsString) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// What to do with a cluster that has this node: commands, and what they do.
fn commands(node: &Settings) -> Vec<(String, &'static str)> {
    let address = node.address;
    let port = match node.port {
        9042 => String::new(),
        port => format!(" {port}"),
    };
    let mut commands = vec![(format!("cqlsh {address}{port}"), "talk to it")];
    if let Some(api) = node.api {
        let host = match address == Ipv4Addr::LOCALHOST {
            true => String::new(),
            false => format!(" -h {address}"),
        };
        let port = match api.port() {
            10000 => String::new(),
            port => format!(" -p {port}"),
        };
        let command = format!("helenus nodetool{host}{port} status");
        commands.push((command, "see its nodes"));
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, expected) in [
            ("--data", "--data"),
            ("./my cluster/node1", "'./my cluster/node1'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(&word.into()), expected);
        }
    }
}
