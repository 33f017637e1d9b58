//! Operands that cannot be merged: what fails for whom, and the way on.

use std::sync::Arc;

use crate::common::{DIR, SYNC, contents, flush, get, memory, options};
use pumice::{
    BottommostLevelCompaction, CompactRangeOptions, Db, Error, ErrorKind, MergeOperator,
    OpFailureScope, Options, Severity, SubCode,
};
use pumice_base::random::Rng;

/// Joins operands, except where one of them is "bad".
struct Join(OpFailureScope);

impl MergeOperator for Join {
    fn name(&self) -> &str {
        "join"
    }
    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let all: Vec<&[u8]> = existing.into_iter().chain(operands.iter().copied()).collect();
        (!operands.contains(&&b"bad"[..])).then(|| all.join(&b'+'))
    }
    fn op_failure_scope(&self, key: &[u8]) -> OpFailureScope {
        assert_eq!(key, b"key");
        self.0
    }
}

type Found = pumice::Result<Option<pumice::PinnedSlice>>;

const KEPT: (&str, &str) = ("merge_operator_failure_scope", "kMustMerge");

/// Options with the operator, and what the column family's option says.
fn joined(fs: &Arc<dyn pumice::FileSystem>, own: OpFailureScope, option: &str) -> Options {
    let mut options = options(fs);
    options.cf.merge_operator = Some(Arc::new(Join(own)));
    options.set(KEPT.0, option).unwrap();
    options
}

/// The error of a merge, which names the key.
fn is_failure(error: &Error) {
    assert_eq!(
        (error.kind(), error.subcode()),
        (ErrorKind::Corruption, SubCode::MergeOperatorFailed)
    );
    assert!(error.to_string().contains("by join of key 0x6B6579"), "{error}");
}

/// Good data, and a value and two operands of "key" that cannot be merged.
fn write_all(db: &Db) {
    db.put_opt(&SYNC, b"other", b"good").unwrap();
    db.put_opt(&SYNC, b"key", b"value").unwrap();
    db.merge_opt(&SYNC, b"key", b"bad").unwrap();
    db.merge_opt(&SYNC, b"key", b"newest").unwrap();
    db.merge_opt(&SYNC, b"other", b"more").unwrap();
}

/// Everything else is readable; the key is an error for whoever reads it, until it is written.
fn go_on(db: &Db) {
    is_failure(&db.get(b"key").unwrap_err());
    let mut cursor = db.cursor().unwrap();
    cursor.seek(b"key");
    assert!(!cursor.valid());
    is_failure(&cursor.status().unwrap_err());
    assert_eq!(get(db, b"other").unwrap(), b"good+more");
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    for _ in 0..2 {
        flush(db);
        db.compact_range(&force, None, None).unwrap();
        is_failure(&db.get(b"key").unwrap_err());
    }
    db.put_opt(&SYNC, b"key", b"new").unwrap();
    db.merge_opt(&SYNC, b"key", b"well").unwrap();
    flush(db);
    db.compact_range(&force, None, None).unwrap();
    assert_eq!(get(db, b"key").unwrap(), b"new+well");
    assert_eq!(contents(db).len(), 2);
    db.close().unwrap();
}

/// The log has operands that cannot be merged: an open with the option keeps them, whether the
/// database was closed or a flush had stopped it.
#[pumice_test_macros::test]
fn an_open_keeps_what_cannot_be_merged() {
    for stopped in [false, true] {
        let (_, fs) = memory();
        let usual = joined(&fs, OpFailureScope::Default, "kDefault");
        let db = Db::open(&usual, DIR).unwrap();
        write_all(&db);
        if stopped {
            is_failure(&db.flush().unwrap_err());
            assert!(db.put(b"third", b"refused").is_err());
        }
        drop(db.close());
        for _ in 0..2 {
            let error = Db::open(&usual, DIR).unwrap_err();
            is_failure(&error);
            let way = format!("{}={}", KEPT.0, KEPT.1);
            assert!(error.to_string().contains(&way), "{error}");
        }
        go_on(&Db::open(&joined(&fs, OpFailureScope::Default, KEPT.1), DIR).unwrap());
        let db = Db::open(&usual, DIR).unwrap();
        assert_eq!(get(&db, b"key").unwrap(), b"new+well");
        db.close().unwrap();
    }
}

