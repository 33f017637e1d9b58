//! Flags for the number of databases and column families, the source of keys and options, and what
//! fills do besides writing.

use crate::{db_bench, result};
use pumice::{Db, DbOptions};

#[pumice_test_macros::test]
fn several_databases_and_column_families_are_filled_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let out = db_bench(
        dir.path(),
        "--db=many --wal_dir=wals --num=500 --seed=7 --num_multi_db=3 --threads=2 \
         --report_open_timing --benchmarks=fillseq,readrandom,seekrandom,deleterandom,overwrite,\
         flush,compact,compactall,waitforcompaction,levelstats,readseq",
    )
    .good();
    for number in 0..3 {
        assert!(dir.path().join(format!("many/{number}/CURRENT")).exists());
        assert!(dir.path().join(format!("wals/{number}")).exists());
        assert!(out.contains(&format!("\n==== DB: many/{number} ===\n")), "{out}");
        let end = format!("waitforcompaction(many/{number}): finished with status (OK)\n");
        assert!(out.contains(&end), "{out}");
    }
    assert_eq!(out.matches("OpenDb:     ").count(), 6, "once at first, once for the fill: {out}");
    assert!(result(&out, "fillseq").contains(" 3000 operations;"), "{out}");
    assert!(result(&out, "readrandom").ends_with("(500 of 500 found)"), "{out}");
    let shares = "--num_column_families=4 --num_hot_column_families=2";
    let out = db_bench(
        dir.path(),
        &format!(
            "--db=families --num=1000 --seed=7 {shares} --column_family_distribution=30,70 \
             --benchmarks=fillseq,flush,stats"
        ),
    )
    .good();
    assert!(result(&out, "fillseq").contains(" 1000 operations;"), "{out}");
    let path = dir.path().join("families");
    let names = Db::list_column_families(&DbOptions::default(), &path).unwrap();
    let numbered = |n: usize| format!("column_family_name_{n:06}");
    assert_eq!(names, ["default".to_string(), numbered(1), numbered(2), numbered(3)]);
    let out = db_bench(
        dir.path(),
        "--db=equal --num=1000 --seed=7 --num_column_families=3 --merge_operator=put \
         --benchmarks=filluniquerandom,flush,readrandom,mergerandom,readrandom",
    )
    .good();
    assert_eq!(out.matches("(1000 of 1000 found)").count(), 2, "{out}");
    let wrong = "--num_column_families=3 --column_family_distribution=50,49,2";
    assert!(db_bench(dir.path(), wrong).bad().contains("items must sum to 100"));
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn options_and_keys_come_from_where_the_flags_say() {
    let dir = tempfile::tempdir().unwrap();
    let fill = "--db=there --num=300 --seed=7 --benchmarks=filluniquerandom,flush";
    db_bench(dir.path(), &format!("{fill} --write_buffer_size=123456 --num_levels=5")).good();
    let files = std::fs::read_dir(dir.path().join("there")).unwrap();
    let mut options: Vec<_> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("OPTIONS-"))
        .collect();
    options.sort();
    let file = options.pop().unwrap();
    let run = format!(
        "--db=other --num=100 --benchmarks=fillseq --write_buffer_size=9 --options_file={}",
        file.display()
    );
    let out = db_bench(dir.path(), &run).good();
    assert!(out.contains("Initializing RocksDB Options from the specified file\n"), "{out}");
    let log = std::fs::read_to_string(dir.path().join("other/LOG")).unwrap();
    for line in ["Options.write_buffer_size: 123456", "Options.num_levels: 5"] {
        assert!(log.contains(line), "{line}");
    }
    let missing = db_bench(dir.path(), "--options_file=nowhere --num=1").bad();
    assert!(missing.contains("Unable to load options file nowhere --- "), "{missing}");
    // Ten times as many numbers as there are keys, and each read finds one.
    let again = "--db=there --use_existing_db --num=3000 --reads=200 --benchmarks=readrandom";
    let out = db_bench(dir.path(), &format!("{again} --use_existing_keys")).good();
    assert!(result(&out, "readrandom").ends_with("(200 of 200 found)"), "{out}");
    let out = db_bench(dir.path(), again).good();
    assert!(!out.contains("(200 of 200 found)"), "{out}");
    let skewed = format!("{again} --num=300 --read_random_exp_range=5 --readonly");
    assert!(db_bench(dir.path(), &skewed).good().contains("(200 of 200 found)"));
    let truth = "--db=there --use_existing_db --num=300 --truth_db=there --benchmarks=verify";
    assert!(db_bench(dir.path(), truth).err.contains("...Verified\n"));
    let differs = "--db=other --use_existing_db --truth_db=there --benchmarks=verify";
    assert!(db_bench(dir.path(), differs).bad().contains("differs from truth_db"));
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_secondary_reads_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    db_bench(dir.path(), "--db=there --num=300 --benchmarks=fillseq").good();
    let names = || {
        let files = std::fs::read_dir(dir.path().join("there")).unwrap();
        let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let flags = "--db=there --num=300 --use_secondary_db";
    let out = db_bench(dir.path(), &format!("{flags} --benchmarks=readrandom")).good();
    assert!(result(&out, "readrandom").ends_with("(300 of 300 found)"), "{out}");
    // The first at the beginning; the next would be due after 5 s.
    assert!(out.contains("Secondary instance updated  1 times.\n"), "{out}");
    assert!(dir.path().join("dbbench_secondary/LOG").exists());
    let aside = "--secondary_path=aside --secondary_update_interval=0";
    let out = db_bench(dir.path(), &format!("{flags} --benchmarks=readseq {aside}")).good();
    assert!(out.contains("Secondary instance updated  0 times.\n"), "{out}");
    assert!(dir.path().join("aside/LOG").exists());
    let refused = db_bench(dir.path(), &format!("{flags} --benchmarks=overwrite")).bad();
    assert!(refused.contains("Not supported operation in secondary mode."), "{refused}");
    assert_eq!(names(), before);
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_follower_reads_what_its_leader_has_flushed() {
    let dir = tempfile::tempdir().unwrap();
    db_bench(dir.path(), "--db=there --num=300 --benchmarks=fillseq,flush").good();
    let names = |at: &str, end: &str| {
        let files = std::fs::read_dir(dir.path().join(at)).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.ends_with(end)).collect();
        names.sort();
        names
    };
    let before = names("there", "");
    let flags = "--db=own --leader_path=there --open_as_follower --num=300";
    let out = db_bench(dir.path(), &format!("{flags} --benchmarks=readrandom")).good();
    assert!(result(&out, "readrandom").ends_with("(300 of 300 found)"), "{out}");
    assert_eq!(names("own", ".sst"), names("there", ".sst"));
    let refused = db_bench(dir.path(), &format!("{flags} --benchmarks=overwrite")).bad();
    assert!(refused.contains("Not supported operation in secondary mode."), "{refused}");
    let nobody = flags.replace("there", "nobody");
    let refused = db_bench(dir.path(), &format!("{nobody} --benchmarks=readrandom")).bad();
    assert!(refused.contains("open error: ") && refused.contains("nobody"), "{refused}");
    assert_eq!(names("there", ""), before);
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn fills_overwrite_delete_ranges_and_vary_their_values() {
    let dir = tempfile::tempdir().unwrap();
    let ranges = "--writes_before_delete_range=100 --writes_per_range_tombstone=100 \
                  --range_tombstone_width=10 --max_num_range_tombstones=5";
    for expand in ["", "--expand_range_tombstones"] {
        let out = db_bench(
            dir.path(),
            &format!("--num=1000 --seed=7 --benchmarks=fillseq,readseq {ranges} {expand}"),
        )
        .good();
        assert!(out.contains("Number of range deletions: 5\n"), "{out}");
        // A tombstone begins at the next key, which is then not written: those after it are.
        assert!(result(&out, "readseq").contains(" 1000 operations;"), "{out}");
    }
    let out = db_bench(
        dir.path(),
        &format!("--num=1000 --seed=7 --benchmarks=fillrandom,flush,readseq {ranges}"),
    )
    .good();
    assert!(out.contains("Number of range deletions: 5\n"), "{out}");
    let out = db_bench(
        dir.path(),
        "--num=1000 --seed=7 --benchmarks=filluniquerandom --overwrite_probability=0.4 \
         --overwrite_window_size=10 --value_size_distribution_type=uniform --value_size_min=5 \
         --value_size_max=25",
    )
    .good();
    let count = |what: &str| -> u64 {
        let line = out.lines().find(|line| line.starts_with(what)).unwrap();
        line.rsplit(' ').next().unwrap().trim_end_matches('.').parse().unwrap()
    };
    let (unique, again) = (count("Number of unique keys"), count("Number of overwrites"));
    assert_eq!(unique + again, 1000);
    assert!((330..470).contains(&again), "{again}");
    let header = "Values:     15 avg bytes each (8 bytes after compression)\n\
                  Values Distribution: uniform (min: 5, max: 25)\n";
    assert!(out.contains(header), "{out}");
    let missing = "--num=1000 --prefix_size=12 --key_size=24 --keys_per_prefix=10 \
                   --benchmarks=fillseq,seekrandom --seek_missing_prefix";
    assert!(db_bench(dir.path(), missing).good().contains("(0 of 1000 found)"));
}

/// A class of errors that once ended the process by a signal.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn numbers_out_of_bounds_are_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    for (words, why) in [
        ("--threads=100000", "threads must be at most 10000"),
        ("--threads=2147483647", "threads must be at most 10000"),
        ("--readwritepercent=100", "readwritepercent must be above 0 and below 100"),
        ("--value_size_min=9 --value_size_max=8", "value_size_min must be at most"),
        ("--max_bytes_for_level_multiplier_additional=1,2", "Insufficient number of fanouts"),
        ("--stats_level=9 --statistics", "stats_level 9 is not known"),
        ("--universal_stop_style=2", "universal_stop_style 2 is not known"),
        ("--use_existing_keys", "`-use_existing_db` must be true"),
        ("--compression_ratio=1.5", "compression_ratio should be between 0 and 1"),
    ] {
        let error = db_bench(dir.path(), &format!("--num=1 --benchmarks=fillseq {words}")).bad();
        assert!(error.contains(why), "{words}: {error}");
    }
    let fanouts = "--max_bytes_for_level_multiplier_additional=1,1,2,2,3,3,4 --statistics \
                   --stats_level=1 --use_keep_filter --benchmarks=fillseq,compact --num=100";
    let out = db_bench(dir.path(), fanouts).good();
    assert!(out.contains("A noop compaction filter is used\n"), "{out}");
    // At this level nothing is timed.
    assert!(out.contains("rocksdb.db.write.micros P50 : 0.000000"), "{out}");
}

