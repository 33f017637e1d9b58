//! Build settings of each level's tables: both engines run the same steps on the same tree, and
//! their tables have the same compression, and a filter or none.
//!
//! Skipped with a message where the library is missing.

use std::path::Path;
use std::sync::Arc;

use pumice_base::Comparator;
use pumice_base::InternalKey;
use pumice_peer as theirs;
use pumice_peer::Peer;

use super::{context, peer, support};

/// What is compared of a table: its level, first key, codec, the codec's parameters and whether it
/// has a filter.
type Described = (usize, String, String, String, bool);

/// A step of a history.
#[derive(Clone, Copy)]
enum Step {
    /// Keys of one letter are written and flushed.
    Flush(char),
    /// Compactions that are due end.
    Settle,
    /// Keys of one letter are ingested, into the last level since nothing overlaps them.
    Ingest(char),
    /// Everything is compacted.
    All,
}

use Step::{All, Flush, Ingest, Settle};

const KEYS: u64 = 200;

fn key(letter: char, n: u64) -> Vec<u8> {
    format!("{letter}{n:05}").into_bytes()
}

fn value(n: u64) -> Vec<u8> {
    format!("value {n} ").repeat(10).into_bytes()
}

fn describe(path: &Path, level: usize, first: &[u8]) -> Described {
    let bytes = std::fs::read(path).unwrap();
    let table = support::open(context(Comparator::Bytewise), &bytes).unwrap();
    let properties = table.properties();
    let first = String::from_utf8_lossy(first).into_owned();
    let (codec, options) = (properties.compression.clone(), properties.compression_options.clone());
    (level, first, codec, options, properties.filter_size > 0)
}

fn by_theirs(peer: &Peer, path: &Path, settings: &str, steps: &[Step]) -> Vec<Described> {
    let mut options = theirs::Options::new(peer);
    options
        .set_many("create_if_missing=true;allow_fallocate=false;disable_auto_compactions=true")
        .unwrap();
    options.set_many(settings).unwrap();
    options.set_table("filter_policy=bloomfilter:10").unwrap();
    let db = theirs::Db::open(&options, path).unwrap();
    let cf = db.default_column_family().clone();
    let wo = theirs::WriteOptions::new(peer, &theirs::WriteSettings::default());
    for step in steps {
        let force = theirs::CompactRangeSettings { bottommost_level: 2, ..Default::default() };
        match *step {
            Flush(letter) => {
                (0..KEYS).for_each(|n| db.put(&wo, &cf, &key(letter, n), &value(n)).unwrap());
                db.flush(&cf).unwrap();
            }
            Settle => db.wait_for_compact(false).unwrap(),
            Ingest(letter) => {
                let file = path.with_extension("external");
                let mut writer = theirs::SstFileWriter::new(&options);
                writer.open(&file).unwrap();
                (0..KEYS).for_each(|n| writer.put(&key(letter, n), &value(n)).unwrap());
                writer.finish().unwrap();
                db.ingest(&cf, &[&file], false).unwrap();
            }
            All => db.compact_range(&cf, None, None, &force),
        }
    }
    let file = |file: &theirs::LiveFile| path.join(file.name.trim_start_matches('/'));
    let mut tables: Vec<_> = db
        .live_files()
        .iter()
        .map(|f| {
            let first = first_key(&file(f));
            describe(&file(f), f.level as usize, &first)
        })
        .collect();
    tables.sort();
    tables
}

/// The user key that a table begins with.
fn first_key(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    let table = support::open(context(Comparator::Bytewise), &bytes).unwrap();
    let mut iter = Arc::clone(&table).iter(&pumice_table::TableReadOptions::default());
    iter.seek_to_first();
    InternalKey::new(iter.key().as_bytes()).user_key().to_vec()
}

fn by_us(path: &Path, settings: &str, steps: &[Step]) -> Vec<Described> {
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    options.cf.disable_auto_compactions = true;
    options.set_from_text(settings).unwrap();
    options.cf.table_factory.set("filter_policy", "bloomfilter:10:false").unwrap();
    let db = pumice::Db::open(&options, path).unwrap();
    let wo = pumice::WriteOptions::default();
    for step in steps {
        let force = pumice::CompactRangeOptions {
            bottommost_level_compaction: pumice::BottommostLevelCompaction::Force,
            ..Default::default()
        };
        match *step {
            Flush(letter) => {
                (0..KEYS).for_each(|n| db.put_opt(&wo, &key(letter, n), &value(n)).unwrap());
                db.flush_opt(&pumice::FlushOptions::default()).unwrap();
            }
            Settle => db.wait_for_compact(&Default::default()).unwrap(),
            Ingest(letter) => {
                let file = path.with_extension("external");
                let mut writer = pumice::SstFileWriter::new(&options).unwrap();
                writer.open(&file).unwrap();
                (0..KEYS).for_each(|n| writer.put(&key(letter, n), &value(n)).unwrap());
                writer.finish().unwrap();
                db.ingest_external_file(&Default::default(), &[&file]).unwrap();
            }
            All => db.compact_range(&force, None, None).unwrap(),
        }
    }
    let files = db.live_files_metadata();
    let of = |f: &pumice::LiveFile| {
        let file = path.join(f.name.trim_start_matches('/'));
        describe(&file, f.level, &f.smallest_key)
    };
    let mut tables: Vec<_> = files.iter().map(of).collect();
    tables.sort();
    db.close().unwrap();
    tables
}

