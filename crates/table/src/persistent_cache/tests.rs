//! The persistent cache against what was put into it, within its capacity, with damaged files, on
//! devices that fail or are full, and with several tasks.
#![allow(clippy::unwrap_used)]

use pumice_base::random::Rng;
use pumice_env::MemFs;
use pumice_env::mem::{Fault, FaultOp, FaultRule};

use super::*;

const DIR: &str = "/fast/cache";
const MIB: u64 = 1 << 20;

fn options(cache_size: u64) -> PersistentCacheOptions {
    PersistentCacheOptions {
        cache_file_size: 2 * MIB,
        ..PersistentCacheOptions::new("/fast", cache_size)
    }
}

fn open(fs: &MemFs, cache_size: u64) -> Arc<PersistentCache> {
    PersistentCache::open(fs.shared(), options(cache_size)).unwrap()
}

fn key(n: u64) -> CacheKey {
    CacheKey(n / 7, n % 7 * 4096)
}

/// The block that a key always has: up to 64 KiB.
fn block(n: u64) -> Vec<u8> {
    let len = Rng::new(n).uniform(64 << 10) as usize;
    let mut block = vec![n as u8; len];
    for (byte, number) in block.iter_mut().zip(n.to_le_bytes()) {
        *byte = number;
    }
    block
}

/// Whether the block is found; it is the right one then.
fn finds(cache: &PersistentCache, n: u64) -> bool {
    let expected = block(n);
    let mut found = vec![1; expected.len()];
    let is_there = cache.lookup(&key(n), &mut found);
    assert!(!is_there || found == expected, "block {n}");
    is_there
}

fn put(cache: &PersistentCache, numbers: impl IntoIterator<Item = u64>) {
    for n in numbers {
        cache.insert(key(n), &block(n));
    }
    cache.flush();
}

/// The files of the cache.
fn files(fs: &MemFs) -> Vec<PathBuf> {
    let mut names = fs.shared().list(Path::new(DIR)).unwrap();
    names.sort();
    names.into_iter().map(|name| Path::new(DIR).join(name)).collect()
}

/// Whatever is put, looked up and erased, only what was put is found, and the files stay within
/// the capacity.
#[pumice_test_macros::test]
fn stays_within_its_capacity() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let (fs, capacity) = (MemFs::default(), (2 + rng.uniform(6)) * MIB);
        let cache = open(&fs, capacity);
        let mut put = std::collections::BTreeSet::new();
        let (mut found, mut evicted) = (0, 0);
        for step in 0..1500 {
            let n = rng.uniform(400);
            match rng.uniform(10) {
                0..4 => {
                    cache.insert(key(n), &block(n));
                    put.insert(n);
                }
                4 => cache.flush(),
                _ => match (finds(&cache, n), put.contains(&n)) {
                    (true, known) => {
                        assert!(known, "PUMICE_SEED={seed} step {step}");
                        found += 1;
                    }
                    (false, known) => evicted += usize::from(known),
                },
            }
            let stats = cache.stats();
            assert!(stats.bytes <= capacity, "PUMICE_SEED={seed} step {step}: {stats:?}");
            assert!(fs.used_bytes() <= capacity, "PUMICE_SEED={seed} step {step}");
        }
        assert!(found > 30 && evicted > 0, "PUMICE_SEED={seed}: {found} {evicted}");
        let stats = cache.stats();
        assert_eq!((stats.errors, stats.dropped), (0, 0));
    }
}

/// A file whose blocks are used stays, one of which none is used goes first, as a whole.
#[pumice_test_macros::test]
fn files_go_that_are_not_used() {
    let fs = MemFs::default();
    let cache = open(&fs, 7 * MIB);
    let full = |first: u64| {
        // Some thirty blocks of 32 KiB on average.
        put(&cache, first..first + 30);
    };
    for group in 0..6 {
        full(group * 30);
    }
    assert!(finds(&cache, 0));
    let before = files(&fs);
    for group in 6..9 {
        full(group * 30);
        assert!(finds(&cache, 0), "{group}");
    }
    let after = files(&fs);
    assert!(after.contains(&before[0]), "{before:?} {after:?}");
    assert!(!after.contains(&before[1]), "{before:?} {after:?}");
    assert!((60..120).any(|n| !finds(&cache, n)));
    assert!((240..270).all(|n| finds(&cache, n)));
}

