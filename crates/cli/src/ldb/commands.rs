//! The commands of `pumice ldb`: name, words and flags, function. Help, refusals and parsing come
//! from this table. Thread safety: constants.

use super::output::Output;
use super::{Failure, Invocation};
use super::{admin, backups, data, external, files, internal, manifest, repair, shape, shell, wal};

/// One row of the command table.
pub struct Command {
    /// As it is typed.
    pub name: &'static str,
    /// Words and flags, as the usage shows them.
    pub usage: &'static str,
    /// Flags beside the common ones.
    pub flags: &'static [&'static str],
    /// What it does.
    pub run: fn(&Invocation, &mut Output) -> Result<(), Failure>,
}

pub const COMMANDS: &[Command] = &[
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
    Command { name: "singledelete", usage: "<key>", flags: &[], run: data::single_delete },
    Command { name: "merge", usage: "<key> <operand>", flags: &[], run: data::merge },
    Command {
        name: "multi_get",
        usage: "<key_1> <key_2> <key_3> ...",
        flags: &[],
        run: data::multi_get,
    },
    Command {
        name: "query",
        usage: "  (get <key>, put <key> <value>, delete <key>, help on standard input)",
        flags: &[],
        run: shell::query,
    },
    Command {
        name: "approxsize",
        usage: "[--from] [--to]",
        flags: &["from", "to"],
        run: admin::approximate_size,
    },
    Command {
        name: "load",
        usage: "[--create_if_missing] [--disable_wal] [--bulk_load] [--compact]",
        flags: &["disable_wal", "bulk_load", "compact"],
        run: external::load,
    },
    Command {
        name: "list_file_range_deletes",
        usage: "[--max_keys=<N>] : print tombstones in SST files.",
        flags: &["max_keys"],
        run: files::list_range_deletes,
    },
    Command {
        name: "list_live_files_metadata",
        usage: "[--sort_by_filename]",
        flags: &["sort_by_filename"],
        run: files::list_live_files,
    },
    Command {
        name: "file_checksum_dump",
        usage: "[--path=<path_to_manifest_file>]",
        flags: &["path"],
        run: files::file_checksums,
    },
    Command {
        name: "dump_wal",
        usage: "--walfile=<write_ahead_log_file_path> [--header] [--print_value] \
                [--write_committed=true|false]",
        flags: &["walfile", "header", "print_value", "write_committed"],
        run: wal::dump_wal,
    },
    Command { name: "repair", usage: "[--verbose]", flags: &["verbose"], run: repair::ldb_repair },
    Command {
        name: "backup",
        usage: "[--backup_dir] [--num_threads]",
        flags: &["backup_dir", "num_threads"],
        run: backups::backup,
    },
    Command {
        name: "restore",
        usage: "[--backup_dir] [--num_threads]",
        flags: &["backup_dir", "num_threads"],
        run: backups::restore,
    },
    Command {
        name: "checkpoint",
        usage: "[--checkpoint_dir]",
        flags: &["checkpoint_dir"],
        run: admin::checkpoint,
    },
    Command {
        name: "reduce_levels",
        usage: "--new_levels=<New number of levels> [--print_old_levels]",
        flags: &["new_levels", "print_old_levels"],
        run: shape::reduce_levels,
    },
    Command {
        name: "change_compaction_style",
        usage: "--old_compaction_style=<0 level, 1 universal> \
                --new_compaction_style=<0 level, 1 universal>",
        flags: &["old_compaction_style", "new_compaction_style"],
        run: shape::change_compaction_style,
    },
    Command {
        name: "unsafe_remove_sst_file",
        usage: "<SST file number> : MUST NOT be used on a live DB.",
        flags: &[],
        run: shape::remove_table_file,
    },
];

/// Commands of RocksDB's ldb that are not built, and the feature that they wait for.
pub const NOT_BUILT: &[(&str, &str)] = &[
    ("dump_live_files", "list_live_files_metadata, sst_dump and dump_wal show the same"),
    ("get_entity", "wide columns are not built"),
    ("multi_get_entity", "wide columns are not built"),
    ("put_entity", "wide columns are not built"),
    ("update_manifest", "temperatures of files are not built"),
];

/// Commands that name their file themselves and so need no `--db`.
pub const WITHOUT_DB: &[&str] = &["dump_wal"];
