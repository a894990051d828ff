//! Options of Cassandra's tools that scripts pass and that mean nothing here. They are taken, with a
//! word on standard error, so that the scripts go on working.

use std::ffi::OsString;

use clap::error::Error;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

/// The options of sstableloader with a value (`LoaderOptions.getCmdLineOptions`): the long form, the
/// short one of a single letter, and the short one of several, which clap does not know.
const LOADER: [(&str, Option<char>, Option<&str>); 23] = [
    ("ignore", Some('i'), None),
    ("port", Some('p'), None),
    ("storage-port", None, Some("-sp")),
    ("ssl-storage-port", None, Some("-ssp")),
    ("throttle", Some('t'), None),
    ("throttle-mib", None, None),
    ("inter-dc-throttle", None, Some("-idct")),
    ("inter-dc-throttle-mib", None, None),
    ("entire-sstable-throttle-mib", None, None),
    ("entire-sstable-inter-dc-throttle-mib", None, None),
    ("username", Some('u'), None),
    ("password", None, Some("-pw")),
    ("auth-provider", None, Some("-ap")),
    ("connections-per-host", None, Some("-cph")),
    ("truststore", None, Some("-ts")),
    ("truststore-password", None, Some("-tspw")),
    ("keystore", None, Some("-ks")),
    ("keystore-password", None, Some("-kspw")),
    ("ssl-protocol", None, Some("-prtcl")),
    ("ssl-alg", None, Some("-alg")),
    ("store-type", None, Some("-st")),
    ("ssl-ciphers", None, Some("-ciphers")),
    ("conf-path", Some('f'), None),
];

/// Which of the options of [`LOADER`] were given.
#[derive(Clone, Debug, Default)]
pub(super) struct LoaderOptions {
    given: Vec<&'static str>,
}

impl LoaderOptions {
    /// Says that they do nothing. Values are not said: one may be a password.
    pub(super) fn say(&self) {
        if !self.given.is_empty() {
            eprintln!(
                "helenus sstable: {} ignored: nothing is streamed, the node reads the files itself",
                self.given.join(", ")
            );
        }
    }
}

impl FromArgMatches for LoaderOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<LoaderOptions, Error> {
        let names = LOADER.iter().map(|(long, ..)| *long);
        let given = names.filter(|long| matches.contains_id(long)).collect();
        Ok(LoaderOptions { given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = LoaderOptions::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for LoaderOptions {
    fn augment_args(command: Command) -> Command {
        LOADER.iter().fold(command, |command, (long, short, _)| {
            let arg = Arg::new(*long).long(*long).value_name("VALUE").hide(true);
            command.arg(match short {
                Some(short) => arg.short(*short),
                None => arg,
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        LoaderOptions::augment_args(command)
    }
}

/// Gives the short forms of several letters that sstableloader has as long ones.
pub(crate) fn spell_out(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_loader = arguments.get(1).is_some_and(|word| word == "sstable")
        && arguments.get(2).is_some_and(|word| word == "load");
    if !is_loader {
        return arguments;
    }
    for argument in arguments.iter_mut().skip(3).take_while(|a| *a != "--") {
        let of_this = |(_, _, form): &&(_, _, Option<&str>)| form.is_some_and(|f| argument == f);
        if argument == "-tb" {
            *argument = "--target-table".into();
        } else if let Some((long, ..)) = LOADER.iter().find(of_this) {
            *argument = format!("--{long}").into();
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: LoaderOptions,
        files: Vec<String>,
    }

    #[test]
    fn options_of_sstableloader_are_taken_and_ignored() {
        let line = "helenus sstable load -u me -pw secret --throttle 5 -cph 2 -f cassandra.yaml \
                    --entire-sstable-throttle-mib 1 dir -- -pw";
        let line = spell_out(
            line.split(' ')
                .filter(|w| !w.is_empty())
                .map(Into::into)
                .collect(),
        );
        let line = Line::try_parse_from(line.into_iter().skip(2)).expect("it is taken");
        assert_eq!(line.files, ["dir", "-pw"]);
        let given = line.options.given;
        assert_eq!(given.len(), 6, "{given:?}");
        assert!(given.contains(&"password") && given.contains(&"conf-path"));
    }

    #[test]
    fn they_do_not_meet_the_options_that_load_has() {
        super::super::load::LoadOptions::augment_args(Command::new("load")).debug_assert();
    }

    #[test]
    fn other_verbs_are_left_alone() {
        let line: Vec<OsString> = ["helenus", "sstable", "dump", "-ts"].map(Into::into).into();
        assert_eq!(spell_out(line.clone()), line);
    }
}
