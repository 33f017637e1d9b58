//! Options that the tables do not know: which are skipped, in which files, and which never are.
#![allow(clippy::unwrap_used)]

use super::*;

/// An OPTIONS file of `version` with `db`, `cf` and `table` as further lines of the sections.
fn file(version: &str, db: &str, cf: &str, table: &str) -> String {
    format!(
        "[Version]\n rocksdb_version={version}\n options_file_version=1.1\n[DBOptions]\n{db}\n\
         [CFOptions \"default\"]\n{cf}\n[TableOptions/BlockBasedTable \"default\"]\n{table}\n"
    )
}

fn message(text: &str, rules: FileRules) -> String {
    parse_options_file(text, rules).err().unwrap().to_string()
}

/// The most tolerant rules.
const LENIENT: FileRules =
    FileRules { ignore_unknown_options: true, ignore_unsupported_options: true, for_reading: true };

#[pumice_test_macros::test]
fn unknown_names_and_members_of_newer_files_are_skipped_and_noted() {
    let fifo = "compaction_options_fifo={use_new_compaction=true;max_table_files_size=7;\
                deep={a=1;b={c=2;};};allow_compaction=true;}";
    let text = file(
        "11.9.0",
        "fast_sst_open=true\nmax_open_files=77",
        &format!("{fifo}\ncompression_opts={{level=3;new_member=x;}}\nfast_sst_open=true"),
        "filter_policy={id=ribbonfilter:10:3;shape=round;bloom_before_level=5;}",
    );
    let loaded = parse_options_file(&text, FileRules::default()).unwrap();
    assert_eq!(
        loaded.ignored,
        [
            "fast_sst_open=true",
            "compaction_options_fifo.use_new_compaction=true",
            "compaction_options_fifo.deep=a=1;b={c=2;};",
            "compression_opts.new_member=x",
            "filter_policy.shape=round",
        ]
    );
    assert_eq!(loaded.db.skipped_options, loaded.ignored);
    let cf = &loaded.column_families[0].options;
    assert_eq!(cf.compaction_options_fifo.max_table_files_size, 7);
    assert!(cf.compaction_options_fifo.allow_compaction);
    assert_eq!((cf.compression_opts.level, loaded.db.max_open_files), (3, 77));
    assert_eq!(cf.table_factory.get("filter_policy").unwrap(), "ribbonfilter:10:5");
}

#[pumice_test_macros::test]
fn a_typo_in_a_file_of_a_known_version_is_an_error_unless_it_is_ignored() {
    for version in ["7.8.3", "10.10.1", "10.10.99", "9.99.0", "6", "", "x.y"] {
        for (text, name) in [
            (file(version, "max_open_fils=1", "", ""), "max_open_fils"),
            (file(version, "", "write_bufer_size=1", ""), "write_bufer_size"),
            (file(version, "", "", "blok_size=1"), "blok_size"),
        ] {
            let error = message(&text, FileRules::default());
            assert!(error.contains(&format!("Extra option not recognized: {name}")), "{error}");
            let rules = FileRules { ignore_unknown_options: true, ..FileRules::default() };
            assert_eq!(parse_options_file(&text, rules).unwrap().ignored, [format!("{name}=1")]);
        }
        let nested = file(version, "", "compaction_options_fifo={alow_compaction=true}", "");
        let error = message(&nested, FileRules::default());
        assert!(error.contains("compaction_options_fifo.alow_compaction"), "{error}");
    }
    for version in ["10.11.0", "11.0.0", "11", "99.1.2"] {
        let loaded = parse_options_file(&file(version, "nonesuch=1", "", ""), FileRules::default());
        assert_eq!(loaded.unwrap().ignored, ["nonesuch=1"], "{version}");
    }
    // No version at all is not newer.
    let text = "[DBOptions]\nnonesuch=1\n[CFOptions \"default\"]\n";
    assert!(message(text, FileRules::default()).contains("nonesuch"));
}

/// `--ignore_unknown_options` passes over members, too, in files of any version.
#[pumice_test_macros::test]
fn members_are_ignored_by_the_rule_as_well() {
    let rules = FileRules { ignore_unknown_options: true, ..FileRules::default() };
    let text = file("10.10.1", "", "compaction_options_fifo={max_table_files_size=7;nope=1;}", "");
    let loaded = parse_options_file(&text, rules).unwrap();
    assert_eq!(loaded.ignored, ["compaction_options_fifo.nope=1"]);
    assert_eq!(loaded.column_families[0].options.compaction_options_fifo.max_table_files_size, 7);
}

