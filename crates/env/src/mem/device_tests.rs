//! The simulated device, and the faults that need no simulation but break the device's promises.
//!
//! Plain #[test]: a simulation is a runtime of its own.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::file_system::{WritableFile, write_file};
use pumice_port::sim::{self, Options, Report};
use pumice_port::{thread, time};
use std::time::Duration;

const FILE: &str = "/f";

fn path() -> &'static Path {
    Path::new(FILE)
}

fn simulate<T>(seed: u64, body: impl FnOnce() -> T) -> (Report, T) {
    let (report, outcome) = sim::run(&Options::new(seed), body);
    let failed = |failure| panic!("seed {seed}: {failure:?} {:?}", report.stuck);
    (report.clone(), outcome.unwrap_or_else(failed))
}

fn write_one(fs: &MemFs, bytes: &[u8]) -> Box<dyn WritableFile> {
    let mut file = fs.create(path(), &FileOptions::default()).unwrap();
    file.append(bytes).unwrap();
    file
}

fn fails(fs: &MemFs, op: FaultOp, fault: Fault) {
    fs.add_fault(FaultRule::once(op, "*", 0, fault));
}

#[test]
fn operations_take_virtual_time_and_overlap() {
    let body = |parallel: bool| {
        let fs = MemFs::new(1);
        write_file(&fs, path(), &[7; 4096], true).unwrap();
        fs.sync_dir(Path::new("/")).unwrap();
        let start = time::now_nanos();
        let read = move |fs: &MemFs| {
            let file = fs.open_random_with(path(), &ReadFileOptions::default()).unwrap();
            for _ in 0..50 {
                assert_eq!(file.read_at(0, &mut [0; 100]).unwrap(), 100);
            }
        };
        let readers = if parallel { 8 } else { 1 };
        let readers: Vec<_> = (0..readers)
            .map(|_| {
                let fs = fs.clone();
                thread::spawn("reader", move || read(&fs))
            })
            .collect();
        readers.into_iter().for_each(|r| r.join().unwrap());
        time::now_nanos() - start
    };
    let (alone, (report, together)) = (simulate(1, || body(false)).1, simulate(1, || body(true)));
    assert!(alone > 50 * 2_000, "{alone}");
    assert!(together < 3 * alone, "8 readers {together} ns, one {alone} ns");
    assert_eq!(simulate(1, || body(true)).0.trace_hash, report.trace_hash);
    assert_ne!(simulate(2, || body(true)).0.trace_hash, report.trace_hash);
}

