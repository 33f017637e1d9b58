//! The commands of `pumice ldb`: name, words and flags, function. Help, refusals and parsing come
//! from this table. Thread safety: constants.

use super::{Failure, Invocation};
use super::{
    admin, backups, data, entities, external, files, internal, live, manifest, repair, shape,
    shell, wal,
};
use crate::output::Output;

/// One row of the command table.
pub struct Command {
    /// As it is typed.
    pub name: &'static str,
    /// Words and flags, as the usage shows them.
    pub usage: &'static str,
    /// Flags besides the common ones.
    pub flags: &'static [&'static str],
    /// What it does.
    pub run: fn(&Invocation, &mut Output) -> Result<(), Failure>,
}

pub const COMMANDS: &[Command] = &[
    Command {
        name: "put",
        usage: "<key> <value> [--create_if_missing] [--ttl]",
        flags: &["ttl"],
        run: data::put,
    },
    Command { name: "get", usage: "<key> [--ttl]", flags: &["ttl"], run: data::get },
    Command {
        name: "batchput",
        usage: "<key> <value> [<key> <value>] [..] [--create_if_missing] [--ttl]",
        flags: &["ttl"],
        run: data::batch_put,
    },
    Command {
        name: "scan",
        usage: "[--from] [--to] [--ttl] [--timestamp] [--max_keys=<N>] \
                [--start_time=<N>:- is inclusive] [--end_time=<N>:- is exclusive] [--no_value]",
        flags: &[
            "from",
            "to",
            "ttl",
            "timestamp",
            "max_keys",
            "start_time",
            "end_time",
            "no_value",
        ],
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
        usage: "[--from] [--to] [--ttl] [--max_keys=<N>] [--timestamp] [--count_only] \
                [--count_delim=<char>] [--stats] [--bucket=<N>] \
                [--start_time=<N>:- is inclusive] [--end_time=<N>:- is exclusive] \
                [--path=<path_to_a_file>]",
        flags: &[
            "from",
            "to",
            "ttl",
            "max_keys",
            "timestamp",
            "count_only",
            "count_delim",
            "stats",
            "bucket",
            "start_time",
            "end_time",
            "path",
        ],
        run: data::dump,
    },
    Command {
        name: "idump",
        usage: "[--from] [--to] [--input_key_hex] [--max_keys=<N>] [--count_only] \
                [--count_delim=<char>] [--stats]",
        flags: &["from", "to", "max_keys", "count_only", "count_delim", "stats", "input_key_hex"],
        run: internal::idump,
    },
    Command {
        name: "manifest_dump",
        usage: "[--verbose] [--json] [--path=<path_to_manifest_file>]",
        flags: &["verbose", "json", "path"],
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
        usage: "[--from] [--to] [--ttl]",
        flags: &["from", "to", "ttl"],
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
        name: "put_entity",
        usage: "<key> <column1_name>:<column1_value> <column2_name>:<column2_value> <...> \
                [--create_if_missing] [--ttl]",
        flags: &["ttl"],
        run: entities::put_entity,
    },
    Command {
        name: "get_entity",
        usage: "<key> [--ttl]",
        flags: &["ttl"],
        run: entities::get_entity,
    },
    Command {
        name: "multi_get_entity",
        usage: "<key_1> <key_2> <key_3> ...",
        flags: &[],
        run: entities::multi_get_entity,
    },
    Command {
        name: "query",
        usage: "[--ttl]  (get <key>, put <key> <value>, delete <key>, help on standard input)",
        flags: &["ttl"],
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
    Command { name: "dump_live_files", usage: "", flags: &[], run: live::dump_live_files },
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
        usage: "--walfile=<write_ahead_log_file_path_or_directory> [--header] [--print_value] \
                [--only_print_seqno_gaps] [--write_committed=true|false]",
        flags: &["walfile", "header", "print_value", "only_print_seqno_gaps", "write_committed"],
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
    Command {
        name: "update_manifest",
        usage: "[--update_temperatures] : MUST NOT be used on a live DB.",
        flags: &["verbose", "update_temperatures"],
        run: files::update_manifest,
    },
];

/// Arguments of RocksDB's ldb that are not built, and the feature that they wait for.
pub const REFUSED_FLAGS: &[(&str, &str)] = &[
    ("backup_env_uri", "environments by URI are not built"),
    ("backup_fs_uri", "file systems by URI are not built"),
    ("blob_compaction_readahead_size", BLOBS),
    ("blob_compression_type", BLOBS),
    ("blob_file_size", BLOBS),
    ("blob_file_starting_level", BLOBS),
    ("blob_garbage_collection_age_cutoff", BLOBS),
    ("blob_garbage_collection_force_threshold", BLOBS),
    ("decode_blob_index", BLOBS),
    ("dump_uncompressed_blobs", BLOBS),
    ("enable_blob_files", BLOBS),
    ("enable_blob_garbage_collection", BLOBS),
    ("env_uri", "environments by URI are not built"),
    ("fs_uri", "file systems by URI are not built"),
    ("get_write_unix_time", "when entries were written is not recorded"),
    ("leader_path", "opening as a follower is not built"),
    ("min_blob_size", BLOBS),
    ("prepopulate_blob_cache", BLOBS),
    ("read_timestamp", "user-defined timestamps are not built"),
    ("stderr_log_level", "backups have no info log"),
];

const BLOBS: &str = "blob files are not built";

/// Commands that name their file themselves and so need no `--db`.
pub const WITHOUT_DB: &[&str] = &["dump_wal"];
