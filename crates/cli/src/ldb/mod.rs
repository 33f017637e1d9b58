//! `pumice ldb`: inspects and changes a database, with the commands and texts of RocksDB's ldb.
//!
//! `ldb --db=PATH [FLAGS] COMMAND [WORDS]`. Answers go to stdout, refusals to stderr as
//! `Failed: reason` with exit status 1. Outputs are those of RocksDB 7.8's ldb, and 11.9's where an
//! entry has columns; where 7.8's exits with 0 or aborts on bad input, this one exits with 1.

mod admin;
mod backups;
mod blob_dump;
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

pub use repair::{USAGE as REPAIR_USAGE, flags as repair_flags, run as run_repair};

use crate::arguments::{Arguments, Flag, Known, Wrong};
use crate::environments;
use crate::nearest::nearest;
use crate::output::Output;
use crate::progress::{Progress, bytes_of};
use crate::text::Format;
use commands::{COMMANDS, Command, WITHOUT_DB};
use pumice_base::names;
use pumice_env::{FileSystem, PosixFs};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

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
    /// The line that tells how far the command is.
    pub progress: Progress,
    /// The file system that the line counts the reads of.
    pub fs: Arc<dyn FileSystem>,
}

impl Invocation {
    /// The command `name` on the database `db`.
    fn of(name: &'static str, db: PathBuf, arguments: Arguments) -> Self {
        let (progress, fs) = watched(name);
        Invocation {
            db,
            key_hex: arguments.flag("hex") || arguments.flag("key_hex"),
            value_hex: arguments.flag("hex") || arguments.flag("value_hex"),
            family: family_name(arguments.bytes("column_family").unwrap_or(b"default")),
            arguments,
            progress,
            fs,
        }
    }

    /// How its entries are printed.
    fn format(&self) -> Format {
        Format {
            key_hex: self.key_hex,
            value_hex: self.value_hex,
            decode_blob_index: self.arguments.flag("decode_blob_index"),
        }
    }

    /// Tables that a command which reads all of them reads, in bytes.
    fn table_bytes(&self) -> u64 {
        bytes_of(&self.db, &[".sst"])
    }
}

