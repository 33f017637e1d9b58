//! Engines that are crates: the same driver finds the same keys in them as in Pumice.

use crate::db_bench;

#[cfg(feature = "other-engines")]
mod built {
    use super::*;
    use crate::result;
    use std::path::Path;

    const SHAPE: &str = "--num=2000 --seed=7 --histogram=0";

    /// The result lines without times: operations, and what was found.
    fn found(dir: &Path, engine: &str, benchmarks: &str, flags: &str) -> Vec<String> {
        let words =
            format!("--engine={engine} --db={engine} {SHAPE} {flags} --benchmarks={benchmarks}");
        let out = db_bench(dir, &words).good();
        let of = |name: &str| {
            let line = result(&out, name);
            let operations = line.split_whitespace().nth(8).unwrap();
            let found = line.split_once('(').map_or("", |(_, found)| found);
            format!("{name}: {operations} ({found}")
        };
        benchmarks.split(',').map(of).collect()
    }

    // Plain #[test]: it starts processes and does nothing else that waits.
    #[test]
    fn they_find_what_pumice_finds() {
        let dir = tempfile::tempdir().unwrap();
        let first = "fillrandom,readrandom,readmissing,readseq,readreverse,seekrandom,overwrite,\
                     deleterandom";
        let there = "readseq,seekrandom,readrandom";
        let run = |engine| {
            let dir = dir.path();
            let mut all = found(dir, engine, first, "--batch_size=3 --seek_nexts=5 --deletes=900");
            // Another process finds it, going the other way.
            let back = "--use_existing_db=1 --seek_nexts=7 --reverse_iterator=1";
            all.extend(found(dir, engine, there, back));
            all.extend(found(dir, engine, "fillsync,fillbatch,updaterandom", "--writes=50"));
            all.extend(found(dir, engine, "fillseq,deleteseq,readseq", "--deletes=500"));
            all.extend(found(dir, engine, "fillseq,readwhilewriting", "--threads=2"));
            all
        };
        let ours = run("pumice");
        assert!(ours.iter().any(|line| line == "readseq: 1500 ("), "{ours:?}");
        for engine in ["fjall", "redb"] {
            assert_eq!(run(engine), ours, "{engine}");
        }
        assert!(dir.path().join("fjall/fjall").is_dir());
        assert!(dir.path().join("redb/data.redb").is_file());
    }

    // Plain #[test]: it starts processes and does nothing else that waits.
    #[test]
    fn what_they_lack_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        for (words, error) in [
            (
                "--engine=fjall --benchmarks=fillseq,compact",
                "benchmark 'compact' does not run on fjall",
            ),
            ("--engine=redb --benchmarks=fillseq --disable_wal=1", "disable_wal cannot be given"),
            ("--engine=redb --benchmarks=fillseq --fibers=2", "fibers"),
            ("--engine=fjall --benchmarks=fillseq --level0_stop_writes_trigger=9", "level0_stop"),
        ] {
            let printed = db_bench(dir.path(), &format!("{words} --db=x")).bad();
            assert!(printed.contains(error), "{words}: {printed}");
        }
        assert!(!dir.path().join("x").exists());
    }
}

#[cfg(not(feature = "other-engines"))]
// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn a_program_without_them_says_so() {
    let dir = tempfile::tempdir().unwrap();
    for engine in ["fjall", "redb"] {
        let printed = db_bench(dir.path(), &format!("--engine={engine} --db=x")).bad();
        assert!(
            printed.contains(&format!("--engine={engine}")) && printed.contains("other-engines")
        );
    }
}
