//! The benchmarks do what their names say, and print RocksDB's lines.

use crate::{db_bench, result};

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn mixes_of_reads_and_writes_keep_their_percentages() {
    let dir = tempfile::tempdir().unwrap();
    let out = db_bench(
        dir.path(),
        "--num=1000 --seed=7 --merge_operator=stringappend --benchmarks=filluniquerandom,\
         readrandomwriterandom,readrandommergerandom,mergerandom,appendrandom,xorupdaterandom,\
         randomwithverify,updaterandom --mergereadpercent=40 --readwritepercent=80 \
         --merge_keys=100",
    )
    .good();
    let line = result(&out, "readrandomwriterandom");
    assert!(line.ends_with("( reads:800 writes:200 total:1000 found:800)"), "{line}");
    let line = result(&out, "readrandommergerandom");
    let merges: u64 =
        line.split("merges:").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((330..470).contains(&merges) && line.contains(" total:1000 hits:"), "{line}");
    let line = result(&out, "mergerandom");
    assert!(line.ends_with("MB/s ( updates:1000)"), "{line}");
    // Among the first hundred keys each was merged into some ten times.
    for name in ["appendrandom", "xorupdaterandom"] {
        assert!(result(&out, name).ends_with("( updates:1000 found:1000)"), "{out}");
    }
    let line = result(&out, "randomwithverify");
    assert!(line.contains("( get:800 put:180 del:20 total:1000 found:"), "{line}");
    assert!(result(&out, "updaterandom").ends_with("( updates:1000 found:1000)"), "{out}");
    let skipped = db_bench(dir.path(), "--num=10 --benchmarks=mergerandom").good();
    assert!(skipped.contains("mergerandom  : skipped (--merge_operator is unknown)"), "{skipped}");
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn scans_find_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let out = db_bench(
        dir.path(),
        "--num=1000 --seed=7 --threads=2 --reads=300 --multiscan_size=3 --multiscan_stride=20 \
         --batch_size=4 --benchmarks=fillseekseq,readtocache,newiterator,multiscan,seekrandom,\
         approximatesizerandom,readrandomfast,readrandomsmall,readwhilescanning,\
         multireadwhilewriting,newiteratorwhilewriting,seekrandomwhilewriting,multireadrandom \
         --explicit_snapshot --multiread_stride=10",
    )
    .good();
    // Two seeks for each key and thread, and no write is among them.
    assert!(result(&out, "fillseekseq").contains(" 4000 operations;"), "{out}");
    // It fills whatever it seeks.
    let few = db_bench(dir.path(), "--num=1000 --writes=10 --benchmarks=fillseekseq").good();
    assert!(result(&few, "fillseekseq").contains(" 2000 operations;"), "{few}");
    assert!(result(&out, "readtocache").contains(" 300 operations;"), "{out}");
    assert!(result(&out, "newiterator").contains(" 600 operations;"), "{out}");
    let line = result(&out, "multiscan");
    // 150 keys each until 300 are reached.
    assert!(line.ends_with("4 operations; (multscans:2)"), "{line}");
    assert!(result(&out, "seekrandom").ends_with("(300 of 300 found)"), "{out}");
    assert!(result(&out, "approximatesizerandom").contains("(Avg approx size="), "{out}");
    let line = result(&out, "readrandomfast");
    assert!(line.contains(" found, issued ") && line.contains(" of 400 found"), "{line}");
    assert!(result(&out, "readwhilescanning").contains("(300 of 300 found)"), "{out}");
    for name in ["multireadwhilewriting", "multireadrandom"] {
        assert!(result(&out, name).ends_with("(300 of 300 found)"), "{out}");
    }
    for name in ["newiteratorwhilewriting", "seekrandomwhilewriting", "readrandomsmall"] {
        result(&out, name);
    }
    let error = db_bench(dir.path(), "--num=100 --benchmarks=fillseq,multiscan").bad();
    assert!(error.contains("multiscan needs a num above 1500"), "{error}");
}

