//! The caches that flags ask for.

use crate::{db_bench, result};

const FILL: &str = "--num=3000 --seed=7 --compression_type=none --write_buffer_size=1000000 \
                    --benchmarks=filluniquerandom,flush,readrandom,block_cache_entry_stats";

/// What flags have charged is in the cache's report, and nothing else is.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn flags_charge_memory_to_the_block_cache() {
    let dir = tempfile::tempdir().unwrap();
    let report = |flags: &str| db_bench(dir.path(), &format!("{FILL} {flags}")).good();
    let roles = ["BlockBasedTableReader(", "FileMetadata(", "BlobCache("];
    let charged = |out: &str| roles.map(|role| out.contains(&format!(" {role}1,")));
    assert_eq!(charged(&report("")), [false; 3]);
    assert_eq!(charged(&report("--charge_table_reader")), [true, false, false]);
    assert_eq!(charged(&report("--charge_file_metadata")), [false, true, false]);
    let blobs = "--enable_blob_files --use_blob_cache --charge_blob_cache";
    let own = "--use_shared_block_and_blob_cache=false --blob_cache_size=1000000";
    assert_eq!(charged(&report(&format!("{blobs} {own}"))), [false, false, true]);
    for (flags, why) in [
        ("--charge_blob_cache", "blob cache is not configured"),
        (blobs, "blob cache is the same as block cache"),
    ] {
        let error = db_bench(dir.path(), &format!("{FILL} {flags}")).bad();
        let words = "Enable CacheEntryRoleOptions::charged for CacheEntryRole BlobCache but ";
        assert!(error.contains(&format!("{words}{why}")), "{error}");
    }
    let others = "--charge_filter_construction --charge_compression_dictionary_building_buffer \
                  --bloom_bits=10 --compression_max_dict_bytes=4096 --compression_type=zstd";
    let out = report(others);
    assert!(result(&out, "readrandom").ends_with("(3000 of 3000 found)"), "{out}");
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_cache_is_described_by_text() {
    let dir = tempfile::tempdir().unwrap();
    let capacity = |flags: &str| {
        let out = db_bench(dir.path(), &format!("{FILL} {flags}")).good();
        let (_, capacity) = out.split_once(" capacity: ").unwrap_or_else(|| panic!("{out}"));
        capacity.split(" usage:").next().unwrap().to_string()
    };
    assert_eq!(capacity("--cache_uri=3M"), "3.00 MB");
    let named = "--cache_uri=capacity=5M;num_shard_bits=2;strict_capacity_limit=true";
    assert_eq!(capacity(named), "5.00 MB");
    assert!(capacity("--cache_size=0 --cache_uri=3M").starts_with("0."));
    for (text, status) in [
        ("null", "OK"),
        ("lru_cache://", "OK"),
        ("capacity=1M;num_shard_bits=20", "OK"),
        ("id=LRUCache;capacity=1M", "Invalid argument: Unrecognized option: .id"),
        ("HyperClockCache", "Invalid argument: Error parsing capacity: "),
    ] {
        let error = db_bench(dir.path(), &format!("{FILL} --cache_uri={text}")).bad();
        let words = format!("No  cache registered matching string: {text} status={status}");
        assert!(error.contains(&words), "{error}");
    }
}

