//! The crash model and the faults.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::{BufferedWriter, WriterOptions, create_dir_durably, write_file};
use std::collections::BTreeSet;

fn path(name: &str) -> PathBuf {
    Path::new("/db").join(name)
}

fn new_fs() -> MemFs {
    let fs = MemFs::new(0);
    create_dir_durably(&fs, Path::new("/db"), false).unwrap();
    fs
}

fn create(fs: &MemFs, name: &str) -> Box<dyn WritableFile> {
    fs.create(&path(name), &FileOptions::default()).unwrap()
}

fn mode(files: FileLoss, names: NameLoss) -> CrashMode {
    CrashMode { files, names }
}

/// All contents of `name` that crashes of this state can leave; `None` where the name is gone.
fn outcomes(fs: &MemFs, name: &str, mode: CrashMode) -> BTreeSet<Option<Vec<u8>>> {
    (0..400).map(|seed| fs.crashed_copy(seed, mode).read_file(&path(name)).ok()).collect()
}

fn set(items: &[&[u8]]) -> BTreeSet<Option<Vec<u8>>> {
    items.iter().map(|b| Some(b.to_vec())).collect()
}

#[pumice_test_macros::test]
fn syncing_the_file_and_the_directory_are_two_things() {
    let fs = new_fs();
    let mut file = create(&fs, "f");
    file.append(b"data").unwrap();
    file.sync().unwrap();
    let lost = fs.crashed_copy(1, CrashMode::UNSYNCED);
    assert!(!lost.exists(&path("f")).unwrap(), "the name was not synced");
    fs.sync_dir(Path::new("/db")).unwrap();
    file.append(b" more").unwrap();
    fs.crash(1, CrashMode::UNSYNCED);
    assert_eq!(fs.read_file(&path("f")).unwrap(), b"data");
    assert_eq!(fs.used_bytes(), 4);
}

/// A directory is a name as others are: it is lost with all that was durable in it, or comes back.
#[pumice_test_macros::test]
fn the_name_of_a_directory_is_durable_when_the_one_above_is_synced() {
    let fs = MemFs::new(0);
    let (above, below) = (Path::new("/above"), Path::new("/above/below"));
    let file = below.join("f");
    fs.create_dir_all(below).unwrap();
    write_file(&fs, &file, b"data", true).unwrap();
    let lost = || fs.crashed_copy(1, CrashMode::UNSYNCED);
    for (synced, left) in
        [(below, "nothing"), (above, "nothing"), (Path::new("/"), "all"), (below, "all")]
    {
        fs.sync_dir(synced).unwrap();
        let there = lost().exists(&file).unwrap();
        assert_eq!(there, left == "all", "{}", synced.display());
    }
    let process = fs.crashed_copy(1, CrashMode::PROCESS);
    assert_eq!(process.list(above).unwrap(), ["below"]);

    fs.rename(below, &above.join("moved")).unwrap();
    assert!(!fs.exists(&file).unwrap() && fs.exists(&above.join("moved/f")).unwrap());
    assert!(lost().exists(&file).unwrap(), "the new name is not durable");
    fs.sync_dir(above).unwrap();
    assert!(lost().exists(&above.join("moved/f")).unwrap());
    assert!(!lost().exists(below).unwrap());

    fs.remove(&above.join("moved/f")).unwrap();
    fs.remove_dir(&above.join("moved")).unwrap();
    assert!(!fs.exists(&above.join("moved")).unwrap());
    let back = lost();
    assert_eq!(back.read_file(&above.join("moved/f")).unwrap(), b"data");
    fs.sync_dir(above).unwrap();
    assert!(!lost().exists(&above.join("moved")).unwrap());
    assert_eq!(lost().list(above).unwrap(), Vec::<String>::new());
}

#[pumice_test_macros::test]
fn directories_are_made_durably() {
    let fs = MemFs::new(0);
    for dir in ["/a/b/c", "/a/b/d", "rel/e", "f"].map(Path::new) {
        create_dir_durably(&fs, dir, false).unwrap();
        create_dir_durably(&fs, dir, true).unwrap();
        let left = fs.crashed_copy(1, CrashMode::UNSYNCED);
        assert!(left.exists(dir).unwrap(), "{}", dir.display());
    }
    // Another process made it and was killed.
    fs.create_dir_all(Path::new("/x/y/z")).unwrap();
    create_dir_durably(&fs, Path::new("/x/y/z"), true).unwrap();
    assert!(fs.crashed_copy(1, CrashMode::UNSYNCED).exists(Path::new("/x/y/z")).unwrap());
}