/// A write and a sync of the same file by two tasks: the sync covers the write only if that was
/// completed before the sync was submitted.
#[test]
fn a_sync_covers_completed_writes_only() {
    let (mut covered, mut lost_in_flight) = (0, 0);
    for seed in 0..300 {
        let body = || {
            let fs = MemFs::new(seed);
            let mut file = write_one(&fs, b"before");
            fs.sync_dir(Path::new("/")).unwrap();
            let syncer = file.syncer().unwrap();
            let writer = thread::spawn("writer", move || {
                file.append(b"more").unwrap();
                time::now_nanos()
            });
            thread::sleep(Duration::from_nanos(sim::random_below(12_000)));
            let submitted = time::now_nanos();
            syncer.sync().unwrap();
            let completed = writer.join().unwrap();
            let after = fs.cut_power(seed, CrashMode::UNSYNCED);
            (completed < submitted, after.read_file(path()).unwrap())
        };
        let (was_completed, left) = simulate(seed, body).1;
        match (was_completed, left.as_slice()) {
            (true, b"beforemore") => covered += 1,
            (false, b"before") => lost_in_flight += 1,
            // Between the clock readings and the operation itself other things may happen.
            (false, b"beforemore") => {}
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(covered > 20 && lost_in_flight > 20, "{covered} {lost_in_flight}");
}

#[test]
fn nothing_completes_after_the_power_was_cut() {
    let (mut failed, mut done) = (0, 0);
    for seed in 0..200 {
        let body = || {
            let fs = MemFs::new(seed);
            crate::create_dir_durably(&fs, Path::new("/d"), false).unwrap();
            let own = fs.clone();
            let task = thread::spawn("task", move || {
                let mut acknowledged = Vec::new();
                for n in 0..20 {
                    let name = PathBuf::from(format!("/d/{n}"));
                    let made = write_file(&own, &name, &[n; 9], true);
                    if made.and_then(|()| own.sync_dir(Path::new("/d"))).is_err() {
                        break;
                    }
                    acknowledged.push((name, n));
                }
                acknowledged
            });
            thread::sleep(Duration::from_nanos(sim::random_below(60_000_000)));
            let after = fs.cut_power(seed, CrashMode::UNSYNCED);
            let acknowledged = task.join().unwrap();
            for (name, n) in &acknowledged {
                assert_eq!(after.read_file(name).unwrap(), [*n; 9], "seed {seed}");
            }
            assert!(fs.exists(Path::new("/d")).is_err() && after.exists(Path::new("/d")).is_ok());
            acknowledged.len()
        };
        if simulate(seed, body).1 < 20 { failed += 1 } else { done += 1 }
    }
    assert!(failed > 20 && done > 20, "{failed} {done}");
}

#[test]
fn stalls_and_clock_jumps_happen_in_simulations_only() {
    let body = || {
        let fs = MemFs::new(1);
        let mut file = write_one(&fs, b"x");
        fails(&fs, FaultOp::Write, Fault::Stall(5_000_000_000));
        fails(&fs, FaultOp::Sync, Fault::WallJump(-1_000));
        let start = (time::now_nanos(), time::wall_seconds());
        file.append(b"y").unwrap();
        file.sync().unwrap();
        (time::now_nanos() - start.0, start.1 as i64 - time::wall_seconds() as i64)
    };
    let (_, (nanos, back)) = simulate(1, body);
    assert!((5_000_000_000..6_000_000_000).contains(&nanos) && (994..=996).contains(&back));
    let (nanos, back) = body();
    assert!(nanos < 5_000_000_000 && back <= 0);
}

#[test]
fn space_comes_back() {
    let body = || {
        let fs = MemFs::new(1);
        let mut file = write_one(&fs, &[1; 1000]);
        fs.set_quota_for(1500, 2_000_000_000);
        assert!(file.append(&[2; 1000]).unwrap_err().to_string().contains("No space"));
        thread::sleep(Duration::from_secs(2));
        file.append(&[3; 1000]).unwrap();
        fs.free_space(path()).unwrap()
    };
    assert!(simulate(1, body).1 > u64::MAX / 2);
}

#[test]
fn reads_lie_on_command() {
    let fs = MemFs::new(9);
    drop(write_one(&fs, &[0; 1000]));
    let file = fs.open_random_with(path(), &ReadFileOptions::default()).unwrap();
    let mut buf = [0; 800];
    fails(&fs, FaultOp::Read, Fault::ShortRead);
    assert!(file.read_at(0, &mut buf).unwrap() < 800);
    fails(&fs, FaultOp::Read, Fault::BitFlip);
    assert_eq!(file.read_at(0, &mut buf).unwrap(), 800);
    assert_eq!(buf.iter().map(|b| b.count_ones()).sum::<u32>(), 1);
    assert_eq!(file.read_at(0, &mut buf).unwrap(), 800);
    assert_eq!(buf, [0; 800]);
    assert_eq!(fs.fault_log().len(), 2);
}

#[test]
fn bad_ranges_stay_bad_until_written() {
    let fs = MemFs::new(1);
    let mut file = write_one(&fs, &[5; 2048]);
    file.sync().unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    fs.spoil(path(), 600..700).unwrap();
    let reader = fs.open_random_with(path(), &ReadFileOptions::default()).unwrap();
    let readable = |from: u64, bytes: usize| reader.read_at(from, &mut vec![0; bytes]).is_ok();
    assert!(readable(0, 512) && readable(1024, 1024));
    assert!(!readable(0, 513) && !readable(1023, 1) && !readable(700, 10));
    let after = fs.crashed_copy(1, CrashMode::MIXED);
    assert!(after.read_file(path()).is_err());
    // A write that spoils its own sectors, and one that heals them.
    fails(&fs, FaultOp::Write, Fault::BadRange);
    file.append(&[6; 512]).unwrap();
    assert!(!readable(2048, 1));
    file.truncate(0).unwrap();
    file.append(&[7; 4096]).unwrap();
    assert!(readable(0, 4096));
}

#[test]
fn misdirected_writes_report_success() {
    let fs = MemFs::new(1);
    let mut file = write_one(&fs, &[1; 4096]);
    fails(&fs, FaultOp::Write, Fault::Misdirected);
    file.append(&[2; 512]).unwrap();
    file.sync().unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    for data in [fs.read_file(path()), fs.cut_power(1, CrashMode::UNSYNCED).read_file(path())] {
        let data = data.unwrap();
        assert_eq!((data.len(), &data[4096..]), (4608, &[0; 512][..]));
        assert_eq!(data[..4096].iter().filter(|b| **b == 2).count(), 512);
    }
}

#[test]
fn no_time_passes_outside_a_simulation() {
    let fs = MemFs::new(1);
    fs.set_slowness(1_000_000_000);
    let start = time::thread_cpu_nanos();
    write_file(&fs, path(), b"x", true).unwrap();
    assert_eq!(fs.read_file(path()).unwrap(), b"x");
    assert!(time::thread_cpu_nanos() - start < 1_000_000_000);
}
