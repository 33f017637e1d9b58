//! Checksums of whole files in the MANIFEST, and their verification.

use std::path::Path;
use std::sync::Arc;

use crate::common::{DIR, fill, flush, memory, options};
use pumice::options::FileChecksumGenFactory;
use pumice::{
    CompactRangeOptions, Db, ErrorKind, FileSystem, IngestExternalFileOptions, IoPriority, MemFs,
    Options, RateLimiter, RateLimiterMode, RateLimiterOptions, ReadOptions, SstFileWriter,
};

const FACTORY: &str = "FileChecksumGenCrc32cFactory";

/// Options with checksums of files.
fn with_checksums(fs: &Arc<dyn FileSystem>) -> Options {
    let mut options = options(fs);
    options.set("file_checksum_gen_factory", FACTORY).unwrap();
    options.cf.disable_auto_compactions = true;
    options
}

/// The CRC-32C of a file's bytes, as they lie there.
fn crc32c_of(fs: &MemFs, path: &Path) -> Vec<u8> {
    let mut crc = 0;
    fs.damage(path, |bytes| crc = pumice_base::checksum::crc32c(bytes)).unwrap();
    crc.to_be_bytes().to_vec()
}

/// Every file has its own in the MANIFEST, from a flush, a compaction or an ingestion, after a
/// trivial move and after the database was opened again.
#[pumice_test_macros::test]
fn new_tables_have_them_in_the_manifest() {
    let (memory, fs) = memory();
    let options = with_checksums(&fs);
    let check = |db: &Db, count: usize| {
        let files = db.live_files_metadata();
        assert_eq!(files.len(), count);
        for file in files {
            assert_eq!(file.file_checksum_func_name, "FileChecksumCrc32c");
            let path = Path::new(DIR).join(&file.name[1..]);
            assert_eq!(file.file_checksum, crc32c_of(&memory, &path), "{}", file.name);
        }
        db.verify_file_checksums().unwrap();
    };
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..500, "v");
    flush(&db);
    check(&db, 1);
    fill(&db, 0..500, "w");
    flush(&db);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    check(&db, 1);
    fs.create_dir_all(Path::new("/in")).unwrap();
    let mut writer = SstFileWriter::new(&options).unwrap();
    writer.open(Path::new("/in/1.sst")).unwrap();
    writer.put("z", "1").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&IngestExternalFileOptions::default(), &["/in/1.sst"]).unwrap();
    check(&db, 2);
    fill(&db, 600..700, "x");
    db.close().unwrap();
    // What recovery writes has one, too.
    let db = Db::open(&options, DIR).unwrap();
    check(&db, 3);
    db.close().unwrap();
    let mut loaded = Options::default();
    loaded.db.file_system = fs;
    assert_eq!(options.db.file_checksum_gen_factory, FileChecksumGenFactory::Crc32c);
    assert_eq!(options.get("file_checksum_gen_factory").unwrap(), FACTORY);
    loaded.set("file_checksum_gen_factory", &format!("{{id={FACTORY};}}")).unwrap();
    assert_eq!(loaded.db.file_checksum_gen_factory, FileChecksumGenFactory::Crc32c);
    for other in ["Mine", "{id=Mine}", "{length=4}"] {
        let error = loaded.set("file_checksum_gen_factory", other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{other}: {error}");
    }
}

#[pumice_test_macros::test]
fn a_changed_file_is_named() {
    let (memory, fs) = memory();
    let options = with_checksums(&fs);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..500, "v");
    flush(&db);
    fill(&db, 0..500, "w");
    flush(&db);
    db.verify_file_checksums().unwrap();
    let file = db.live_files_metadata().remove(0);
    let path = Path::new(DIR).join(&file.name[1..]);
    // In no block, but in what pads or frames them, or in a block: any byte counts.
    for at in [0, file.size / 2, file.size - 1] {
        let flip = |bytes: &mut Vec<u8>| bytes[usize::try_from(at).unwrap()] ^= 1;
        memory.damage(&path, flip).unwrap();
        for readahead_size in [0, 1, 4096, usize::MAX] {
            let how = ReadOptions { readahead_size, ..ReadOptions::default() };
            let error = db.verify_file_checksums_opt(&how).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            let text = format!("/db{} file checksum mismatch, expecting ", file.name);
            assert!(error.message().starts_with(&text), "{error}");
            assert!(error.message().contains(", but actual "), "{error}");
        }
        memory.damage(&path, flip).unwrap();
    }
    db.verify_file_checksums().unwrap();
    let late = ReadOptions { deadline_micros: 1, ..ReadOptions::default() };
    assert_eq!(db.verify_file_checksums_opt(&late).unwrap_err().kind(), ErrorKind::TimedOut);
    db.close().unwrap();
}

/// Files of before are skipped, as by RocksDB.
#[pumice_test_macros::test]
fn there_must_be_a_function_and_files_without_one_pass() {
    let (memory, fs) = memory();
    let mut without = with_checksums(&fs);
    without.db.file_checksum_gen_factory = FileChecksumGenFactory::None;
    let db = Db::open(&without, DIR).unwrap();
    fill(&db, 0..500, "v");
    flush(&db);
    let error = db.verify_file_checksums().unwrap_err();
    assert_eq!(
        error.to_string(),
        "Invalid argument: Cannot verify file checksum if options.file_checksum_gen_factory is null"
    );
    let file = db.live_files_metadata().remove(0);
    assert!(file.file_checksum.is_empty());
    db.close().unwrap();
    let db = Db::open(&with_checksums(&fs), DIR).unwrap();
    memory.damage(&Path::new(DIR).join(&file.name[1..]), |bytes| bytes[0] ^= 1).unwrap();
    db.verify_file_checksums().unwrap();
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn reads_are_charged_with_the_callers_priority() {
    let mut options = with_checksums(&MemFs::new(3).shared());
    let mode = RateLimiterMode::ReadsOnly;
    let settings = RateLimiterOptions { mode, ..RateLimiterOptions::new(1 << 30) };
    let limiter = Arc::new(RateLimiter::new(&settings).unwrap());
    options.db.rate_limiter = Some(Arc::clone(&limiter));
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..500, "v");
    flush(&db);
    let charged = |priority| limiter.total_bytes_through(Some(priority));
    let before = charged(IoPriority::User);
    db.verify_file_checksums().unwrap();
    assert_eq!(charged(IoPriority::User), before);
    let priority = Some(IoPriority::User);
    let how = ReadOptions { rate_limiter_priority: priority, ..ReadOptions::default() };
    db.verify_file_checksums_opt(&how).unwrap();
    let bytes = db.live_files_metadata()[0].size;
    assert!(charged(IoPriority::User) >= before + bytes, "{}", charged(IoPriority::User));
    assert_eq!(charged(IoPriority::Low), 0);
    db.close().unwrap();
}
