//! The wrapper against the library of the test machine (`cargo xtask peers` installs it).
#![allow(clippy::unwrap_used)]

use super::*;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let base =
            if Path::new("/dev/shm").exists() { "/dev/shm".into() } else { std::env::temp_dir() };
        let path = base.join(format!("pumice-peer-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// The library, or `None` (with a message) on a machine without it.
fn peer() -> Option<Peer> {
    installed_library().map(|path| Peer::load(path).unwrap())
}

fn options(peer: &Peer) -> Options {
    let mut options = Options::new(peer);
    options.set_many("create_if_missing=true;merge_operator=stringappend").unwrap();
    options
}

#[test]
fn loading_something_else_names_the_reason() {
    let error = Peer::load("/nonexistent/lib.so").err().unwrap();
    assert!(error.message().contains("/nonexistent/lib.so"), "{error}");
}

#[test]
fn writes_reads_snapshots_iterators() {
    let Some(peer) = peer() else { return };
    let scratch = Scratch::new("basic");
    let db = Db::open(&options(&peer), &scratch.0.join("db")).unwrap();
    let cf = db.default_column_family().clone();
    let wo = WriteOptions::new(&peer, &WriteSettings::default());
    let ro = ReadOptions::new(&peer, &ReadSettings::default());
    for i in 0..100 {
        db.put(&wo, &cf, format!("k{i:03}").as_bytes(), &vec![b'v'; i * 10]).unwrap();
    }
    let snapshot = db.snapshot();
    db.delete(&wo, &cf, b"k001").unwrap();
    db.single_delete(&wo, &cf, b"k002").unwrap();
    db.delete_range(&wo, &cf, b"k010", b"k020").unwrap();
    db.merge(&wo, &cf, b"k003", b"tail").unwrap();
    let mut value = Vec::new();
    assert!(!db.get(&ro, &cf, b"k001", &mut value).unwrap());
    assert!(db.get(&ro, &cf, b"k099", &mut value).unwrap());
    assert_eq!(value.len(), 990);
    assert!(db.get(&ro, &cf, b"k003", &mut value).unwrap());
    assert_eq!(value, [vec![b'v'; 30], b",tail".to_vec()].concat());
    let settings = ReadSettings { snapshot: Some(snapshot), ..ReadSettings::default() };
    let old = ReadOptions::new(&peer, &settings);
    assert!(db.get(&old, &cf, b"k001", &mut value).unwrap());

    let mut hits = Vec::new();
    let keys: [&[u8]; 3] = [b"k098", b"k015", b"k000"];
    db.multi_get(&ro, &cf, &keys, |i, value| hits.push((i, value.len()))).unwrap();
    assert_eq!(hits, [(0, 980), (2, 0)]);

    let settings = ReadSettings {
        iterate_lower_bound: Some(b"k005".to_vec()),
        iterate_upper_bound: Some(b"k022".to_vec()),
        ..ReadSettings::default()
    };
    let mut iter = db.iter(&ReadOptions::new(&peer, &settings), &cf);
    let mut seen = 0;
    iter.seek_to_first();
    assert_eq!(iter.key(), b"k005");
    while iter.valid() {
        seen += 1;
        iter.next();
    }
    assert_eq!(seen, 7);
    iter.seek_to_last();
    assert_eq!(iter.key(), b"k021");
    iter.seek_for_prev(b"k015");
    assert_eq!(iter.key(), b"k009");
    iter.prev();
    assert_eq!(iter.key(), b"k008");
    iter.seek(b"k011");
    assert_eq!((iter.key(), iter.value().len()), (&b"k020"[..], 200));
    iter.status().unwrap();
}

#[test]
fn families_batches_flush_compact_reopen() {
    let Some(peer) = peer() else { return };
    let scratch = Scratch::new("families");
    let path = scratch.0.join("db");
    let cache = Cache::hyper_clock(&peer, 8 << 20, 0);
    let mut options = options(&peer);
    options.set_block_cache(&cache);
    options
        .set_table("block_size=1024;format_version=5;filter_policy=bloomfilter:10:false")
        .unwrap();
    options.set("compression", "kNoCompression").unwrap();
    options.enable_statistics();
    assert!(options.set("no_such_option", "1").is_err());
    let wo = WriteOptions::new(&peer, &WriteSettings::default());
    let ro = ReadOptions::new(&peer, &ReadSettings::default());
    {
        let db = Db::open(&options, &path).unwrap();
        let other = db.create_column_family(&options, "other").unwrap();
        let mut batch = WriteBatch::new(&peer);
        for i in 0..1000u32 {
            batch.put(&other, &i.to_be_bytes(), &[7; 100]);
        }
        batch.put_log_data(b"note");
        assert_eq!(batch.count(), 1000);
        let copy = WriteBatch::from_data(&peer, batch.data());
        db.write(&wo, &copy).unwrap();
        batch.clear();
        batch.delete_range(&other, &0u32.to_be_bytes(), &500u32.to_be_bytes());
        batch.delete(&other, &999u32.to_be_bytes());
        db.write(&wo, &batch).unwrap();
        db.flush(&other).unwrap();
        db.compact_range(&other, None, None, &CompactRangeSettings::default());
        db.wait_for_compact(false).unwrap();
        let files = db.live_files();
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!(files[0].column_family, "other");
        let mut iter = db.iter(&ro, &other);
        iter.seek_to_first();
        assert_eq!(iter.key(), 500u32.to_be_bytes());
        iter.seek_to_last();
        assert_eq!(iter.key(), 998u32.to_be_bytes());
        assert_eq!(db.property(&other, "rocksdb.num-files-at-level0").unwrap(), "0");
        assert_eq!(db.property_int(&other, "rocksdb.num-snapshots"), Some(0));
        assert!(db.property(&other, "rocksdb.stats").unwrap().contains("** DB Stats **"));
        assert!(db.property(&other, "rocksdb.nonsense").is_none());
        db.set_options(&other, &[("write_buffer_size", "1048576")]).unwrap();
        db.checkpoint(&scratch.0.join("copy")).unwrap();
    }
    assert!(options.statistics_text().unwrap().contains("rocksdb.block.cache.miss COUNT"));
    assert_eq!(Db::list_column_families(&options, &path).unwrap(), ["default", "other"]);
    assert!(Db::open(&options, &path).is_err(), "a column family was not named");
    for (path, read_only) in [(path, false), (scratch.0.join("copy"), true)] {
        let families = [("default", &options), ("other", &options)];
        let (db, handles) = Db::open_cf(&options, &path, &families, read_only).unwrap();
        let mut value = Vec::new();
        assert!(db.get(&ro, &handles[1], &700u32.to_be_bytes(), &mut value).unwrap());
        assert!(!db.get(&ro, &handles[1], &999u32.to_be_bytes(), &mut value).unwrap());
    }
}

#[test]
fn work_is_counted() {
    let Some(peer) = peer() else { return };
    let scratch = Scratch::new("perf");
    let mut options = options(&peer);
    assert_eq!(options.ticker("rocksdb.bytes.read"), None, "no statistics yet");
    options.enable_statistics();
    let db = Db::open(&options, &scratch.0.join("db")).unwrap();
    let cf = db.default_column_family().clone();
    let wo = WriteOptions::new(&peer, &WriteSettings::default());
    let ro = ReadOptions::new(&peer, &ReadSettings::default());
    for i in 0..100 {
        db.put(&wo, &cf, format!("k{i:03}").as_bytes(), b"value").unwrap();
    }
    db.flush(&cf).unwrap();
    let perf = PerfContext::new(&peer);
    // Enough room; otherwise the get would be done twice.
    let mut value = Vec::with_capacity(16);
    assert!(db.get(&ro, &cf, b"k050", &mut value).unwrap());
    let compared = perf.count("user_key_comparison_count").unwrap();
    assert!((5..20).contains(&compared), "{compared}");
    assert_eq!(perf.count("no_such_count"), None);
    perf.reset();
    assert_eq!(perf.count("user_key_comparison_count"), Some(0));
    assert_eq!(options.ticker("rocksdb.bytes.read"), Some(5));
    assert_eq!(options.ticker("rocksdb.bytes"), None);
    assert_eq!(options.ticker("rocksdb.no.such"), None);
}

#[test]
fn table_files_are_ingested() {
    let Some(peer) = peer() else { return };
    let scratch = Scratch::new("ingest");
    let options = options(&peer);
    let file = scratch.0.join("one.sst");
    let mut writer = SstFileWriter::new(&options);
    writer.open(&file).unwrap();
    writer.put(b"a", b"1").unwrap();
    writer.merge(b"b", b"2").unwrap();
    writer.delete(b"c").unwrap();
    writer.delete_range(b"x", b"y").unwrap();
    assert!(writer.put(b"a", b"again").is_err());
    writer.finish().unwrap();
    let db = Db::open(&options, &scratch.0.join("db")).unwrap();
    db.ingest(db.default_column_family(), &[&file], false).unwrap();
    let ro = ReadOptions::new(&peer, &ReadSettings::default());
    let mut value = Vec::new();
    assert!(db.get(&ro, db.default_column_family(), b"b", &mut value).unwrap());
    assert_eq!(value, b"2");
}