/// The option changes in the open database, which then goes on.
#[pumice_test_macros::test]
fn a_stopped_database_resumes() {
    let (_, fs) = memory();
    let db = Db::open(&joined(&fs, OpFailureScope::Default, "kDefault"), DIR).unwrap();
    write_all(&db);
    let error = db.flush().unwrap_err();
    is_failure(&error);
    assert_eq!(error.severity(), Severity::Hard);
    is_failure(&db.put(b"third", b"refused").unwrap_err());
    is_failure(&db.resume().unwrap_err());
    db.set_options(&[KEPT]).unwrap();
    db.resume().unwrap();
    go_on(&db);
}

/// What the operator says counts more than the option; what neither says is RocksDB's default.
#[pumice_test_macros::test]
fn the_operator_says_what_fails() {
    use OpFailureScope::{Default, MustMerge, TryMerge};
    for (own, option, keeps) in [
        (Default, "kDefault", false),
        (Default, "kTryMerge", false),
        (Default, "kMustMerge", true),
        (TryMerge, "kMustMerge", false),
        (MustMerge, "kTryMerge", true),
        (MustMerge, "kDefault", true),
    ] {
        let (_, fs) = memory();
        let db = Db::open(&joined(&fs, own, option), DIR).unwrap();
        write_all(&db);
        match db.flush() {
            Ok(()) => assert!(keeps, "{own:?} {option}"),
            Err(error) => {
                assert!(!keeps, "{own:?} {option}: {error}");
                is_failure(&error);
            }
        }
        if keeps {
            go_on(&db);
        }
    }
}

/// Without the operator operands are kept too, by the option, so that files can be rewritten.
#[pumice_test_macros::test]
fn operands_outlive_compactions_without_their_operator() {
    let (_, fs) = memory();
    let usual = joined(&fs, OpFailureScope::Default, KEPT.1);
    let db = Db::open(&usual, DIR).unwrap();
    write_all(&db);
    db.close().unwrap();
    let mut without = joined(&fs, OpFailureScope::Default, KEPT.1);
    without.cf.merge_operator = None;
    let db = Db::open(&without, DIR).unwrap();
    flush(&db);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert!(db.get(b"other").is_err());
    db.close().unwrap();
    go_on(&Db::open(&usual, DIR).unwrap());
}

/// Random writes, flushes, compactions, snapshots and reopens with operands that cannot be merged
/// among them: what can be read is what a map says, and what cannot is an error.
#[pumice_test_macros::test]
fn drawn_lives_with_operands_that_cannot_be_merged() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let (_, fs) = memory();
        let options = joined(&fs, OpFailureScope::MustMerge, "kDefault");
        let mut db = Db::open(&options, DIR).unwrap();
        // One key: its operands since the last value, and whether one of them is bad.
        let mut text: Option<Vec<u8>> = None;
        let mut bad = false;
        let mut held = Vec::new();
        for step in 0..60 {
            match rng.uniform(12) {
                0 => {
                    db.put(b"key", step.to_string()).unwrap();
                    (text, bad) = (Some(step.to_string().into_bytes()), false);
                }
                1 => {
                    db.delete(b"key").unwrap();
                    (text, bad) = (None, false);
                }
                2 | 3 => {
                    db.merge(b"key", b"bad").unwrap();
                    bad = true;
                }
                4..=7 => {
                    db.merge(b"key", step.to_string()).unwrap();
                    let mut all = text.take().map_or(Vec::new(), |text| [&text[..], b"+"].concat());
                    all.extend(step.to_string().into_bytes());
                    text = Some(all);
                }
                8 => flush(&db),
                9 => db.compact_range(&CompactRangeOptions::default(), None, None).unwrap(),
                10 => held.push((db.snapshot(), text.clone(), bad)),
                _ => {
                    held.clear();
                    db.close().unwrap();
                    db = Db::open(&options, DIR).unwrap();
                }
            }
            let check = |found: Found, text: &Option<Vec<u8>>, bad: bool| match found {
                Ok(found) => {
                    assert!(!bad, "seed {seed}, step {step}");
                    assert_eq!(found.as_deref(), text.as_deref(), "seed {seed}, step {step}");
                }
                Err(error) => {
                    assert!(bad, "seed {seed}, step {step}: {error}");
                    is_failure(&error);
                }
            };
            check(db.get(b"key"), &text, bad);
            for (snapshot, text, bad) in &held {
                let read = pumice::ReadOptions::at(snapshot);
                check(db.get_opt(&read, b"key"), text, *bad);
            }
        }
    }
}
