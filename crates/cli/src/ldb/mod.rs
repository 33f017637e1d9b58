//! `pumice ldb`: looks into a database and changes it, with RocksDB's ldb's commands and texts.
//!
//! `ldb --db=PATH [FLAGS] COMMAND [WORDS]`. Answers go to stdout, refusals to stderr as
//! `Failed: reason` with exit status 1. Outputs are those of RocksDB 7.8's ldb; where that one
//! exits with 0 or aborts on bad input, this one exits with 1.

mod admin;
mod data;
mod external;
mod internal;
mod manifest;
mod open;
mod output;
mod text;

pub use output::Output;
pub use text::{parse as parse_text, show_internal_key, show_plain};

use crate::arguments::Arguments;
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
    /// Keys are hexadecimal on both ways.
    pub key_hex: bool,
    /// Values are hexadecimal on both ways.
    pub value_hex: bool,
    /// The column family to work on.
    pub family: String,
}

/// One row of the command table.
struct Command {
    name: &'static str,
    /// Words and flags, as the usage shows them.
    usage: &'static str,
    /// Flags beside the common ones.
    flags: &'static [&'static str],
    run: fn(&Invocation, &mut Output) -> Result<(), Failure>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "put",
        usage: "<key> <value> [--create_if_missing]",
        flags: &[],
        run: data::put,
    },
    Command { name: "get", usage: "<key>", flags: &[], run: data::get },
    Command {
        name: "batchput",
        usage: "<key> <value> [<key> <value>] [..] [--create_if_missing]",
        flags: &[],
        run: data::batch_put,
    },
    Command {
        name: "scan",
        usage: "[--from] [--to] [--max_keys=<N>] [--no_value]",
        flags: &["from", "to", "max_keys", "no_value"],
        run: data::scan,
    },
    Command { name: "delete", usage: "<key>", flags: &[], run: data::delete },
    Command {
        name: "deleterange",
        usage: "<begin key> <end key>",
        flags: &[],
        run: data::delete_range,
    },
    Command {
        name: "dump",
        usage: "[--from] [--to] [--max_keys=<N>] [--count_only] [--stats]",
        flags: &["from", "to", "max_keys", "count_only", "stats"],
        run: data::dump,
    },
    Command {
        name: "idump",
        usage: "[--from] [--to] [--input_key_hex] [--max_keys=<N>] [--count_only]",
        flags: &["from", "to", "max_keys", "count_only", "input_key_hex"],
        run: internal::idump,
    },
    Command {
        name: "manifest_dump",
        usage: "[--verbose] [--path=<path_to_manifest_file>]",
        flags: &["verbose", "path"],
        run: manifest::manifest_dump,
    },
    Command {
        name: "list_column_families",
        usage: "",
        flags: &[],
        run: admin::list_column_families,
    },
    Command {
        name: "create_column_family",
        usage: "<new_column_family_name>",
        flags: &[],
        run: admin::create_column_family,
    },
    Command {
        name: "drop_column_family",
        usage: "<column_family_name_to_drop>",
        flags: &[],
        run: admin::drop_column_family,
    },
    Command { name: "checkconsistency", usage: "", flags: &[], run: admin::check_consistency },
    Command {
        name: "get_property",
        usage: "<property_name>",
        flags: &[],
        run: admin::get_property,
    },
    Command {
        name: "write_extern_sst",
        usage: "<output_sst_path>",
        flags: &[],
        run: external::write_extern_sst,
    },
    Command {
        name: "ingest_extern_sst",
        usage: "<input_sst_path> [--move_files] [--snapshot_consistency] [--allow_global_seqno] \
                [--allow_blocking_flush] [--ingest_behind] [--write_global_seqno]",
        flags: &[
            "move_files",
            "snapshot_consistency",
            "allow_global_seqno",
            "allow_blocking_flush",
            "ingest_behind",
            "write_global_seqno",
        ],
        run: external::ingest_extern_sst,
    },
    Command {
        name: "compact",
        usage: "[--from] [--to]",
        flags: &["from", "to"],
        run: admin::compact,
    },
];

/// Commands of RocksDB's ldb that are not built yet.
const NOT_YET: &[&str] = &[
    "approxsize",
    "backup",
    "change_compaction_style",
    "checkpoint",
    "dump_live_files",
    "dump_wal",
    "file_checksum_dump",
    "get_entity",
    "list_file_range_deletes",
    "list_live_files_metadata",
    "load",
    "multi_get",
    "multi_get_entity",
    "put_entity",
    "query",
    "reduce_levels",
    "repair",
    "restore",
    "singledelete",
    "unsafe_remove_sst_file",
    "update_manifest",
];

/// Flags of RocksDB's ldb that cannot work here, and why.
const REFUSED_FLAGS: &[(&str, &str)] = &[(
    "disable_consistency_checks",
    "the order and overlap of files are checked in every version (force_consistency_checks)",
)];

const COMMON_FLAGS: &[&str] = &[
    "db",
    "hex",
    "key_hex",
    "value_hex",
    "column_family",
    "create_if_missing",
    "try_load_options",
    "ignore_unknown_options",
    "bloom_bits",
    "fix_prefix_len",
    "compression_type",
    "compression_max_dict_bytes",
    "block_size",
    "auto_compaction",
    "db_write_buffer_size",
    "write_buffer_size",
    "file_size",
];

/// Runs `pumice ldb` with `args`, the words after the subcommand.
pub fn run(args: &[String]) -> ExitCode {
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
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        if NOT_YET.contains(&name.as_str()) {
            eprintln!(
                "Failed: Not implemented: command {name} of RocksDB's ldb is not supported yet"
            );
        } else {
            eprint!("Unknown command\n{}", usage());
        }
        return ExitCode::FAILURE;
    };
    if let Some((flag, why)) = REFUSED_FLAGS.iter().find(|(flag, _)| arguments.has(flag)) {
        eprintln!("Failed: Not implemented: --{flag} is not supported: {why}");
        return ExitCode::FAILURE;
    }
    let known: Vec<&str> = COMMON_FLAGS.iter().chain(command.flags).copied().collect();
    if let Some(unknown) = arguments.first_unknown(&known) {
        eprintln!("Invalid command-line option {unknown}");
        return ExitCode::FAILURE;
    }
    let db = arguments.text("db").or_else(|| arguments.text("path")).map(PathBuf::from);
    let Some(db) = db.filter(|path| path.as_path() != Path::new("")) else {
        eprint!("--db=<path> is missing\n{}", usage());
        return ExitCode::FAILURE;
    };
    let invocation = Invocation {
        db,
        key_hex: arguments.flag("hex") || arguments.flag("key_hex"),
        value_hex: arguments.flag("hex") || arguments.flag("value_hex"),
        family: arguments.text("column_family").unwrap_or("default").to_string(),
        arguments,
    };
    let mut output = Output::stdout();
    let result = (command.run)(&invocation, &mut output);
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
            assert!(!NOT_YET.contains(&command.name));
            assert!(usage().contains(&format!("\n  {}", command.name)));
            assert_eq!(COMMANDS.iter().filter(|other| other.name == command.name).count(), 1);
        }
    }
}
