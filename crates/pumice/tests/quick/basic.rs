//! The engine end to end on a real directory: write, read, flush, compact, reopen.

use std::collections::BTreeMap;

use pumice::{
    ColumnFamilyOptions, CompactRangeOptions, Db, ErrorKind, FlushOptions, Options, PosixFs,
    ReadOptions, WriteBatch, WriteBufferManager, WriteOptions,
};
use pumice_base::random::Rng;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.write_buffer_size = 256 << 10;
    options.cf.target_file_size_base = 128 << 10;
    options.cf.max_bytes_for_level_base = 512 << 10;
    options
}

fn check(db: &Db, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
    iter.seek_to_first();
    for (key, value) in model {
        assert!(iter.valid(), "iterator ended before {key:?}: {:?}", iter.status());
        assert_eq!(iter.key().unwrap(), key);
        assert_eq!(iter.value().unwrap(), value);
        iter.next();
    }
    assert!(!iter.valid());
    iter.status().unwrap();
    iter.seek_to_last();
    for (key, value) in model.iter().rev() {
        assert!(iter.valid());
        assert_eq!((iter.key().unwrap(), iter.value().unwrap()), (&key[..], &value[..]));
        iter.prev();
    }
    assert!(!iter.valid());
    iter.status().unwrap();
}

#[pumice_test_macros::test]
fn random_updates_survive_flush_compaction_and_reopen() {
    let dir = std::env::temp_dir().join(format!("pumice-basic-{}", std::process::id()));
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut rng = Rng::new(7);
    for round in 0..6 {
        let db = Db::open(&options(), &dir).unwrap();
        check(&db, &model);
        for _ in 0..20_000 {
            let key = format!("key{:06}", rng.uniform(10_000)).into_bytes();
            match rng.uniform(10) {
                0 => {
                    db.delete_opt(&WriteOptions::default(), &key).unwrap();
                    model.remove(&key);
                }
                1 => {
                    let end = format!("key{:06}", rng.uniform(10_000)).into_bytes();
                    if rng.one_in(20) && key <= end {
                        db.delete_range_opt(&WriteOptions::default(), &key, &end).unwrap();
                        let gone: Vec<_> = model.range(key..end).map(|(k, _)| k.clone()).collect();
                        for key in gone {
                            model.remove(&key);
                        }
                    }
                }
                _ => {
                    let value = rng.next_u64().to_string().repeat(5).into_bytes();
                    db.put_opt(&WriteOptions::default(), &key, &value).unwrap();
                    model.insert(key, value);
                }
            }
        }
        let mut batch = WriteBatch::new();
        for n in 0..10 {
            batch.put(format!("batch{n}").as_bytes(), b"value");
            model.insert(format!("batch{n}").into_bytes(), b"value".to_vec());
        }
        db.write_opt(&WriteOptions::default(), &mut batch).unwrap();
        check(&db, &model);
        for (key, value) in model.iter().step_by(7) {
            let found = db.get_opt(&ReadOptions::default(), key).unwrap();
            assert_eq!(found.as_deref(), Some(&value[..]));
        }
        if round % 2 == 0 {
            db.flush_opt(&FlushOptions::default()).unwrap();
            check(&db, &model);
        }
        if round % 3 == 0 {
            db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
            check(&db, &model);
        }
        db.close().unwrap();
    }
    Db::destroy(&options(), &dir).unwrap();
}

#[pumice_test_macros::test]
fn the_write_buffer_manager_stalls_writers_until_a_flush_frees_memory() {
    let dir = std::env::temp_dir().join(format!("pumice-wbm-{}", std::process::id()));
    let mut options = options();
    options.db.write_buffer_manager = Some(WriteBufferManager::new(1 << 20, None, true));
    options.cf.max_write_buffer_number = 100;
    let db = Db::open(&options, &dir).unwrap();
    db.pause_background_work();
    let impatient = WriteOptions { no_slowdown: true, ..WriteOptions::default() };
    let mut written = 0u32;
    let refused = loop {
        assert!(written < 100_000, "the limit never stalled a writer");
        match db.put_opt(&impatient, &written.to_be_bytes(), &[7; 100]) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Incomplete);
    assert!(written > 1000, "stalled after only {written} writes");
    db.continue_background_work().unwrap();
    // A writer without `no_slowdown` waits for the flush and continues.
    db.put_opt(&WriteOptions::default(), b"patient", b"value").unwrap();
    assert_eq!(
        db.get_opt(&ReadOptions::default(), b"patient").unwrap().as_deref(),
        Some(&b"value"[..])
    );
    for n in (0..written).step_by(997) {
        assert!(db.get_opt(&ReadOptions::default(), &n.to_be_bytes()).unwrap().is_some());
    }
    db.close().unwrap();
    Db::destroy(&options, &dir).unwrap();
}