/// A directory that is there already is synced in doubt, and the device fails.
#[pumice_test_macros::test]
fn a_failed_sync_of_an_old_directory_is_told() {
    let fs = MemFs::new(0);
    fs.create_dir_all(Path::new("/x/y")).unwrap();
    fs.add_fault(FaultRule::always(FaultOp::SyncDir, "/x", Fault::Eio));
    let error = create_dir_durably(&fs, Path::new("/x/y"), true).unwrap_err();
    assert_eq!(error.os_error(), Some(5), "{error}");
    create_dir_durably(&fs, Path::new("/x/y/z"), false).unwrap();
}

#[pumice_test_macros::test]
fn a_name_without_content_is_possible() {
    let fs = new_fs();
    let mut file = create(&fs, "f");
    fs.sync_dir(Path::new("/db")).unwrap();
    file.append(b"data").unwrap();
    fs.crash(1, CrashMode::UNSYNCED);
    assert_eq!(fs.read_file(&path("f")).unwrap(), b"");
}

/// A file with `stable` synced and two unsynced writes.
fn two_writes() -> MemFs {
    let fs = new_fs();
    let mut file = create(&fs, "f");
    file.append(b"S").unwrap();
    file.sync().unwrap();
    fs.sync_dir(Path::new("/db")).unwrap();
    file.append(b"aa").unwrap();
    file.append(b"bb").unwrap();
    fs
}

#[pumice_test_macros::test]
fn each_mode_leaves_exactly_its_states() {
    let fs = two_writes();
    let states = |loss| outcomes(&fs, "f", mode(loss, NameLoss::Unsynced));
    assert_eq!(states(FileLoss::Unsynced), set(&[b"S"]));
    assert_eq!(states(FileLoss::Nothing), set(&[b"Saabb"]));
    assert_eq!(states(FileLoss::Prefix), set(&[b"S", b"Saa", b"Saabb"]));
    let torn: [&[u8]; 5] = [b"S", b"Sa", b"Saa", b"Saab", b"Saabb"];
    assert_eq!(states(FileLoss::Torn), set(&torn));
    let sectors: [&[u8]; 4] = [b"S", b"Saa", b"S\0\0bb", b"Saabb"];
    assert_eq!(states(FileLoss::Sectors), set(&sectors));
    let size_first: [&[u8]; 3] = [b"S\0\0\0\0", b"Saa\0\0", b"Saabb"];
    assert_eq!(states(FileLoss::SizeFirst), set(&size_first));
    let mixed = states(FileLoss::Mixed);
    for loss in [FileLoss::Torn, FileLoss::Sectors, FileLoss::SizeFirst] {
        assert!(states(loss).is_subset(&mixed));
    }
}

#[pumice_test_macros::test]
fn sectors_are_512_bytes_of_the_file() {
    let fs = new_fs();
    write_file(&fs, &path("f"), &[1; 100], true).unwrap();
    fs.sync_dir(Path::new("/db")).unwrap();
    let mut file = fs.reopen_append(&path("f")).unwrap();
    file.append(&[2; 2000]).unwrap();
    let all = outcomes(&fs, "f", mode(FileLoss::Sectors, NameLoss::Unsynced));
    assert!(all.len() > 10);
    for data in all.into_iter().flatten() {
        assert!(data[..100].iter().all(|b| *b == 1), "synced bytes stay");
        for (at, byte) in data.iter().enumerate().skip(100) {
            let sector = &data[(at / 512 * 512).max(100)..((at / 512 + 1) * 512).min(data.len())];
            assert!(sector.iter().all(|b| b == byte), "a sector is whole or not there");
        }
    }
}

#[pumice_test_macros::test]
fn overwriting_and_truncating_can_be_lost_too() {
    let fs = new_fs();
    write_file(&fs, &path("f"), b"old bytes", true).unwrap();
    fs.sync_dir(Path::new("/db")).unwrap();
    let mut file = fs.reuse(&path("f"), &path("f")).unwrap();
    file.append(b"NEW").unwrap();
    let states = outcomes(&fs, "f", mode(FileLoss::Torn, NameLoss::Nothing));
    let expected: [&[u8]; 4] = [b"old bytes", b"Nld bytes", b"NEd bytes", b"NEW bytes"];
    assert_eq!(states, set(&expected));
    file.sync().unwrap();
    file.truncate(3).unwrap();
    let states = outcomes(&fs, "f", mode(FileLoss::Prefix, NameLoss::Nothing));
    assert_eq!(states, set(&[b"NEW bytes", b"NEW"]));
}

