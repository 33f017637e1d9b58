//! Reads that ignore deletions of ranges, moves that skip at most so many entries, and what is
//! newer than a snapshot.

use crate::common::{DIR, flush, memory, options};
use pumice::{CancelFlag, CompactRangeOptions, Db, ErrorKind, ReadOptions};

fn keys(db: &Db, options: &ReadOptions) -> (Vec<String>, Vec<String>) {
    let mut cursor = db.cursor_opt(options).unwrap();
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    cursor.seek_to_first();
    while let Some(key) = cursor.key().map(text) {
        forward.push(key);
        cursor.next();
    }
    cursor.status().unwrap();
    cursor.seek_to_last();
    while let Some(key) = cursor.key().map(text) {
        backward.push(key);
        cursor.prev();
    }
    cursor.status().unwrap();
    (forward, backward)
}

/// With the deletion in a memtable, in a table of level 0 and below.
#[pumice_test_macros::test]
fn deletions_of_ranges_are_ignored() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, DIR).unwrap();
    for key in ["a", "b", "c", "d"] {
        db.put(key, "v").unwrap();
    }
    flush(&db);
    let ignoring = ReadOptions { ignore_range_deletions: true, ..ReadOptions::default() };
    // Keeps what the compaction would remove.
    let snapshot = db.snapshot();
    db.delete_range("b", "d").unwrap();
    db.delete("a").unwrap();
    for place in ["memtable", "level 0", "level 6"] {
        match place {
            "level 0" => flush(&db),
            "level 6" => db.compact_range(&CompactRangeOptions::default(), None, None).unwrap(),
            _ => {}
        }
        let all = ReadOptions::default();
        assert_eq!(keys(&db, &all), (vec!["d".into()], vec!["d".into()]), "{place}");
        let (forward, backward) = keys(&db, &ignoring);
        assert_eq!((forward, backward.len()), (vec!["b".into(), "c".into(), "d".into()], 3));
        assert_eq!(db.get_opt(&all, "b").unwrap().as_deref(), None, "{place}");
        assert_eq!(db.get_opt(&ignoring, "b").unwrap().as_deref(), Some(&b"v"[..]), "{place}");
        let many = db.multi_get_opt(&ignoring, &["a", "b", "c"]);
        let found: Vec<bool> = many.into_iter().map(|value| value.unwrap().is_some()).collect();
        assert_eq!(found, [false, true, true], "{place}");
    }
    drop(snapshot);
}

/// As many cursors before know the deleted keys, those still count what they skip.
#[pumice_test_macros::test]
fn a_move_skips_at_most_so_many_entries() {
    let (_, fs) = memory();
    let db = Db::open(&options(&fs), DIR).unwrap();
    for at in 0..10 {
        db.put(format!("k{at}"), "v").unwrap();
        if (1..9).contains(&at) {
            db.delete(format!("k{at}")).unwrap();
        }
    }
    // From k0 to k9 eight deletions are passed, and the eight values below them.
    for (max, found) in [(1, false), (15, false), (16, true), (0, true)] {
        let limited = ReadOptions { max_skippable_internal_keys: max, ..ReadOptions::default() };
        let mut cursor = db.cursor_opt(&limited).unwrap();
        let mut check = |step: &mut dyn FnMut(&mut pumice::DbIterator), key: &[u8]| {
            step(&mut cursor);
            match found {
                true => assert_eq!(cursor.key(), Some(key), "{max}"),
                false => {
                    assert_eq!(cursor.key(), None, "{max}");
                    let error = cursor.status().unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Incomplete);
                    assert_eq!(error.message(), "Too many internal keys skipped.");
                }
            }
        };
        check(
            &mut |cursor| {
                cursor.seek("k0");
                cursor.next()
            },
            b"k9",
        );
        check(
            &mut |cursor| {
                cursor.seek_to_last();
                cursor.prev()
            },
            b"k0",
        );
        // A seek begins anew.
        let mut cursor = db.cursor_opt(&limited).unwrap();
        cursor.seek("k1");
        assert_eq!(cursor.valid(), found);
        cursor.seek("k9");
        assert_eq!(cursor.key(), Some(&b"k9"[..]));
        assert!(cursor.status().is_ok());
    }
}

/// With what is newer in a memtable and in tables, by a put, a deletion and a deletion of a range.
#[pumice_test_macros::test]
fn what_is_newer_than_a_snapshot_is_known() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, DIR).unwrap();
    let cf = db.default_column_family().clone();
    for key in ["a", "b", "c", "d"] {
        db.put(key, "old").unwrap();
    }
    let snapshot = db.snapshot();
    let at = ReadOptions::at(&snapshot);
    let newer = |key: &str| db.newer_version_present_cf(&cf, &at, key.as_bytes()).unwrap();
    assert_eq!(["a", "b", "c", "d", "e"].map(newer), [false; 5]);
    db.put("a", "new").unwrap();
    db.delete("b").unwrap();
    db.delete_range("c", "d").unwrap();
    db.put("e", "new").unwrap();
    for place in ["memtable", "level 0", "level 6"] {
        match place {
            "level 0" => flush(&db),
            "level 6" => db.compact_range(&CompactRangeOptions::default(), None, None).unwrap(),
            _ => {}
        }
        let found = ["a", "b", "c", "d", "e"].map(newer);
        assert_eq!(found, [true, true, true, false, true], "{place}");
    }
    let latest = ReadOptions::default();
    assert!(!db.newer_version_present_cf(&cf, &latest, b"a").unwrap());
}

#[pumice_test_macros::test]
fn a_manual_compaction_of_a_range_is_ended_by_its_switch() {
    let (_, fs) = memory();
    let db = Db::open(&options(&fs), DIR).unwrap();
    db.put("a", "1").unwrap();
    let canceled = CancelFlag::default();
    let how = CompactRangeOptions { canceled: Some(canceled.clone()), ..Default::default() };
    canceled.set(true);
    let error = db.compact_range(&how, None, None).unwrap_err();
    assert_eq!(error.subcode(), pumice::SubCode::ManualCompactionPaused);
    canceled.set(false);
    db.compact_range(&how, None, None).unwrap();
}
