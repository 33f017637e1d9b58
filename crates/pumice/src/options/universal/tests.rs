//! Universal compaction's options: their text, how they change, and how an open database treats
//! them.
#![allow(clippy::unwrap_used)]

use super::super::{ColumnFamilyOptions, DbOptions, format_options_file};

#[pumice_test_macros::test]
fn members_parse_and_change_one_by_one() {
    let mut cf = ColumnFamilyOptions::default();
    cf.set("compaction_style", "kCompactionStyleUniversal").unwrap();
    let name = "compaction_options_universal";
    cf.set(name, "{size_ratio=5;stop_style=kCompactionStopStyleSimilarSize;}").unwrap();
    cf.set("compaction_options_universal.max_merge_width", "7").unwrap();
    let text = "{reduce_file_locking=false;incremental=false;compression_size_percent=-1;\
                allow_trivial_move=false;max_size_amplification_percent=200;max_merge_width=7;\
                stop_style=kCompactionStopStyleSimilarSize;min_merge_width=2;max_read_amp=-1;\
                size_ratio=5;}";
    assert_eq!(cf.get(name).unwrap(), text);
    // RocksDB 7.8 refuses members that it does not know: they are saved only if they are set.
    let saved = |cf: &ColumnFamilyOptions| {
        let text = format_options_file(&DbOptions::default(), &[("default", cf)]);
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.trim().to_string()
    };
    let old = text.replace("reduce_file_locking=false;", "").replace("max_read_amp=-1;", "");
    assert_eq!(saved(&cf), format!("{name}={old}"));
    let changed = cf.with_changes(&[(name, "{max_read_amp=9;reduce_file_locking=true}")]).unwrap();
    let all = text.replace("locking=false", "locking=true").replace("amp=-1", "amp=9");
    assert_eq!(saved(&changed), format!("{name}={all}"));
    assert_eq!(changed.compaction_options_universal.size_ratio, 5);
}

#[pumice_test_macros::test]
fn they_are_brought_into_order() {
    let mut cf = ColumnFamilyOptions::default();
    cf.set("compaction_style", "kCompactionStyleUniversal").unwrap();
    cf.num_levels = 1;
    let day = 24 * 60 * 60;
    let s = cf.sanitized().unwrap();
    assert!(!s.level_compaction_dynamic_level_bytes);
    assert_eq!((s.num_levels, s.periodic_compaction_seconds), (1, 30 * day));
    assert_eq!(s.level0_stop_writes_trigger, 36);
    let periodic = |ttl: u64, periodic: Option<u64>| {
        let mut cf = cf.clone();
        cf.ttl = ttl;
        cf.periodic_compaction_seconds = periodic.unwrap_or(cf.periodic_compaction_seconds);
        cf.sanitized().unwrap().periodic_compaction_seconds
    };
    assert_eq!(periodic(0, None), 30 * day);
    assert_eq!(periodic(0, Some(0)), 0);
    assert_eq!(periodic(day, Some(0)), day);
    assert_eq!(periodic(day, Some(2 * day)), day);
    assert_eq!(periodic(2 * day, Some(day)), day);
    cf.cf_allow_ingest_behind = true;
    assert_eq!(cf.sanitized().unwrap().num_levels, 3);
    let refusal = |limit: i32| {
        let mut cf = cf.clone();
        cf.compaction_options_universal.max_read_amp = limit;
        cf.sanitized().err().map(|e| e.to_string())
    };
    assert_eq!((refusal(-1), refusal(0), refusal(4)), (None, None, None));
    assert_eq!(
        refusal(-2).unwrap(),
        "Not implemented: CompactionOptionsUniversal::max_read_amp should be at least -1."
    );
    assert!(refusal(3).unwrap().contains("smaller than the compaction trigger"));
}