/// The names after crashes of this state.
fn name_outcomes(fs: &MemFs, names: NameLoss) -> BTreeSet<String> {
    let list = |seed| {
        let copy = fs.crashed_copy(seed, mode(FileLoss::Nothing, names));
        let mut list: Vec<String> = copy
            .list(Path::new("/db"))
            .unwrap()
            .into_iter()
            .map(|n| {
                format!("{n}={}", String::from_utf8_lossy(&copy.read_file(&path(&n)).unwrap()))
            })
            .collect();
        list.sort();
        list.join(" ")
    };
    (0..400).map(list).collect()
}

fn strings(items: &[&str]) -> BTreeSet<String> {
    items.iter().map(|s| s.to_string()).collect()
}

#[pumice_test_macros::test]
fn strict_names_survive_in_any_subset_and_renames_are_atomic() {
    let fs = new_fs();
    write_file(&fs, &path("CURRENT"), b"1", true).unwrap();
    fs.sync_dir(Path::new("/db")).unwrap();
    write_file(&fs, &path("a"), b"A", true).unwrap();
    write_file(&fs, &path("tmp"), b"2", true).unwrap();
    fs.rename(&path("tmp"), &path("CURRENT")).unwrap();
    let expected = [
        "CURRENT=1",
        "CURRENT=2",
        "CURRENT=1 a=A",
        "CURRENT=2 a=A",
        "CURRENT=1 tmp=2",
        "CURRENT=1 a=A tmp=2",
    ];
    assert_eq!(name_outcomes(&fs, NameLoss::Strict), strings(&expected));
    let journal = ["CURRENT=1", "CURRENT=1 a=A", "CURRENT=1 a=A tmp=2", "CURRENT=2 a=A"];
    assert_eq!(name_outcomes(&fs, NameLoss::Journal), strings(&journal));
    assert_eq!(name_outcomes(&fs, NameLoss::Unsynced), strings(&["CURRENT=1"]));
    assert_eq!(name_outcomes(&fs, NameLoss::Nothing), strings(&["CURRENT=2 a=A"]));
    fs.sync_dir(Path::new("/db")).unwrap();
    for names in [NameLoss::Strict, NameLoss::Journal, NameLoss::Unsynced] {
        assert_eq!(name_outcomes(&fs, names), strings(&["CURRENT=2 a=A"]));
    }
}

#[pumice_test_macros::test]
fn a_removed_name_may_come_back() {
    let fs = new_fs();
    write_file(&fs, &path("f"), b"F", true).unwrap();
    fs.sync_dir(Path::new("/db")).unwrap();
    fs.remove(&path("f")).unwrap();
    assert_eq!(name_outcomes(&fs, NameLoss::Strict), strings(&["", "f=F"]));
    fs.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(name_outcomes(&fs, NameLoss::Strict), strings(&[""]));
}

#[pumice_test_macros::test]
fn the_journal_keeps_the_order_across_directories() {
    let fs = new_fs();
    create_dir_durably(&fs, Path::new("/wal"), false).unwrap();
    write_file(&fs, Path::new("/wal/1"), b"w", true).unwrap();
    write_file(&fs, &path("2"), b"d", true).unwrap();
    fs.sync_dir(Path::new("/db")).unwrap();
    let wal_names = |names| -> BTreeSet<usize> {
        let list = |seed| {
            let copy = fs.crashed_copy(seed, mode(FileLoss::Nothing, names));
            assert!(copy.exists(&path("2")).unwrap());
            copy.list(Path::new("/wal")).unwrap().len()
        };
        (0..50).map(list).collect()
    };
    assert_eq!(wal_names(NameLoss::Journal), [1].into());
    assert_eq!(wal_names(NameLoss::Strict), [0, 1].into());
    assert_eq!(wal_names(NameLoss::Unsynced), [0].into());
}

#[pumice_test_macros::test]
fn a_file_with_two_names_stays_one_file() {
    let fs = new_fs();
    write_file(&fs, &path("a"), b"A", true).unwrap();
    fs.link(&path("a"), &path("b")).unwrap();
    fs.crash(0, CrashMode::PROCESS);
    let mut file = fs.reopen_append(&path("a")).unwrap();
    file.append(b"+").unwrap();
    assert_eq!(fs.read_file(&path("b")).unwrap(), b"A+");
}

#[pumice_test_macros::test]
fn a_crash_is_a_function_of_history_and_seed() {
    for seed in 0..20 {
        let [one, two] = [(), ()].map(|()| {
            let fs = two_writes();
            fs.crash(seed, CrashMode::MIXED);
            fs.read_file(&path("f")).unwrap()
        });
        assert_eq!(one, two, "seed {seed}");
    }
}

