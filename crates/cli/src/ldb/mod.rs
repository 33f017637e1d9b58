//! `pumice ldb`: inspects and changes a database, with the commands and texts of RocksDB's ldb.
//!
//! `ldb --db=PATH [FLAGS] COMMAND [WORDS]`. Answers go to stdout, refusals to stderr as
//! `Failed: reason` with exit status 1. Outputs are those of RocksDB 7.8's ldb, and 11.9's where an
//! entry has columns; where 7.8's exits with 0 or aborts on bad input, this one exits with 1.

mod admin;
mod backups;
mod commands;
mod data;
mod entities;
mod external;
mod files;
mod groups;
mod internal;
mod live;
mod manifest;
mod open;
mod opened;
mod repair;
mod shape;
mod shell;
mod times;
mod wal;

pub use repair::run as run_repair;

use crate::arguments::{Arguments, Known, Wrong};
use crate::output::Output;
use commands::{COMMANDS, REFUSED_FLAGS, WITHOUT_DB};
use pumice_base::names;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Why a command failed: the text after `Failed: `.
pub type Failure = String;

/// One invocation.
pub struct Invocation {
    /// Flags, and the words after the command.
    pub arguments: Arguments,
    /// The database's directory.
    pub db: PathBuf,
    /// Keys are hexadecimal in input and output.
    pub key_hex: bool,
    /// Values are hexadecimal in input and output.
    pub value_hex: bool,
    /// The column family to work on.
    pub family: String,
}

impl Invocation {
    /// A command on the database `db`.
    fn of(db: PathBuf, arguments: Arguments) -> Self {
        Invocation {
            db,
            key_hex: arguments.flag("hex") || arguments.flag("key_hex"),
            value_hex: arguments.flag("hex") || arguments.flag("value_hex"),
            family: family_name(arguments.bytes("column_family").unwrap_or(b"default")),
            arguments,
        }
    }
}

/// The name of a column family as the library has it: names are bytes, and what is not UTF-8 may
/// be given as it is or escaped.
fn family_name(word: &[u8]) -> String {
    std::str::from_utf8(word).map_or_else(|_| names::text_of(word), names::canonical)
}

/// Switches of every command.
const COMMON_SWITCHES: &[&str] = &[
    "hex",
    "key_hex",
    "value_hex",
    "create_if_missing",
    "disable_consistency_checks",
    "try_load_options",
    "ignore_unknown_options",
    "auto_compaction",
];

/// Flags with a value of every command.
const COMMON_VALUES: &[&str] = &[
    "db",
    "column_family",
    "bloom_bits",
    "fix_prefix_len",
    "compression_type",
    "compression_max_dict_bytes",
    "block_size",
    "db_write_buffer_size",
    "write_buffer_size",
    "file_size",
    "secondary_path",
];

/// Runs `pumice ldb` with `args`, the words after the subcommand.
pub fn run(args: &[OsString]) -> ExitCode {
    let mut arguments = Arguments::parse(args);
    if arguments.has("help") {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    }
    if arguments.has("version") {
        println!("ldb from Pumice {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    if arguments.words.is_empty() {
        eprint!("{}", usage());
        return ExitCode::FAILURE;
    }
    let name = arguments.words.remove(0);
    let Some(command) = COMMANDS.iter().find(|command| command.name.as_bytes() == name) else {
        eprint!("Unknown command\n{}", usage());
        return ExitCode::FAILURE;
    };
    if let Some((flag, why)) = REFUSED_FLAGS.iter().find(|(flag, _)| arguments.has(flag)) {
        eprintln!("Failed: Not implemented: --{flag} is not supported: {why}");
        return ExitCode::FAILURE;
    }
    let known = Known {
        switches: &[COMMON_SWITCHES, command.switches],
        values: &[COMMON_VALUES, command.values],
    };
    match arguments.check(&known) {
        Ok(()) => {}
        Err(Wrong::Unknown(kind, name)) => {
            eprintln!("Invalid command-line {kind} {name}");
            return ExitCode::FAILURE;
        }
        Err(wrong) => {
            eprintln!("Failed: {wrong}");
            return ExitCode::FAILURE;
        }
    }
    let db = arguments.path("db").or_else(|| arguments.path("path")).map(Path::to_path_buf);
    let needless = WITHOUT_DB.contains(&command.name);
    let Some(db) = db.or_else(|| needless.then(PathBuf::new)) else {
        eprintln!("Either db or path must be specified.");
        return ExitCode::FAILURE;
    };
    let mut output = Output::stdout();
    let result = (command.run)(&Invocation::of(db, arguments), &mut output);
    match result.and_then(|()| output.finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("Failed: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    let mut out = String::from(
        "ldb - Pumice's form of the RocksDB tool\n\n\
         USAGE: pumice ldb --db=<path_to_db_directory> [FLAGS] COMMAND\n\n\
         Keys and values:\n\
         \x20 --key_hex, --value_hex, --hex : keys, values, both are input and output as 0x...\n\
         \x20 --column_family=<string> : the column family to work on (default: default)\n\n\
         Options of the database (taken from its OPTIONS file if there is one):\n\
         \x20 --create_if_missing, --try_load_options=<bool>, --ignore_unknown_options,\n\
         \x20 --secondary_path=<path>, to read while another process writes,\n\
         \x20 --disable_consistency_checks, to read where files of a level overlap,\n\
         \x20 --bloom_bits=<int>, --fix_prefix_len=<int>,\n\
         \x20 --compression_type=<no|snappy|zlib|bzip2|lz4|lz4hc|zstd>, --block_size=<int>,\n\
         \x20 --auto_compaction=<bool>, --db_write_buffer_size=<int>, --write_buffer_size=<int>,\n\
         \x20 --file_size=<int>\n\n\
         Commands:\n",
    );
    for command in COMMANDS {
        out.push_str(format!("  {} {}", command.name, command.usage).trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn every_command_is_listed_once_and_shown() {
        for command in COMMANDS {
            assert!(usage().contains(&format!("\n  {}", command.name)));
            assert_eq!(COMMANDS.iter().filter(|other| other.name == command.name).count(), 1);
        }
    }
}