/// A simulated cache that has room for everything misses each block once; one without room hits
/// none. Its report is RocksDB's, and its counts are those of the statistics.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_simulated_cache_counts_its_hits() {
    let dir = tempfile::tempdir().unwrap();
    let counts = |flags: &str| {
        let out = db_bench(dir.path(), &format!("{FILL} --statistics {flags}")).good();
        let (_, report) = out.split_once("\nSIMULATOR CACHE STATISTICS:\n").unwrap();
        let words: Vec<&str> = report.split_whitespace().collect();
        let [
            "SimCache",
            "MISSes:",
            misses,
            "SimCache",
            "HITs:",
            hits,
            "SimCache",
            "HITRATE:",
            rate,
        ] = words[..]
        else {
            panic!("{report}");
        };
        for (name, count) in [("miss", misses), ("hit", hits)] {
            let line = format!("rocksdb.sim.block.cache.{name} COUNT : {count}\n");
            assert!(out.contains(&line), "{line}{out}");
        }
        let [misses, hits]: [u64; 2] = [misses, hits].map(|count| count.parse().unwrap());
        let percent = hits as f64 * 100.0 / (hits + misses) as f64;
        assert!((rate.parse::<f64>().unwrap() - percent).abs() < 0.01, "{rate} {percent}");
        (misses, hits)
    };
    // 3000 values of 100 bytes are in some 90 blocks of 4 KiB.
    for real in ["--cache_size=10000", "--cache_size=10000000"] {
        let (misses, hits) = counts(&format!("{real} --simcache_size=10000000"));
        assert!((70..130).contains(&misses) && misses + hits == 3000, "{misses} {hits}");
        let (misses, hits) = counts(&format!("{real} --simcache_size=0"));
        assert_eq!((misses, hits), (3000, 0));
    }
    let out = db_bench(dir.path(), FILL).good();
    assert!(!out.contains("SIMULATOR"), "{out}");
}

/// Reads that the block cache has no room for find their blocks in the secondary cache.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_secondary_cache_has_what_was_evicted() {
    let dir = tempfile::tempdir().unwrap();
    let reads = "--num=3000 --seed=7 --cache_size=50000 --statistics \
                 --benchmarks=filluniquerandom,flush,readrandom,readrandom,readrandom";
    let hits = |flags: &str| {
        let out = db_bench(dir.path(), &format!("{reads} {flags}")).good();
        assert!(result(&out, "readrandom").ends_with("(3000 of 3000 found)"), "{out}");
        let (_, count) = out.split_once("rocksdb.secondary.cache.data.hits COUNT : ").unwrap();
        count.lines().next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(hits(""), 0);
    assert!(hits("--use_compressed_secondary_cache") > 1000);
    let small = hits("--use_compressed_secondary_cache --compressed_secondary_cache_size=1000");
    assert_eq!(small, 0);
    let uri =
        "--secondary_cache_uri=compressed_secondary_cache://capacity=8M;compression_type=kZSTD";
    assert!(hits(uri) > 1000);
    for policy in ["auto", "allow_cache_hits", "allow_all"] {
        let tiers = "--use_compressed_secondary_cache --use_tiered_cache --tiered_adm_policy";
        assert!(hits(&format!("{tiers}={policy} --cost_write_buffer_to_cache")) > 1000);
    }
}

/// Reads that find nothing in the block cache find their blocks in files, and tables are read less.
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_read_cache_has_what_was_read() {
    let (dir, fast) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = fast.path().join("cache");
    let reads = "--num=3000 --seed=7 --cache_size=0 --statistics \
                 --benchmarks=filluniquerandom,flush,readrandom,readrandom,seekrandom";
    let run = |flags: &str| {
        let out = db_bench(dir.path(), &format!("{reads} {flags}")).good();
        assert!(result(&out, "readrandom").ends_with("(3000 of 3000 found)"), "{out}");
        ["hit", "miss"].map(|name| {
            let before = format!("rocksdb.persistent.cache.{name} COUNT : ");
            let (_, count) = out.split_once(&before).unwrap();
            count.lines().next().unwrap().parse::<u64>().unwrap()
        })
    };
    assert_eq!(run(""), [0, 0]);
    let flag = format!("--read_cache_path={}", path.display());
    for more in ["", "--noread_cache_direct_read --read_cache_size=200000000"] {
        let [hits, misses] = run(&format!("{flag} {more}"));
        assert!(hits > 5000 && (1..500).contains(&misses), "{more}: {hits} {misses}");
    }
    let refused = |flags: &str| db_bench(dir.path(), &format!("{FILL} {flags}")).bad();
    let small = refused(&format!("{flag} --read_cache_size=1000"));
    let words = "Error initializing read cache, Invalid argument: invalid cache size";
    assert!(small.contains(words), "{small}");
    std::fs::write(fast.path().join("file"), "").unwrap();
    let blocked = refused(&format!("{}/file/cache", flag.trim_end_matches("/cache")));
    assert!(blocked.contains("Error initializing read cache, IO error: "), "{blocked}");
}