/// Estimates of what memtables hold: nothing after a flush.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn memtables_are_estimated() {
    let dir = tempfile::tempdir().unwrap();
    let run = |benchmarks: &str| {
        let flags = "--num=2000 --seed=7 --reads=200 --batch_size=100";
        db_bench(dir.path(), &format!("{flags} --benchmarks={benchmarks}")).good()
    };
    let average = |out: &str| {
        let line = result(out, "approximatememtablestats");
        assert!(line.contains(" 200 operations;") && line.ends_with(" of 100 entries)"), "{line}");
        line.split_once('(').unwrap().1.split(' ').next().unwrap().parse::<f64>().unwrap()
    };
    let out = run("fillseq,approximatememtablestats");
    assert!(out.contains("Reported entry count stats (expected 100):\nCount: 200 "), "{out}");
    assert!((20.0..500.0).contains(&average(&out)), "{out}");
    assert_eq!(average(&run("fillseq,flush,approximatememtablestats")), 0.0);
}

/// The tree has a run on each level that it is to have, and every key is there.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn deterministic_fills_leave_a_run_on_each_level() {
    let dir = tempfile::tempdir().unwrap();
    let flags = "--num=20000 --num_levels=3 --write_buffer_size=65536 --seed=7 \
                 --max_bytes_for_level_multiplier=4 --target_file_size_base=200000";
    for (name, style, levels) in [
        ("fillseqdeterministic", 0, "012"),
        ("filluniquerandomdeterministic", 0, "012"),
        ("fillseqdeterministic", 1, "012"),
    ] {
        let words = format!("{flags} --compaction_style={style} --benchmarks={name},readseq");
        let out = db_bench(dir.path(), &format!("{words} --disable_auto_compactions")).good();
        let (_, shape) = out.split_once("---------------------- DB 0 LSM -----").unwrap();
        let there: Vec<char> =
            levels.chars().filter(|level| shape.contains(&format!("\nLevel[{level}]: "))).collect();
        assert_eq!(there.into_iter().collect::<String>(), levels, "{name} {style}: {out}");
        assert!(result(&out, "readseq").contains(" 20000 operations;"), "{out}");
        let error = db_bench(dir.path(), &words).bad();
        let rule = "Please disable_auto_compactions in FillDeterministic benchmark";
        assert!(error.contains(rule), "{error}");
    }
    let words = "--num=100 --num_levels=3 --disable_auto_compactions";
    let small = db_bench(dir.path(), &format!("{words} --benchmarks=fillseqdeterministic")).bad();
    assert!(small.contains("n is too small to fill 3 levels"), "{small}");
    let options = dir.path().join("of_an_earlier_run");
    let files = std::fs::read_dir(dir.path().join("dbbench")).unwrap();
    let mut files = files.map(|entry| entry.unwrap().path());
    let saved = files.find(|path| path.to_string_lossy().contains("OPTIONS")).unwrap();
    std::fs::copy(saved, &options).unwrap();
    let words = format!("{words} --options_file={}", options.display());
    let refused = db_bench(dir.path(), &format!("{words} --benchmarks=fillseqdeterministic")).bad();
    assert!(refused.contains("comes from the flags, not from an options_file"), "{refused}");
}

