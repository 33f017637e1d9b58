//! `sample_for_compression`: both engines estimate the same for the same blocks.

use std::path::Path;

use pumice_base::Comparator;
use pumice_peer::{Options as PeerOptions, Peer, SstFileWriter};

use crate::{context, peer, support};

const BASE: &str = "compression=kNoCompression";
/// Both engines end blocks at the same entries.
const TABLE: &str = "format_version=5;block_size=4096";

fn entries() -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let mut rng = pumice_base::random::Rng::new(12);
    (0..4000u64).map(move |i| {
        // Half of each value is noise.
        let mut value = rng.bytes(50);
        value.resize(100, b'v');
        (format!("key{i:07}").into_bytes(), value)
    })
}

fn sizes(path: &Path) -> (u64, u64, u64) {
    let bytes = std::fs::read(path).unwrap();
    let table = support::open(context(Comparator::Bytewise), &bytes).unwrap();
    let p = table.properties();
    (p.data_size, p.fast_compression_size, p.slow_compression_size)
}

fn theirs(peer: &Peer, path: &Path, every: u64) -> (u64, u64, u64) {
    let mut options = PeerOptions::new(peer);
    options.set_many(&format!("{BASE};sample_for_compression={every}")).unwrap();
    options.set_table(TABLE).unwrap();
    let mut writer = SstFileWriter::new(&options);
    writer.open(path).unwrap();
    for (key, value) in entries() {
        writer.put(&key, &value).unwrap();
    }
    writer.finish().unwrap();
    sizes(path)
}

fn ours(path: &Path, every: u64) -> (u64, u64, u64) {
    let mut options = pumice::Options::default();
    options.set_from_text(&format!("{BASE};sample_for_compression={every}")).unwrap();
    options.set("block_based_table_factory", &format!("{{{TABLE}}}")).unwrap();
    let mut writer = pumice::SstFileWriter::new(&options).unwrap();
    writer.open(path).unwrap();
    for (key, value) in entries() {
        writer.put(&key, &value).unwrap();
    }
    writer.finish().unwrap();
    sizes(path)
}

#[pumice_test_macros::test]
fn samples_are_those_of_rocksdb() {
    let Some(peer) = peer() else { return };
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let (a, b) = (dir.path().join("ours.sst"), dir.path().join("theirs.sst"));
    let off = (theirs(&peer, &b, 0), ours(&a, 0));
    assert_eq!(off.0, off.1);
    assert_eq!((off.0.1, off.0.2), (0, 0));
    let (mine, other) = (ours(&a, 1), theirs(&peer, &b, 1));
    let near = |a: u64, b: u64, percent: u64| a.abs_diff(b) * 100 <= b * percent;
    assert_eq!(mine.0, other.0);
    println!("{mine:?} {other:?}");
    assert!(near(mine.1, other.1, 1) && near(mine.2, other.2, 1), "{mine:?} {other:?}");
    assert!(mine.2 < mine.1 && mine.1 < mine.0 * 9 / 10, "{mine:?}");
    // Blocks are alike, so a few of them give nearly the same estimate.
    let (mine, other) = (ours(&a, 8), theirs(&peer, &b, 8));
    assert!(near(mine.1, other.1, 5) && near(mine.2, other.2, 5), "{mine:?} {other:?}");
    // No sample: nothing to be gained is the safe guess.
    let (mine, other) = (ours(&a, 1 << 30), theirs(&peer, &b, 1 << 30));
    assert_eq!((mine, mine.1), (other, mine.0));
}
