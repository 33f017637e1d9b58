//! `compact` rewrites everything in its range, the last level too, as Debian's ldb does: what it is
//! for is that files get the options of today.

use super::{Printed, copy, ours, scratch, theirs};
use pumice::{CompactRangeOptions, CompressionType, Db, Options};
use pumice_base::random::Rng;
use std::path::Path;

/// A database without compression, whose values compress well: `rounds` of files, each of which
/// goes to a level of its own or stays on level 0.
fn make(root: &Path, rng: &mut Rng, rounds: &[i32]) {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.compression = CompressionType::None;
    options.cf.disable_auto_compactions = true;
    options.cf.level_compaction_dynamic_level_bytes = false;
    options.cf.target_file_size_base = 20_000;
    options.cf.table_factory.format_version = 5;
    let db = Db::open(&options, root.join("made")).unwrap();
    for level in rounds {
        let first = rng.uniform(300);
        for n in first..first + 300 {
            db.put(format!("key{n:04}"), "value".repeat(20)).unwrap();
        }
        db.flush().unwrap();
        if *level > 0 {
            let options = CompactRangeOptions {
                change_level: true,
                target_level: *level,
                ..CompactRangeOptions::default()
            };
            db.compact_range(&options, None, None).unwrap();
        }
    }
    db.close().unwrap();
}

/// Bytes of all tables.
fn bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir.join("d")).unwrap().map(|entry| entry.unwrap());
    let tables = entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "sst"));
    tables.map(|entry| entry.metadata().unwrap().len()).sum()
}

fn good(printed: &Printed, words: &str) {
    assert_eq!(printed.0, Some(0), "{words}: {printed:?}");
}

// Plain #[test]: it starts processes and does nothing else that waits.
#[test]
fn compact_rewrites_the_last_level() {
    let Some((root, our_dir, their_dir)) = scratch("compact") else { return };
    let shapes: [&[i32]; 6] = [&[6], &[1], &[0], &[6, 0], &[6, 2, 0], &[3, 0, 0]];
    for (seed, rounds) in (1..).zip(shapes) {
        make(&root.0, &mut Rng::new(seed), rounds);
        for range in ["", " --from=key0000 --to=key9999"] {
            copy(&root.0, &our_dir);
            copy(&root.0, &their_dir);
            let before = bytes(&our_dir);
            let words = format!("--db=d --compression_type=zstd compact{range}");
            let told = [ours(&our_dir, &words, ""), theirs(&their_dir, &words, "")];
            assert_eq!(told[0], told[1], "{words}");
            good(&told[0], &words);
            let after = [bytes(&our_dir), bytes(&their_dir)];
            let small = after.map(|bytes| bytes * 4 < before);
            assert_eq!(small, [true; 2], "{rounds:?}: {before} to {after:?}");
            let contents = theirs(&their_dir, "--db=d scan", "");
            assert_eq!(theirs(&our_dir, "--db=d scan", ""), contents, "{rounds:?}");
        }
        std::fs::remove_dir_all(root.0.join("made")).unwrap();
    }
}