/// `readtorowcache` reads every key that there is, so that all later reads hit; it insists on a
/// cache and on existing keys, as RocksDB's.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_row_cache_is_filled() {
    let dir = tempfile::tempdir().unwrap();
    db_bench(dir.path(), "--benchmarks=fillrandom --num=1000").good();
    let read = "--use_existing_db --use_existing_keys --row_cache_size=10000000 --statistics \
                --benchmarks=readtorowcache,readrandom --num=1000 --reads=500";
    let out = db_bench(dir.path(), read).good();
    let keys: u64 = {
        let line = out.lines().find(|line| line.starts_with("readtorowcache")).unwrap();
        let (_, counts) = line.split_once('(').unwrap();
        let (found, rest) = counts.split_once(" of ").unwrap();
        assert_eq!(rest, format!("{found} found)"), "{line}");
        found.parse().unwrap()
    };
    assert!((500..1000).contains(&keys), "{keys}");
    for (ticker, count) in [("miss", keys), ("hit", 500)] {
        let expected = format!("rocksdb.row.cache.{ticker} COUNT : {count}");
        assert!(out.lines().any(|line| line == expected), "{expected}: {out}");
    }
    let words = "Please set use_existing_keys to true and specify a row cache size in \
                 readtorowcache benchmark\n";
    for lacks in
        [read.replace("--use_existing_keys", ""), read.replace("--row_cache_size", "--seed")]
    {
        assert_eq!(db_bench(dir.path(), &lacks).bad(), words, "{lacks}");
    }
}

