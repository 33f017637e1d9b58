//! The commands of `pumice ldb`: name, words and flags, function. Help, refusals and parsing come
//! from this table. Thread safety: constants.

use super::{Failure, Invocation};
use super::{
    admin, backups, data, entities, external, files, internal, live, manifest, repair, shape,
    shell, wal,
};
use crate::output::Output;
use pumice::{Db, DbWithTtl};

/// One row of the command table.
pub struct Command {
    /// As it is typed.
    pub name: &'static str,
    /// What it does, in one sentence without its full stop.
    pub help: &'static str,
    /// Words and flags, as the usage shows them.
    pub usage: &'static str,
    /// Flags that are true or false, besides the common ones.
    pub switches: &'static [&'static str],
    /// Flags with a value.
    pub values: &'static [&'static str],
    /// What it does.
    pub run: fn(&Invocation, &mut Output) -> Result<(), Failure>,
}

/// A command that works on plain databases and, with `--ttl`, on those whose values expire.
macro_rules! with_ttl {
    ($($command:ident)::+) => {
        |it, out| match it.arguments.flag("ttl") {
            true => $($command)::+::<DbWithTtl>(it, out),
            false => $($command)::+::<Db>(it, out),
        }
    };
}

pub const COMMANDS: &[Command] = &[
    Command {
        name: "put",
        help: "Writes an entry",
        usage: "<key> <value> [--create_if_missing] [--ttl]",
        switches: &["ttl"],
        values: &[],
        run: with_ttl!(data::put),
    },
    Command {
        name: "get",
        help: "Prints the value of a key",
        usage: "<key> [--ttl] [--read_timestamp=<uint64_ts>]",
        switches: &["ttl"],
        values: &["read_timestamp"],
        run: with_ttl!(data::get),
    },
    Command {
        name: "batchput",
        help: "Writes entries in one batch",
        usage: "<key> <value> [<key> <value>] [..] [--create_if_missing] [--ttl]",
        switches: &["ttl"],
        values: &[],
        run: with_ttl!(data::batch_put),
    },
    Command {
        name: "scan",
        help: "Prints the entries of a range, `key : value`",
        usage: "[--from] [--to] [--ttl] [--timestamp] [--max_keys=<N>] \
                [--start_time=<N>:- is inclusive] [--end_time=<N>:- is exclusive] [--no_value] \
                [--read_timestamp=<uint64_ts>] [--get_write_unix_time]",
        switches: &["ttl", "timestamp", "no_value", "get_write_unix_time"],
        values: &["from", "to", "max_keys", "start_time", "end_time", "read_timestamp"],
        run: with_ttl!(data::scan),
    },
    Command {
        name: "delete",
        help: "Deletes a key",
        usage: "<key>",
        switches: &[],
        values: &[],
        run: data::delete,
    },
    Command {
        name: "deleterange",
        help: "Deletes the keys from the first one up to the second, which stays",
        usage: "<begin key> <end key>",
        switches: &[],
        values: &[],
        run: data::delete_range,
    },
    Command {
        name: "dump",
        help: "Prints entries, `key ==> value`, or counts them; with --path one file as text",
        usage: "[--from] [--to] [--ttl] [--max_keys=<N>] [--timestamp] [--count_only] \
                [--count_delim=<char>] [--stats] [--bucket=<N>] \
                [--start_time=<N>:- is inclusive] [--end_time=<N>:- is exclusive] \
                [--path=<path_to_a_file>] [--decode_blob_index] [--dump_uncompressed_blobs]",
        switches: &[
            "ttl",
            "timestamp",
            "count_only",
            "stats",
            "decode_blob_index",
            "dump_uncompressed_blobs",
        ],
        values: &[
            "from",
            "to",
            "max_keys",
            "count_delim",
            "bucket",
            "start_time",
            "end_time",
            "path",
        ],
        run: with_ttl!(data::dump),
    },
    Command {
        name: "idump",
        help: "Prints the internal entries: every version, with sequence number and type",
        usage: "[--from] [--to] [--input_key_hex] [--max_keys=<N>] [--count_only] \
                [--count_delim=<char>] [--stats] [--decode_blob_index]",
        switches: &["count_only", "stats", "input_key_hex", "decode_blob_index"],
        values: &["from", "to", "max_keys", "count_delim"],
        run: internal::idump,
    },
    Command {
        name: "manifest_dump",
        help: "Prints what a MANIFEST says: column families, files, log numbers",
        usage: "[--verbose] [--json] [--path=<path_to_manifest_file>]",
        switches: &["verbose", "json"],
        values: &["path"],
        run: manifest::manifest_dump,
    },
    Command {
        name: "list_column_families",
        help: "Prints the names of the column families",
        usage: "",
        switches: &[],
        values: &[],
        run: admin::list_column_families,
    },
    Command {
        name: "create_column_family",
        help: "Makes a column family",
        usage: "<new_column_family_name>",
        switches: &[],
        values: &[],
        run: admin::create_column_family,
    },
    Command {
        name: "drop_column_family",
        help: "Drops a column family and its data",
        usage: "<column_family_name_to_drop>",
        switches: &[],
        values: &[],
        run: admin::drop_column_family,
    },
    Command {
        name: "checkconsistency",
        help: "Checks that the live files are there with their sizes",
        usage: "",
        switches: &[],
        values: &[],
        run: admin::check_consistency,
    },
    Command {
        name: "get_property",
        help: "Prints a property",
        usage: "<property_name>",
        switches: &[],
        values: &[],
        run: admin::get_property,
    },
    Command {
        name: "write_extern_sst",
        help: "Makes a table file of sorted `key ==> value` lines from standard input",
        usage: "<output_sst_path>",
        switches: &[],
        values: &[],
        run: external::write_extern_sst,
    },
    Command {
        name: "ingest_extern_sst",
        help: "Takes a table file into the database",
        usage: "<input_sst_path> [--move_files] [--snapshot_consistency] [--allow_global_seqno] \
                [--allow_blocking_flush] [--ingest_behind] [--write_global_seqno]",
        switches: &[
            "move_files",
            "snapshot_consistency",
            "allow_global_seqno",
            "allow_blocking_flush",
            "ingest_behind",
            "write_global_seqno",
        ],
        values: &[],
        run: external::ingest_extern_sst,
    },
    Command {
        name: "compact",
        help: "Compacts a range, or everything",
        usage: "[--from] [--to] [--ttl]",
        switches: &["ttl"],
        values: &["from", "to"],
        run: with_ttl!(admin::compact),
    },
    Command {
        name: "singledelete",
        help: "Deletes a key that was written once",
        usage: "<key>",
        switches: &[],
        values: &[],
        run: data::single_delete,
    },
    Command {
        name: "merge",
        help: "Writes a merge operand",
        usage: "<key> <operand>",
        switches: &[],
        values: &[],
        run: data::merge,
    },
    Command {
        name: "multi_get",
        help: "Prints the values of keys",
        usage: "<key_1> <key_2> <key_3> ... [--read_timestamp=<uint64_ts>]",
        switches: &[],
        values: &["read_timestamp"],
        run: data::multi_get,
    },
    Command {
        name: "put_entity",
        help: "Writes an entry with columns",
        usage: "<key> <column1_name>:<column1_value> <column2_name>:<column2_value> <...> \
                [--create_if_missing] [--ttl]",
        switches: &["ttl"],
        values: &[],
        run: with_ttl!(entities::put_entity),
    },
    Command {
        name: "get_entity",
        help: "Prints the columns of a key",
        usage: "<key> [--ttl] [--read_timestamp=<uint64_ts>]",
        switches: &["ttl"],
        values: &["read_timestamp"],
        run: with_ttl!(entities::get_entity),
    },
    Command {
        name: "multi_get_entity",
        help: "Prints the columns of keys",
        usage: "<key_1> <key_2> <key_3> ... [--read_timestamp=<uint64_ts>]",
        switches: &[],
        values: &["read_timestamp"],
        run: entities::multi_get_entity,
    },
    Command {
        name: "query",
        help: "Reads commands from standard input, one a line",
        usage: "[--ttl]  (get <key>, put <key> <value>, delete <key>, help on standard input)",
        switches: &["ttl"],
        values: &[],
        run: with_ttl!(shell::query),
    },
    Command {
        name: "approxsize",
        help: "Prints about how many bytes a range takes on disk",
        usage: "[--from] [--to]",
        switches: &[],
        values: &["from", "to"],
        run: admin::approximate_size,
    },
    Command {
        name: "load",
        help: "Writes `key ==> value` lines from standard input, as dump prints them",
        usage: "[--create_if_missing] [--disable_wal] [--bulk_load] [--compact]",
        switches: &["disable_wal", "bulk_load", "compact"],
        values: &[],
        run: external::load,
    },
    Command {
        name: "list_file_range_deletes",
        help: "Prints the range tombstones of each table",
        usage: "[--max_keys=<N>] : print tombstones in SST files.",
        switches: &[],
        values: &["max_keys"],
        run: files::list_range_deletes,
    },
    Command {
        name: "dump_live_files",
        help: "Prints everything that is in the live files",
        usage: "[--decode_blob_index] [--dump_uncompressed_blobs]",
        switches: &["decode_blob_index", "dump_uncompressed_blobs"],
        values: &[],
        run: live::dump_live_files,
    },
    Command {
        name: "list_live_files_metadata",
        help: "Prints level and column family of each live table",
        usage: "[--sort_by_filename]",
        switches: &["sort_by_filename"],
        values: &[],
        run: files::list_live_files,
    },
    Command {
        name: "file_checksum_dump",
        help: "Prints the checksums of files that the MANIFEST has",
        usage: "[--path=<path_to_manifest_file>]",
        switches: &[],
        values: &["path"],
        run: files::file_checksums,
    },
    Command {
        name: "dump_wal",
        help: "Prints what is in a log",
        usage: "--walfile=<write_ahead_log_file_path_or_directory> [--header] [--print_value] \
                [--only_print_seqno_gaps] [--write_committed=true|false]",
        switches: &["header", "print_value", "only_print_seqno_gaps", "write_committed"],
        values: &["walfile"],
        run: wal::dump_wal,
    },
    Command {
        name: "repair",
        help: "Makes a database that opens of what is left of a damaged one",
        usage: "[--verbose]",
        switches: &["verbose"],
        values: &[],
        run: repair::ldb_repair,
    },
    Command {
        name: "backup",
        help: "Adds a backup to a backup directory",
        usage: backups::USAGE,
        switches: &[],
        values: backups::VALUES,
        run: backups::backup,
    },
    Command {
        name: "restore",
        help: "Puts the newest backup in place of the database",
        usage: backups::USAGE,
        switches: &[],
        values: backups::VALUES,
        run: backups::restore,
    },
    Command {
        name: "checkpoint",
        help: "Makes a copy that opens, by hard links where it can",
        usage: "[--checkpoint_dir]",
        switches: &[],
        values: &["checkpoint_dir"],
        run: admin::checkpoint,
    },
    Command {
        name: "reduce_levels",
        help: "Moves all data into fewer levels",
        usage: "--new_levels=<New number of levels> [--print_old_levels]",
        switches: &["print_old_levels"],
        values: &["new_levels"],
        run: shape::reduce_levels,
    },
    Command {
        name: "change_compaction_style",
        help: "Rearranges the files for the other compaction style",
        usage: "--old_compaction_style=<0 level, 1 universal> \
                --new_compaction_style=<0 level, 1 universal>",
        switches: &[],
        values: &["old_compaction_style", "new_compaction_style"],
        run: shape::change_compaction_style,
    },
    Command {
        name: "unsafe_remove_sst_file",
        help: "Removes a table from the MANIFEST, whatever it holds",
        usage: "<SST file number> : MUST NOT be used on a live DB.",
        switches: &[],
        values: &[],
        run: shape::remove_table_file,
    },
    Command {
        name: "update_manifest",
        help: "Writes what the files themselves say into the MANIFEST",
        usage: "[--update_temperatures] : MUST NOT be used on a live DB.",
        switches: &["verbose", "update_temperatures"],
        values: &[],
        run: files::update_manifest,
    },
];

/// Commands that name their file themselves and so need no `--db`.
pub const WITHOUT_DB: &[&str] = &["dump_wal"];