/// The line that tells how far the command `name` is, and the file system that it counts.
fn watched(name: &'static str) -> (Progress, Arc<dyn FileSystem>) {
    let fs = PosixFs::shared();
    // These have nothing to print until the end.
    let prints = ![
        "backup",
        "checkpoint",
        "compact",
        "ingest_extern_sst",
        "load",
        "repair",
        "restore",
        "write_extern_sst",
    ]
    .contains(&name);
    match ["load", "write_extern_sst"].contains(&name) {
        true => {
            let typed = std::io::stdin().is_terminal();
            (Progress::start(name, typed), fs)
        }
        false => Progress::files(name, fs, prints),
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
    "enable_blob_files",
    "enable_blob_garbage_collection",
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
    "min_blob_size",
    "blob_file_size",
    "blob_compression_type",
    "blob_garbage_collection_age_cutoff",
    "blob_garbage_collection_force_threshold",
    "blob_compaction_readahead_size",
    "blob_file_starting_level",
    "prepopulate_blob_cache",
    "secondary_path",
    "leader_path",
    "env_uri",
    "fs_uri",
];

/// Runs `pumice ldb` with `args`, the words after the subcommand.
pub fn run(args: &[OsString]) -> ExitCode {
    let mut arguments = Arguments::parse(args);
    if arguments.has("help") {
        return help(arguments.words.first().map(Vec::as_slice));
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
        let name = String::from_utf8_lossy(&name);
        eprint!("Unknown command\n{}", usage());
        // Last, where it is seen, and so that RocksDB's lines stay as they are.
        if let Some(near) = nearest(&name, COMMANDS.iter().map(|command| command.name)) {
            eprintln!("\nThere is no command '{name}'; did you mean '{near}'?");
        }
        return ExitCode::FAILURE;
    };
    let lists = ([COMMON_SWITCHES, command.switches], [COMMON_VALUES, command.values]);
    let known = Known { switches: &lists.0, values: &lists.1 };
    match arguments.check(&known) {
        Ok(()) => {}
        Err(Wrong::Unknown(kind, name)) => {
            eprintln!("Invalid command-line {kind} {name}");
            if let Some(near) = nearest(&name, known.names()) {
                eprintln!("Did you mean --{near}?");
            }
            return ExitCode::FAILURE;
        }
        Err(wrong) => {
            eprintln!("Failed: {wrong}");
            return ExitCode::FAILURE;
        }
    }
    if let Err(error) = environment(&arguments) {
        // Twice, as RocksDB's says it.
        eprintln!("{error}\nFailed: {error}");
        return ExitCode::FAILURE;
    }
    let db = arguments.path("db").or_else(|| arguments.path("path")).map(Path::to_path_buf);
    let needless = WITHOUT_DB.contains(&command.name);
    let Some(db) = db.or_else(|| needless.then(PathBuf::new)) else {
        eprintln!("Either db or path must be specified.");
        return ExitCode::FAILURE;
    };
    let mut output = Output::stdout();
    let result = run_command(command, Invocation::of(command.name, db, arguments), &mut output);
    match result.and_then(|()| output.finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("Failed: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs `command`, and removes the line about it.
fn run_command(
    command: &Command,
    invocation: Invocation,
    output: &mut Output,
) -> Result<(), Failure> {
    (command.run)(&invocation, output)
}

/// The flags of every command, for completions.
pub fn flags() -> Vec<Flag> {
    let mut flags = Known { switches: &[COMMON_SWITCHES], values: &[COMMON_VALUES] }.flags();
    flags.push(Flag::long("version", false, "print the version"));
    flags
}

/// Each command and the flags that it alone has, for completions.
pub fn commands_flags() -> Vec<(&'static str, Vec<Flag>)> {
    let own = |command: &'static Command| {
        let known = Known { switches: &[command.switches], values: &[command.values] };
        (command.name, known.flags())
    };
    COMMANDS.iter().map(own).collect()
}

/// What `--help` says of each command.
pub fn commands_help() -> Vec<String> {
    COMMANDS.iter().map(command_help).collect()
}

/// `ldb --help`, or `ldb COMMAND --help`.
fn help(name: Option<&[u8]>) -> ExitCode {
    let Some(name) = name else {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    };
    let Some(command) = COMMANDS.iter().find(|command| command.name.as_bytes() == name) else {
        eprint!("Unknown command\n{}", usage());
        return ExitCode::FAILURE;
    };
    print!("{}", command_help(command));
    ExitCode::SUCCESS
}

fn command_help(command: &Command) -> String {
    let line = format!("pumice ldb --db=<path> {} {}", command.name, command.usage);
    let mut text = format!("{}\n    {}.\n", line.trim_end(), command.help);
    for flag in (Known { switches: &[command.switches], values: &[command.values] }).flags() {
        let value = if flag.takes_value { "=<value>" } else { "[=<bool>]" };
        text.push_str(&format!("      {}{value}\n", flag.name));
    }
    text.push('\n');
    text
}

pub fn usage() -> String {
    let mut out = String::from(
        "ldb - Pumice's form of the RocksDB tool\n\n\
         USAGE: pumice ldb --db=<path_to_db_directory> [FLAGS] COMMAND\n\n\
         Keys and values:\n\
         \x20 --key_hex, --value_hex, --hex : keys, values, both are input and output as 0x...\n\
         \x20 --column_family=<string> : the column family to work on (default: default)\n\n\
         Options of the database (taken from its OPTIONS file if there is one):\n\
         \x20 --create_if_missing, --try_load_options=<bool>, --ignore_unknown_options,\n\
         \x20 --secondary_path=<path>, to read while another process writes,\n\
         \x20 --leader_path=<path>, to follow the database there with files in --db,\n\
         \x20 --disable_consistency_checks, to read where files of a level overlap,\n\
         \x20 --bloom_bits=<int>, --fix_prefix_len=<int>,\n\
         \x20 --compression_type=<no|snappy|zlib|bzip2|lz4|lz4hc|zstd>, --block_size=<int>,\n\
         \x20 --auto_compaction=<bool>, --db_write_buffer_size=<int>, --write_buffer_size=<int>,\n\
         \x20 --file_size=<int>,\n\
         \x20 --enable_blob_files, --min_blob_size=<int>, --blob_file_size=<int>,\n\
         \x20 --blob_compression_type=<no|snappy|zlib|bzip2|lz4|lz4hc|zstd>,\n\
         \x20 --blob_file_starting_level=<int>, --prepopulate_blob_cache=<0|1>,\n\
         \x20 --enable_blob_garbage_collection, --blob_garbage_collection_age_cutoff=<double>,\n\
         \x20 --blob_garbage_collection_force_threshold=<double>,\n\
         \x20 --blob_compaction_readahead_size=<int>\n\n\
         Commands:\n",
    );
    for command in COMMANDS {
        out.push_str(format!("  {} {}", command.name, command.usage).trim_end());
        out.push('\n');
    }
    out
}

/// `--env_uri` and `--fs_uri` name what there is.
fn environment(arguments: &Arguments) -> Result<(), String> {
    environments::check(arguments.text("env_uri")?, arguments.text("fs_uri")?)
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