#[pumice_test_macros::test]
fn starts_empty() {
    let fs = MemFs::default();
    let cache = open(&fs, 4 * MIB);
    put(&cache, 0..40);
    assert!((0..40).all(|n| finds(&cache, n)));
    drop(cache);
    let left = files(&fs);
    assert!(!left.is_empty() && left.iter().all(|file| file.extension().unwrap() == "rc"));
    let foreign = Path::new(DIR).join("notes");
    pumice_env::write_file(&*fs.shared(), &foreign, b"mine", false).unwrap();
    let cache = open(&fs, 4 * MIB);
    assert_eq!(files(&fs), [foreign]);
    assert!((0..40).all(|n| !finds(&cache, n)));
    assert_eq!(cache.stats(), PersistentCacheStats { misses: 40, ..Default::default() });
}

/// Every bit of a record, and every length of it: a changed record is a missing one.
#[pumice_test_macros::test]
fn changed_records_are_a_miss() {
    let fs = MemFs::default();
    let cache = open(&fs, 4 * MIB);
    let bytes = [7; 20];
    let looks_up = || {
        let mut found = [0; 20];
        let is_there = cache.lookup(&key(1), &mut found);
        assert!(!is_there || found == bytes);
        is_there
    };
    let mut end = 0;
    for change in 0..9 * (HEAD_BYTES + bytes.len()) {
        cache.insert(key(1), &bytes);
        cache.flush();
        assert!(looks_up(), "{change}");
        let start = end;
        fs.damage(&files(&fs)[0], |file| {
            end = file.len();
            match change.checked_sub(8 * (end - start)) {
                None => file[start + change / 8] ^= 1 << (change % 8),
                Some(len) => file.truncate(start + len),
            }
        })
        .unwrap();
        assert!(!looks_up(), "{change}");
        assert_eq!(cache.stats().errors, change as u64 + 1);
        // The writer knows nothing of it and goes on where its file ended.
        assert!(!looks_up(), "{change}");
    }
    cache.insert(key(2), &bytes);
    let mut other = [0; 21];
    assert!(!cache.lookup(&key(2), &mut other), "another length");
    cache.flush();
    assert!(!cache.lookup(&key(2), &mut other), "another length");
}

/// Errors of the device cost hits and nothing else, and the cache works once they are over.
#[pumice_test_macros::test]
fn errors_of_the_device_are_misses() {
    let faults = [
        (FaultOp::Create, Fault::Eio),
        (FaultOp::Write, Fault::Enospc),
        (FaultOp::Write, Fault::ShortWrite),
        (FaultOp::Open, Fault::Emfile),
        (FaultOp::Read, Fault::Eio),
        (FaultOp::Read, Fault::ShortRead),
        (FaultOp::Read, Fault::BitFlip),
        (FaultOp::Remove, Fault::Eio),
    ];
    for (op, fault) in faults {
        let fs = MemFs::default();
        let cache = open(&fs, 6 * MIB);
        put(&cache, 0..90);
        fs.add_fault(FaultRule::always(op, "/fast/*", fault));
        for round in 1..5 {
            put(&cache, round * 90..(round + 1) * 90);
            let found = (0..450).filter(|n| finds(&cache, *n)).count();
            assert!(fs.used_bytes() <= 6 * MIB && found < 400, "{op:?} {fault:?} {found}");
        }
        assert!(cache.stats().errors > 0, "{op:?} {fault:?}");
        fs.clear_faults();
        if op != FaultOp::Remove {
            put(&cache, 450..490);
            assert!((450..490).all(|n| finds(&cache, n)), "{op:?} {fault:?}");
        }
    }
}