/// Reads of few keys come from the row cache, with either engine.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn reads_go_through_a_row_cache() {
    let dir = tempfile::tempdir().unwrap();
    let library = pumice_peer::installed_library();
    let engines = ["pumice".to_string()]
        .into_iter()
        .chain(library.map(|path| path.to_str().unwrap().to_string()));
    for engine in engines {
        let out = db_bench(
            dir.path(),
            &format!(
                "--engine={engine} --benchmarks=fillseq,flush,readrandom --num=100 --reads=2000 \
                 --row_cache_size=1000000 --statistics"
            ),
        )
        .good();
        let count = |name: &str| -> u64 {
            let line = out.lines().rev().find(|line| line.starts_with(name)).unwrap();
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        let hits = count("rocksdb.row.cache.hit");
        assert!(hits > 1800, "{engine}: {hits} hits");
    }
}

/// The first benchmark leaves one backup, whatever was there; the second restores it.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn backups_are_made_and_restored() {
    let dir = tempfile::tempdir().unwrap();
    let out = db_bench(
        dir.path(),
        "--num=1000 --benchmarks=fillseq,backup,overwrite,backup,restore \
         --backup_rate_limit=1000000000 --restore_rate_limit=1000000000 --threads=3",
    )
    .good();
    assert_eq!(out.matches("backup       : ").count(), 2, "{out}");
    crate::result(&out, "restore");
    let meta = std::fs::read_dir(dir.path().join("backup/meta")).unwrap();
    let meta: Vec<_> = meta.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(meta, ["1"]);
    let read = "--use_existing_db --num=1000 --benchmarks=readseq --db=restore";
    let out = db_bench(dir.path(), read).good();
    assert!(crate::result(&out, "readseq").contains(" 1000 operations;"), "{out}");
    // Elsewhere, and none there.
    let flags = "--backup_dir=b --restore_dir=r --num=10";
    let error = db_bench(dir.path(), &format!("--benchmarks=restore {flags}")).bad();
    assert!(error.contains("b/meta is missing"), "{error}");
    let out = db_bench(dir.path(), &format!("--benchmarks=fillseq,backup,restore {flags}")).good();
    assert_eq!(out.matches("\nBackup path: [b]\n").count(), 2, "{out}");
    assert!(out.contains("\nRestore path: [r]\n"), "{out}");
    assert!(dir.path().join("r/CURRENT").exists() && dir.path().join("b/meta/1").exists());
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn the_info_log_goes_to_stderr() {
    let dir = tempfile::tempdir().unwrap();
    let words = "--num=10 --benchmarks=fillseq";
    let run = db_bench(dir.path(), &format!("{words} --use_stderr_info_logger"));
    let log = dir.path().join("dbbench/LOG");
    assert!(run.err.contains("RocksDB version: Pumice-") && !log.exists(), "{}", run.err);
    run.good();
    let run = db_bench(dir.path(), words);
    assert!(!run.err.contains("RocksDB version") && log.exists(), "{}", run.err);
}

