//! Values above 64 MiB, which make compressed blocks of that size: written by RocksDB, read here.

use pumice_base::Comparator;
use pumice_base::dbformat::{MAX_SEQUENCE, seek_key};
use pumice_peer::{Options as PeerOptions, SstFileWriter};
use pumice_table::TableReadOptions;

use crate::{context, peer, support};

/// RocksDB compresses a block however large it is.
#[pumice_test_macros::test]
fn a_block_of_any_size_is_read() {
    let Some(peer) = peer() else { return };
    let value: Vec<u8> = (0..70 << 20).map(|i: u32| (i >> 12) as u8).collect();
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
        let table = support::open(context(Comparator::Bytewise), &bytes).unwrap();
        for (key, want) in [(&b"large"[..], &value[..]), (b"small", b"v")] {
            let mut found = Vec::new();
            let mut take =
                |_: pumice_base::dbformat::ParsedInternalKey<'_>, value: &[u8], _: &_| {
                    found = value.to_vec();
                    false
                };
            let target = seek_key(key, MAX_SEQUENCE);
            table.get(&TableReadOptions::default(), &target, &mut take).unwrap();
            assert!(found == want, "{compression}");
        }
    }
}
