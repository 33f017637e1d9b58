//! Checksums of whole files in the MANIFEST, and their verification.

use std::path::Path;
use std::sync::Arc;

use crate::common::{DIR, fill, flush, memory, options};
use pumice::options::{FileChecksumGenFactory, parse_options_file, parse_options_file_over};
use pumice::{
    CompactRangeOptions, Db, ErrorKind, FileChecksumGenerator, FileSystem, IngestExternalFileArg,
    IngestExternalFileOptions, IoPriority, MemFs, Options, RateLimiter, RateLimiterMode,
    RateLimiterOptions, ReadOptions, SstFileWriter,
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

/// Files from before the option was set have none and are skipped, as by RocksDB.
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

/// The length of the file and the sum of its bytes, eight bytes each.
#[derive(Default)]
struct Sum(u64, u64);

impl FileChecksumGenerator for Sum {
    fn name(&self) -> &str {
        "Sum"
    }
    fn update(&mut self, data: &[u8]) {
        self.0 += data.len() as u64;
        self.1 += data.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    }
    fn finalize(&mut self) -> Vec<u8> {
        [self.0.to_be_bytes(), self.1.to_be_bytes()].concat()
    }
}

/// Options with checksums by `Sum`.
fn with_sums(fs: &Arc<dyn FileSystem>) -> Options {
    let mut options = options(fs);
    options.cf.disable_auto_compactions = true;
    options.db.set_file_checksum_gen_factory("SumFactory", |context| {
        let known = ["", "Sum"].contains(&context.requested_checksum_func_name);
        known.then(|| Box::new(Sum::default()) as _)
    });
    options
}

fn sum_of(fs: &MemFs, path: &Path) -> Vec<u8> {
    let mut sum = Sum::default();
    fs.damage(path, |bytes| sum.update(bytes)).unwrap();
    sum.finalize()
}

fn table_of_z(options: &Options) -> &'static str {
    options.db.file_system.create_dir_all(Path::new("/in")).unwrap();
    let mut writer = SstFileWriter::new(options).unwrap();
    writer.open(Path::new("/in/1.sst")).unwrap();
    writer.put("z", "1").unwrap();
    writer.finish().unwrap();
    "/in/1.sst"
}

/// Every file is right in the MANIFEST, and its function is the user's.
fn check_sums(memory: &MemFs, db: &Db, count: usize) {
    let files = db.live_files_metadata();
    assert_eq!(files.len(), count);
    for file in files {
        assert_eq!(file.file_checksum_func_name, "Sum", "{}", file.name);
        let path = Path::new(DIR).join(&file.name[1..]);
        assert_eq!(file.file_checksum, sum_of(memory, &path), "{}", file.name);
    }
    db.verify_file_checksums().unwrap();
}

/// Flush, compaction, ingestion and recovery use a user's function, and its name is in OPTIONS.
#[pumice_test_macros::test]
fn a_users_function_takes_the_place_of_rocksdbs() {
    let (memory, fs) = memory();
    let options = with_sums(&fs);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..500, "v");
    flush(&db);
    check_sums(&memory, &db, 1);
    fill(&db, 0..500, "w");
    flush(&db);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    check_sums(&memory, &db, 1);
    let table = table_of_z(&options);
    db.ingest_external_file(&IngestExternalFileOptions::default(), &[table]).unwrap();
    check_sums(&memory, &db, 2);
    let given = |value: Vec<u8>, function: &str| {
        let how = IngestExternalFileOptions::default();
        let mut arg =
            IngestExternalFileArg::new(db.default_column_family(), vec![table.into()], &how);
        arg.files_checksums = vec![value];
        arg.files_checksum_func_names = vec![function.to_string()];
        db.ingest_external_files(&[arg])
    };
    let right = sum_of(&memory, Path::new(table));
    let error = given(right.clone(), "FileChecksumCrc32c").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.message().contains("from checksum factory: SumFactory"), "{error}");
    let error = given(vec![0; 16], "Sum").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    given(right, "Sum").unwrap();
    check_sums(&memory, &db, 3);
    fill(&db, 600..700, "x");
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    check_sums(&memory, &db, 4);
    assert_eq!(options.get("file_checksum_gen_factory").unwrap(), "SumFactory");
    let file = db.live_files_metadata().remove(0);
    let path = Path::new(DIR).join(&file.name[1..]);
    memory.damage(&path, |bytes| bytes[0] = bytes[0].wrapping_add(1)).unwrap();
    let error = db.verify_file_checksums().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.message().contains(&file.name), "{error}");
    db.close().unwrap();
}