/// Of each batch of 30 entries 20 are written and deleted, 10 stay.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn disposable_entries_are_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let batches = "--disposable_entries_batch_size=20 --persistent_entries_batch_size=10";
    let out = db_bench(
        dir.path(),
        &format!(
            "--num=1000 --seed=7 --threads=2 {batches} --persistent_entries_value_size=300 \
             --benchmarks=fillanddeleteuniquerandom,readseq"
        ),
    )
    .good();
    // Twenty batches of 50 operations.
    assert!(
        out.contains("Number of unique keys inserted (disposable+persistent): 600.\n"),
        "{out}"
    );
    assert!(out.contains("Number of 'disposable entry delete': 400\n"), "{out}");
    // By both threads.
    assert!(crate::result(&out, "readseq").contains(" 400 operations;"), "{out}");
    for (words, why) in [
        ("--persistent_entries_batch_size=1", "needs a disposable_entries_batch_size"),
        ("--disposable_entries_batch_size=1 --overwrite_probability=0.5", "not compatible with"),
        ("--disposable_entries_value_size=-1", "have to be positive"),
    ] {
        let words = format!("--num=1 --benchmarks=fillanddeleteuniquerandom {words}");
        let error = db_bench(dir.path(), &words).bad();
        assert!(error.contains(why), "{words}: {error}");
    }
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn keys_are_numbers_and_memtables_charged() {
    let dir = tempfile::tempdir().unwrap();
    let keys = "--num=1000 --seed=7 --key_size=8 --use_uint64_comparator";
    let run =
        "--db=numbers --benchmarks=filluniquerandom,flush,overwrite,readrandom,seekrandom,readseq";
    let out = db_bench(dir.path(), &format!("{run} {keys}")).good();
    for name in ["readrandom", "seekrandom"] {
        assert!(result(&out, name).ends_with("(1000 of 1000 found)"), "{out}");
    }
    assert!(result(&out, "readseq").contains(" 1000 operations;"), "{out}");
    // It is another order, and stays one.
    let again = "--db=numbers --use_existing_db --num=1 --key_size=8 --benchmarks=readrandom";
    let error = db_bench(dir.path(), again).bad();
    assert!(
        error.contains("does not match existing comparator rocksdb.Uint64Comparator"),
        "{error}"
    );
    let error = db_bench(dir.path(), "--num=1 --use_uint64_comparator").bad();
    assert!(error.contains("Using Uint64 comparator but key size is not 8."), "{error}");

    let run = "--num=20000 --seed=7 --benchmarks=fillseq,block_cache_entry_stats";
    let usage = |flag: &str| {
        let out = db_bench(dir.path(), &format!("{run} {flag}")).good();
        let (_, usage) = out.split_once(" usage: ").unwrap_or_else(|| panic!("{out}"));
        usage.split(" table_size").next().unwrap().to_string()
    };
    // The memtable has 2 MB of values.
    let (without, with) = (usage(""), usage("--cost_write_buffer_to_cache"));
    assert!(with.ends_with(" MB") && !without.ends_with(" MB"), "{without} {with}");
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn file_operations_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let run = "--num=1000 --seed=7 --value_size=1000 --compression_type=none --cache_size=0 \
               --benchmarks=fillseq,flush,readrandom,readrandom --report_file_operations";
    let out = db_bench(dir.path(), run).good();
    let counts = |name: &str| -> Vec<u64> {
        let lines = out.lines().filter(|line| line.starts_with(name));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
    };
    let names = ["opened: ", "Read(): ", "Append(): ", "bytes read: ", "bytes written: "];
    let [opened, reads, appends, read, written] = names.map(|name| {
        counts(&format!("Num {}{name}", if name == "opened: " { "files " } else { "" }))
    });
    assert_eq!(opened.len(), 3, "of each benchmark with a result: {out}");
    // The log has the values, and nothing was read but what an open reads.
    assert!(written[0] > 1_000_000 && appends[0] > 10 && opened[0] > 2, "{out}");
    // The flush is before the first; a block of each value is read in both.
    assert!(written[1] > 1_000_000 && reads[1] >= 1000 && read[1] > 1_000_000, "{out}");
    assert!(written[2] == 0 && appends[2] == 0 && opened[2] == 0 && reads[2] >= 1000, "{out}");
    assert!(!db_bench(dir.path(), "--num=10 --benchmarks=fillseq").good().contains("Num files"));
}