/// One iterator makes all seeks of a thread, with either engine.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_tailing_iterator_is_kept() {
    let library = pumice_peer::installed_library();
    let engines = library.map(|path| format!("--engine={}", path.display()));
    for engine in std::iter::once(String::new()).chain(engines) {
        for (flag, iterators) in [("--use_tailing_iterator", 1), ("", 200)] {
            let dir = tempfile::tempdir().unwrap();
            let words = "--num=100 --reads=200 --statistics --benchmarks=fillseq,seekrandom";
            let out = db_bench(dir.path(), &format!("{words} {flag} {engine}")).good();
            assert!(result(&out, "seekrandom").ends_with("(200 of 200 found)"), "{out}");
            let count = format!("rocksdb.num.iterator.created COUNT : {iterators}\n");
            assert!(out.contains(&count), "{engine} {flag} {iterators}: {out}");
        }
    }
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn checksums_codecs_and_loads_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let out = db_bench(
        dir.path(),
        "--num=50 --block_size=1000 --compression_type=zstd --histogram \
         --benchmarks=crc32c,xxhash,xxhash64,xxh3,compress,uncompress,acquireload",
    )
    .good();
    for name in ["crc32c", "xxhash", "xxhash64", "xxh3"] {
        let line = result(&out, name);
        assert!(
            line.contains(" 50 operations; ") && line.ends_with("MB/s (1000 per op)"),
            "{line}"
        );
    }
    let line = result(&out, "compress");
    assert!(line.contains("(output: ") && line.ends_with("%)"), "{line}");
    assert!(result(&out, "uncompress").contains(" 50 operations; "), "{out}");
    assert!(result(&out, "acquireload").ends_with("(each op is 1000 loads)"), "{out}");
    for kind in ["crc", "hash", "compress", "uncompress", "op"] {
        assert!(out.contains(&format!("Microseconds per {kind}:\n")), "{kind}: {out}");
    }
    let out = db_bench(dir.path(), "--num=5 --compression_type=none --benchmarks=compress").good();
    assert!(out.contains("(failed to compress smaller than input)"), "{out}");
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn levels_are_compacted_and_counters_reset() {
    let dir = tempfile::tempdir().unwrap();
    let out = db_bench(
        dir.path(),
        "--num=2000 --seed=7 --disable_auto_compactions --benchmarks=fillrandom,flush,compact0,\
         compactall,overwrite,flush,compact0,compact1,levelstats,memstats,resetstats,stats \
         --num_levels=4",
    )
    .good();
    assert_eq!(out.matches("flush memtable\n").count(), 2, "{out}");
    assert!(out.contains("compact0 found no data beyond L0\n"), "{out}");
    assert!(out.contains("compact0 found 1 files to compact from L0 to L1\n"), "{out}");
    assert!(out.contains("compact1 found no data beyond L1\n"), "{out}");
    let levels: Vec<&str> = out.lines().filter(|line| line.starts_with("  ")).collect();
    let files = |level: usize| levels.iter().find(|line| line.starts_with(&format!("  {level} ")));
    assert!(files(0).unwrap().contains("  0 ") && files(1).is_some(), "{levels:?}");
    for line in [
        "rocksdb.num-immutable-mem-table: 0\n",
        "rocksdb.num-entries-active-mem-table: 0\n",
        "rocksdb.num-entries-imm-mem-tables: 0\n",
    ] {
        assert!(out.contains(line), "{out}");
    }
    assert!(out.contains("Cumulative writes: 0 writes, 0 keys, 0 commit groups"), "{out}");
    assert!(out.contains("Cumulative compaction: 0.00 GB write"), "{out}");
    let empty = db_bench(dir.path(), "--num=5 --db=empty --benchmarks=compact0,compact1").good();
    assert!(empty.contains("compact0 found 0 files to compact\ncompact1 found 0 files"), "{empty}");
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn models_mix_as_their_flags_say() {
    let dir = tempfile::tempdir().unwrap();
    let model = "--keyrange_dist_a=14.18 --keyrange_dist_b=-2.917 --keyrange_dist_c=0.0164 \
                 --keyrange_dist_d=-0.08082 --keyrange_num=30 --key_dist_a=0.002312 \
                 --key_dist_b=0.3467 --value_k=0.2615 --value_sigma=25.45 --iter_k=2.517 \
                 --iter_sigma=14.236 --mix_get_ratio=0.5 --mix_put_ratio=0.3 --mix_seek_ratio=0.2";
    for keys in ["", model, "--key_dist_a=0.002312 --key_dist_b=0.3467 --mix_put_ratio=1"] {
        let out = db_bench(
            dir.path(),
            &format!(
                "--num=3000 --reads=1000 --seed=7 --benchmarks=filluniquerandom,mixgraph {keys} \
                 --sine_mix_rate --sine_d=100000 --sine_a=1000 --sine_mix_rate_noise=0.1 \
                 --sine_mix_rate_interval_milliseconds=1 --mix_max_scan_len=50"
            ),
        )
        .good();
        let line = result(&out, "mixgraph");
        let number = |name: &str| -> u64 {
            let text = line.split(&format!("{name}:")).nth(1).unwrap();
            text.split([' ', ',']).next().unwrap().parse().unwrap()
        };
        let (gets, puts, seeks) = (number("Gets"), number("Puts"), number("Seek"));
        assert_eq!(gets + puts + seeks, 1000, "{line}");
        assert!(
            line.contains(&format!(", reads {0} in {0} found, avg size: ", gets + seeks)),
            "{line}"
        );
        let expected = if keys == model { [500, 300, 200] } else { [1000, 0, 0] };
        let halves = keys.contains("mix_put_ratio=1");
        let expected = if halves { [500, 500, 0] } else { expected };
        for (count, expected) in [gets, puts, seeks].iter().zip(expected) {
            assert!(count.abs_diff(expected) < 80, "{line}");
        }
    }
}

/// The newest times stay: as many as with RocksDB 7.8's db_bench.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_compaction_filter_removes_what_expired() {
    let dir = tempfile::tempdir().unwrap();
    for (range, left) in [(50, 50), (2000, 2000), (9000, 3000)] {
        let words = format!(
            "--num=3000 --threads=2 --seed=7 --key_size=20 --key_id_range=10 --time_range={range} \
             --expire_style=compaction_filter --benchmarks=timeseries,flush,compact,readseq"
        );
        let out = db_bench(dir.path(), &words).good();
        assert!(out.contains("Compaction filter is used to remove expired data"), "{out}");
        let read = format!(" {} operations;", 2 * left);
        assert!(result(&out, "readseq").contains(&read), "{range}: {out}");
    }
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn memtables_are_made_or_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str| {
        let words = format!("--num=100 --memtablerep={name} --benchmarks=fillseq");
        db_bench(dir.path(), &words)
    };
    for (name, shown) in [
        ("skip_list", "SkipListFactory"),
        ("SkipListFactory", "SkipListFactory"),
        ("skip_list:4", "SkipListFactory:4"),
        ("vector", "VectorRepFactory"),
        ("vector:10", "VectorRepFactory"),
    ] {
        let out = run(name).good();
        assert!(out.contains(&format!("Memtablerep: {shown}\n")), "{name}: {out}");
    }
    for (name, text) in [
        ("prefix_hash", "hash memtables (prefix_hash) are not supported"),
        ("hash_linkedlist:7", "hash memtables (hash_linkedlist) are not supported"),
        ("cuckoo", "cuckoo hash memtable is not supported anymore"),
        ("nosuch", "Could not load MemTableRepFactory: nosuch"),
    ] {
        let err = run(name).bad();
        let text = format!("Could not create memtable factory: Not implemented: {text}");
        assert!(err.contains(&text), "{name}: {err}");
    }
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn times_of_ids_are_written_read_and_expire() {
    let dir = tempfile::tempdir().unwrap();
    for style in ["none", "delete"] {
        let out = db_bench(
            dir.path(),
            &format!(
                "--num=3000 --threads=3 --seed=7 --key_size=20 --key_id_range=10 --time_range=50 \
                 --num_deletion_threads=1 --expire_style={style} --benchmarks=timeseries,readseq"
            ),
        )
        .good();
        assert!(out.contains("timeseries write : ") && out.contains(" 3000 operations;"), "{out}");
        assert!(result(&out, "timeseries").contains(" found)"), "{out}");
    }
    let alone = db_bench(dir.path(), "--num=50 --benchmarks=timeseries").good();
    assert!(alone.contains(" 1 operations;"), "{alone}");
    let short = db_bench(dir.path(), "--key_size=15 --benchmarks=timeseries").bad();
    assert!(short.contains("timeseries needs a key_size of at least 16"), "{short}");
    let unknown = "--expire_style=nosuch --benchmarks=timeseries";
    assert!(db_bench(dir.path(), unknown).bad().contains("expire_style nosuch is unknown"));
    let replaced = db_bench(
        dir.path(),
        "--num=500 --numdistinct=20 --stddev=5 --benchmarks=randomreplacekeys,readseq",
    )
    .good();
    assert!(replaced.contains("use single deletes: 1, standard deviation: 5.000000"), "{replaced}");
    // One version of each key is there.
    assert!(result(&replaced, "readseq").contains(" 20 operations;"), "{replaced}");
}

/// `--perf_level`: the perf context of each benchmark's calls follows its line.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn perf_contexts_are_printed() {
    let dir = tempfile::tempdir().unwrap();
    let words = "--num=500 --value_size=100 --benchmarks=fillseq,readrandom,readseq --perf_level=";
    let out = db_bench(dir.path(), &format!("{words}2")).good();
    let contexts: Vec<&str> =
        out.lines().filter(|line| line.starts_with("user_key_comparison_count = ")).collect();
    assert_eq!(out.matches("PERF_CONTEXT:\nuser_key_comparison_count = ").count(), 3, "{out}");
    assert!(result(&out, "readrandom").ends_with(" MB/s (500 of 500 found)"), "{out}");
    assert!(out.contains("(500 of 500 found)\n PERF_CONTEXT:\n"), "{out}");
    assert!(contexts[1].contains("get_read_bytes = 50000, "), "{out}");
    assert!(contexts[1].contains("get_from_memtable_count = 500, "), "{out}");
    assert!(contexts[2].contains("iter_next_count = 500, "), "{out}");
    assert!(contexts[2].contains("bloom_filter_useful = bloom_filter_full_positive = "), "{out}");
    assert!(!db_bench(dir.path(), &format!("{words}1")).good().contains("PERF_CONTEXT"));
    let refused = db_bench(dir.path(), &format!("{words}7")).bad();
    assert!(refused.contains("perf_level must be 0 to 6"), "{refused}");
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn operands_are_read_without_merging_them() {
    let dir = tempfile::tempdir().unwrap();
    // Some keys get more operands than the first guess.
    let words = "--num=300 --seed=7 --value_size=10 --merge_operator=stringappend --merge_keys=300 \
                 --benchmarks=fillseq,mergerandom,mergerandom,mergerandom,mergerandom,\
                 readrandomoperands,flush,readrandomoperands,readrandom";
    let out = db_bench(dir.path(), words).good();
    let lines: Vec<&str> = out.lines().filter(|line| line.starts_with("readrandom")).collect();
    assert_eq!(lines.len(), 3, "{out}");
    assert!(lines.iter().all(|line| line.ends_with("(300 of 300 found)")), "{out}");
    let missing = db_bench(dir.path(), "--num=9 --reads=5 --benchmarks=readrandomoperands").good();
    assert!(result(&missing, "readrandomoperands").ends_with("(0 of 5 found)"), "{missing}");
    let words = "--num=10 --merge_operator=sortlist --benchmarks=getmergeoperands --threads=2";
    let out = db_bench(dir.path(), words).good();
    let (get, operands) = out.split_once("--- GetMergeOperands API --- \n").unwrap();
    assert!(get.contains("--- Get API call --- \nFound key? 1\nGet: "), "{out}");
    assert!(get.contains("Sample data from Get API call: 1,2,3,4,5,\n"), "{out}");
    assert!(operands.starts_with("Found key? 1\nGet Merge operands: "), "{out}");
    let lists: Vec<&str> =
        operands.lines().filter_map(|line| Some(line.split_once("List: ")?.1)).collect();
    assert_eq!(lists.len(), 4, "{out}");
    assert!(lists[0].starts_with("0 : 1,2,3,") && lists[0].ends_with(",98,99"), "{out}");
    assert!(lists[3].starts_with("3 : 301,302,") && lists[3].ends_with(",399"), "{out}");
    let skipped = db_bench(dir.path(), "--num=10 --benchmarks=getmergeoperands").good();
    assert!(skipped.contains("getmergeoperands : skipped (--merge_operator is"), "{skipped}");
}

/// RocksDB's C library has no such call, and the message names it.
#[pumice_test_macros::test]
fn operands_of_the_c_library_are_refused_by_name() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let engine = format!("--num=10 --engine={}", library.display());
    let words = format!("{engine} --benchmarks=fillseq,readrandomoperands");
    let printed = db_bench(dir.path(), &words).bad();
    assert!(printed.contains("RocksDB's C library has no rocksdb_get_merge_operands"), "{printed}");
}