/// A device that is smaller than the capacity: old files make room for new ones.
#[pumice_test_macros::test]
fn a_full_device_keeps_what_is_new() {
    let fs = MemFs::default();
    let cache = open(&fs, 64 * MIB);
    fs.set_quota(Some(5 * MIB));
    for n in 0..600 {
        put(&cache, [n]);
    }
    let stats = cache.stats();
    assert!(stats.errors > 0 && stats.dropped == stats.errors, "{stats:?}");
    let found: Vec<u64> = (0..600).filter(|n| finds(&cache, *n)).collect();
    assert!(found.iter().filter(|n| **n >= 560).count() >= 35, "{stats:?} {found:?}");
}

/// What waits is found, and more than may wait is dropped.
#[pumice_test_macros::test]
fn a_backlog_is_bounded() {
    // Nobody writes.
    let fs = MemFs::default().shared();
    let shared = Shared::new(fs, options(64 * MIB), PathBuf::from(DIR));
    let idle = PersistentCache { shared: Arc::new(shared), writer: None };
    let mebibyte = vec![5; 1 << 20];
    for n in 0..40 {
        idle.insert(key(n), &mebibyte);
        idle.insert(key(n), &[]);
    }
    let mut found = vec![0; 1 << 20];
    assert!((0..32).all(|n| idle.lookup(&key(n), &mut found) && found == mebibyte));
    assert!((32..40).all(|n| !idle.lookup(&key(n), &mut found)));
    // Of the last ones only the empty blocks.
    assert_eq!(idle.stats().dropped, 8);
}

#[pumice_test_macros::test]
fn what_cannot_be_opened() {
    let fs = MemFs::default();
    let why = |options: PersistentCacheOptions| {
        PersistentCache::open(fs.shared(), options).map(drop).unwrap_err().to_string()
    };
    assert_eq!(why(PersistentCacheOptions::new("", MIB)), "Invalid argument: empty or null args");
    let small = PersistentCacheOptions::new("/fast", (100 << 20) - 1);
    assert_eq!(why(small), "Invalid argument: invalid cache size");
    let tiny = PersistentCacheOptions { cache_file_size: MIB, ..options(9 * MIB) };
    assert_eq!(why(tiny), "Invalid argument: invalid cache size");
    fs.add_fault(FaultRule::always(FaultOp::MakeDir, "*", Fault::Eio));
    assert!(why(options(9 * MIB)).starts_with("IO error: "));
    fs.clear_faults();
    drop(open(&fs, 9 * MIB));
    let left = Path::new(DIR).join("17.rc");
    pumice_env::write_file(&*fs.shared(), &left, b"", false).unwrap();
    fs.add_fault(FaultRule::always(FaultOp::Remove, "*.rc", Fault::Eio));
    assert!(why(options(9 * MIB)).starts_with("IO error: "));
}

#[pumice_test_macros::test]
fn several_tasks_share_it() {
    let fs = MemFs::default();
    let cache = open(&fs, 5 * MIB);
    let tasks: Vec<_> = (0..4u64)
        .map(|task| {
            let cache = Arc::clone(&cache);
            thread::spawn("reader", move || {
                let mut rng = Rng::new(task);
                for _ in 0..800 {
                    let n = rng.uniform(300);
                    if !finds(&cache, n) {
                        cache.insert(key(n), &block(n));
                    }
                    if rng.one_in(50) {
                        cache.erase(&key(n));
                        cache.flush();
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.join().unwrap();
    }
    let stats = cache.stats();
    assert!(stats.hits > 300 && stats.errors == 0 && fs.used_bytes() <= 5 * MIB, "{stats:?}");
}

/// Somebody has emptied the directory: the room of those files is free.
#[pumice_test_macros::test]
fn files_that_are_gone_take_no_room() {
    let fs = MemFs::default();
    let cache = open(&fs, 4 * MIB);
    put(&cache, 0..100);
    files(&fs).iter().for_each(|file| fs.shared().remove(file).unwrap());
    (1..5).for_each(|group| put(&cache, group * 100..group * 100 + 100));
    assert!(finds(&cache, 499), "{:?}", cache.stats());
    let on_disk = files(&fs).iter().map(|file| fs.shared().file_size(file).unwrap()).sum::<u64>();
    assert_eq!(cache.stats().bytes, on_disk);
}
