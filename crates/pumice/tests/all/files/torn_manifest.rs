//! A MANIFEST whose last change a power loss tore opens without that change; one that is damaged
//! in any other way, or whose change had effect, is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{DIR, SYNC, contents, flush, key, memory, names, options};
use pumice::{
    ColumnFamilyOptions, CompactRangeOptions, Db, FileSystem, FlushOptions, MemFs, Options,
};
use pumice_env::mem::{CrashMode, FileLoss, NameLoss};
use pumice_testkit::seed;

const SECTOR: usize = 512;

type Contents = Vec<(Vec<u8>, Vec<u8>)>;

fn manifest(fs: &Arc<dyn FileSystem>) -> PathBuf {
    let current = fs.read_file(&Path::new(DIR).join("CURRENT")).unwrap();
    Path::new(DIR).join(String::from_utf8(current).unwrap().trim_end())
}

/// Keys so long that an edit with a new table spans sectors.
fn long_key(n: usize) -> Vec<u8> {
    let mut key = key(n);
    key.resize(700, b'k');
    key
}

/// A database at the moment when a flush has appended its edit but not synced it: its file system,
/// its contents, the offset of the edit.
fn flushing() -> (MemFs, Options, Contents, usize) {
    let run = |changes: u64| {
        let (fs, shared) = memory();
        let options = options(&shared);
        let db = Db::open(&options, DIR).unwrap();
        // The first flush's log would be deleted in the background, which would count as a change.
        db.disable_file_deletions();
        for n in 0..6 {
            db.put_opt(&SYNC, &long_key(n), b"before").unwrap();
        }
        flush(&db);
        for n in 3..9 {
            db.put_opt(&SYNC, &long_key(n), b"after").unwrap();
        }
        let expected = contents(&db);
        let path = manifest(&shared);
        let before = shared.file_size(&path).unwrap() as usize;
        fs.halt_after(changes);
        // One change of the disk more each time, until the MANIFEST grows.
        let flushed = db.flush_opt(&FlushOptions::default()).is_ok();
        drop(db);
        let fs = copy(&fs).0;
        let grown = fs.file_size(&path).unwrap() as usize > before;
        (grown && !flushed).then_some((fs, options, expected, before))
    };
    // The rest of the first flush may change the disk in one run and not in the next, so that the
    // moment between append and sync is missed: then start again.
    (0..20).flat_map(|_| 1..60).find_map(run).expect("the flush needs a sync at its end")
}

/// The database as it was while it was being changed.
fn copy(fs: &MemFs) -> (MemFs, Arc<dyn FileSystem>) {
    let copy = fs.crashed_copy(0, CrashMode::PROCESS);
    let shared = copy.shared();
    (copy, shared)
}

fn with_fs(options: &Options, fs: &Arc<dyn FileSystem>) -> Options {
    let mut options = options.clone();
    options.db.file_system = Arc::clone(fs);
    options
}

/// The sectors' pieces after `from`.
fn pieces(len: usize, from: usize) -> Vec<std::ops::Range<usize>> {
    (from / SECTOR..len.div_ceil(SECTOR))
        .map(|sector| (sector * SECTOR).max(from)..((sector + 1) * SECTOR).min(len))
        .collect()
}

