//! The option `compression_manager`.

use std::path::Path;

use crate::common::{DIR, flush, memory, options};
use pumice::options::{FileRules, load_latest_options};
use pumice::{
    CompactRangeOptions, CompressionManager, CompressionType, Db, Options, SstFileReader,
};

/// Writes a table of a few blocks that compress.
fn fill(db: &Db) {
    for number in 0..2000 {
        db.put(format!("key{number:06}"), [b'v'; 100]).unwrap();
    }
    flush(db);
}

/// The properties about compression of the newest table of `db`.
fn newest(db: &Db, options: &Options) -> (String, String) {
    let files = db.live_files_metadata();
    let newest = files.iter().max_by_key(|file| file.file_number).unwrap();
    let path = Path::new(DIR).join(newest.name.trim_start_matches('/'));
    let mut reader = SstFileReader::new(options).unwrap();
    reader.open(&path).unwrap();
    let properties = reader.table_properties().unwrap();
    (properties.compression.clone(), properties.compression_options.clone())
}

/// What a table of that manager says about it.
fn said(manager: &str, compressor: &str) -> String {
    format!("_compression_manager={manager}; _compressor={compressor}; ")
}

#[pumice_test_macros::test]
fn a_manager_applies_to_the_next_table() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.compression = CompressionType::Lz4;
    options.cf.disable_auto_compactions = true;
    options.cf.table_factory.format_version = 7;
    let db = Db::open(&options, DIR).unwrap();
    fill(&db);
    let (used, how) = newest(&db, &options);
    assert!(used == "BuiltinV2;04;" && !how.contains("_compressor"), "{used} {how}");
    let builtin = "BuiltinCompressionManagerV2";
    for (name, kept, used, own, compressor) in [
        ("BuiltinV2", builtin, "04", builtin, "BuiltinLZ4CompressorV2"),
        ("{id=BuiltinV2;}", builtin, "04", builtin, "BuiltinLZ4CompressorV2"),
        (
            "RoundRobinManager",
            "RoundRobinManager",
            "010203040507",
            "RoundRobinManager",
            "RoundRobinCompressor",
        ),
        (
            "AutoSkipCompressorManager",
            "AutoSkipCompressorManager",
            "04",
            builtin,
            "AutoSkipCompressorWrapper",
        ),
        (
            "CostAwareCompressorManager",
            "CostAwareCompressorManager",
            "07",
            builtin,
            "CostAwareCompressor",
        ),
    ] {
        db.set_options(&[("compression_manager", name)]).unwrap();
        let loaded = load_latest_options(&*fs, Path::new(DIR), FileRules::default());
        let saved = loaded.unwrap().unwrap().column_families[0].options.clone();
        assert_eq!(saved.compression_manager.map(CompressionManager::name), Some(kept));
        fill(&db);
        let (found, how) = newest(&db, &options);
        assert_eq!(found, format!("BuiltinV2;{used};"), "{name}");
        assert!(how.ends_with(&said(own, compressor)), "{name}: {how}");
    }
    // Compactions follow it, too, and read what all of them wrote.
    db.set_options(&[("compression_manager", "RoundRobinManager")]).unwrap();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let (found, how) = newest(&db, &options);
    assert!(found == "BuiltinV2;010203040507;" && how.contains("RoundRobinManager"), "{found}");
    assert_eq!(db.get("key001999").unwrap().as_deref(), Some(&[b'v'; 100][..]));
    db.set_options(&[("compression_manager", "nullptr")]).unwrap();
    fill(&db);
    assert!(!newest(&db, &options).1.contains("_compressor"));
}

#[pumice_test_macros::test]
fn other_managers_are_refused_in_rocksdbs_words() {
    let mut options = Options::default();
    for unknown in ["mixed", "builtinv2", "{id=mixed;}"] {
        let error = options.set("compression_manager", unknown).unwrap_err().to_string();
        assert!(
            error.starts_with("Not implemented")
                && error.contains("Could not load CompressionManager: "),
            "{error}"
        );
    }
    for wrong in ["{x=1;}", "{id=BuiltinV2;x=1;}"] {
        let error = options.set("compression_manager", wrong).unwrap_err().to_string();
        assert!(error.starts_with("Invalid argument"), "{error}");
    }
    assert_eq!(options.get("compression_manager").unwrap(), "nullptr");
}

/// Pages of blocks that are not compressed, and a manager that compresses them.
#[pumice_test_macros::test]
fn aligned_blocks_cannot_have_a_manager_that_always_compresses() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.compression = CompressionType::None;
    options.cf.table_factory.block_align = true;
    options.cf.table_factory.format_version = 7;
    options.cf.compression_manager = Some(CompressionManager::RoundRobin);
    let error = Db::open(&options, DIR).err().unwrap().to_string();
    assert_eq!(error, "Invalid argument: Enable block_align, but compression enabled");
    options.cf.compression_manager = Some(CompressionManager::AutoSkip);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db);
    assert_eq!(newest(&db, &options).0, ";;");
}
