//! All commands of RocksDB's ldb exist, and all their arguments are taken: those of the list in
//! `arguments.txt`, with the counts that docs/compatibility.md has.

use super::{Printed, run};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const LIST: &str = include_str!("arguments.txt");
const PAGE: &str = include_str!("../../../../docs/compatibility.md");

/// Arguments by command.
fn list() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut list: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in LIST.lines().filter(|line| !line.starts_with('#')) {
        let (command, arguments) = line.split_once(' ').unwrap_or((line, ""));
        list.entry(command).or_default().extend(arguments.split_whitespace());
    }
    list
}

/// A database is not there, so that nothing happens.
fn ours(dir: &Path, words: &str) -> Printed {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumice"));
    command.arg("ldb");
    run(command, dir, words, "")
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn every_command_and_argument_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let mut list = list();
    let common = list.remove("*").unwrap();
    let commands = list.len();
    // Arguments of all commands are counted once.
    list.insert("scan --max_keys=1", common);
    let mut count = 0;
    let is_taken = |words: &str| {
        let printed = ours(dir.path(), words);
        let refusals = ["Unknown command", "Invalid command-line", "Failed: Not implemented: "];
        assert!(!refusals.iter().any(|text| printed.2.contains(text)), "{words}: {printed:?}");
    };
    for (command, arguments) in &list {
        is_taken(&format!("--db=nosuch {command}"));
        for argument in arguments {
            let db = if *argument == "db" { "" } else { "--db=nosuch " };
            is_taken(&format!("{db}{command} --{argument}=1"));
        }
        count += arguments.len();
    }
    println!("commands: {commands}, arguments: {count}");
    let arguments = format!("{count} of their {count} arguments");
    let count = format!("| commands of ldb | {commands} of {commands}, with {arguments} |");
    assert!(PAGE.contains(&count), "docs/compatibility.md lacks: {count}");
    // What RocksDB's ldb does not have is unknown, with its error text.
    let printed = ours(dir.path(), "--db=nosuch scan --nosuch=1");
    assert_eq!(printed.2, "Invalid command-line option nosuch\n");
    let printed = ours(dir.path(), "--db=nosuch scan --nosuch");
    assert_eq!(printed.2, "Invalid command-line flag nosuch\n");
}

/// A switch is true or false in every spelling, and nothing happens when it is neither.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn switches_are_read_by_one_parser() {
    let dir = tempfile::tempdir().unwrap();
    let mut list = list();
    let common = list.remove("*").unwrap();
    list.insert("scan", [list["scan"].clone(), common].concat());
    let mut switches = std::collections::BTreeSet::new();
    for (command, arguments) in &list {
        for argument in arguments {
            let words = |value: &str| format!("--db=nosuch {command} --{argument}={value}");
            let printed = ours(dir.path(), &words("0xff"));
            let refused = format!("Failed: --{argument} is true or false, not 0xff\n");
            if printed.2 != refused {
                continue;
            }
            assert_eq!((printed.0, printed.1.as_str()), (Some(1), ""), "{command} {argument}");
            switches.insert(*argument);
            for value in ["TRUE", "no"] {
                let printed = ours(dir.path(), &words(value));
                assert!(!printed.2.contains("true or false"), "{command} {argument} {printed:?}");
            }
        }
    }
    println!("switches: {switches:?}");
    assert_eq!(switches.len(), SWITCHES, "{switches:?}");
    // All that RocksDB's ldb asks for as hexadecimal.
    for switch in ["hex", "key_hex", "value_hex", "input_key_hex"] {
        assert!(switches.contains(switch), "{switch}");
    }
}

/// Switches among the arguments.
const SWITCHES: usize = 37;

/// The list has everything in the help text of Debian's ldb.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn the_list_has_what_the_tool_says() {
    let Ok(printed) = Command::new("ldb").arg("--help").output() else { return };
    let help = [printed.stdout, printed.stderr].concat();
    let help = String::from_utf8(help).unwrap();
    let list = list();
    let (_, commands) = help.split_once("Data Access Commands:\n").unwrap();
    let mut count = 0;
    for line in commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
        let command = line.split_whitespace().next().unwrap();
        let known = list.get(command).unwrap_or_else(|| panic!("{command}: {line}"));
        count += 1;
        for piece in line.split("--").skip(1) {
            let end = piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let argument = &piece[..end.unwrap_or(piece.len())];
            let is_known = known.contains(&argument) || list["*"].contains(&argument);
            assert!(is_known, "{command} --{argument}: {line}");
        }
    }
    assert!(count > 30, "{help}");
}
