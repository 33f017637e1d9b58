//! Reads that wait for the device wait once: the same blocks are read as one after the other, at
//! the same time, and every answer and error is the same.
//!
//! Two databases are built alike, of level 0 and two sorted levels. One is read with `async_io` and
//! the other without it, which is the plain order. Reads are counted by the file system (`noted`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::common::noted::{Noted, Notes, covered};
use crate::common::{DIR, eventually, flush, key, memory, options};
use pumice::{
    BlockCache, CacheOptions, Db, DbIterator, ErrorKind, FileSystem, Options, ReadOptions,
    Statistics, Ticker, WriteOptions,
};
use pumice_base::random::Rng;
use pumice_port::sync::Mutex;
use pumice_port::thread;

const KEYS: usize = 3000;
/// Files of level 0.
const L0_FILES: usize = 3;
/// Sorted runs of the whole.
const RUNS: usize = L0_FILES + 2;

struct Side {
    db: Db,
    notes: Arc<Notes>,
    fs: Arc<dyn FileSystem>,
    read: ReadOptions,
}

/// What is done to a cursor, or to options.
type Change<'a, T> = &'a dyn Fn(&mut T);

/// The plain order, and reads that wait together.
fn both(change: impl Fn(&mut Options)) -> [Side; 2] {
    [false, true].map(|async_io| {
        let (_, fs) = memory();
        let (fs, notes) = Noted::over(fs);
        let mut options = options(&fs);
        options.cf.disable_auto_compactions = true;
        options.cf.compression = pumice::CompressionType::None;
        options.cf.target_file_size_base = 40 << 10;
        options.cf.table_factory.no_block_cache = true;
        options.set("merge_operator", "uint64add").unwrap();
        change(&mut options);
        let db = Db::open(&options, DIR).unwrap();
        fill(&db);
        let read = ReadOptions { async_io, ..ReadOptions::default() };
        let side = Side { db, notes, fs, read };
        // All tables are open.
        walk(&side.db, &side.read);
        side.notes.clear();
        side
    })
}

fn put(db: &Db, n: usize, round: u64) {
    let value = (n as u64 * 10 + round).to_le_bytes().repeat(1 + n % 20);
    db.put_opt(&WriteOptions::default(), key(n), value).unwrap();
}

fn fill(db: &Db) {
    let write = WriteOptions::default();
    (0..KEYS).for_each(|n| put(db, n, 0));
    flush(db);
    db.compact_range(
        &pumice::CompactRangeOptions { change_level: true, target_level: 2, ..Default::default() },
        None,
        None,
    )
    .unwrap();
    (0..KEYS).step_by(3).for_each(|n| put(db, n, 1));
    db.delete_range_opt(&write, &key(700), &key(760)).unwrap();
    flush(db);
    let files = l0_files(db);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    db.compact_files(&Default::default(), &files, 1).unwrap();
    for round in 0..L0_FILES {
        (round..KEYS).step_by(7).for_each(|n| put(db, n, 2));
        (round..KEYS).step_by(50).for_each(|n| db.delete_opt(&write, key(n)).unwrap());
        let from = 1000 + 300 * round;
        db.delete_range_opt(&write, &key(from), &key(from + 40)).unwrap();
        flush(db);
    }
    let counts = [0, 1, 2].map(|level| db.property(&format!("rocksdb.num-files-at-level{level}")));
    assert_eq!(counts[0].as_deref(), Some("3"));
    assert!(counts[1..].iter().all(|count| count.as_deref() != Some("0")), "{counts:?}");
}

fn l0_files(db: &Db) -> Vec<String> {
    db.live_files_metadata()
        .into_iter()
        .filter(|file| file.level == 0)
        .map(|file| file.name)
        .collect()
}

/// What a cursor shows: validity, key, value, and the kind and text of its error.
type Shown = (bool, Vec<u8>, Vec<u8>, Option<(ErrorKind, String)>);