#[pumice_test_macros::test]
fn handles_and_locks_end_with_the_crash() {
    let fs = two_writes();
    let mut writer = fs.reopen_append(&path("f")).unwrap();
    let random = fs.open_random_with(&path("f"), &ReadFileOptions::default()).unwrap();
    let mut sequential = fs.open_sequential(&path("f")).unwrap();
    let lock = fs.lock(&path("LOCK")).unwrap();
    fs.crash(0, CrashMode::PROCESS);
    assert!(writer.append(b"x").is_err());
    assert!(writer.sync().is_err());
    assert!(writer.truncate(0).is_err());
    assert!(writer.close().is_err());
    assert!(random.read_at(0, &mut [0]).is_err());
    assert!(sequential.read(&mut [0]).is_err());
    assert_eq!(fs.read_file(&path("f")).unwrap(), b"Saabb");
    let held = fs.lock(&path("LOCK")).unwrap();
    drop(lock);
    assert!(fs.lock(&path("LOCK")).is_err(), "an old lock does not release the new one");
    drop(held);
}

#[pumice_test_macros::test]
fn a_failed_sync_behaves_in_one_of_three_ways() {
    for failure in [FsyncFailure::ReadableThenLost, FsyncFailure::Durable, FsyncFailure::OldData] {
        let fs = two_writes();
        let mut file = fs.reopen_append(&path("f")).unwrap();
        fs.add_fault(FaultRule::once(FaultOp::Sync, "*", 0, Fault::Fsync(failure)));
        file.sync().unwrap_err();
        file.sync().unwrap();
        let now = fs.read_file(&path("f")).unwrap();
        assert_eq!(now, if failure == FsyncFailure::OldData { &b"S"[..] } else { b"Saabb" });
        fs.crash(0, CrashMode::PROCESS);
        let later = fs.read_file(&path("f")).unwrap();
        assert_eq!(later, if failure == FsyncFailure::Durable { &b"Saabb"[..] } else { b"S" });
    }
}

#[pumice_test_macros::test]
fn rules_count_and_choose() {
    let fs = new_fs();
    fs.add_fault(FaultRule {
        op: Some(FaultOp::Write),
        path_glob: "*.sst".to_string(),
        skip: 1,
        count: 2,
        fault: Fault::Enospc,
    });
    let (mut sst, mut log) = (create(&fs, "1.sst"), create(&fs, "1.log"));
    let results: Vec<bool> = (0..5).map(|_| sst.append(b"x").is_ok()).collect();
    assert_eq!(results, [true, false, false, true, true]);
    log.append(b"x").unwrap();
    assert_eq!(fs.fault_log().len(), 2);
    fs.add_fault(FaultRule::always(FaultOp::Open, "/db/1.*", Fault::Emfile));
    let e = fs.open_random_with(&path("1.sst"), &ReadFileOptions::default()).err().unwrap();
    assert!(e.to_string().ends_with("Too many open files"), "{e}");
    fs.clear_faults();
    fs.open_random_with(&path("1.sst"), &ReadFileOptions::default()).unwrap();
}

#[pumice_test_macros::test]
fn a_short_write_leaves_a_part() {
    let fs = new_fs();
    fs.add_fault(FaultRule::always(FaultOp::Write, "*", Fault::ShortWrite));
    let mut lengths = BTreeSet::new();
    for _ in 0..20 {
        create(&fs, "f").append(&[7; 4096]).unwrap_err();
        lengths.insert(fs.file_size(&path("f")).unwrap());
    }
    assert!(lengths.len() > 5 && lengths.iter().all(|bytes| *bytes < 4096), "{lengths:?}");
}

#[pumice_test_macros::test]
fn the_quota_is_a_full_device() {
    let fs = new_fs();
    fs.set_quota(Some(1000));
    let mut file = create(&fs, "f");
    file.append(&[1; 800]).unwrap();
    let e = file.append(&[1; 300]).unwrap_err();
    assert!(e.is_no_space());
    let expected = "IO error: No space left on device: While appending to file: /db/f: ";
    assert!(e.to_string().starts_with(expected), "{e}");
    assert_eq!((fs.used_bytes(), fs.free_space(Path::new("/db")).unwrap()), (1000, 0));
    fs.remove(&path("f")).unwrap();
    assert_eq!(fs.used_bytes(), 1000, "the file is still open");
    drop(file);
    assert_eq!(fs.used_bytes(), 0);
    write_file(&fs, &path("g"), &[1; 1000], true).unwrap();
}

