//! FIFO compaction's options: their text, how they change, and what is refused.
#![allow(clippy::unwrap_used)]

use pumice_env::Temperature;

use super::super::ColumnFamilyOptions;

#[pumice_test_macros::test]
fn members_parse_and_keep_their_order() {
    let mut cf = ColumnFamilyOptions::default();
    cf.set("compaction_style", "kCompactionStyleFIFO").unwrap();
    cf.set("compaction_options_fifo", "{max_table_files_size=3M;allow_compaction=true;ttl=0}")
        .unwrap();
    let text = "{use_kv_ratio_compaction=false;max_data_files_size=0;trivial_copy_buffer_size=4096;\
                allow_trivial_copy_when_change_temperature=false;\
                file_temperature_age_thresholds=;allow_compaction=true;age_for_warm=0;\
                max_table_files_size=3145728;}";
    assert_eq!(cf.get("compaction_options_fifo").unwrap(), text);
    cf.set("compaction_options_fifo.allow_compaction", "false").unwrap();
    assert_eq!(cf.compaction_options_fifo.max_table_files_size, 3 << 20);
    cf.set("compaction_options_fifo", "23").unwrap();
    assert_eq!(cf.compaction_options_fifo.max_table_files_size, 23);
    let changed = cf.with_changes(&[("compaction_options_fifo", "{max_table_files_size=99}")]);
    assert_eq!(changed.unwrap().compaction_options_fifo.max_table_files_size, 99);
    assert!(cf.with_changes(&[("compaction_style", "kCompactionStyleLevel")]).is_err());
    cf.num_levels = 1;
    let s = cf.sanitized().unwrap();
    assert_eq!(
        (s.level0_slowdown_writes_trigger, s.level0_stop_writes_trigger),
        (i32::MAX, i32::MAX)
    );
    assert!(!s.level_compaction_dynamic_level_bytes);
    assert_eq!(s.num_levels, 1);
    let level = ColumnFamilyOptions { num_levels: 1, ..ColumnFamilyOptions::default() };
    assert_eq!(level.sanitized().unwrap().num_levels, 2);
}

/// The texts and the refusals are RocksDB 11.8.1's.
#[pumice_test_macros::test]
fn temperatures_by_age() {
    let member = "compaction_options_fifo.file_temperature_age_thresholds";
    let mut cf = ColumnFamilyOptions::default();
    let printed = |cf: &ColumnFamilyOptions| {
        let text = cf.get("compaction_options_fifo").unwrap();
        let rest = text.split_once("thresholds=").unwrap().1;
        rest.split_once(";allow_compaction").unwrap().0.to_string()
    };
    for text in ["{{age=10;temperature=kWarm}}", "{age=10;temperature=kWarm}"] {
        cf.set(member, text).unwrap();
        assert_eq!(printed(&cf), "{{age=10;temperature=kWarm;}}");
    }
    cf.set(member, "{{age=10}}").unwrap();
    assert_eq!(printed(&cf), "{{age=10;temperature=kUnknown;}}");
    let two = "{{age=10;temperature=kWarm;}:{age=20;temperature=kCold;}}";
    cf.set(member, two).unwrap();
    assert_eq!(printed(&cf), two);
    let refusal = |cf: &ColumnFamilyOptions| cf.sanitized().err().unwrap().to_string();
    let only = "Not implemented: Option file_temperature_age_thresholds ";
    assert_eq!(refusal(&cf), format!("{only}only supports FIFO compaction."));
    cf.set("compaction_style", "kCompactionStyleFIFO").unwrap();
    assert_eq!(refusal(&cf), format!("{only}is only supported when num_levels = 1."));
    cf.num_levels = 1;
    cf.last_level_temperature = Temperature::Cold;
    assert_eq!(cf.sanitized().unwrap().last_level_temperature, Temperature::Unknown);
    cf.set(member, "{{age=10;temperature=kWarm}:{age=10;temperature=kCold}}").unwrap();
    let order = "requires elements to be sorted in increasing order with respect to `age` field.";
    assert_eq!(refusal(&cf), format!("{only}{order}"));
    cf.set(member, "{}").unwrap();
    assert_eq!(printed(&cf), "");
}