/// Opens, compares, writes, and opens again: nothing is appended after the damage.
fn opens_with(options: &Options, fs: &Arc<dyn FileSystem>, expected: &Contents) {
    let torn = manifest(fs);
    let db = Db::open(options, DIR).unwrap();
    assert_eq!(&contents(&db), expected);
    assert_ne!(manifest(fs), torn, "a new MANIFEST was started");
    assert!(!fs.exists(&torn).unwrap());
    db.put_opt(&SYNC, b"zz", b"more").unwrap();
    flush(&db);
    db.close().unwrap();
    let db = Db::open(options, DIR).unwrap();
    assert_eq!(contents(&db).len(), expected.len() + 1);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_flush_torn_anywhere_is_taken_back() {
    let (fs, options, expected, from) = flushing();
    let path = manifest(&fs.shared());
    let bytes = fs.read_file(&path).unwrap();
    let pieces = pieces(bytes.len(), from);
    assert!(pieces.len() >= 3, "an edit of {} bytes", bytes.len() - from);
    for lost in 0..1u32 << pieces.len() {
        for keep_length in [false, true] {
            let (fs, shared) = copy(&fs);
            let last = (0..pieces.len()).rev().find(|at| lost >> at & 1 == 0);
            fs.damage(&path, |bytes| {
                for (at, piece) in pieces.iter().enumerate() {
                    if lost >> at & 1 == 1 {
                        bytes[piece.clone()].fill(0);
                    }
                }
                if !keep_length {
                    bytes.truncate(last.map_or(from, |at| pieces[at].end));
                }
            })
            .unwrap();
            opens_with(&with_fs(&options, &shared), &shared, &expected);
        }
    }
}

#[pumice_test_macros::test]
fn the_info_log_tells_what_was_dropped() {
    let (fs, options, expected, from) = flushing();
    let (fs, shared) = copy(&fs);
    let path = manifest(&shared);
    let last = pieces(fs.file_size(&path).unwrap() as usize, from)[0].clone();
    fs.damage(&path, |bytes| bytes[last].fill(0)).unwrap();
    opens_with(&with_fs(&options, &shared), &shared, &expected);
    let logs = names(&shared, DIR).into_iter().filter(|name| name.starts_with("LOG"));
    let texts = logs.map(|name| shared.read_file(&Path::new(DIR).join(name)).unwrap());
    let texts: Vec<String> = texts.map(|text| String::from_utf8(text).unwrap()).collect();
    let line = texts.iter().flat_map(|text| text.lines()).find(|line| line.contains("WARNING"));
    let line = line.unwrap();
    assert!(line.contains(&format!("offset {from}")), "{line}");
    assert!(line.contains(path.file_name().unwrap().to_str().unwrap()), "{line}");
}

/// Refused, with the MANIFEST named and nothing changed on disk.
fn is_refused(options: &Options, fs: &Arc<dyn FileSystem>, why: &str) {
    let all = || names(fs, DIR).into_iter().filter(|name| !name.starts_with("LOG"));
    let before: Vec<String> = all().collect();
    let error = Db::open(options, DIR).expect_err("opened");
    assert!(error.is_corruption(), "{error}");
    assert!(error.to_string().contains("MANIFEST"), "{error}");
    assert!(error.to_string().contains(why), "{error}");
    assert_eq!(all().collect::<Vec<String>>(), before);
}

#[pumice_test_macros::test]
fn damage_that_no_crash_makes_is_refused() {
    let (fs, options, _, from) = flushing();
    let path = manifest(&fs.shared());
    let len = fs.file_size(&path).unwrap() as usize;
    for at in from..len {
        for mask in [1, 0x40, 0xff] {
            let (fs, shared) = copy(&fs);
            fs.damage(&path, |bytes| bytes[at] ^= mask).unwrap();
            is_refused(&with_fs(&options, &shared), &shared, "not torn by a crash");
        }
    }
    for piece in pieces(len, from) {
        let (fs, shared) = copy(&fs);
        fs.damage(&path, |bytes| bytes[piece].fill(0xff)).unwrap();
        is_refused(&with_fs(&options, &shared), &shared, "not torn by a crash");
    }
}

#[pumice_test_macros::test]
fn a_lost_sector_before_an_intact_change_is_refused() {
    let (fs, options, _, from) = flushing();
    let (fs, shared) = copy(&fs);
    let options = with_fs(&options, &shared);
    let path = manifest(&shared);
    let end = fs.file_size(&path).unwrap() as usize;
    // One more intact change: the sound bytes of the current one, repeated after it.
    fs.damage(&path, |bytes| {
        let again = bytes[from..].to_vec();
        bytes.extend(again);
    })
    .unwrap();
    for piece in pieces(end, from) {
        if piece.end > end / SECTOR * SECTOR {
            continue; // The next change begins in it.
        }
        let (fs, shared) = copy(&fs);
        fs.damage(&path, |bytes| bytes[piece].fill(0)).unwrap();
        is_refused(&with_fs(&options, &shared), &shared, "a sound change follows");
    }
}

/// A lost sector in a change that was durable and had effect: its logs or tables are gone.
#[pumice_test_macros::test]
fn a_change_that_had_effect_is_never_dropped() {
    let (fs, shared) = memory();
    let options = options(&shared);
    let db = Db::open(&options, DIR).unwrap();
    for n in 0..6 {
        db.put_opt(&SYNC, &long_key(n), b"value").unwrap();
    }
    let path = manifest(&shared);
    let from = shared.file_size(&path).unwrap() as usize;
    flush(&db);
    db.close().unwrap(); // Deletes the flushed log, which is still there.
    let end = shared.file_size(&path).unwrap() as usize;
    for piece in pieces(end, from) {
        if piece.len() < 20 {
            continue;
        }
        let (fs, shared) = copy(&fs);
        fs.damage(&path, |bytes| bytes[piece].fill(0)).unwrap();
        is_refused(&with_fs(&options, &shared), &shared, "it took effect");
    }
}

#[pumice_test_macros::test]
fn writes_to_a_family_prove_that_it_was_created() {
    let (fs, shared) = memory();
    let options = options(&shared);
    let db = Db::open(&options, DIR).unwrap();
    let path = manifest(&shared);
    let from = shared.file_size(&path).unwrap() as usize;
    let name = "n".repeat(1200);
    let cf = db.create_column_family(&ColumnFamilyOptions::default(), &name).unwrap();
    let end = shared.file_size(&path).unwrap() as usize;
    let hole = pieces(end, from)[1].clone();
    let torn = |fs: &MemFs| {
        let (fs, shared) = copy(fs);
        fs.damage(&path, |bytes| bytes[hole.clone()].fill(0)).unwrap();
        shared
    };
    // Without writes it may have been torn: the call need not have returned.
    let unused = torn(&fs);
    Db::open(&with_fs(&options, &unused), DIR).unwrap().close().unwrap();
    db.put_cf_opt(&SYNC, &cf, b"key", b"value").unwrap();
    let used = torn(&fs);
    is_refused(&with_fs(&options, &used), &used, "writes to column family 1");
    db.close().unwrap();
}

/// Crashes that lose sectors, at every change of a life with flushes and a compaction.
#[pumice_test_macros::test]
fn every_crash_that_loses_sectors_opens() {
    let (mut crashes, mut dropped) = (0, 0);
    let images = seed::share(24);
    for changes in 0.. {
        let (fs, shared) = memory();
        let options = options(&shared);
        let db = Db::open(&options, DIR).unwrap();
        fs.halt_after(changes);
        let mut acknowledged = 0;
        let whole = live(&db, &mut acknowledged).is_ok();
        drop(db);
        // Different seeds for each moment: the same ones would tear the same sectors each time.
        for seed in images * changes..images * (changes + 1) {
            let mode = CrashMode { files: FileLoss::Sectors, names: NameLoss::Strict };
            let shared = fs.crashed_copy(seed, mode).shared();
            let db = Db::open(&with_fs(&options, &shared), DIR)
                .unwrap_or_else(|e| panic!("{e}: change {changes}, crash {seed}"));
            let found = contents(&db);
            assert!(found.len() >= acknowledged, "change {changes}, crash {seed}");
            assert!(found.iter().enumerate().all(|(n, (found, _))| *found == long_key(n)));
            crashes += 1;
            let log = shared.read_file(&Path::new(DIR).join("LOG")).unwrap();
            dropped += u64::from(String::from_utf8_lossy(&log).contains("a crash tore"));
            db.close().unwrap();
        }
        if whole {
            break;
        }
    }
    let (crashes_min, dropped_min) = (300 / seed::one_in(), 10 / seed::one_in());
    assert!(crashes > crashes_min && dropped > dropped_min, "{crashes} crashes, {dropped} torn");
}

/// Puts ascending keys, synced; counts those that were acknowledged.
fn live(db: &Db, acknowledged: &mut usize) -> pumice::Result<()> {
    for round in 0..3 {
        for n in round * 4..round * 4 + 4 {
            db.put_opt(&SYNC, &long_key(n), b"value")?;
            *acknowledged += 1;
        }
        db.flush_opt(&FlushOptions::default())?;
    }
    db.compact_range(&CompactRangeOptions::default(), None, None)
}
