//! The options of a database: one row each.
//!
//! Defaults are RocksDB 10.10's. Columns of a row: type, default, `mutable` while the database is
//! open or `fixed`, when it is in the OPTIONS file (`saved`, `newer` than RocksDB 7.8, `unsaved`:
//! see `Saved`), bounds, and after `=>` its proof: the test that shows what the option does, as
//! `file::test`, or `none:` and the reason why no test can. `cargo xtask tidy` looks for the test,
//! and for code that reads the field.

use std::sync::Arc;

use pumice_base::SizeLimits;
use pumice_compress::CompressionType;
use pumice_env::{FileSystem, PosixFs, RateLimiter, SstFileManager, Temperature};
use pumice_memtable::WriteBufferManager;
use pumice_port::fiber::Runtime;
use pumice_wal::WalRecoveryMode;

use super::compaction_service::CompactionService;
use super::component_values::log_compression;
use super::enums::{BackgroundPolicy, BackgroundPriority, FileChecksumGenFactory, InfoLogLevel};
use super::paths::DbPath;
use super::row::option_table;
use super::value::{Verbatim, at_least, between};
use super::wal_filter::WalFilter;
use crate::row_cache::RowCache;
use crate::stats::{EventListener, Logger, Statistics};

option_table! {
    #[allow(non_snake_case)] // Every name is RocksDB's.
    /// Options of a database. Every public field has the name of RocksDB's option.
    ///
    /// ```
    /// use pumice::DbOptions;
    /// let mut options = DbOptions { create_if_missing: true, ..DbOptions::default() };
    /// options.max_background_jobs = 4;
    /// ```
    pub struct DbOptions;
    fields {
        /// Create the database if it does not exist.
        create_if_missing: bool = false, fixed, saved
            => "errors::wrong_options_are_refused_by_name";
        /// Create column families that open names and the database lacks.
        create_missing_column_families: bool = false, fixed, saved
            => "option_rows::missing_families_are_created_on_request";
        /// Fail if the database exists.
        error_if_exists: bool = false, fixed, saved
            => "two_openers::error_if_exists_holds_against_a_creator_beside";
        /// Most table files kept open; -1 keeps all open. When it is lowered from -1, files beyond
        /// the limit are closed, and what was in memory of them stays there.
        max_open_files: i32 = -1, mutable, saved, at_least(-1)
            => "option_rows::a_limit_closes_tables_that_were_opened_without_one";
        /// Flush the column families that hold the oldest WAL when all WALs together exceed this
        /// many bytes; 0 means four times the sum of all memtable budgets. No effect while there is
        /// only one column family.
        max_total_wal_size: u64 = 0, mutable, saved
            => "beside::the_limit_of_all_logs_acts_as_in_rocksdb";
        /// Most background jobs (flushes and compactions) at one time.
        max_background_jobs: i32 = 2, mutable, saved, at_least(1)
            => "options::background_jobs_split_as_in_rocksdb";
        /// Most flushes at one time; -1 derives it from max_background_jobs.
        max_background_flushes: i32 = -1, mutable, saved, at_least(-1)
            => "options::background_jobs_split_as_in_rocksdb";
        /// Most compactions at one time; -1 derives it from max_background_jobs.
        max_background_compactions: i32 = -1, mutable, saved, at_least(-1)
            => "options::background_jobs_split_as_in_rocksdb";
        /// Most parts that one compaction is split into.
        max_subcompactions: u32 = 1, mutable, saved => "universal::large_merges_run_in_parts";
        /// Use fsync instead of fdatasync for files.
        use_fsync: bool = false, fixed, saved => "option_rows::fsync_takes_the_place_of_fdatasync";
        /// Directory of the info log; empty for the database's own.
        db_log_dir: String = String::new(), fixed, saved
            => "info_log::a_foreign_directory_gets_a_flattened_name";
        /// Directory of WAL files; empty for the database's own.
        wal_dir: String = String::new(), fixed, saved
            => "directories::a_new_database_keeps_its_directories";
        /// Keep WAL files that are no longer needed in `archive/`, in the directory of the others,
        /// for this many seconds since their last change; 0 for no time limit. If this and
        /// `WAL_size_limit_MB` are both 0 they are deleted.
        WAL_ttl_seconds: u64 = 0, fixed, saved
            => "wal_archive::archived_logs_go_when_their_time_is_over";
        /// Keep the newest of those files, as many as fit into this many MiB together; 0 for no
        /// limit.
        WAL_size_limit_MB: u64 = 0, fixed, saved
            => "wal_archive::archived_logs_go_when_they_are_too_many";
        /// Files of WALs that are no longer needed, kept for later ones to write over: their pages
        /// and blocks are taken over. All WALs then have records of RocksDB's recyclable types, and
        /// `disable_wal` is refused. 0 keeps none, as do an archive and the recovery modes
        /// `kTolerateCorruptedTailRecords` and `kAbsoluteConsistency`. RocksDB's secondaries do not
        /// follow such WALs.
        recycle_log_file_num: u64 = 0, fixed, saved
            => "wal_recycling::files_of_logs_are_used_again";
        /// Start a new info log when it exceeds this many bytes; 0 never does.
        max_log_file_size: u64 = 0, fixed, saved => "info_log::a_full_log_rolls";
        /// Start a new info log after this many seconds; 0 never does.
        log_file_time_to_roll: u64 = 0, fixed, saved
            => "option_rows::the_info_log_rolls_by_its_age";
        /// Info logs kept, the present one included.
        keep_log_file_num: u64 = 1000, fixed, saved, at_least(1)
            => "info_log::open_puts_the_previous_log_aside";
        /// Start a new MANIFEST when it exceeds this many bytes.
        max_manifest_file_size: u64 = 1 << 30, mutable, saved, at_least(1)
            => "option_rows::a_long_manifest_is_replaced";
        /// Bytes preallocated at a time for the MANIFEST; 0 preallocates nothing.
        manifest_preallocation_size: u64 = 4 << 20, mutable, saved
            => "option_rows::space_is_reserved_where_that_is_allowed";
        /// Preallocate WALs, compaction outputs and the MANIFEST with fallocate; not on tmpfs.
        allow_fallocate: bool = true, fixed, saved
            => "option_rows::space_is_reserved_where_that_is_allowed";
        /// Read the MANIFEST back before it is closed; a damaged one is replaced by a new one.
        verify_manifest_content_on_close: bool = false, mutable, unsaved
            => "manifest_check::a_damaged_manifest_is_replaced_at_the_close";
        /// Jobs say what they do in `stats::thread_list`.
        enable_thread_tracking: bool = false, fixed, saved
            => "thread_status::jobs_say_what_they_do";
        /// Seconds between dumps of rocksdb.stats into the info log; 0 never dumps. Column families
        /// without changes are in one dump of eight.
        stats_dump_period_sec: u32 = 600, mutable, saved
            => "events::reports_are_dumped_at_rest";
        /// Seconds between samples of the statistics for `Db::get_stats_history`; 0 takes none, nor
        /// does a database without statistics.
        stats_persist_period_sec: u32 = 600, mutable, saved
            => "history::statistics_are_sampled_when_due";
        /// Most bytes of these samples in memory; the oldest are dropped first.
        stats_history_buffer_size: u64 = 1 << 20, mutable, saved
            => "history::the_oldest_samples_make_room";
        /// Flush memtables when those of all column families together exceed this many bytes;
        /// 0 for no limit. Superseded by `write_buffer_manager`.
        db_write_buffer_size: u64 = 0, fixed, saved
            => "option_rows::memtables_of_all_families_have_a_limit";
        /// Largest buffer of a file writer.
        writable_file_max_buffer_size: u64 = 1 << 20, mutable, saved, at_least(4096)
            => "option_effects::the_buffer_size_decides_how_often_files_are_written";
        /// What computes checksums of whole table files, which the MANIFEST keeps and
        /// `Db::verify_file_checksums` compares. Existing files get none. A user's is given as the
        /// object (`FileChecksumGenFactory::Custom`).
        file_checksum_gen_factory: FileChecksumGenFactory = FileChecksumGenFactory::None, fixed,
            saved => "file_checksums::new_tables_have_them_in_the_manifest";
        /// Read table files past the page cache (O_DIRECT), those of compactions included.
        use_direct_reads: bool = false, fixed, saved
            => "direct::a_file_system_without_direct_io_is_refused";
        /// Write table files past the page cache (O_DIRECT).
        use_direct_io_for_flush_and_compaction: bool = false, fixed, saved
            => "direct::a_file_system_without_direct_io_is_refused";
        /// Compactions read tables past the page cache (O_DIRECT), which other reads use: each
        /// opens its inputs for itself. Without effect with `use_direct_reads`.
        use_direct_io_for_compaction_reads: bool = false, fixed, unsaved
            => "direct::compactions_alone_read_past_the_page_cache";
        /// Start writing back table files every this many bytes; 0 leaves it to the system.
        bytes_per_sync: u64 = 0, mutable, saved
            => "option_changes::files_go_to_the_device_step_by_step";
        /// The same for WAL files.
        wal_bytes_per_sync: u64 = 0, mutable, saved
            => "option_changes::a_change_of_the_step_counts_for_the_log_that_is_written";
        /// Wait at each `bytes_per_sync` or `wal_bytes_per_sync` until what was started before is
        /// on the device, so that a slow device never owes more than about two such steps.
        strict_bytes_per_sync: bool = false, mutable, saved
            => "option_changes::a_change_of_the_step_counts_for_the_log_that_is_written";
        /// Paces flushes, compactions, and requests with a priority of their own; may be shared by
        /// databases. Set from text (`rate_limiter_bytes_per_sec`) it is one with RocksDB's
        /// defaults at that rate; 0 is none.
        rate_limiter: Option<Arc<RateLimiter>> = None, fixed, unsaved
            => "rate_limit::flushes_are_charged_at_high_and_compactions_at_low";
        /// Deletes table files, and logs in the database's directory, at a rate, and limits the
        /// space that table files may take; may be shared by databases. None deletes at once and
        /// limits nothing.
        sst_file_manager: Option<Arc<SstFileManager>> = None, fixed, unsaved
            => "trash::everything_is_tracked";
        /// Bytes per second that writers get while they are slowed down; 0 means the rate of
        /// `rate_limiter`, 16 MiB without one.
        delayed_write_rate: u64 = 0, mutable, saved => "controller::the_rate_follows_the_debt";
        /// What decides how much background work is done. Pumice's own.
        background_policy: BackgroundPolicy = BackgroundPolicy::Adaptive, mutable, unsaved
            => "adaptive::the_policy_changes_at_run_time";
        /// Under `background_policy=adaptive`, compactions that can wait write less while more than
        /// one point read of a hundred takes longer than this, in microseconds, but not less than
        /// writes need in order to continue. 0 is no target. Pumice's own.
        read_latency_target_micros: u64 = 0, mutable, unsaved
            => "adaptive::compactions_make_way_for_reads";
        /// CPU priority of compactions that can wait: not those out of L0 that writes may soon wait
        /// for or that use little of the processors, and none that start while writes are stopped
        /// or, by RocksDB's rules, slowed. It never lowers flushes. Running compactions follow at
        /// once; raising it needs a privilege. Pumice's own.
        background_cpu_priority: BackgroundPriority = BackgroundPriority::Normal, mutable, unsaved
            => "lanes::only_compactions_that_can_wait_are_lowered";
        /// I/O priority of the same compactions. Pumice's own.
        background_io_priority: BackgroundPriority = BackgroundPriority::Normal, mutable, unsaved
            => "lanes::only_compactions_that_can_wait_are_lowered";
        /// The database opens only if every table is there and has its length, damage in a WAL is
        /// handled as `wal_recovery_mode` says, and damage that a compaction finds stops writes.
        /// False: a table that is missing or damaged is an error where a read needs it, damaged WAL
        /// records are dropped in every mode, and damage stops only the compactions that find it.
        paranoid_checks: bool = true, fixed, saved
            => "option_effects::paranoid_checks_decide_what_damage_stops";
        /// What recovery does at a damaged WAL record.
        wal_recovery_mode: WalRecoveryMode = WalRecoveryMode::PointInTime, fixed, saved
            => "corruption::flipped_bytes_are_errors_or_harmless";
        /// Keep recovered data in memory instead of flushing it during open.
        avoid_flush_during_recovery: bool = false, fixed, saved
            => "option_rows::recovered_data_stays_in_memory_on_request";
        /// Do not flush unsaved data (written with disable_wal) on close.
        avoid_flush_during_shutdown: bool = false, mutable, saved
            => "option_rows::unlogged_writes_are_flushed_by_a_close";
        /// WAL bytes reach the file only by flush_wal, or when the buffer is full.
        manual_wal_flush: bool = false, fixed, saved
            => "checkpoint::unflushed_writes_of_a_manually_flushed_log_are_in";
        /// How records of the WAL are compressed: kNoCompression or kZSTD.
        wal_compression: CompressionType = CompressionType::None, fixed, saved, log_compression
            => "wal_compression::a_compressed_log_is_short_and_recovered";
        /// Lowest level of lines written to the info log.
        info_log_level: InfoLogLevel = InfoLogLevel::Info, fixed, saved
            => "info_log::levels_hide_lower_lines";
        /// Most bytes of one write group.
        max_write_batch_group_size_bytes: u64 = 1 << 20, fixed, saved, at_least(1)
            => "queue::groups_are_limited_in_bytes";
        /// Members of a large write group insert concurrently with its leader, on idle cores. Not
        /// into vector memtables, with a user's comparator or prefix extractor, or with
        /// max_successive_merges: then the leader inserts for all, as it does when this is off.
        allow_concurrent_memtable_write: bool = true, fixed, saved
            => "shared_writes::the_option_says_whether_members_insert";
        /// Record the database's identity in the MANIFEST.
        write_dbid_to_manifest: bool = true, fixed, saved
            => "beside::the_identity_is_where_rocksdb_has_it";
        /// Record the database's identity in the file IDENTITY.
        write_identity_file: bool = true, fixed, newer
            => "beside::the_identity_is_where_rocksdb_has_it";
        /// The temperature of new files other than tables, blob files and logs, which the file
        /// system is told.
        metadata_write_temperature: Temperature = Temperature::Unknown, fixed, newer
            => "temperatures::each_file_is_created_with_the_temperature_of_its_kind";
        /// The temperature of new logs.
        wal_write_temperature: Temperature = Temperature::Unknown, fixed, newer
            => "temperatures::each_file_is_created_with_the_temperature_of_its_kind";
        /// Milliseconds between a catch-up of a follower and the next; 0 is taken as 1.
        follower_refresh_catchup_period_ms: u64 = 10_000, fixed, newer
            => "followers::it_catches_up_periodically";
        /// How often a catch-up of a follower is tried before it is given up until the next one; 0:
        /// it catches up only as it opens and when it is asked.
        follower_catchup_retry_count: u64 = 10, fixed, newer
            => "followers::a_catch_up_is_tried_again";
        /// Milliseconds between two tries.
        follower_catchup_retry_wait_ms: u64 = 100, fixed, newer
            => "followers::a_catch_up_is_tried_again";
        /// Bytes read ahead by compactions.
        compaction_readahead_size: u64 = 2 << 20, mutable, saved, between(0, 1 << 30)
            => "option_rows::compactions_read_ahead";
        /// Fail a compaction whose inputs hold a different number of entries than recorded.
        compaction_verify_record_count: bool = true, fixed, newer
            => "hostile::a_compaction_counts_what_it_reads";
        /// Fail a flush that read a different number of entries than its memtables hold.
        flush_verify_memtable_count: bool = true, fixed, saved
            => "flush::a_flush_counts_what_it_reads";
        /// Open the newest state of each column family of which all files are there, whatever
        /// CURRENT says. Logs are not recovered. What is left out goes to `archive/`.
        best_efforts_recovery: bool = false, fixed, saved
            => "best_efforts::what_is_left_is_what_rocksdb_finds";
        /// Compare table files' unique ids with the MANIFEST when they are opened.
        verify_sst_unique_id_in_manifest: bool = true, fixed, saved
            => "option_rows::a_foreign_table_of_the_same_size_is_found";
        /// A flush or compaction that finds a SingleDelete right above a Delete of its key fails
        /// with Corruption: keys that are single-deleted may not be deleted in another way.
        enforce_single_del_contracts: bool = true, fixed, saved
            => "beside::misused_single_deletes_end_as_in_rocksdb";
        /// Flush all column families that hold anything at one point between two writes, and
        /// install their tables together or not at all: writes that skipped the log survive a
        /// crash in all of them or in none. `min_write_buffer_number_to_merge` then counts as 1.
        atomic_flush: bool = false, fixed, saved
            => "atomic_flush::unlogged_batches_survive_in_all_families_or_in_none";
        /// `cf_allow_ingest_behind` of all column families.
        allow_ingest_behind: bool = false, fixed, saved
            => "behind::existing_data_wins_by_the_option_of_the_database";
        /// Hours of low load, `HH:mm-HH:mm`: files that would become too old for
        /// `periodic_compaction_seconds` before the next such hours are rewritten during them.
        /// Empty for none.
        daily_offpeak_time_utc: String = String::new(), mutable, newer
            => "ages::hours_of_low_load_come_first";
        /// Host name stored in table files; `__hostname__` asks the system.
        db_host_id: String = "__hostname__".to_string(), fixed, saved
            => "events::the_log_begins_with_who_and_how";
        /// Most automatic attempts to recover from a background error that may be temporary.
        max_bgerror_resume_count: i32 = i32::MAX, fixed, saved, at_least(0)
            => "option_effects::automatic_resume_can_be_switched_off";
        /// Microseconds before each of those attempts.
        bgerror_resume_retry_interval: u64 = 1_000_000, fixed, saved
            => "option_rows::recovery_from_an_error_is_tried_again_after_its_interval";
    }
    components {
        /// The file system that the database lives on.
        file_system: Arc<dyn FileSystem> = PosixFs::shared();
        /// Tickers and histograms; None counts nothing.
        statistics: Option<Arc<Statistics>> = None;
        /// Directories of tables, for column families without `cf_paths`; empty for the database's
        /// own. Not in the OPTIONS file, as in RocksDB: every open has to give the same ones.
        db_paths: Vec<DbPath> = Vec::new();
        /// Receivers of events, called in order.
        listeners: Vec<Arc<dyn EventListener>> = Vec::new();
        /// Receiver of info-log lines; None writes the file LOG.
        info_log: Option<Arc<dyn Logger>> = None;
        /// Budget for memtables, possibly shared by databases; None makes one from
        /// `db_write_buffer_size`.
        write_buffer_manager: Option<Arc<WriteBufferManager>> = None;
        /// What point reads found in table files, before the block cache; may be shared by
        /// databases. None keeps no rows.
        row_cache: Option<Arc<RowCache>> = None;
        /// Where `get_async` and the other asynchronous calls run; None takes the runtime of the
        /// process. It may be dropped here while such calls run: the runtime ends after them.
        runtime: Option<Arc<Runtime>> = None;
        /// Decides which records of the logs an open applies; None applies all. Readers ask it
        /// too, secondaries do not.
        wal_filter: Option<Arc<dyn WalFilter>> = None;
        /// Does compactions elsewhere; None does them here.
        compaction_service: Option<Arc<dyn CompactionService>> = None;
        /// How large keys, values and batches may be; for tests, which lower them.
        limits: SizeLimits = SizeLimits::FORMAT;
        /// What reading an OPTIONS file skipped, as `name=value`; a warning in the info log lists
        /// it.
        skipped_options: Vec<String> = Vec::new();
    }
    hints {
        /// Obsolete files are known and deleted after their last reader; no scan looks for them.
        "delete_obsolete_files_period_micros": u64 = "21600000000", mutable, saved;
        /// The log of a group is written after the group before it is in the memtables, whatever
        /// this says: the results are the same.
        "enable_pipelined_write": bool = "false", fixed, saved;
        /// Shards of the table cache, which has none here.
        "table_cache_numshardbits": i32 = "6", fixed, saved;
        /// Spinning of queued writers, which Pumice tunes itself.
        "enable_write_thread_adaptive_yield": bool = "true", fixed, saved;
        /// See enable_write_thread_adaptive_yield.
        "write_thread_max_yield_usec": u64 = "100", fixed, saved;
        /// See enable_write_thread_adaptive_yield.
        "write_thread_slow_yield_usec": u64 = "3", fixed, saved;
        /// Kind of the database mutex.
        "use_adaptive_mutex": bool = "false", fixed, saved;
        /// Threads that open files; Pumice opens them when they are first read.
        "max_file_opening_threads": i32 = "16", fixed, saved;
        /// posix_fadvise on opened files.
        "advise_random_on_open": bool = "true", fixed, saved;
        /// Descriptors are always closed on exec.
        "is_fd_close_on_exec": bool = "true", fixed, saved;
        /// Write the log and the memtables from two queues; one queue does both, and the results
        /// are the same.
        "two_write_queues": bool = "false", fixed, saved;
        /// May give up that snapshots do not change, for speed; here they never change.
        "unordered_write": bool = "false", fixed, saved;
        /// Keep logs with prepared sections. They are always kept, and only a `TransactionDb` opens
        /// a database that has some.
        "allow_2pc": bool = "false", fixed, saved;
        /// Map table files into memory; they are read by calls, whose errors are reported.
        "allow_mmap_reads": bool = "false", fixed, saved;
        /// Map written files into memory; they are written by calls, whose errors are reported.
        "allow_mmap_writes": bool = "false", fixed, saved;
        /// Trust the MANIFEST's file sizes; they are always compared.
        "skip_checking_sst_file_sizes_on_db_open": bool = "false", fixed, saved;
        /// Record logs and their sizes in the MANIFEST. A log says how long the one before it is,
        /// and recovery checks that, whatever this says.
        "track_and_verify_wals_in_manifest": bool = "false", fixed, saved;
        /// See track_and_verify_wals_in_manifest.
        "track_and_verify_wals": bool = "false", fixed, newer;
        /// Keep statistics of the past in a column family. They are kept in memory alone
        /// (`stats_persist_period_sec`); a family that RocksDB made for them stays as it is.
        "persist_stats_to_disk": bool = "false", fixed, saved;
        /// Reports of jemalloc in the info log; RocksDB, too, writes none with another allocator.
        "dump_malloc_stats": bool = "false", fixed, saved;
        /// Pumice never loads file statistics during open.
        "skip_stats_update_on_db_open": bool = "false", fixed, saved;
        /// Tables are opened when they are first read, so that an open does not wait for them.
        "open_files_async": bool = "false", fixed, unsaved;
        /// An open writes a new MANIFEST, which makes its recovery one atomic step; RocksDB, too,
        /// takes the old one only where it can.
        "reuse_manifest_on_open": bool = "false", fixed, unsaved;
        /// A shorter recovery after a clean close; here recovery does the same work.
        "optimize_manifest_for_recovery": bool = "false", mutable, unsaved;
        /// Make the next log's file beforehand. Logs are made when memtables are switched.
        "async_wal_precreate": bool = "false", fixed, unsaved;
        /// Read-ahead of recovery, which reads whole blocks.
        "log_readahead_size": u64 = "0", fixed, saved;
        /// Obsolete files are always deleted in the background.
        "avoid_unnecessary_blocking_io": bool = "false", fixed, saved;
        /// Keys may appear in the info log.
        "allow_data_in_errors": bool = "false", fixed, saved;
        /// Which tiers of the block cache a database uses: all that it has.
        "lowest_used_cache_tier": String = "kNonVolatileBlockTier", fixed, saved;
        /// Closing of inactive WAL files is always done by the writer.
        "background_close_inactive_wals": bool = "false", fixed, newer;
        /// MANIFEST compaction depends on max_manifest_file_size alone.
        "max_manifest_space_amp_pct": i32 = "500", mutable, newer;
        /// Prefix seeks follow ReadOptions alone.
        "prefix_seek_opt_in_only": bool = "false", fixed, newer;
        /// Access hint for compaction inputs (removed in RocksDB 10).
        "access_hint_on_compaction_start": String = "NORMAL", fixed, saved;
        /// Buffer of direct reads on Windows (removed in RocksDB 10).
        "random_access_max_buffer_size": u64 = "1048576", fixed, saved;
        /// Failing to write the OPTIONS file always fails the operation.
        "fail_if_options_file_error": bool = "false", fixed, saved;
        /// Listeners cannot be made from text; see the field `listeners`.
        "listeners": Verbatim = "{}", fixed, unsaved;
        /// Obsolete since RocksDB 6.
        "new_table_reader_for_compaction_inputs": bool = "false", fixed, saved;
        /// Obsolete since RocksDB 6.
        "skip_log_error_on_recovery": bool = "false", fixed, saved;
        /// Obsolete since RocksDB 6.
        "base_background_compactions": i32 = "-1", mutable, saved;
        /// Obsolete since RocksDB 7.
        "preserve_deletes": bool = "false", fixed, saved;
        /// Obsolete since RocksDB 8.
        "allow_os_buffer": bool = "true", fixed, saved;
    }
    unsupported {
        /// Objects cannot be made from text; see the field wal_filter.
        "wal_filter" accepts ["nullptr"];
        /// Paths are not read from text; see the field `db_paths`.
        "db_paths" accepts ["", "{}"];
        /// Objects cannot be made from text; see the field compaction_service.
        "compaction_service" accepts ["nullptr"];
    }
    aliases {
        "rate_limiter_bytes_per_sec" => "rate_limiter";
    }
}