/// All tables, as a worker compacts them: the database keeps its own, and reads the same.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn tables_are_compacted_beside_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let out = db_bench(
        dir.path(),
        "--db=there --num=3000 --seed=7 --write_buffer_size=65536 --disable_auto_compactions \
         --secondary_path=beside --num_levels=4 --openandcompact_test_cancel_on_odd \
         --openandcompact_cancel_after_millseconds=0 --compression_type=none \
         --benchmarks=filluniquerandom,flush,openandcompact[X2],levelstats,readrandom",
    )
    .good();
    assert_eq!(out.matches(" files, 3000 keys\n").count(), 2, "{out}");
    for words in [
        "\n--- Run 1 (odd - will cancel) ---\n",
        "\n--- Run 2 (even - normal) ---\n",
        "\nOpenAndCompact status: OK\n",
        "\nOutput: 1 files, average size: ",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    let first = out.split("--- Run 2").next().unwrap();
    assert!(first.contains("status: Result incomplete"), "{out}");
    let tables = std::fs::read_dir(dir.path().join("beside/openandcompact_0")).unwrap();
    let tables = tables.map(|file| file.unwrap());
    let is_table = |file: &std::fs::DirEntry| file.path().extension().is_some_and(|x| x == "sst");
    let tables: Vec<_> = tables.filter(is_table).collect();
    assert!(tables.len() == 1 && tables[0].metadata().unwrap().len() > 300_000, "{tables:?}");
    assert!(result(&out, "readrandom").ends_with("(3000 of 3000 found)"), "{out}");
    let level = out.lines().find(|line| line.trim_start().starts_with("3 ")).unwrap();
    assert_eq!(level.split_whitespace().nth(1), Some("0"), "{out}");
    let wrong = "--benchmarks=fillseq,openandcompact --num=10 --secondary_path=dbbench/CURRENT";
    assert!(db_bench(dir.path(), wrong).bad().contains("openandcompact"));
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn keys_can_have_timestamps() {
    let dir = tempfile::tempdir().unwrap();
    let keys = "--num=1000 --seed=7 --user_timestamp_size=8 --merge_operator=put";
    let run = "--benchmarks=filluniquerandom,flush,overwrite,mergerandom,readrandom,seekrandom,\
               readseq,readreverse,multireadrandom,updaterandom,deleterandom,readrandom";
    let out = db_bench(dir.path(), &format!("{run} {keys} --db=timed --batch_size=10")).good();
    assert!(out.contains("(+ 8 bytes user-defined timestamp)"), "{out}");
    for name in ["readrandom", "seekrandom", "multireadrandom"] {
        let line = result(&out, name);
        assert!(line.contains("(1000 of 1000 found)"), "{line}");
    }
    // The newest versions only, each once.
    assert!(result(&out, "readseq").contains(" 1000 operations;"), "{out}");
    // At times of the past some keys were not there yet.
    let past = "--benchmarks=filluniquerandom,readrandom --noread_with_latest_user_timestamp";
    let out = db_bench(dir.path(), &format!("{past} {keys} --db=past")).good();
    let (_, found) = result(&out, "readrandom").rsplit_once('(').unwrap();
    let found: u32 = found.split(' ').next().unwrap().parse().unwrap();
    assert!((200..800).contains(&found), "{out}");
    for size in ["4", "-4"] {
        let error = db_bench(dir.path(), &format!("--num=1 --user_timestamp_size={size}")).bad();
        assert!(error.contains("Only 64 bits timestamps are supported."), "{error}");
    }
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn batches_and_memtables_have_checksums() {
    let dir = tempfile::tempdir().unwrap();
    let out = db_bench(
        dir.path(),
        "--db=checked --num=300 --seed=7 --batch_size=5 --write_batch_protection_bytes_per_key=8 \
         --memtable_protection_bytes_per_key=4 --memtable_verify_per_key_checksum_on_seek \
         --paranoid_memory_checks --benchmarks=fillseq,readseq,readrandom,seekrandom,deleteseq",
    )
    .good();
    assert!(result(&out, "readrandom").ends_with("(300 of 300 found)"), "{out}");
    let files = std::fs::read_dir(dir.path().join("checked")).unwrap();
    let names = files.map(|file| file.unwrap().path());
    let options = names.filter(|path| path.to_string_lossy().contains("OPTIONS-")).max().unwrap();
    let options = std::fs::read_to_string(options).unwrap();
    for option in ["paranoid_memory_checks", "memtable_veirfy_per_key_checksum_on_seek"] {
        assert!(options.contains(&format!("{option}=true")), "{option}");
    }
    let wrong = db_bench(dir.path(), "--num=1 --write_batch_protection_bytes_per_key=4").bad();
    assert!(wrong.contains("write_batch_protection_bytes_per_key must be 0 or 8"), "{wrong}");
}

/// `--use_trie_index`: tables have the index, and reads through it find every key.
#[pumice_test_macros::test]
fn keys_are_found_through_trie_indexes() {
    let dir = tempfile::tempdir().unwrap();
    let out = db_bench(
        dir.path(),
        "--db=tries --num=3000 --seed=7 --use_trie_index --write_buffer_size=100000 \
         --benchmarks=filluniquerandom,flush,readrandom,multireadrandom,compact,readrandom,\
         seekrandom,readseq,readreverse",
    )
    .good();
    assert_eq!(out.matches("(3000 of 3000 found)").count(), 4, "{out}");
    for scan in ["readseq", "readreverse"] {
        assert!(result(&out, scan).contains(" 3000 operations;"), "{out}");
    }
    let (mut tables, mut options) = (0, 0);
    for entry in std::fs::read_dir(dir.path().join("tries")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let has = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
        if path.extension().is_some_and(|extension| extension == "sst") {
            assert!(has(b"rocksdb.user_defined_index.trie_index"), "{path:?}");
            tables += 1;
        }
        options += usize::from(has(b"user_defined_index_factory=trie_index\n"));
    }
    assert!(tables > 0 && options > 0, "{tables} {options}");
    let reverse = "--use_trie_index --compression_parallel_threads=2 --num=9";
    let error = db_bench(dir.path(), reverse).bad();
    assert!(error.contains("not supported with parallel compression"), "{error}");
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn tables_have_the_format_that_a_flag_names() {
    let dir = tempfile::tempdir().unwrap();
    let benchmarks = "--num=3000 --seed=7 --compression_type=none --benchmarks=\
                      filluniquerandom,flush,readrandom,seekrandom,overwrite,compact,readrandom,\
                      readseq,readmissing";
    for (name, flags, encoding) in [
        ("plain", "--use_plain_table --prefix_size=8 --bloom_bits=5", "PlainTable"),
        ("cuckoo", "--use_cuckoo_table --mmap_read --cuckoo_hash_ratio=0.7", "CuckooTable"),
        (
            "identity",
            "--use_cuckoo_table --mmap_read --identity_as_first_hash",
            "identity_as_first_hash=true",
        ),
    ] {
        let run = db_bench(dir.path(), &format!("--db={name} {benchmarks} {flags}"));
        assert_eq!(run.err.contains("Warning: plain table is used with"), name == "plain");
        let out = run.good();
        assert!(out.matches("(3000 of 3000 found)").count() >= 2, "{out}");
        let files = std::fs::read_dir(dir.path().join(name)).unwrap();
        let mut options = files
            .map(|file| file.unwrap().path())
            .filter(|path| path.to_string_lossy().contains("OPTIONS-"))
            .map(|path| std::fs::read_to_string(path).unwrap());
        assert!(options.any(|options| options.contains(encoding)), "{name}");
        let file = format!("--file={name}");
        let dump = ["sst_dump", &file, "--command=verify"];
        let dump = std::process::Command::new(env!("CARGO_BIN_EXE_pumice"))
            .current_dir(dir.path())
            .args(dump)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&dump.stdout).into_owned();
        let format = if name == "plain" { "plain" } else { "cuckoo" };
        assert!(text.contains(&format!("Sst file format: {format} table\n")), "{text}");
        assert!(text.contains("The file is ok\n"), "{text}");
    }
    for (flags, words) in [
        ("--use_plain_table", "PlainTable requires a prefix extractor enable prefix hash mode."),
        ("--use_cuckoo_table", "cuckoo table format requires mmap read to operate"),
        ("--use_cuckoo_table --mmap_read --cuckoo_hash_ratio=1.5", "Invalid cuckoo_hash_ratio"),
    ] {
        let error = db_bench(dir.path(), &format!("--db=refused {benchmarks} {flags}")).bad();
        assert!(error.contains(words), "{words}: {error}");
    }
}
