//! Values above 64 MiB, which make compressed blocks of that size: written by either, read by both.

use pumice_base::key::{MAX_SEQUENCE, seek_key};
use pumice_base::{Comparator, InternalKey};
use pumice_peer::{Db, Options as PeerOptions, ReadOptions, ReadSettings, SstFileWriter};
use pumice_table::TableReadOptions;

use crate::{context, peer, support};

/// A value that compresses very well.
fn large_value() -> Vec<u8> {
    (0..70 << 20).map(|i: u32| (i >> 12) as u8).collect()
}

/// RocksDB compresses a block however large it is.
#[pumice_test_macros::test]
fn a_block_of_any_size_is_read() {
    let Some(peer) = peer() else { return };
    let value = large_value();
    for compression in ["kSnappyCompression", "kLZ4Compression", "kZSTD"] {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("large.sst");
        let mut options = PeerOptions::new(&peer);
        options.set("compression", compression).unwrap();
        let mut writer = SstFileWriter::new(&options);
        writer.open(&path).unwrap();
        writer.put(b"large", &value).unwrap();
        writer.put(b"small", b"v").unwrap();
        writer.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.len() < value.len() / 10, "{compression} has compressed it");
        assert_read_here(&bytes, &value, compression);
    }
}

/// So do we, and both read it.
#[pumice_test_macros::test]
fn a_block_of_any_size_is_written() {
    use pumice_compress::CompressionType::{Lz4, Snappy, Zstd};
    let Some(peer) = peer() else { return };
    let value = large_value();
    for (compression, parallel_threads) in [(Snappy, 1), (Lz4, 1), (Zstd, 1), (Zstd, 4)] {
        let what = format!("{compression:?}, {parallel_threads} threads");
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("large.sst");
        let mut options = pumice::Options::default();
        options.cf.compression = compression;
        options.cf.compression_opts.parallel_threads = parallel_threads;
        options.cf.table_factory.verify_compression = true;
        let mut writer = pumice::SstFileWriter::new(&options).unwrap();
        writer.open(&path).unwrap();
        writer.put(b"large", &value).unwrap();
        writer.put(b"small", b"v").unwrap();
        writer.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.len() < value.len() / 10, "{what}: it is compressed");
        assert_read_here(&bytes, &value, &what);
        let mut options = PeerOptions::new(&peer);
        options.set_many("create_if_missing=true;allow_fallocate=false").unwrap();
        let db = Db::open(&options, &dir.path().join("db")).unwrap();
        db.ingest(db.default_column_family(), &[path.as_path()], true).unwrap();
        let read = ReadOptions::new(&peer, &ReadSettings::default());
        for (key, want) in [(&b"large"[..], &value[..]), (b"small", b"v")] {
            let mut found = Vec::new();
            assert!(db.get(&read, db.default_column_family(), key, &mut found).unwrap());
            assert!(found == want, "{what}");
        }
    }
}

fn assert_read_here(bytes: &[u8], value: &[u8], what: &str) {
    let table = support::open(context(Comparator::Bytewise), bytes).unwrap();
    for (key, want) in [(&b"large"[..], value), (b"small", b"v")] {
        let mut found = Vec::new();
        let mut take = |_: pumice_base::key::ParsedInternalKey<'_>, value: &[u8], _: &_| {
            found = value.to_vec();
            false
        };
        let target = seek_key(key, MAX_SEQUENCE);
        table.get(&TableReadOptions::default(), InternalKey::new(&target), &mut take).unwrap();
        assert!(found == want, "{what}");
    }
    table.verify_checksums().unwrap();
}
