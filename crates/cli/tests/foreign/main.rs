//! The tools on databases that RocksDB made with what Pumice lacks, or what needs its owner's code.
//!
//! Every command of `pumice ldb` that writes is run on a fresh copy of every such database, with
//! its OPTIONS file, without it, and with `--try_load_options=false`. Either it is refused: then no
//! byte of the directory changes. Or it is right: then RocksDB, opened by its owner, finds exactly
//! what the command was to do; what the command had no need to touch is as it was, byte for byte,
//! and no row of the OPTIONS file is lost.
//!
//! RocksDB 10.10.1 makes them in this process, through its C library. It does not cover databases
//! with logs in another directory whose OPTIONS file is not read: nothing in the directory shows
//! that.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod made;
mod prepared;
mod run;

use made::{ALL, May, PLAIN};
use pumice_peer::Peer;
use run::{COMMANDS, Case, Directory, Given, HARMLESS, Original, rows};

/// Of the runs that may succeed one in `ONE_IN` is made, a different one for each database; all
/// refusals are run.
const ONE_IN: usize = 6;

/// `PUMICE_FOREIGN=all` makes every run, `PUMICE_FOREIGN=NAME` all those on one database.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn what_is_not_understood_is_not_touched() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = &Peer::load(library).unwrap();
    let wanted = std::env::var("PUMICE_FOREIGN").ok();
    let only = wanted.as_deref().filter(|name| *name != "all");
    let defaults = &rows(&Original::new(peer, &Directory::new("defaults"), &PLAIN).files);
    let (mut wrong, mut runs) = (Vec::new(), 0);
    for made in ALL.iter().filter(|made| only.is_none_or(|name| name == made.name)) {
        let directory = &Directory::new(made.name);
        let original = &Original::new(peer, directory, made);
        let case = Case { peer, directory, made, original, defaults };
        for given in [Given::Options, Given::NoOptionsFile, Given::NotLoaded] {
            for command in COMMANDS {
                runs += 1;
                let refused = matches!(made.may[given as usize], May::Refuse(_));
                if refused || wanted.is_some() || runs % ONE_IN == 0 {
                    wrong.extend(case.check(command, given).err());
                }
            }
        }
    }
    assert!(runs > 0, "no such database");
    assert!(wrong.is_empty(), "{} runs went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A new command of `ldb` must be run here, or be listed as harmless.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn every_command_that_writes_is_run() {
    let mut ldb = std::process::Command::new(env!("CARGO_BIN_EXE_pumice"));
    let help = ldb.args(["ldb", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    for line in commands.lines() {
        let name = line.split_whitespace().next().unwrap();
        let run = COMMANDS.iter().any(|command| command.words.split(' ').any(|word| word == name));
        assert!(run != HARMLESS.contains(&name), "{name}: run={run}");
    }
}

/// `load --bulk_load` turns automatic compactions off; they are on again if it fails later.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_load_that_fails_leaves_the_options_as_they_were() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = &Peer::load(library).unwrap();
    let directory = &Directory::new("load-fails");
    let made = ALL.iter().find(|made| made.name == "uint64add").unwrap();
    let original = &Original::new(peer, directory, made);
    let mut files = original.files.clone();
    files.retain(|name, _| !name.to_string_lossy().starts_with("OPTIONS-"));
    let path = directory.database();
    run::write_files(&path, &files);
    let ran = run::run(&path, original, "load --bulk_load --compact", "n ==> new\n");
    assert!(!ran.worked && ran.err.contains("merge_operator"), "{}", ran.err);
    let rows = rows(&run::read_files(&path));
    let off = rows.iter().filter(|((_, name), _)| name == "disable_auto_compactions");
    assert_eq!(off.map(|(_, value)| value.as_str()).collect::<Vec<_>>(), ["false"; 2]);
}