#[pumice_test_macros::test]
fn a_halt_stops_everything_at_a_chosen_change() {
    for changes in 0..6 {
        let fs = new_fs();
        fs.halt_after(changes);
        let result = write_file(&fs, &path("f"), b"data", true)
            .and_then(|()| fs.rename(&path("f"), &path("g")))
            .and_then(|()| fs.sync_dir(Path::new("/db")));
        assert_eq!(result.is_ok(), changes >= 5, "{changes}");
        if changes < 5 {
            assert!(fs.list(Path::new("/db")).is_err());
        }
        fs.crash(0, CrashMode::UNSYNCED);
        assert_eq!(fs.list(Path::new("/db")).unwrap().len(), usize::from(changes >= 5));
    }
}

#[pumice_test_macros::test]
fn rot_is_durable() {
    let fs = new_fs();
    write_file(&fs, &path("f"), b"data", true).unwrap();
    fs.sync_dir(Path::new("/db")).unwrap();
    fs.damage(&path("f"), |bytes| bytes[1] ^= 1).unwrap();
    fs.crash(0, CrashMode::UNSYNCED);
    assert_eq!(fs.read_file(&path("f")).unwrap(), b"d`ta");
    assert!(fs.damage(&path("none"), |_| {}).is_err());
}

#[pumice_test_macros::test]
fn used_bytes_are_the_sum_of_the_files_whatever_happens() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let fs = new_fs();
        for _ in 0..100 {
            let name = path(&format!("{}", rng.uniform(5)));
            match rng.uniform(8) {
                0 => drop(fs.remove(&name)),
                1 => drop(fs.rename(&name, &path(&format!("{}", rng.uniform(5))))),
                2 => drop(fs.truncate(&name, rng.uniform(2000))),
                3 => fs.crash(rng.next_u64(), CrashMode::MIXED),
                4 => fs.sync_dir(Path::new("/db")).unwrap(),
                5 => write_file(&fs, &name, &rng.bytes(50), rng.clone().one_in(2)).unwrap(),
                _ => {
                    let mut file = fs.reopen_append(&name).unwrap();
                    file.append(&vec![1; rng.uniform(3000) as usize]).unwrap();
                }
            }
        }
        fs.crash(seed, CrashMode::MIXED);
        let list = fs.list(Path::new("/db")).unwrap();
        let sum: u64 = list.iter().map(|n| fs.file_size(&path(n)).unwrap()).sum();
        assert_eq!(fs.used_bytes(), sum, "seed {seed}");
    }
}

/// Synced prefixes survive every crash; this is also the speed the crash suites rely on.
#[pumice_test_macros::test]
fn synced_bytes_survive_ten_thousand_crashes() {
    for seed in 0..10_000 {
        let mut rng = Rng::new(seed);
        let fs = new_fs();
        let options = WriterOptions::new(4096);
        let mut writer = BufferedWriter::new(create(&fs, "f"), options);
        fs.sync_dir(Path::new("/db")).unwrap();
        let (mut all, mut synced) = (Vec::new(), 0);
        for _ in 0..100 {
            let data = vec![rng.next_u64() as u8 | 1; rng.uniform(300) as usize];
            writer.append(&data).unwrap();
            all.extend(data);
            match rng.uniform(10) {
                0 => {
                    writer.sync(false).unwrap();
                    synced = all.len();
                }
                1 => writer.flush().unwrap(),
                _ => {}
            }
        }
        fs.crash(seed, CrashMode::MIXED);
        let left = fs.read_file(&path("f")).unwrap();
        assert!(left.len() >= synced && left.len() <= all.len(), "seed {seed}");
        assert!(left[..synced] == all[..synced], "seed {seed}");
        let fits = |(at, byte): (usize, &u8)| *byte == all[at] || *byte == 0;
        assert!(left.iter().enumerate().all(fits), "seed {seed}");
    }
}

#[pumice_test_macros::test]
fn changes_are_noted_on_request() {
    let fs = new_fs();
    create(&fs, "before").append(b"x").unwrap();
    fs.note_changes();
    let before = fs.change_count();
    let mut file = create(&fs, "f");
    file.append(b"x").unwrap();
    fs.read_file(&path("f")).unwrap();
    file.sync().unwrap();
    fs.clear_faults();
    fs.remove(&path("f")).unwrap();
    let noted = fs.noted_changes();
    assert_eq!(noted.len() as u64, fs.change_count() - before);
    let expected = [FaultOp::Create, FaultOp::Write, FaultOp::Sync, FaultOp::Remove];
    assert_eq!(noted, expected.map(|op| (op, path("f"))));
}
