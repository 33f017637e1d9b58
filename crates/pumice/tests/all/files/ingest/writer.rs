//! `SstFileWriter`: what it accepts, what it reports about the file.

use std::sync::Arc;

use pumice::{CompressionType, ErrorKind, Options, SstFileWriter, Statistics, Ticker};
use pumice_port::helpers::HelperPool;

use super::support::{Record, contents, fresh, ingest, put, write_table};

fn refused(result: pumice::Result<impl Sized>, text: &str) {
    let error = result.map(drop).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidArgument, text));
}

#[pumice_test_macros::test]
fn it_says_what_it_wrote() {
    let (_fs, options, _db) = fresh();
    let mut writer = SstFileWriter::new(&options).unwrap();
    refused(writer.put(b"a", b""), "File is not opened");
    refused(writer.delete_range(b"a", b"b"), "File is not opened");
    refused(writer.finish(), "File is not opened");
    writer.open("/in/1.sst").unwrap();
    refused(writer.finish(), "Cannot create sst file with no entries");
    writer.put(b"b", b"1").unwrap();
    refused(writer.put(b"b", b"2"), "Keys must be added in strict ascending order.");
    refused(writer.delete(b"a"), "Keys must be added in strict ascending order.");
    writer.merge(b"c", b"2").unwrap();
    writer.delete(b"d").unwrap();
    writer.delete_range(b"x", b"z").unwrap();
    writer.delete_range(b"a", b"y").unwrap();
    writer.delete_range(b"q", b"q").unwrap();
    refused(writer.delete_range(b"r", b"q"), "end key comes before start key");
    let info = writer.finish().unwrap();
    assert_eq!((info.num_entries, info.num_range_del_entries, info.version), (3, 2, 2));
    assert_eq!((&info.smallest_key[..], &info.largest_key[..]), (&b"b"[..], &b"d"[..]));
    let ends = (&info.smallest_range_del_key[..], &info.largest_range_del_key[..]);
    assert_eq!(ends, (&b"a"[..], &b"z"[..]));
    let file = options.db.file_system.file_size(&info.file_path).unwrap();
    assert_eq!((info.file_size, writer.file_size()), (file, file));
    assert_eq!(info.sequence_number, 0);
    refused(writer.finish(), "File is not opened");
}

#[pumice_test_macros::test]
fn one_writer_makes_several_files() {
    let (_fs, options, db) = fresh();
    let mut writer = SstFileWriter::new(&options).unwrap();
    let mut paths = Vec::new();
    for n in 0..3 {
        let path = format!("/in/{n}.sst").into();
        writer.open(&path).unwrap();
        writer.put(format!("k{n}").as_bytes(), b"v").unwrap();
        writer.finish().unwrap();
        paths.push(path);
    }
    // Abandoned: neither the next file nor the drop is affected.
    writer.open("/in/unfinished.sst").unwrap();
    writer.put(b"zz", b"v").unwrap();
    writer.open("/in/unfinished.sst").unwrap();
    drop(writer);
    ingest(&db, &paths.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!(contents(&db).len(), 3);
    db.verify_checksum().unwrap();
}

#[pumice_test_macros::test]
fn compression_is_that_of_the_last_level() {
    let (_fs, mut options, db) = fresh();
    options.cf.compression = CompressionType::None;
    let big = "compress me ".repeat(4000);
    let size = |options: &Options, name: &str| {
        let path = write_table(options, name, &[put("k", &big)]).unwrap();
        options.db.file_system.file_size(&path).unwrap()
    };
    let plain = size(&options, "/in/plain.sst");
    options.cf.compression_per_level = vec![CompressionType::None, CompressionType::Lz4];
    let by_level = size(&options, "/in/level.sst");
    options.cf.compression_per_level = vec![CompressionType::None];
    options.cf.bottommost_compression = CompressionType::Zstd;
    let bottommost = size(&options, "/in/bottommost.sst");
    assert!(plain > 48_000 && by_level < 10_000 && bottommost < 10_000);
    ingest(&db, &[&"/in/bottommost.sst".into()]).unwrap();
    assert_eq!(contents(&db)[0].1, big.as_bytes());
}

#[pumice_test_macros::test]
fn a_failed_finish_removes_the_file() {
    use pumice_env::mem::{Fault, FaultOp, FaultRule};
    let (fs, options, _db) = fresh();
    fs.add_fault(FaultRule::once(FaultOp::Write, "/in/*", 0, Fault::Enospc));
    write_table(&options, "/in/1.sst", &[Record::Delete(b"k".to_vec())]).unwrap_err();
    assert!(!options.db.file_system.exists("/in/1.sst".as_ref()).unwrap());
}

/// Files made outside a database are built as those inside: with helpers, counted, and with the
/// bytes of a serial build.
#[pumice_test_macros::test]
fn helpers_compress_external_files_too() {
    let (_fs, mut options, _db) = fresh();
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(Arc::clone(&statistics));
    options.cf.compression = CompressionType::Zlib;
    let records: Vec<Record> =
        (0..3000).map(|i| put(&format!("key{i:06}"), &format!("value {i} ").repeat(20))).collect();
    let mut sizes = Vec::new();
    for threads in [1, 4] {
        options.cf.compression_opts.parallel_threads = threads;
        let (calls, blocks) =
            (HelperPool::shared().stats().calls, statistics.ticker(Ticker::NumberBlockCompressed));
        let path = write_table(&options, "/in/1.sst", &records).unwrap();
        let called = HelperPool::shared().stats().calls > calls;
        assert_eq!(called, threads > 1, "{threads}");
        let counted = statistics.ticker(Ticker::NumberBlockCompressed) - blocks;
        assert!(counted > 100, "{counted}");
        sizes.push((counted, options.db.file_system.file_size(&path).unwrap()));
    }
    assert_eq!(sizes[0], sizes[1]);
}