fn shown(cursor: &DbIterator) -> Shown {
    let error = cursor.status().err().map(|error| (error.kind(), error.to_string()));
    let bytes = |bytes: Option<&[u8]>| bytes.unwrap_or_default().to_vec();
    (cursor.valid(), bytes(cursor.key()), bytes(cursor.value()), error)
}

fn walk(db: &Db, read: &ReadOptions) -> usize {
    let mut cursor = db.cursor_opt(read).unwrap();
    cursor.seek_to_first();
    let mut count = 0;
    while cursor.valid() {
        count += 1;
        cursor.next();
    }
    cursor.status().unwrap();
    count
}

#[pumice_test_macros::test]
fn a_move_reads_all_runs_at_once_and_no_other_block() {
    let sides = both(|_| {});
    let moves: [(&str, Change<'_, DbIterator>); 5] = [
        ("first", &|cursor| cursor.seek_to_first()),
        ("last", &|cursor| cursor.seek_to_last()),
        ("seek", &|cursor| cursor.seek(&key(1501))),
        ("seek for prev", &|cursor| cursor.seek_for_prev(&key(1501))),
        ("turn", &|cursor| {
            cursor.seek(&key(2222));
            cursor.prev();
        }),
    ];
    for (name, step) in moves {
        let [plain, together] = sides.each_ref().map(|side| {
            let mut cursor = side.db.cursor_opt(&side.read).unwrap();
            step(&mut cursor);
            let (reads, most) = side.notes.take();
            (shown(&cursor), reads, most)
        });
        assert_eq!(plain.0, together.0, "{name}");
        assert_eq!(plain.1, together.1, "{name}");
        assert!(plain.1.len() >= RUNS, "{name}: {:?}", plain.1);
        assert_eq!((plain.2, together.2), (1, RUNS), "{name}: most reads at one time");
    }
}

#[pumice_test_macros::test]
fn blocks_of_the_index_are_read_at_once() {
    let table = "{cache_index_and_filter_blocks=true;index_type=kTwoLevelIndexSearch;\
                 partition_filters=true;filter_policy=bloomfilter:10;metadata_block_size=300;\
                 block_size=512;pin_top_level_index_and_filter=false}";
    let caches = Mutex::new(Vec::new());
    let sides = both(|options| {
        options.set("block_based_table_factory", table).unwrap();
        options.cf.table_factory.no_block_cache = false;
        let cache = BlockCache::new(CacheOptions::new(4 << 20));
        options.cf.table_factory.block_cache = Some(Arc::clone(&cache));
        caches.lock().push(cache);
    });
    for n in [2000, 10, 999] {
        let [plain, together] = sides.each_ref().map(|side| {
            caches.lock().iter().for_each(|cache| cache.erase_all());
            let mut cursor = side.db.cursor_opt(&side.read).unwrap();
            cursor.seek(&key(n));
            let (reads, most) = side.notes.take();
            (shown(&cursor), reads, most)
        });
        assert_eq!((&plain.0, &plain.1), (&together.0, &together.1), "{n}");
        // Of each run at least the top of its index, a partition, and the data.
        assert!(plain.1.len() >= 3 * RUNS, "{n}: {:?}", plain.1);
        assert_eq!((plain.2, together.2), (1, RUNS), "{n}: most reads at one time");
    }
}

#[pumice_test_macros::test]
fn what_is_read_ahead_is_what_is_shown() {
    for readahead_size in [0, 10_000, 1 << 20] {
        for (from, to) in [(0, KEYS), (0, 1777), (700, 2900), (2999, KEYS)] {
            let sides = both(|_| {});
            let mut all = Vec::new();
            for side in &sides {
                let bound = (to < KEYS).then(|| key(to));
                // Blocks alone, one by one, or ahead.
                let sizes = if side.read.async_io {
                    [readahead_size, readahead_size]
                } else {
                    [1, readahead_size]
                };
                for readahead_size in sizes {
                    let read = ReadOptions {
                        readahead_size,
                        iterate_upper_bound: bound.clone(),
                        ..side.read.clone()
                    };
                    let mut cursor = side.db.cursor_opt(&read).unwrap();
                    cursor.seek(&key(from));
                    let mut entries = Vec::new();
                    while cursor.valid() {
                        entries.push(shown(&cursor));
                        cursor.next();
                    }
                    cursor.status().unwrap();
                    let (reads, _) = side.notes.take();
                    let (bytes, twice) = covered(&reads);
                    assert_eq!(twice, 0, "{readahead_size}, {from}..{to}: read twice");
                    all.push((entries, bytes));
                }
            }
            for other in &all[1..] {
                assert_eq!(all[0].0, other.0, "{readahead_size}, {from}..{to}");
                assert_eq!(all[0].1, other.1, "{readahead_size}, {from}..{to}");
            }
        }
    }
}

#[pumice_test_macros::test]
fn what_follows_is_read_while_what_is_held_is_used() {
    let [_, side] = both(|options| options.cf.target_file_size_base = 1 << 20);
    let read = ReadOptions { readahead_size: 32 << 10, ..side.read.clone() };
    let mut cursor = side.db.cursor_opt(&read).unwrap();
    cursor.seek_to_first();
    let before = side.notes.begun.load(Relaxed);
    side.notes.holds.store(true, Relaxed);
    // Within what is held the cursor comes to a second block, and something begins to be read.
    let mut steps = 0;
    while cursor.valid() && steps < 140 && side.notes.begun.load(Relaxed) == before {
        cursor.next();
        thread::yield_now();
        steps += 1;
    }
    assert!(cursor.valid(), "it does not wait for what is held back");
    eventually("a read in flight", || side.notes.begun.load(Relaxed) > before);
    assert!(side.notes.now.load(Relaxed) > 0);
    // The cursor is dropped while it is read, and so are the tables.
    drop(cursor);
    side.db.close().unwrap();
    drop(side.db);
    assert!(side.notes.open.load(Relaxed) > 0, "what is read is open");
    side.notes.gate.set();
    eventually("nothing is open", || side.notes.open.load(Relaxed) == 0);
    assert_eq!(side.notes.now.load(Relaxed), 0);
}

#[pumice_test_macros::test]
fn a_compaction_reads_its_inputs_once_and_ahead() {
    let [_, side] = both(|options| options.cf.target_file_size_base = 1 << 20);
    side.db.set_db_options(&[("compaction_readahead_size", "32768")]).unwrap();
    let inputs: u64 = side.db.live_files_metadata().iter().map(|file| file.size).sum();
    let files = side.db.live_files_metadata();
    let files: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    side.db.compact_files(&Default::default(), &files, 2).unwrap();
    let (reads, _) = side.notes.take();
    let outputs: Vec<_> =
        side.db.live_files_metadata().iter().map(|file| file.name.clone()).collect();
    let is_output = |path: &std::path::Path| {
        outputs.iter().any(|name| path.ends_with(name.trim_start_matches('/')))
    };
    let of_inputs: Vec<_> = reads.into_iter().filter(|(path, _)| !is_output(path)).collect();
    let largest = of_inputs.iter().map(|(_, range)| range.end - range.start).max().unwrap();
    let (bytes, twice) = covered(&of_inputs);
    assert_eq!(twice, 0, "bytes that were read twice");
    let read: u64 = bytes.iter().map(|(_, range)| range.end - range.start).sum();
    assert!(read < inputs, "{read} of {inputs}");
    assert!(largest <= 16384 + 4096, "the halves of a step, of which one is in flight: {largest}");
    assert!(largest > 8192, "nothing is read ahead: {largest}");
}

/// Random moves on both sides, with what they show compared after each.
fn compare(seed: u64, sides: &[Side; 2], with_errors: bool) {
    let mut rng = Rng::new(seed);
    for _ in 0..5 {
        if with_errors {
            damage(&mut rng, sides);
        }
        let (low, high) = (rng.uniform(KEYS as u64) as usize, rng.uniform(KEYS as u64) as usize);
        let (lower, upper) = (rng.one_in(3), rng.one_in(2));
        let readahead_size = [0, 0, 6000, 50_000][rng.uniform(4) as usize];
        let prefix = rng.one_in(3);
        let mut cursors = sides.each_ref().map(|side| {
            let read = ReadOptions {
                readahead_size,
                iterate_lower_bound: lower.then(|| key(low)),
                iterate_upper_bound: upper.then(|| key(high)),
                prefix_same_as_start: prefix,
                ..side.read.clone()
            };
            side.db.cursor_opt(&read).unwrap()
        });
        for step in 0..16 {
            let target = key(rng.uniform(KEYS as u64 + 20) as usize);
            let (kind, times) = (rng.uniform(8), 1 + rng.uniform(120));
            for time in 0..times {
                let [plain, together] = cursors.each_mut().map(|cursor| {
                    match kind {
                        0 => cursor.seek_to_first(),
                        1 => cursor.seek_to_last(),
                        2 | 3 => cursor.seek(&target),
                        4 => cursor.seek_for_prev(&target),
                        _ if !cursor.valid() => {}
                        5 | 6 => cursor.next(),
                        _ => cursor.prev(),
                    }
                    shown(cursor)
                });
                assert_eq!(plain, together, "seed {seed}, step {step}.{time}, move {kind}");
                if kind < 5 {
                    break;
                }
            }
        }
        for _ in 0..20 {
            let wanted = key(rng.uniform(KEYS as u64 + 20) as usize);
            let [plain, together] = sides.each_ref().map(|side| {
                let found = side.db.get_opt(&side.read, &wanted);
                found.map(|value| value.map(|v| v.to_vec())).map_err(|error| error.to_string())
            });
            assert_eq!(plain, together, "seed {seed}, {}", wanted.escape_ascii());
        }
    }
}

/// Makes a part of one table unreadable, the same on both sides.
fn damage(rng: &mut Rng, sides: &[Side; 2]) {
    let files = sides[0].db.live_files_metadata();
    let file = &files[rng.uniform(files.len() as u64) as usize];
    let (from, bytes) = (rng.uniform(file.size), 1 + rng.uniform(6000));
    for side in sides {
        let path = std::path::Path::new(DIR).join(file.name.trim_start_matches('/'));
        assert!(side.fs.exists(&path).unwrap(), "both are built alike");
        *side.notes.bad.lock() = vec![(path, from..from + bytes)];
    }
}

#[pumice_test_macros::test]
fn answers_are_those_of_the_plain_order() {
    let change: [(&str, Change<'_, Options>); 4] = [
        ("no cache", &|_| {}),
        ("a tiny cache", &|options| {
            options.cf.table_factory.no_block_cache = false;
            options.cf.table_factory.block_cache =
                Some(BlockCache::new(CacheOptions::new(16 << 10)));
        }),
        ("partitions", &|options| {
            let table = "{cache_index_and_filter_blocks=true;index_type=kTwoLevelIndexSearch;\
                         metadata_block_size=200;block_size=512;filter_policy=bloomfilter:10}";
            options.set("block_based_table_factory", table).unwrap();
            options.cf.table_factory.no_block_cache = false;
            options.cf.table_factory.block_cache =
                Some(BlockCache::new(CacheOptions::new(64 << 10)));
        }),
        ("prefixes", &|options| {
            options.set("prefix_extractor", "fixed:7").unwrap();
            options
                .set(
                    "block_based_table_factory",
                    "{no_block_cache=true;filter_policy=bloomfilter:10}",
                )
                .unwrap();
        }),
    ];
    for (number, (name, change)) in change.into_iter().enumerate() {
        let sides = both(change);
        println!("{name}");
        (0..2).for_each(|seed| compare(seed * 10 + number as u64, &sides, false));
    }
}

#[pumice_test_macros::test]
fn errors_are_those_of_the_plain_order() {
    let sides = both(|_| {});
    (100..106).for_each(|seed| compare(seed, &sides, true));
}

/// Operands of one key in three more files of level 0.
fn merge(side: &Side) {
    for _ in 0..3 {
        side.db.merge_opt(&WriteOptions::default(), &key(11), &1u64.to_le_bytes()).unwrap();
        put(&side.db, 2, 7);
        put(&side.db, 2990, 7);
        flush(&side.db);
    }
    side.notes.clear();
}

#[pumice_test_macros::test]
fn gets_that_look_into_several_files_wait_once() {
    // Without filters every file is looked into, until one has the key.
    let sides = both(|_| {});
    sides.iter().for_each(merge);
    let get = |n: usize| {
        sides.each_ref().map(|side| {
            let found = side.db.get_opt(&side.read, key(n)).unwrap().map(|value| value.to_vec());
            let (reads, most) = side.notes.take();
            (found, reads, most)
        })
    };
    // The first one is made in order, and shows what is to be expected.
    let [plain, first] = get(11);
    assert_eq!((plain.2, first.2), (1, 1));
    let [plain, together] = get(11);
    assert_eq!((&plain.0, &plain.1), (&together.0, &together.1), "the same blocks, read once");
    assert!(together.1.len() > 6 && together.2 > 3, "{} at one time", together.2);
    // Of a key that the newest file has, the others are read in vain: twice, and then no more.
    let vain: Vec<_> = (0..4)
        .map(|_| get(2990))
        .map(|[plain, together]| {
            assert_eq!(plain.0, together.0);
            assert_eq!(plain.1.len(), 1);
            together.1.len() > 1
        })
        .collect();
    assert_eq!(vain, [true, true, false, false]);
}

/// Files behind the one that has the answer are not opened for a get.
#[pumice_test_macros::test]
fn gets_that_wait_once_open_the_files_of_the_plain_order() {
    let seen = Mutex::new(Vec::new());
    let sides = both(|options| {
        let statistics = Arc::new(Statistics::new());
        options.db.statistics = Some(Arc::clone(&statistics));
        // One table at a time.
        options.db.max_open_files = 11;
        seen.lock().push(statistics);
    });
    sides.iter().for_each(merge);
    let seen = seen.lock();
    for n in [11, 11, 2990, 2990, 11, 2990] {
        let [plain, together] = [0, 1].map(|at| {
            seen[at].reset();
            let found = sides[at].db.get_opt(&sides[at].read, key(n)).unwrap();
            (found.map(|value| value.to_vec()), seen[at].ticker(Ticker::NoFileOpens))
        });
        assert_eq!(plain, together, "{n}");
    }
}

/// Reads that wait together wait for one another, which their time limits must not see.
#[pumice_test_macros::test]
fn reads_with_time_limits_are_in_the_plain_order() {
    let [_, side] = both(|_| {});
    merge(&side);
    let hour = 3_600_000_000;
    let deadline_micros = u64::MAX / 2;
    for (io_timeout_micros, deadline_micros) in [(hour, 0), (0, deadline_micros)] {
        let limited = ReadOptions { io_timeout_micros, deadline_micros, ..side.read.clone() };
        let limited = ReadOptions { readahead_size: 64 << 10, ..limited };
        // What is expected of gets is what the ones without limits have left.
        (0..2).for_each(|_| drop(side.db.get_opt(&side.read, key(11)).unwrap()));
        side.notes.clear();
        drop(side.db.get_opt(&limited, key(11)).unwrap());
        assert_eq!(side.notes.take().1, 1, "a get");
        let mut cursor = side.db.cursor_opt(&limited).unwrap();
        cursor.seek(&key(1501));
        while cursor.valid() {
            cursor.next();
        }
        cursor.status().unwrap();
        assert_eq!(side.notes.take().1, 1, "a scan");
    }
}