/// Runs one history on both engines; the tables that are left.
fn alike(peer: &Peer, settings: &str, steps: &[Step]) -> Vec<Described> {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let theirs = by_theirs(peer, &folder.path().join("theirs"), settings, steps);
    let ours = by_us(&folder.path().join("ours"), settings, steps);
    assert_eq!(ours, theirs, "{settings}");
    println!("{settings}: {ours:?}");
    ours
}

const STATIC: &str = "level_compaction_dynamic_level_bytes=false;num_levels=5";
const RESERVED: &str =
    "level_compaction_dynamic_level_bytes=false;num_levels=5;cf_allow_ingest_behind=true";
/// Two files are enough for a compaction.
const EAGER: &str = "disable_auto_compactions=false;level0_file_num_compaction_trigger=2";
/// One file on each of the levels 4, 1 and 0, each with keys of its own.
const STAIRS: [Step; 6] = [Ingest('c'), Flush('b'), Flush('b'), Settle, Flush('a'), Settle];

fn codecs(tables: &[Described]) -> Vec<(usize, &str)> {
    tables.iter().map(|table| (table.0, table.2.as_str())).collect()
}

#[pumice_test_macros::test]
fn each_level_has_its_codec() {
    let Some(peer) = peer() else { return };
    let per_level = "compression_per_level=kZlibCompression:kLZ4Compression:kZSTD";
    let tables = alike(&peer, &format!("{STATIC};{per_level}"), &[Flush('a')]);
    assert_eq!(codecs(&tables), [(0, "Zlib")]);
    let tables = alike(&peer, &format!("{STATIC};{per_level}"), &[Flush('a'), All]);
    assert_eq!(codecs(&tables), [(1, "LZ4")]);
    // With dynamic levels the second entry is for the base level, the last one here.
    let tables = alike(&peer, &format!("num_levels=5;{per_level}"), &[Flush('a'), All]);
    assert_eq!(codecs(&tables), [(4, "LZ4")]);
    alike(&peer, &format!("{STATIC};{EAGER};{per_level}"), &STAIRS);
}

#[pumice_test_macros::test]
fn the_last_level_has_its_codec_and_parameters() {
    let Some(peer) = peer() else { return };
    let own = "compression=kLZ4Compression;compression_opts={level=3}";
    for bottommost in [
        "bottommost_compression=kZSTD",
        "bottommost_compression=kZSTD;bottommost_compression_opts={level=5;enabled=true}",
        "bottommost_compression=kZSTD;bottommost_compression_opts={level=5}",
        // The parameters alone.
        "bottommost_compression_opts={level=7;enabled=true}",
    ] {
        for levels in [STATIC, "num_levels=5", RESERVED] {
            let settings = format!("{levels};{own};{bottommost}");
            alike(&peer, &settings, &[Flush('a'), All]);
            alike(&peer, &settings, &[Flush('a'), Flush('b'), All, Flush('a')]);
        }
        // Compacted into a level above the last one with data, where no data lies below.
        let tables = alike(&peer, &format!("{STATIC};{EAGER};{own};{bottommost}"), &STAIRS);
        assert_eq!(tables.iter().map(|table| table.0).collect::<Vec<_>>(), [0, 1, 4]);
    }
}

#[pumice_test_macros::test]
fn the_last_level_has_filters_unless_hits_are_expected() {
    let Some(peer) = peer() else { return };
    for expected in [false, true] {
        let settings = format!("{STATIC};optimize_filters_for_hits={expected}");
        let tables = alike(&peer, &settings, &[Flush('a'), All, Flush('a')]);
        let filters: Vec<bool> = tables.iter().map(|table| table.4).collect();
        assert_eq!(filters, [true, !expected], "{tables:?}");
        alike(&peer, &format!("{settings};{EAGER}"), &STAIRS);
    }
}