#[pumice_test_macros::test]
fn closing_leaves_live_files_only() {
    let dir = std::env::temp_dir().join(format!("pumice-close-{}", std::process::id()));
    for round in 0..5 {
        let db = Db::open(&options(), &dir).unwrap();
        for n in 0..3000u32 {
            db.put_opt(&WriteOptions::default(), &n.to_be_bytes(), &[round; 50]).unwrap();
            if n % 1000 == 999 {
                db.flush_opt(&FlushOptions::default()).unwrap();
            }
        }
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        let live = db.live_files_metadata().len();
        db.close().unwrap();
        let names = PosixFs::shared().list(&dir).unwrap();
        let count = |end: &str| names.iter().filter(|name| name.ends_with(end)).count();
        assert_eq!(count(".sst"), live, "round {round}: {names:?}");
        let manifests = names.iter().filter(|name| name.starts_with("MANIFEST-")).count();
        assert_eq!((manifests, count(".log")), (1, 1), "round {round}: {names:?}");
    }
    Db::destroy(&options(), &dir).unwrap();
}

/// A snapshot's number means another state in another database, or none yet.
#[pumice_test_macros::test]
fn a_snapshot_of_another_database_is_refused() {
    let open = |name: &str| {
        let (fs, mut options) = (pumice::MemFs::new(1), options());
        options.db.create_if_missing = true;
        options.db.file_system = fs.shared();
        Db::open(&options, name).unwrap()
    };
    let (ours, theirs) = (open("/ours"), open("/theirs"));
    ours.put_opt(&WriteOptions::default(), b"k", b"v").unwrap();
    let other = ours.create_column_family(&options().cf, "other").unwrap();
    let reads = |db: &Db| ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    let refused = |error: pumice::Error| {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("snapshot of another database"), "{error}");
    };
    let foreign = reads(&theirs);
    refused(ours.get_opt(&foreign, b"k").err().unwrap());
    refused(ours.get_cf_opt(&foreign, &other, b"k").err().unwrap());
    refused(ours.cursor_opt(&foreign).err().unwrap());
    let both: [(_, &[u8]); 2] = [(ours.default_column_family(), b"k"), (&other, b"k")];
    let found = ours.multi_get_opt(&foreign, &[b"k", b"l"]).into_iter();
    let found = found.chain(ours.multi_get_cf_opt(&foreign, &both));
    assert_eq!(found.map(|value| refused(value.err().unwrap())).count(), 4);
    // Nor does the database accept snapshots from before a reopen.
    let own = reads(&ours);
    assert_eq!(ours.get_opt(&own, b"k").unwrap().as_deref(), Some(&b"v"[..]));
    drop(theirs);
    refused(ours.get_opt(&foreign, b"k").err().unwrap());
    ours.close().unwrap();
}

/// A memtable with an index, in which the places of a batch's keys are looked up ahead of the
/// inserts: keys in order and in none, some of them twice, of two families, with range deletions
/// between; and single writes after [`Db::warm`].
#[pumice_test_macros::test]
fn batches_in_no_order_enter_a_large_memtable() {
    let dir = std::env::temp_dir().join(format!("pumice-batches-{}", std::process::id()));
    let options = Options { cf: ColumnFamilyOptions::default(), ..options() };
    let db = Db::open(&options, &dir).unwrap();
    let other = db.create_column_family(&options.cf, "other").unwrap();
    let mut models = [BTreeMap::new(), BTreeMap::new()];
    let mut rng = Rng::new(9);
    for round in 0..600_u64 {
        let mut batch = WriteBatch::new();
        let start = rng.uniform(20_000);
        for n in 0..40 {
            let number = if round % 3 == 0 { start + n } else { rng.uniform(20_000) };
            // Many share the first eight bytes.
            let key = format!("{:04}{number:06}", number % 1000).into_bytes();
            let value = format!("{round}:{n}").into_bytes();
            let is_other = rng.uniform(4) == 0;
            let model = &mut models[usize::from(is_other)];
            match (rng.uniform(50), is_other) {
                (0, false) => {
                    let end = [&key[..], b"z"].concat();
                    batch.delete_range(&key, &end);
                    model.retain(|k: &Vec<u8>, _| *k < key || *k >= end);
                }
                (_, false) => {
                    batch.put(&key, &value);
                    model.insert(key, value);
                }
                (_, true) => {
                    batch.put_cf(&other, &key, &value);
                    model.insert(key, value);
                }
            }
        }
        db.write_opt(&WriteOptions::default(), &mut batch).unwrap();
        let keys: Vec<_> = (0..20)
            .map(|_| rng.uniform(20_000))
            .map(|number| format!("{:04}{number:06}", number % 1000).into_bytes())
            .collect();
        db.warm(&keys);
        for key in keys {
            assert_eq!(db.get(&key).unwrap().as_deref(), models[0].get(&key).map(Vec::as_slice));
            db.put_opt(&WriteOptions::default(), &key, b"alone").unwrap();
            models[0].insert(key, b"alone".to_vec());
        }
    }
    check(&db, &models[0]);
    for (key, value) in &models[1] {
        assert_eq!(db.get_cf(&other, key).unwrap().as_deref(), Some(&value[..]));
    }
    db.close().unwrap();
    Db::destroy(&options, &dir).unwrap();
}