#[pumice_test_macros::test]
fn what_is_known_must_still_parse_in_newer_files() {
    for (db, cf, table) in [
        ("max_open_files=many", "", ""),
        ("", "compaction_options_fifo={allow_compaction=perhaps;new=1;}", ""),
        ("", "compression=kNewCompression", ""),
        ("", "", "format_version=8"),
        ("", "", "checksum=kNewChecksum"),
        ("", "", "block_size=0"),
    ] {
        let text = file("11.9.0", db, cf, table);
        let name = format!("{db}{cf}{table}");
        let error = message(&text, LENIENT);
        assert!(error.contains(name.split('=').next().unwrap()), "{error}");
    }
    // An option without effect here may have any form.
    let text = file("11.9.0", "table_cache_numshardbits={a=b}", "", "");
    let loaded = parse_options_file(&text, FileRules::default()).unwrap();
    assert_eq!(loaded.ignored, ["table_cache_numshardbits={a=b}"]);
}

#[pumice_test_macros::test]
fn what_decides_what_is_on_disk_is_refused_by_name() {
    let reading = FileRules { for_reading: true, ..FileRules::default() };
    let not_reading = FileRules { for_reading: false, ..LENIENT };
    // Unknown names and unsupported values; what only writers must know, readers may pass over.
    for (db, cf, table, readable) in [
        ("", "enable_blob_direct_write=true", "", false),
        ("db_paths={{path=/x;target_size=1}}", "", "", false),
        ("", "compaction_style=kCompactionStyleNone", "", true),
        ("", "", "user_defined_index_factory=another_index", true),
    ] {
        let text = file("11.9.0", db, cf, table);
        let option = format!("{db}{cf}{table}");
        for rules in [FileRules::default(), not_reading] {
            let error = message(&text, rules);
            assert!(error.contains("Not implemented") && error.contains(&option), "{error}");
            assert!(error.contains("decides what is on disk"), "{error}");
        }
        match parse_options_file(&text, reading) {
            Ok(loaded) => assert!(readable && loaded.ignored == [option]),
            Err(error) => assert!(!readable && error.message().contains(&option), "{error}"),
        }
        assert_eq!(parse_options_file(&text, LENIENT).is_ok(), readable, "{text}");
    }
    // Their default values are skipped like other names.
    let text =
        file("11.9.0", "", "enable_blob_direct_write=false", "user_defined_index_factory=nullptr");
    let loaded = parse_options_file(&text, FileRules::default()).unwrap();
    assert_eq!(loaded.ignored.len(), 1);
    // What this build cannot do and no file shows is refused, too, unless the rules say so.
    let text = file("11.9.0", "wal_filter=x", "", "");
    assert!(message(&text, reading).contains("wal_filter=x"));
    assert_eq!(parse_options_file(&text, LENIENT).unwrap().ignored, ["wal_filter=x"]);
}

#[pumice_test_macros::test]
fn the_version_is_one_that_knows_the_members() {
    let version = |value: &str| {
        let mut cf = ColumnFamilyOptions::default();
        cf.set("compaction_options_fifo", value).unwrap();
        let bytes = options_file_bytes(&DbOptions::default(), &[("default", &cf)]);
        let text = String::from_utf8(bytes.clone()).unwrap();
        let read = parse_options_file(&bytes, FileRules::default()).unwrap();
        assert_eq!(read.column_families[0].options, cf);
        let version = text.lines().find_map(|line| line.trim().strip_prefix("rocksdb_version="));
        (version.unwrap().to_string(), text.contains("max_data_files_size"))
    };
    assert_eq!(version("{allow_compaction=true}"), ("7.8.0".into(), false));
    assert_eq!(version("{age_for_warm=3}"), ("7.8.0".into(), false));
    assert_eq!(version("{trivial_copy_buffer_size=3}"), ("10.10.0".into(), false));
    assert_eq!(version("{max_data_files_size=9}"), ("11.8.0".into(), true));
    assert_eq!(version("{use_kv_ratio_compaction=true}"), ("11.8.0".into(), false));
}
