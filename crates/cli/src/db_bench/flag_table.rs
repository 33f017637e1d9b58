//! The flags that are built, one row each: name, type, default, meaning.
//!
//! Names, types and defaults are those of RocksDB 11.9's db_bench; a default that differs from it
//! says so. A flag that has the default of an option names none of its own: the option's row has
//! it. Everything else about a flag is derived from its row.

use std::ffi::OsStr;
use std::path::PathBuf;

use pumice::options::block_based::BLOCK_CACHE_BYTES;
use pumice::{CompressionOptions, RateLimiterOptions, SstFileManagerOptions};

use super::flag_value::FlagValue;
use super::flags::{Row, flag_default, flag_table, option_default};
use super::option_flags::GivenOption;

/// The defaults of codecs.
fn codec() -> CompressionOptions {
    CompressionOptions::default()
}

flag_table! {
    // What to run.
    benchmarks: String = "fillseq,fillrandom,overwrite,readrandom,readseq,readreverse,\
        multireadrandom,seekrandom,readwhilewriting,compact,levelstats",
        "Comma-separated list of benchmarks, run in this order (the default list is Pumice's own; \
        the names are below). A suffix [X3-W1] runs one three times after one warm-up";
    env_uri: String = "",
        "URI of the environment, which is the operating system's: posix. Not with fs_uri";
    fs_uri: String = "", "URI of the file system, which is the operating system's: posix";
    engine: String = "pumice",
        "What to drive: pumice, the path of a RocksDB shared library, or, in a program with the \
        cargo feature other-engines, fjall or redb; all but pumice run in a child process with the \
        same driver (Pumice's own flag)";
    report_cpu: bool = false,
        "Print to stderr the CPU seconds of the whole process during each benchmark, what the \
        loops of its fibers did, and at the end what the process took: CPU, peak memory, bytes \
        (Pumice's own flag)";
    num: i64 = 1_000_000, "Number of key/values to place in database";
    reads: i64 = -1, "Number of read operations to do. If negative, do num reads";
    writes: i64 = -1, "Number of write operations to do. If negative, do num writes";
    deletes: i64 = -1, "Number of delete operations to do. If negative, do num deletions";
    threads: i32 = 1, "Number of concurrent threads to run, at most 10000";
    fibers: i32 = 0,
        "If not 0, run this many fibers over as many loops as there are threads, in place of the \
        threads (Pumice's own flag)";
    coro_jobs_per_thread: i32 = 1,
        "Jobs for each thread in readrandomcoroutine and multireadrandomcoroutine, where jobs are \
        fibers and threads are their loops";
    duration: i32 = 0,
        "Time in seconds for the random-ops tests to run. When 0 then num and reads determine the \
        test duration";
    enable_numa: bool = false,
        "Bind each thread, and the memory it allocates, to one of the NUMA nodes, in turn";
    ops_between_duration_checks: i32 = 1000, "Check duration limit every x ops";
    seed: i64 = 0, "Seed base for random number generators. When 0 it is derived from the time";
    use_existing_db: bool = false, "Use the database as it is; benchmarks that fill are skipped";
    use_existing_keys: bool = false,
        "With use_existing_db: read all keys of the database first and choose from them";
    readonly: bool = false, "Open the database read-only";
    use_secondary_db: bool = false,
        "Open a secondary instance: another process may be writing to the database";
    secondary_path: PathBuf = "",
        "Where a secondary instance puts its info log, and openandcompact its output; default: \
         dbbench_secondary next to the database";
    open_as_follower: bool = false,
        "Open a follower: another process may be writing to the database at leader_path. \
        Nothing is destroyed, as with use_existing_db";
    leader_path: PathBuf = "", "The database that a follower follows";
    openandcompact_test_cancel_on_odd: bool = false,
        "The first, third, .. openandcompact is cancelled";
    openandcompact_cancel_after_millseconds: u32 = 1,
        "After how many milliseconds openandcompact_test_cancel_on_odd cancels";
    user_timestamp_size: i32 = 0, "Number of bytes in a user-defined timestamp: 0 or 8";
    read_with_latest_user_timestamp: bool = true,
        "Reads use the next timestamp; otherwise a random one of the past";
    secondary_update_interval: i32 = 5,
        "A secondary instance catches up every N seconds; 0: never";
    build_info: bool = false, "Print the version and do nothing else";
    undefok: String = "", "Comma-separated names of unknown flags to be ignored";

    // Keys and values.
    key_size: i32 = 16, "Size of each key";
    value_size: i32 = 100, "Size of each value in fixed distribution";
    value_size_distribution_type: String = "fixed",
        "Value size distribution type: fixed, uniform, normal";
    value_size_min: i32 = 100, "Min size of random value";
    value_size_max: i32 = 102_400, "Max size of random value";
    same_value_percentage: i32 = 0, "Percentage of values that are the same bytes";
    compression_ratio: f64 = 0.5,
        "Arrange to generate values that shrink to this fraction of their original size";
    keys_per_prefix: i64 = 0, "Average number of keys with one prefix; 0 means no special prefix";
    prefix_size: i32 = 0, "Length of the key's prefix; a prefix extractor is set for it";
    batch_size: i64 = 1, "Updates in one write batch, keys in one multi-get";
    seek_nexts: i32 = 0, "How many times to call Next() after Seek() in seekrandom";
    reverse_iterator: bool = false, "Call Prev instead of Next after seeking";
    max_scan_distance: i64 = 0,
        "If not 0, seekrandom sets the iterator's bound this many keys away";

    seek_missing_prefix: bool = false,
        "Iterator seek to keys with non-exist prefixes. Require prefix_size > 8";
    read_random_exp_range: f64 = 0.0,
        "If not 0, read keys num * exp(-r) with r uniform from 0 to this value";
    multiread_stride: i64 = 0, "Stride length for the keys in a MultiGet batch";
    multiscan_size: i64 = 10, "MultiScan size: number of scans in one of seek_nexts (50) keys";
    multiscan_stride: i64 = 100,
        "The amount of keys between two successive scans in multiscan";
    merge_keys: i64 = -1,
        "Number of distinct keys for mergerandom and readrandommergerandom; negative: num";
    numdistinct: i64 = 1000,
        "Number of distinct keys to use in randomwithverify and randomreplacekeys";
    readwritepercent: i32 = 90,
        "Percentage of reads among the operations of readrandomwriterandom and randomwithverify";
    transaction_sets: i64 = 2,
        "Number of keys each transaction of randomtransaction modifies, at most 9999";
    use_blob_db: bool = false,
        "Open a BlobDB, RocksDB's old one: values are in files of blob_dir. With engine=pumice";
    blob_db_enable_gc: bool = false, "With use_blob_db: compactions move blobs of old files";
    blob_db_file_size: u64 = 268_435_456, "With use_blob_db: target size of each blob file";
    blob_db_max_db_size: u64 = 0,
        "With use_blob_db: writes fail beyond this many bytes of tables and blob files. 0: never";
    blob_db_max_ttl_range: u64 = 0,
        "With use_blob_db: values of fills live for less than this many seconds, at random. 0 \
        means no TTL";
    blob_db_ttl_range_secs: u64 = 3600,
        "With use_blob_db: values that expire within the same range have a file in common";
    transaction_db: bool = false, "Open a TransactionDB; randomtransaction locks keys";
    optimistic_transaction_db: bool = false,
        "Open an OptimisticTransactionDB; randomtransaction checks keys at its commits";
    transaction_set_snapshot: bool = false,
        "Setting to true will have each transaction call SetSnapshot() upon creation";
    transaction_lock_timeout: u64 = 100,
        "If using a transaction_db, specifies the lock wait timeout in milliseconds";
    mergereadpercent: i32 = 70, "Percentage of merges in readrandommergerandom";
    deletepercent: i32 = 2, "Percentage of deletes in randomwithverify";
    use_single_deletes: bool = true, "Use single deletes in randomreplacekeys";
    stddev: f64 = 2000.0,
        "Standard deviation of normal distribution used for picking keys in randomreplacekeys";
    key_id_range: i32 = 100_000, "Range of possible value of key id (timeseries)";
    time_range: u64 = 100_000, "Range of timestamp that store in the database (timeseries)";
    expire_style: String = "none",
        "How timeseries removes expired entries: none, or delete (seek ids and delete)";
    num_deletion_threads: i32 = 1, "Number of threads to do deletion (timeseries with delete)";
    overwrite_probability: f64 = 0.0,
        "filluniquerandom: the probability that a write overwrites a recent key";
    overwrite_window_size: u32 = 1, "filluniquerandom: how many keys count as recent";
    disposable_entries_batch_size: u64 = 0,
        "fillanddeleteuniquerandom: entries that are written and then deleted together; 0 deletes \
        none";
    disposable_entries_delete_delay: u64 = 0,
        "Microseconds from the last of these entries to their deletion, at least";
    disposable_entries_value_size: i32 = 64, "Size of their values";
    persistent_entries_batch_size: u64 = 0, "Entries written before the deletions, for good";
    persistent_entries_value_size: i32 = 64, "Size of their values";
    writes_before_delete_range: i64 = 0,
        "Number of writes before DeleteRange is called regularly";
    writes_per_range_tombstone: i64 = 0, "Number of writes between range tombstones";
    range_tombstone_width: i64 = 100, "Number of keys in tombstone's range";
    max_num_range_tombstones: i64 = 0, "Maximum number of range tombstones to insert";
    expand_range_tombstones: bool = false,
        "Expand range tombstone into sequential regular tombstones";
    truth_db: PathBuf = "/dev/shm/truth_db/dbbench", "Truth key/values used when using verify";

    // The model of mixgraph.
    mix_get_ratio: f64 = 1.0, "The ratio of Get queries of mixgraph";
    mix_put_ratio: f64 = 0.0, "The ratio of Put queries of mixgraph";
    mix_seek_ratio: f64 = 0.0, "The ratio of Seek queries of mixgraph";
    mix_max_scan_len: i64 = 10_000, "The max scan length of Iterator";
    mix_max_value_size: i64 = 1024, "The max value size of mixgraph";
    mix_accesses: i64 = -1, "As in RocksDB's db_bench, nothing reads it: reads says how many";
    keyrange_dist_a: f64 = 0.0, "a of the access of key ranges f(x)=a*exp(b*x)+c*exp(d*x)";
    keyrange_dist_b: f64 = 0.0, "b of the access of key ranges f(x)=a*exp(b*x)+c*exp(d*x)";
    keyrange_dist_c: f64 = 0.0, "c of the access of key ranges f(x)=a*exp(b*x)+c*exp(d*x)";
    keyrange_dist_d: f64 = 0.0, "d of the access of key ranges f(x)=a*exp(b*x)+c*exp(d*x)";
    keyrange_num: i64 = 1, "The number of key ranges";
    key_dist_a: f64 = 0.0, "a of the access of keys f(x)=a*x^b";
    key_dist_b: f64 = 0.0, "b of the access of keys f(x)=a*x^b";
    value_theta: f64 = 0.0, "theta of the generalized Pareto distribution of value sizes";
    value_k: f64 = 0.2615, "k of the generalized Pareto distribution of value sizes";
    value_sigma: f64 = 25.45, "sigma of the generalized Pareto distribution of value sizes";
    iter_theta: f64 = 0.0, "theta of the generalized Pareto distribution of scan lengths";
    iter_k: f64 = 2.517, "k of the generalized Pareto distribution of scan lengths";
    iter_sigma: f64 = 14.236, "sigma of the generalized Pareto distribution of scan lengths";
    sine_mix_rate: bool = false, "Enable the sine QPS control on mixgraph";
    sine_mix_rate_interval_milliseconds: u64 = 10_000,
        "Interval of which the sine wave read_rate_limit is recalculated";
    sine_mix_rate_noise: f64 = 0.0, "Noise ratio of the sine rate, between 0.0 and 1.0";

    // How to write and read.
    sync: bool = false, "Sync all writes to disk";
    disable_wal: bool = false, "If true, do not write WAL for write";
    write_batch_protection_bytes_per_key: u32 = 0,
        "Bytes of the checksum that each update of a batch has until it is in the memtable: 0 or 8";
    verify_checksum: bool = true, "Verify checksum for every block read from storage";
    auto_prefix_mode: bool = false,
        "Seeks use prefix filters where the upper bound shows that they may. Not given, the \
        engine's default stands";
    total_order_seek: bool = false, "Total order seek regardless of the prefix extractor";
    prefix_same_as_start: bool = false, "Iterators return keys with the prefix of the seek key";
    use_tailing_iterator: bool = false,
        "Use tailing iterator to access a series of keys instead of get";
    readahead_size: i32 = 0, "Iterator readahead size";
    auto_readahead_size: bool = false,
        "Nothing is read ahead beyond the upper bound. Not given, the engine's default stands";
    async_io: bool = false,
        "Reads wait for the device together. Not given, the engine's default stands";
    io_uring_enabled: bool = true,
        "Batches of reads, and fibers, use io_uring where the system has it";
    use_direct_io_for_flush_and_compaction: bool,
        "Use O_DIRECT for background flush and compaction writes";
    explicit_snapshot: bool = false, "Iterators read as of a snapshot";
    finish_after_writes: bool = false, "Write thread terminates after all writes are finished";
    bgwriter_num: u64 = 0, "Number of keys that the background writer chooses from; 0 is num";
    benchmark_write_rate_limit: u64 = 0, "If not 0, limit writes to this many bytes/second";
    benchmark_read_rate_limit: u64 = 0, "If not 0, limit reads to this many ops/second";
    sine_write_rate: bool = false, "Use a sine wave write rate limit";
    sine_write_rate_interval_milliseconds: u64 = 10_000,
        "Interval of which the sine wave write rate limit is recalculated";
    sine_a: f64 = 1.0, "A in f(x) = A sin(bx + c) + d";
    sine_b: f64 = 1.0, "B in f(x) = A sin(bx + c) + d";
    sine_c: f64 = 0.0, "C in f(x) = A sin(bx + c) + d";
    sine_d: f64 = 1.0, "D in f(x) = A sin(bx + c) + d";
    open_loop: bool = false,
        "Writes arrive at the limited rate whether or not earlier ones are done, and their \
        latencies count from the arrival (Pumice's own)";
    background_readers: i32 = 0,
        "Readers during each benchmark, at a fixed rate, timed separately (Pumice's own)";
    background_read_rate: u64 = 1000, "Reads per second of each background reader (Pumice's own)";

    // What to report.
    histogram: bool = false, "Print histogram of operation timings";
    confidence_interval_only: bool = false,
        "Print 95% confidence interval upper and lower bounds only for aggregate stats";
    statistics: bool = false, "Database statistics, printed after all benchmarks";
    statistics_string: String = "",
        "Statistics by name, in place of --statistics: BasicStatistics is the one that there is";
    stats_level: i32 = 3, "Stats level for statistics, 0 to 5 as RocksDB's StatsLevel";
    perf_level: i32 = 1, "Level of perf collection, 0 to 6; above 1 the perf context is printed";
    report_open_timing: bool = false, "Report how long the open took";
    show_table_properties: bool = false,
        "Print the properties of each level's tables with stats_per_interval";
    progress_reports: bool = true, "Report the number of finished operations on a terminal";
    slow_usecs: i64 = 1_000_000, "A message is printed for operations that take at least this long";
    stats_interval: i64 = 0, "Stats are reported every N operations when this is not 0";
    stats_interval_seconds: i64 = 0, "Report stats every N seconds. Overrides stats_interval";
    stats_per_interval: i32 = 0, "Report the database's stats at every interval when above 0";
    report_interval_seconds: i64 = 0,
        "If above 0, append operations per interval to report_file every N seconds";
    report_file: PathBuf = "report.csv", "Where to store the report";
    report_stalls: bool = false,
        "Report for how long writes were stopped and slowed, and the most files in L0 and bytes \
        pending compaction, sampled ten times a second (Pumice's own)";
    plot: PathBuf = "",
        "Draw writes, stalls, L0 and pending compaction over time into an SVG file (Pumice's own)";
    monitor_file: PathBuf = "", "What --plot draws, as a CSV file (Pumice's own)";
    print_malloc_stats: bool = false, "Print malloc stats to stdout after benchmarks finish";
    thread_status_per_interval: i32 = 0,
        "Print what the threads of the pools do at each report of progress, and track it";

    // The database.
    options_file: PathBuf = "",
        "Take the options of the database from this OPTIONS file (its first column family), and \
        from flags only use_existing_db, statistics, the block cache, bloom_bits, the limiter";
    num_column_families: i32 = 1, "Number of Column Families to use";
    num_hot_column_families: i32 = 0,
        "If above 0, fills write to this many column families at a time and then to new ones";
    column_family_distribution: String = "",
        "Comma-separated percentages of operations on each (hot) column family";
    num_multi_db: i32 = 0, "Number of databases, in subdirectories of db; 0 means single one";
    use_keep_filter: bool = false, "Whether to use a noop compaction filter";
    trace_file: PathBuf = "",
        "Trace workload to a file, one benchmark after the other; what replay reads";
    block_cache_trace_file: PathBuf = "",
        "Trace uses of the block cache to a file, one benchmark after the other";
    block_cache_trace_sampling_frequency: i32 = 1,
        "Block cache trace sampling frequency, termed s: one of s blocks, with all of its uses";
    block_cache_trace_max_trace_file_size_in_bytes: i64 = 68719476736,
        "The maximum block cache trace file size in bytes; nothing is added beyond it";
    trace_replay_fast_forward: f64 = 1.0, "Fast forward trace replay, must > 0.0";
    trace_replay_threads: i32 = 1, "The number of workers that replay a trace";
    simulate_hdd: bool = false, "Simulate read/write latency on HDD";
    simulate_hybrid_fs_file: PathBuf = "",
        "File for storing metadata of files on HDDs, which are the warm ones; simulates their \
        latency. The others are on the device as it is";
    simulate_hybrid_hdd_multipliers: i32 = 1,
        "In simulate_hybrid_fs_file or simulate_hdd mode, how many HDDs are simulated";
    report_file_operations: bool = false,
        "After each benchmark print how many files were opened, reads, appends and their bytes";
    use_uint64_comparator: bool = false, "Use Uint64 user comparator; key_size must be 8";
    cost_write_buffer_to_cache: bool = false,
        "The usage of memtables is charged to the block cache";
    db: PathBuf = "", "Directory of the database; empty is $TEST_TMPDIR/dbbench";
    backup_dir: PathBuf = "", "Directory of backups; empty is $TEST_TMPDIR/backup";
    restore_dir: PathBuf = "", "Directory restored into; empty is $TEST_TMPDIR/restore";
    backup_rate_limit: u64 = 0, "If above 0, bytes per second that backup reads and writes";
    restore_rate_limit: u64 = 0, "If above 0, bytes per second that restore reads and writes";
    use_stderr_info_logger: bool = false, "Write the info log to stderr in place of LOG";
    wal_dir: String, "If not empty, use the given directory for the WAL";
    open_files: i32 as max_open_files, "Maximum number of files to keep open at the same time";
    memtablerep: String = "skip_list",
        "skip_list or vector; a number may follow, as in skip_list:<lookahead>";
    memtable_bloom_size_ratio: f64 as memtable_prefix_bloom_size_ratio,
        "Ratio of memtable size used for bloom filter. 0 is none";
    allow_concurrent_memtable_write: bool, "Allow multi-writers to update mem tables";
    enable_pipelined_write: bool = true, "Allow WAL and memtable writes to be pipelined";
    wal_compression: String = "none", "Algorithm to use for WAL compression. none to disable";
    merge_operator: String = "",
        "The merge operator to use: put, stringappend, uint64add, max, bytesxor, sortlist";
    file_checksum: bool = false,
        "Compute checksums of whole table files, which verifyfilechecksums compares";
    subcompactions: i32 as max_subcompactions,
        "Maximum number of subcompactions to divide L0-L1 compactions into";
    compaction_style: i32 = 0, "Style of compaction: level-based, universal and fifo";
    compaction_pri: i32 = 3, "Priority of files to compaction: by size or by data age";
    num_levels: i32, "The total number of levels";
    max_bytes_for_level_multiplier_additional: String = "",
        "Comma-separated additional multipliers, one for each level";
    level_compaction_dynamic_level_bytes: bool = false,
        "Whether level size base is dynamic";
    soft_pending_compaction_bytes_limit: u64,
        "Slowdown writes if pending compaction bytes exceed this number";
    hard_pending_compaction_bytes_limit: u64 = 128 << 30,
        "Stop writes if pending compaction bytes exceed this number";
    delayed_write_rate: u64 = 8_388_608,
        "Limited bytes allowed to DB when soft_rate_limit or level0_slowdown_writes_trigger \
        triggers";
    universal_size_ratio: u32 = 0, "Percentage by which the next run may be larger; 0 for 1";
    universal_min_merge_width: u32 = 0, "The minimum number of runs to merge; 0 for 2";
    universal_max_merge_width: u32 = 0, "The maximum number of runs to merge; 0 for any";
    universal_max_size_amplification_percent: u32 = 0,
        "The maximum size amplification in percent; 0 for 200";
    universal_compression_size_percent: i32 = -1,
        "The percentage of the bytes to be compressed; -1 compresses all";
    universal_stop_style: i32 = 1, "When a merge of runs ends: 0 by similar, 1 by total size";
    universal_max_read_amp: i32 = -1, "Runs that may stay; -1 for the trigger, 0 for automatic";
    universal_allow_trivial_move: bool = false, "Move files that do not overlap";
    universal_incremental: bool = false, "Merge the oldest runs in pieces";
    universal_reduce_file_locking: bool = false,
        "Compactions that wait for a thread hold fewer files back; without effect in Pumice";
    fifo_compaction_max_table_files_size_mb: u64 = 0, "Limit of total table files of FIFO";
    fifo_compaction_allow_compaction: bool = true, "Allow compaction in FIFO compaction";
    fifo_age_for_warm: u64 = 0,
        "Member age_for_warm of FIFO's options; without effect, as in RocksDB since 8.3";
    fifo_compaction_max_data_files_size_mb: u64 = 0,
        "Limit of tables and blob files of FIFO together; 0 for that of the tables";
    fifo_compaction_use_kv_ratio_compaction: bool = false,
        "Merge files of FIFO to a size by the limit; needs fifo_compaction_max_data_files_size_mb";
    fifo_compaction_ttl: u64 = 0, "TTL of the SST files in seconds";
    ttl_seconds: u64 as ttl,
        "Data older than this is compacted to the last level; the default leaves it to the engine";
    num_bottom_pri_threads: u32 = 0,
        "The number of threads in the bottom-priority thread pool; 0 leaves it as it is";
    num_high_pri_threads: u32 = 0,
        "The maximum number of concurrent background flushes' threads; 0 leaves it to the engine";
    num_low_pri_threads: u32 = 0,
        "The maximum number of concurrent compactions' threads; 0 leaves it to the engine";
    enable_io_prio: bool = false, "Lower the background flush/compaction threads' IO priority";
    enable_cpu_prio: bool = false, "Lower the background flush/compaction threads' CPU priority";
    rate_limiter_bytes_per_sec: u64 = 0,
        "Limit of flush and compaction writes, bytes/second; 0 for none";
    rate_limiter_refill_period_us: i64 = RateLimiterOptions::new(0).refill_period_us as i64,
        "Microseconds between refills of the limiter";
    rate_limiter_single_burst_bytes: i64 = 0,
        "The most bytes one request to the limiter gets at once; 0 is one refill";
    rate_limiter_auto_tuned: bool = false,
        "Adjust the limiter's rate dynamically between a twentieth of it and all of it";
    sst_file_manager_bytes_per_sec: u64 = 0,
        "Bytes of tables and logs deleted per second; 0 deletes at once";
    sst_file_manager_bytes_per_truncate: u64 =
        SstFileManagerOptions::default().bytes_max_delete_chunk,
        "Larger files are cut by this many bytes at a time; 0 deletes them in one piece";
    rate_limit_bg_reads: bool = false, "Limit compaction reads, and no writes";
    rate_limit_user_ops: bool = false, "Charge reads of users to the limiter";
    rate_limit_auto_wal_flush: bool = false, "Charge the log of user writes to the limiter";
    delete_obsolete_files_period_micros: u64 = 0, "Period of full scans for obsolete files";

    // Tables.
    compression_type: String = "snappy", "Algorithm to use to compress the database";
    compression_manager: String = "none",
        "Who chooses the codec of each block: none, mixed (all codecs in turn), autoskip or \
        costpredictor (zstd at its highest level)";
    compression_level: i32 = codec().level, "Compression level";
    compression_parallel_threads: i32 = codec().parallel_threads as i32,
        "Number of threads for block compression";
    compression_max_dict_bytes: i32 = codec().max_dict_bytes as i32,
        "Maximum size of the compression dictionary";
    compression_zstd_max_train_bytes: i32 = codec().zstd_max_train_bytes as i32,
        "Samples for zstd's dictionary trainer";
    compression_max_dict_buffer_bytes: u64 = codec().max_dict_buffer_bytes,
        "Data buffered to make a dictionary";
    compression_use_zstd_dict_trainer: bool = codec().use_zstd_dict_trainer,
        "Train zstd dictionaries; otherwise finalize them from samples";
    compression_parallel_fast_codecs: bool = codec().parallel_fast_codecs,
        "Let compression_parallel_threads count for snappy and lz4 too (Pumice's own flag)";
    compression_helpers: i32 = -1,
        "Threads that all table builds of the process share; -1 is one a processor (Pumice's own \
        flag)";
    sample_for_compression: u64,
        "Sample every N-th block for compression with a fast and a slow codec; 0 for none";
    min_level_to_compress: i32 = -1, "If not negative, levels below it are not compressed";
    format_version: i32 = 7, "Format version of SST files";
    block_size: i32, "Number of bytes in a block";
    partition_index_and_filters: bool = false, "Partition index and filter blocks";
    partition_index: bool = false, "Partition index blocks";
    use_hash_search: bool = false, "Use kHashSearch instead of kBinarySearch";
    index_with_first_key: bool = false, "Include the first key of each block in the index";
    use_trie_index: bool = false,
        "Write a trie index beside the index of each table, and find data blocks in it";
    index_shortening_mode: i64 = 2,
        "Mode to shorten index: 0 for no shortening; 1 for only separators; 2 for separators and \
        successor";
    use_data_block_hash_index: bool = false, "Use kDataBlockBinaryAndHash in data blocks";
    data_block_hash_table_util_ratio: f64, "Util ratio of the data block hash index";
    decouple_partitioned_filters: bool, "Cut filter partitions apart from the index's";
    checksum_type: i32 = 4, "ChecksumType as an int";
    bloom_bits: f64 = -1.0, "Bloom filter bits per key. Negative and zero mean no filter";
    use_plain_table: bool = false,
        "Use plain tables; without --prefix_size they cannot be opened, as with RocksDB";
    use_cuckoo_table: bool = false, "Use cuckoo tables";
    cuckoo_hash_ratio: f64 = 0.9, "Hash ratio of cuckoo tables";
    identity_as_first_hash: bool = false,
        "The first hash of a key of cuckoo tables is its first eight bytes";
    use_ribbon_filter: bool = false, "Use Ribbon instead of Bloom filter";
    detect_filter_construct_corruption: bool, "Check filters after they are built";
    cache_size: i64 = BLOCK_CACHE_BYTES as i64,
        "Number of bytes to use as a cache of uncompressed data";
    row_cache_size: i64 = 0, "Number of bytes to use as a cache of individual rows (0 = disabled)";
    cache_type: String = "hyper_clock_cache", "Type of block cache: hyper_clock_cache or lru_cache";
    cache_numshardbits: i32 = -1, "Shards of RocksDB's block cache (Pumice's has none): 2 ** this";
    cache_uri: String = "",
        "The block cache by text, in place of cache_size and cache_type: bytes, or \
        capacity=64M;strict_capacity_limit=true with RocksDB's names";
    simcache_size: i64 = -1,
        "Also count the hits that a block cache of this many bytes would have had; below 0: no";
    charge_compression_dictionary_building_buffer: bool = false,
        "Charge data blocks that wait for a dictionary to the block cache";
    charge_filter_construction: bool = false,
        "Charge filters under construction to the block cache";
    charge_table_reader: bool = false, "Charge open tables to the block cache";
    charge_file_metadata: bool = false, "Charge what is known of table files to the block cache";
    charge_blob_cache: bool = false, "Charge the contents of the blob cache to the block cache";
    secondary_cache_uri: String = "",
        "The secondary cache as a URI: compressed_secondary_cache://capacity=..;..";
    use_compressed_secondary_cache: bool = false,
        "Keep blocks that the block cache evicts in a secondary cache, compressed";
    compressed_secondary_cache_size: i64 = 32 << 20, "Number of bytes of the secondary cache";
    compressed_secondary_cache_compression_type: String = "lz4",
        "The compression algorithm of the secondary cache";
    compressed_secondary_cache_compression_level: i32 = codec().level,
        "Compression level of the secondary cache";
    use_tiered_cache: bool = false,
        "With use_compressed_secondary_cache: both caches share one budget, and what is charged \
        to it";
    tiered_adm_policy: String = "auto",
        "Which evicted blocks the secondary cache of a tiered one takes: auto, placeholder, \
        allow_cache_hits or allow_all";
    read_cache_path: PathBuf = "", "Keep blocks that are read in files of this directory";
    read_cache_size: i64 = 4 << 30, "Number of bytes of these files";
    read_cache_direct_read: bool = true, "Read them past the cache of the operating system";
    use_blob_cache: bool = false, "Use a cache of values in blob files";
    use_shared_block_and_blob_cache: bool = true, "The blob cache is the block cache";
    blob_cache_size: u64 = 8 << 20, "Number of bytes of a blob cache that is not the block cache";
    blob_cache_numshardbits: i32 = 6,
        "Shards of RocksDB's blob cache (Pumice's has none): 2 ** this";
    prepopulate_block_cache: i64 = 0,
        "Pre-populate hot/warm blocks in block cache. 0 to disable, 1 to insert during \
        flush, 2 to insert during flush and compaction";
    pin_l0_filter_and_index_blocks_in_cache: bool, "Pin index/filter blocks of L0 files";
    pin_top_level_index_and_filter: bool = false,
        "Pin top-level index of partitioned index/filter blocks in block cache";
    top_level_index_pinning: i32 = 0,
        "Pinning of the top level of partitioned metadata: 0 fallback, 1 none, 2 flushed and \
        similar, 3 all";
    partition_pinning: i32 = 0, "Pinning of partitions of metadata, as top_level_index_pinning";
    unpartitioned_pinning: i32 = 0, "Pinning of undivided metadata, as top_level_index_pinning";
}
