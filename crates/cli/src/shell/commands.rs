//! The subcommands of the binary, one row each: dispatch, help, completions, man pages and
//! suggestions come from this table and from the flag tables that it names.
//!
//! Thread safety: constants.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;

use super::{complete, man};
use crate::arguments::Flag;
use crate::{db_bench, ldb, report, resp_bench, serve, sst_dump, stress};

/// A subcommand.
pub struct Subcommand {
    /// As it is typed.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Runs it with the words after its name.
    pub run: fn(&[OsString]) -> ExitCode,
    /// What `--help` prints.
    pub help: fn() -> String,
    /// Its flags.
    pub flags: fn() -> Vec<Flag>,
}

/// In the order of their names.
pub const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "completions",
        summary: "print what bash, zsh or fish need to complete command lines",
        run: complete::run,
        help: || complete::USAGE.to_string(),
        flags: Vec::new,
    },
    Subcommand {
        name: "db_bench",
        summary: "run benchmarks on Pumice, or with --engine on a RocksDB library or other engines",
        run: db_bench::run,
        help: db_bench::help,
        flags: db_bench::flags,
    },
    Subcommand {
        name: "ldb",
        summary: "look into a database and change it",
        run: ldb::run,
        help: ldb::usage,
        flags: ldb::flags,
    },
    Subcommand {
        name: "man",
        summary: "write the man pages into a directory",
        run: man::run,
        help: || man::USAGE.to_string(),
        flags: Vec::new,
    },
    Subcommand {
        name: "repair",
        summary: "make a database that opens of what is left of a damaged one",
        run: ldb::run_repair,
        help: || ldb::REPAIR_USAGE.to_string(),
        flags: ldb::repair_flags,
    },
    Subcommand {
        name: "report",
        summary: "measure everything beside RocksDB and write a page about it",
        run: report::run,
        help: || report::USAGE.to_string(),
        flags: report::flags,
    },
    Subcommand {
        name: "resp_bench",
        summary: "load a server that speaks Redis's protocol, in a closed or an open loop",
        run: resp_bench::run,
        help: || resp_bench::USAGE.to_string(),
        flags: resp_bench::flags,
    },
    Subcommand {
        name: "serve",
        summary: "serve Redis's protocol over the network; needs no flags",
        run: serve::run,
        help: serve::usage,
        flags: serve::flags,
    },
    Subcommand {
        name: "sst_dump",
        summary: "look into table files",
        run: sst_dump::run,
        help: || sst_dump::USAGE.to_string(),
        flags: sst_dump::flags,
    },
    Subcommand {
        name: "stress",
        summary: "kill a working process again and again and check that nothing is lost",
        run: stress::run,
        help: || stress::USAGE.to_string(),
        flags: stress::flags,
    },
];

/// The subcommand of this name.
pub fn find(name: &str) -> Option<&'static Subcommand> {
    SUBCOMMANDS.iter().find(|command| command.name == name)
}

/// What `pumice --help` prints.
pub fn usage() -> String {
    let mut text = String::from(
        "pumice: a storage engine that keeps its data in RocksDB's file format\n\n\
         USAGE: pumice COMMAND [FLAGS]\n\nCOMMANDS\n",
    );
    for command in SUBCOMMANDS {
        writeln!(text, "  {:<11} {}", command.name, command.summary)
            .expect("a String takes everything");
    }
    text.push_str(
        "\n`pumice COMMAND --help` lists the flags of a command. `pumice --version` prints the \
         version.\nA link to this program that is called db_bench, ldb or sst_dump is that \
         command.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn help_names_every_command_and_flag() {
        let all = usage();
        assert!(SUBCOMMANDS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for command in SUBCOMMANDS {
            assert!(all.contains(&format!("\n  {} ", command.name)), "{}", command.name);
            let help = (command.help)();
            let flags = (command.flags)();
            for (at, flag) in flags.iter().enumerate() {
                let bare = flag.name.trim_start_matches('-');
                let is_shown = help.contains(bare) || command.name == "ldb";
                assert!(is_shown, "{}: {} is not in its help", command.name, flag.name);
                let twice = flags[..at].iter().any(|other| other.name == flag.name);
                assert!(!twice, "{}: {}", command.name, flag.name);
            }
        }
    }
}
