//! Flags that concern the machine: allocator, nodes of memory, slow disks, threads.

use crate::{db_bench, result};

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn the_allocator_reports_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let fill = "--benchmarks=fillseq --num=1000";
    let out = db_bench(dir.path(), &format!("{fill} --print_malloc_stats")).good();
    let (before, report) = out.split_once("\nMalloc stats:\n").unwrap();
    assert!(before.contains("fillseq"), "{out}");
    for words in ["committed", "threads", "peak rss"] {
        assert!(report.contains(words), "{words}: {out}");
    }
    assert!(!db_bench(dir.path(), fill).good().contains("Malloc stats"));
    let other = db_bench(dir.path(), "--engine=./none.so --print_malloc_stats").bad();
    let reason = "--print_malloc_stats runs Pumice only: a library has its own allocator";
    assert!(other.contains(reason), "{other}");
    for (flag, words) in [
        ("use_cache_jemalloc_no_dump_allocator", "JemallocNodumpAllocator not supported."),
        ("use_cache_memkind_kmem_allocator", "Memkind library is not linked with the binary."),
    ] {
        let error = db_bench(dir.path(), &format!("{fill} --{flag}")).bad();
        assert!(error.contains(words), "{error}");
    }
}

/// Nodes are chosen where the kernel lets a process choose; elsewhere that is said.
// Plain #[test]: as above.
#[test]
fn threads_are_bound_to_nodes() {
    let dir = tempfile::tempdir().unwrap();
    for more in ["--threads=3", "--fibers=5 --threads=2"] {
        let words = format!("--enable_numa {more} --num=500 --benchmarks=fillrandom,readrandom");
        let run = db_bench(dir.path(), &words);
        assert!(run.err.contains("Running in NUMA enabled mode.\n"), "{}", run.err);
        match pumice_port::os::memory_nodes() {
            Some(_) => _ = result(&run.good(), "readrandom"),
            None => assert!(run.bad().contains("NUMA is not supported by the system.\n")),
        }
    }
    let without = db_bench(dir.path(), "--num=5 --benchmarks=fillrandom");
    assert!(!without.err.contains("NUMA"), "{}", without.err);
}

// Plain #[test]: as above.
#[test]
fn the_list_of_slow_files_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("warm");
    let fill = "--db=db --num=300 --benchmarks=fillrandom,flush,readrandom \
                --simulate_hybrid_fs_file=warm";
    let run = db_bench(dir.path(), fill);
    assert!(!run.err.contains("Warm file"), "{}", run.err);
    run.good();
    assert_eq!(std::fs::read_to_string(&list).unwrap(), "");
    let mut tables =
        std::fs::read_dir(dir.path().join("db")).unwrap().map(|file| file.unwrap().path());
    let table = tables.find(|path| path.extension().is_some_and(|end| end == "sst"));
    let table = format!("db/{}", table.unwrap().file_name().unwrap().to_str().unwrap());
    std::fs::write(&list, format!("{table}\n")).unwrap();
    let read = "--db=db --use_existing_db --num=300 --reads=10 --simulate_hybrid_fs_file=warm";
    let run = db_bench(dir.path(), &format!("{read} --benchmarks=readrandom"));
    assert!(run.err.contains(&format!("Warm file {table}\n")), "{}", run.err);
    assert!(result(&run.good(), "readrandom").ends_with(" found)"));
    assert_eq!(std::fs::read_to_string(&list).unwrap(), format!("{table}\n"));
    // The compaction removes it, or the next open if somebody still held it.
    for benchmark in ["compact", "stats"] {
        db_bench(dir.path(), &format!("{read} --benchmarks={benchmark}")).good();
    }
    assert_eq!(std::fs::read_to_string(&list).unwrap(), "");
    // What is made warm gets into it.
    let warm = fill.replace("--db=db", "--db=made --default_write_temperature=kWarm");
    db_bench(dir.path(), &warm).good();
    let listed = std::fs::read_to_string(&list).unwrap();
    assert!(listed.starts_with("made/") && listed.ends_with(".sst\n"), "{listed}");
    let none = "--num=1 --simulate_hdd --simulate_hybrid_hdd_multipliers=0";
    let error = db_bench(dir.path(), none).bad();
    assert_eq!(error.lines().last(), Some("simulate_hybrid_hdd_multipliers must be at least 1"));
}

/// Writers wait for flushes, which a slow disk keeps busy: some report sees one.
// Plain #[test]: as above.
#[test]
fn threads_are_listed_with_what_they_do() {
    let dir = tempfile::tempdir().unwrap();
    let fill = "--benchmarks=fillrandom --num=3000 --value_size=1000 --write_buffer_size=65536 \
                --simulate_hdd --simulate_hybrid_hdd_multipliers=4";
    let run = db_bench(dir.path(), &format!("{fill} --thread_status_per_interval=1"));
    let heading = "          ThreadID ThreadType       cfName            Operation   ElapsedTime";
    // At 100, 200, .. 1000, 1500, .. 3000 operations.
    assert_eq!(run.err.matches(heading).count(), 14, "{}", run.err);
    assert!(!run.err.contains("... finished"), "no terminal: {}", run.err);
    let flush = run.err.lines().find(|line| {
        line.contains("  High Pri      default                Flush ")
            && line.contains(" FlushJob::WriteLevel0Table ")
    });
    let flush = flush.unwrap_or_else(|| panic!("no flush: {}", run.err));
    for name in [" BytesMemtables ", " BytesWritten ", " JobID "] {
        assert!(flush.contains(name), "{flush}");
    }
    run.good();
    let interval = format!("{fill} --stats_interval=1000 --thread_status_per_interval=1");
    let run = db_bench(dir.path(), &interval);
    assert_eq!(run.err.matches(heading).count(), 3, "{}", run.err);
    assert_eq!(run.err.matches(" ... thread 0: ").count(), 3, "{}", run.err);
    run.good();
    let quiet = format!("{fill} --thread_status_per_interval=1 --noprogress_reports");
    assert!(!db_bench(dir.path(), &quiet).err.contains(heading));
}