/// As in RocksDB: they open, and a verification names the function that it does not know.
#[pumice_test_macros::test]
fn files_of_a_function_that_is_not_known() {
    let (_, fs) = memory();
    let db = Db::open(&with_sums(&fs), DIR).unwrap();
    fill(&db, 0..500, "v");
    flush(&db);
    db.close().unwrap();
    let db = Db::open(&with_checksums(&fs), DIR).unwrap();
    let error = db.verify_file_checksums().unwrap_err();
    assert_eq!(
        error.to_string(),
        "Invalid argument: Cannot get the file checksum generator based on the requested checksum \
         function name: Sum from checksum factory: FileChecksumGenCrc32cFactory"
    );
    // A compaction gives them one that is.
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    fill(&db, 0..500, "w");
    flush(&db);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    db.verify_file_checksums().unwrap();
    db.close().unwrap();
    // A factory that gives another function than it was asked for.
    let mut liar = with_sums(&fs);
    liar.db.set_file_checksum_gen_factory("Liar", |_| Some(Box::new(Sum::default())));
    let db = Db::open(&liar, DIR).unwrap();
    let error = db.verify_file_checksums().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let text = "Expected file checksum generator named 'FileChecksumCrc32c', while the factory \
                created one named 'Sum'";
    assert!(error.message().contains(text), "{error}");
    db.close().unwrap();
}

/// OPTIONS files have a user's factory by its name, and keep the object that the caller gives.
#[pumice_test_macros::test]
fn a_users_factory_is_kept_when_options_are_loaded() {
    let (_, fs) = memory();
    let options = with_sums(&fs);
    let text =
        pumice::options::format_options_file(&options.db, &[("default", &options.cf.clone())]);
    assert!(text.contains("  file_checksum_gen_factory=SumFactory\n"), "{text}");
    let rules = pumice::options::FileRules::default();
    let family = |_: &str| pumice::ColumnFamilyOptions::default();
    let loaded = parse_options_file_over(&text, rules, &options.db, &family).unwrap();
    assert!(matches!(loaded.db.file_checksum_gen_factory, FileChecksumGenFactory::Custom(_)));
    assert_eq!(loaded.db.file_checksum_gen_factory, options.db.file_checksum_gen_factory);
    // Without the object the files to come would have none.
    let error = parse_options_file(&text, rules).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
}

/// The checksum of a file that `write_global_seqno` changed is that of its new bytes, even if the
/// caller gave the earlier one.
#[pumice_test_macros::test]
fn files_with_their_sequence_numbers_have_a_new_one() {
    let (memory, fs) = memory();
    let options = with_sums(&fs);
    let db = Db::open(&options, DIR).unwrap();
    let table = table_of_z(&options);
    let before = sum_of(&memory, Path::new(table));
    let how = IngestExternalFileOptions { write_global_seqno: true, ..Default::default() };
    // The first keeps sequence number 0, the second gets one: it overlaps.
    db.ingest_external_file(&how, &[table]).unwrap();
    check_sums(&memory, &db, 1);
    let mut arg = IngestExternalFileArg::new(db.default_column_family(), vec![table.into()], &how);
    arg.files_checksums = vec![before.clone()];
    arg.files_checksum_func_names = vec!["Sum".to_string()];
    db.ingest_external_files(&[arg]).unwrap();
    check_sums(&memory, &db, 2);
    let sums: Vec<_> = db.live_files_metadata().into_iter().map(|f| f.file_checksum).collect();
    assert!(sums.contains(&before) && sums.iter().any(|sum| *sum != before), "{sums:?}");
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    check_sums(&memory, &db, 2);
    db.close().unwrap();
}