/// The sum of the values of each set, in `db`, and how many keys there are.
fn sums(db: &pumice::Db) -> (std::collections::BTreeMap<u64, u64>, usize) {
    let (mut sums, mut keys) = (std::collections::BTreeMap::new(), 0);
    for entry in db.iter().unwrap() {
        let (key, value) = entry.unwrap();
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().parse::<u64>().unwrap();
        assert!(number(&key[4..]) < 20);
        *sums.entry(number(&key[..4])).or_insert(0) += number(&value);
        keys += 1;
    }
    (sums, keys)
}

/// As RocksDB's db_bench: what a batch or a transaction adds to one set it adds to all.
#[pumice_test_macros::test]
fn the_sets_of_randomtransaction_have_one_sum() {
    for (flags, words) in [
        ("", "( batches:500 )"),
        ("--transaction_db", "( transactions:500 aborts:0)"),
        ("--optimistic_transaction_db --transaction_set_snapshot", "( transactions:500 aborts:0)"),
        ("--transaction_db --threads=4", "( transactions:500 aborts:"),
        (
            "--optimistic_transaction_db --transaction_set_snapshot --threads=4",
            "( transactions:500 aborts:",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let all = format!(
            "--num=20 --writes=500 --reads=7 --transaction_sets=3 --db=db {flags} \
             --benchmarks=randomtransaction,randomtransaction"
        );
        let out = db_bench(dir.path(), &all).good();
        assert!(result(&out, "randomtransaction").contains(words), "{flags}: {out}");
        let db = pumice::Db::builder(dir.path().join("db")).open().unwrap();
        let (sums, keys) = sums(&db);
        assert!(keys <= 60 && sums.keys().copied().eq(1..=3), "{flags}: {keys}, {sums:?}");
        let one = sums[&1] > 1000 && sums.values().all(|sum| *sum == sums[&1]);
        assert!(one, "{flags}: {sums:?}");
    }
}

#[pumice_test_macros::test]
fn randomtransaction_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let db = pumice::Db::builder(dir.path().join("db")).create(true).open().unwrap();
    db.put("00010", "x").unwrap();
    db.close().unwrap();
    for flags in ["", "--transaction_db", "--optimistic_transaction_db"] {
        let words = format!(
            "--num=1 --transaction_sets=1 --db=db --use_existing_db {flags} \
             --benchmarks=randomtransaction"
        );
        let error = db_bench(dir.path(), &words).bad();
        assert!(error.contains("the value of 00010 is not a number"), "{error}");
    }
    for (flag, error) in [
        ("--transaction_sets=0", "invalid value for transaction_sets"),
        ("--transaction_sets=10000", "invalid value for transaction_sets"),
        ("--num_multi_db=2", "Cannot run RandomTransaction benchmark with FLAGS_multi_db > 1."),
        ("--transaction_db --optimistic_transaction_db", "exclude each other"),
    ] {
        let words = format!("--benchmarks=randomtransaction {flag}");
        assert!(db_bench(dir.path(), &words).bad().contains(error), "{flag}");
    }
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn checksums_of_files_are_verified_if_there_are_any() {
    let dir = tempfile::tempdir().unwrap();
    let words = "--num=1000 --benchmarks=fillseq,flush,verifyfilechecksums";
    let out = db_bench(dir.path(), &format!("{words} --file_checksum")).good();
    assert!(result(&out, "verifyfilechecksums").contains(" 1 operations;"), "{out}");
    let error = db_bench(dir.path(), words).bad();
    let why = "Cannot verify file checksum if options.file_checksum_gen_factory is null";
    assert!(error.contains(why), "{error}");
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn the_cache_and_the_history_of_statistics_report() {
    let dir = tempfile::tempdir().unwrap();
    let words = "--num=1000 --statistics --benchmarks=fillseq,flush,readrandom,stats_history,\
                 cache_report_problems";
    let run = db_bench(dir.path(), words);
    assert!(run.err.contains(" Slot occupancy stats: "), "{}", run.err);
    assert!(run.err.contains(" bytes, 0 of them pinned by readers\n"), "{}", run.err);
    // Ten minutes are not over.
    let out = run.good();
    assert!(!out.contains("\n------ "), "{out}");
}
