//! Rates, ratio, chunks, links, failures and the end of the scheduler, on simulated time.
//!
//! Plain #[test]: a simulation is a runtime of its own.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::file_system::{FileOptions, write_file};
use crate::mem::{Fault, FaultOp, FaultRule, MemFs};
use crate::{SstFileManager, SstFileManagerOptions};
use pumice_port::sim;
use std::sync::atomic::AtomicU64;

const DIR: &str = "/db";
const KB: u64 = 1000;
const MB: u64 = 1000 * KB;

/// Runs `test` under a few schedules.
fn simulate(test: fn(&Rig)) {
    for seed in 0..8 {
        let limits =
            sim::Options { max_virtual_nanos: 3600 * 1_000_000_000, ..sim::Options::new(seed) };
        let (report, outcome) = sim::run(&limits, || test(&Rig::new(seed)));
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok() && stuck.is_empty(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

#[derive(Default)]
struct Counts {
    marked: AtomicU64,
    at_once: AtomicU64,
    deleted: AtomicU64,
    failed: AtomicU64,
    hindered: AtomicU64,
}

impl DeletionEvents for Counts {
    fn deleted_immediately(&self, _path: &Path) {
        self.at_once.fetch_add(1, Ordering::Relaxed);
    }
    fn marked_trash(&self, _trash: &Path) {
        self.marked.fetch_add(1, Ordering::Relaxed);
    }
    fn trash_deleted(&self, _trash: &Path, result: &Result<()>) {
        let count = if result.is_ok() { &self.deleted } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }
    fn hindered(&self, _path: &Path, _error: &Error) {
        self.hindered.fetch_add(1, Ordering::Relaxed);
    }
}

struct Rig {
    disk: MemFs,
    fs: Arc<dyn FileSystem>,
    counts: Arc<Counts>,
    events: Arc<dyn DeletionEvents>,
}

impl Rig {
    fn new(seed: u64) -> Self {
        let disk = MemFs::new(seed);
        disk.create_dir_all(Path::new(DIR)).unwrap();
        let counts = Arc::new(Counts::default());
        Rig { fs: disk.shared(), disk, events: Arc::clone(&counts) as _, counts }
    }
    /// A manager that deletes this many bytes a second, with no limit for the share of trash.
    fn manager(&self, rate_bytes_per_sec: u64, bytes_max_delete_chunk: u64) -> SstFileManager {
        let max_trash_db_ratio = 1000.0;
        SstFileManager::new(&SstFileManagerOptions {
            rate_bytes_per_sec,
            max_trash_db_ratio,
            bytes_max_delete_chunk,
        })
        .unwrap()
    }
    /// Makes a tracked table file of this many bytes.
    fn table(&self, manager: &SstFileManager, number: u64, bytes: u64) -> PathBuf {
        let path = crate::filename::TableDirs::of(DIR).table(0, number);
        let content = vec![7; usize::try_from(bytes).unwrap()];
        write_file(&*self.fs, &path, &content, true).unwrap();
        manager.on_add_file(&path, bytes);
        path
    }
    fn deletion<'a>(&'a self, path: &'a Path) -> Deletion<'a> {
        Deletion { fs: &self.fs, path, events: Some(&self.events) }
    }
    fn delete(&self, manager: &SstFileManager, path: &Path) {
        manager.delete_file(self.deletion(path)).unwrap();
    }
    fn names(&self) -> Vec<String> {
        let mut names = self.fs.list(Path::new(DIR)).unwrap();
        names.sort();
        names
    }
    /// Marked, deleted at once, deleted as trash, not deleted, hindered.
    fn counts(&self) -> [u64; 5] {
        let c = &self.counts;
        [&c.marked, &c.at_once, &c.deleted, &c.failed, &c.hindered]
            .map(|count| count.load(Ordering::Relaxed))
    }
}

fn seconds(since_micros: u64) -> f64 {
    (now_micros() - since_micros) as f64 / 1e6
}

#[test]
fn files_are_deleted_at_the_rate() {
    simulate(|rig| {
        let manager = rig.manager(100 * KB, 0);
        let files: Vec<_> = (1..=10).map(|n| rig.table(&manager, n, 50 * KB)).collect();
        let began = now_micros();
        files.iter().for_each(|file| rig.delete(&manager, file));
        assert!(seconds(began) < 0.1, "nobody waits for a deletion");
        assert!(rig.names().iter().all(|name| name.ends_with(".sst.trash")), "{:?}", rig.names());
        thread::sleep(Duration::from_millis(250));
        assert_eq!(rig.names().len(), 9, "{:?}", rig.names());
        assert_eq!((manager.total_trash_size(), manager.total_size()), (450 * KB, 450 * KB));
        thread::sleep(Duration::from_millis(2000));
        // One at once, another every half second.
        assert_eq!(rig.names().len(), 5, "{:?}", rig.names());
        assert_eq!((manager.total_trash_size(), manager.total_size()), (250 * KB, 250 * KB));
        manager.wait_for_empty_trash();
        assert!((4.99..5.2).contains(&seconds(began)), "took {}", seconds(began));
        assert_eq!((manager.total_trash_size(), manager.total_size()), (0, 0));
        assert_eq!((rig.names().len(), rig.counts()), (0, [10, 0, 10, 0, 0]));
        // Idle time does not count for later deletions.
        thread::sleep(Duration::from_secs(100));
        let began = now_micros();
        for n in 20..24 {
            rig.delete(&manager, &rig.table(&manager, n, 100 * KB));
        }
        manager.wait_for_empty_trash();
        assert!((3.99..4.2).contains(&seconds(began)), "took {}", seconds(began));
    });
}

#[test]
fn a_new_rate_counts_at_once() {
    simulate(|rig| {
        let manager = rig.manager(1, 0);
        for n in 1..=5 {
            rig.delete(&manager, &rig.table(&manager, n, 100 * KB));
        }
        thread::sleep(Duration::from_secs(60));
        assert_eq!(rig.names().len(), 4, "the second comes in a day");
        let began = now_micros();
        manager.set_delete_rate_bytes_per_second(100 * KB);
        thread::sleep(Duration::from_millis(1500));
        assert_eq!(rig.names().len(), 2);
        manager.set_delete_rate_bytes_per_second(0);
        manager.wait_for_empty_trash();
        assert!(seconds(began) < 1.7, "took {}", seconds(began));
        assert_eq!(rig.counts(), [5, 0, 5, 0, 0]);
        rig.delete(&manager, &rig.table(&manager, 9, KB));
        assert_eq!(rig.counts(), [5, 1, 5, 0, 0], "nothing is paced at rate 0");
    });
}

#[test]
fn too_much_trash_is_not_put_off() {
    simulate(|rig| {
        let manager = rig.manager(KB, 0);
        manager.set_max_trash_db_ratio(0.25).unwrap();
        let files: Vec<_> = (1..=10).map(|n| rig.table(&manager, n, 100 * KB)).collect();
        for file in &files[..5] {
            rig.delete(&manager, file);
        }
        // No more than a quarter of a megabyte was trash when the first three came, of which the
        // first may have been deleted since; for the others the share of trash in what is left
        // decides.
        thread::sleep(Duration::from_millis(100));
        let [marked, at_once, ..] = rig.counts();
        assert_eq!(marked + at_once, 5);
        assert!((3..=4).contains(&marked), "{marked} of 5");
        let trash = rig.names().iter().filter(|name| name.ends_with(".trash")).count();
        assert_eq!(manager.total_trash_size(), trash as u64 * 100 * KB);
        assert!(manager.set_max_trash_db_ratio(-0.1).is_err());
        assert!(manager.set_max_trash_db_ratio(f64::NAN).is_err());
        assert_eq!(manager.max_trash_db_ratio(), 0.25);
    });
}

#[test]
fn large_files_shrink_and_linked_ones_do_not() {
    simulate(|rig| {
        let manager = rig.manager(MB, MB);
        let large = rig.table(&manager, 1, 5 * MB + 1);
        let linked = rig.table(&manager, 2, 3 * MB);
        let other = Path::new("/db/other");
        rig.fs.link(&linked, other).unwrap();
        assert_eq!(rig.fs.num_file_links(&linked).unwrap(), 2);
        let began = now_micros();
        rig.delete(&manager, &large);
        rig.delete(&manager, &linked);
        for megabytes in (0..5).rev() {
            thread::sleep(Duration::from_millis(if megabytes == 4 { 500 } else { 1000 }));
            let trash = Path::new("/db/000001.sst.trash");
            assert_eq!(rig.fs.file_size(trash).unwrap(), megabytes * MB + 1);
            assert_eq!(manager.total_trash_size(), (3 + megabytes) * MB + 1);
            assert_eq!(manager.total_size(), 8 * MB + 1, "until the file is gone");
        }
        manager.wait_for_empty_trash();
        assert!((7.99..8.2).contains(&seconds(began)), "took {}", seconds(began));
        assert_eq!(rig.fs.file_size(other).unwrap(), 3 * MB, "the other name has all of it");
        assert_eq!((rig.names(), rig.counts()), (vec!["other".to_string()], [2, 0, 2, 0, 0]));
    });
}

/// A file that cannot be cut is deleted in one piece, one that cannot be renamed at once.
#[test]
fn what_fails_is_done_in_another_way() {
    simulate(|rig| {
        let manager = rig.manager(MB, MB);
        for (op, glob) in [(FaultOp::Create, "*.trash"), (FaultOp::Sync, "*.trash")] {
            rig.disk.add_fault(FaultRule::always(op, glob, Fault::Eio));
            rig.delete(&manager, &rig.table(&manager, 1, 3 * MB));
            manager.wait_for_empty_trash();
            rig.disk.clear_faults();
        }
        assert_eq!((rig.names().len(), rig.counts()), (0, [2, 0, 2, 0, 2]));
        for (op, glob) in [(FaultOp::Rename, "*"), (FaultOp::Stat, "*.trash")] {
            rig.disk.add_fault(FaultRule::always(op, glob, Fault::Eio));
            rig.delete(&manager, &rig.table(&manager, 2, MB));
            rig.disk.clear_faults();
            assert_eq!(rig.names().len(), 0);
        }
        assert_eq!(rig.counts(), [2, 2, 2, 0, 4]);
        sim::refuse_tasks("pumice:trash", 1);
        rig.delete(&manager, &rig.table(&manager, 3, 10 * MB));
        assert_eq!((rig.names().len(), rig.counts()), (0, [3, 2, 3, 0, 4]), "no thread, no queue");
        rig.delete(&manager, &rig.table(&manager, 4, MB));
        manager.wait_for_empty_trash();
        assert_eq!((rig.names().len(), rig.counts()), (0, [4, 2, 4, 0, 4]));
        let missing = manager.delete_file(rig.deletion(Path::new("/db/000077.sst")));
        assert!(missing.unwrap_err().is_not_found());
        assert_eq!((manager.total_size(), manager.total_trash_size()), (0, 0));
        assert_eq!(rig.counts(), [4, 2, 4, 0, 4]);
    });
}

/// What cannot be deleted stays counted, with its error, until it is retried.
#[test]
fn what_cannot_be_deleted_stays() {
    simulate(|rig| {
        let manager = rig.manager(MB, 0);
        rig.disk.add_fault(FaultRule::always(FaultOp::Remove, "*", Fault::Eio));
        rig.delete(&manager, &rig.table(&manager, 1, MB));
        manager.wait_for_empty_trash();
        assert_eq!((rig.names().len(), rig.counts()), (1, [1, 0, 0, 1, 0]));
        assert_eq!((manager.total_size(), manager.total_trash_size()), (MB, MB));
        let trash = Path::new("/db/000001.sst.trash");
        assert!(manager.background_errors()[trash].to_string().contains("unlink"));
        rig.disk.clear_faults();
        manager.delete_existing_trash(rig.deletion(trash)).unwrap();
        manager.wait_for_empty_trash();
        assert_eq!((rig.names().len(), rig.counts()), (0, [2, 0, 1, 1, 0]));
        assert_eq!((manager.total_size(), manager.total_trash_size()), (0, 0));
        assert!(manager.background_errors().is_empty());
    });
}

#[test]
fn the_end_leaves_trash_that_another_manager_finds() {
    simulate(|rig| {
        let manager = rig.manager(1, 0);
        for n in 1..=4 {
            rig.delete(&manager, &rig.table(&manager, n, 10 * KB));
        }
        thread::sleep(Duration::from_secs(1));
        let began = now_micros();
        drop(manager);
        assert!(seconds(began) < 0.1, "the end does not wait out a pause");
        let left = rig.names();
        assert_eq!(left.len(), 3);
        thread::sleep(Duration::from_secs(100_000 / 50));
        assert_eq!(rig.names(), left, "nothing goes on");
        let next = rig.manager(10 * KB, 0);
        next.set_max_trash_db_ratio(0.0).unwrap();
        let began = now_micros();
        for _ in 0..3 {
            for name in &left {
                let path = Path::new(DIR).join(name);
                next.delete_existing_trash(rig.deletion(&path)).unwrap_or_default();
            }
        }
        next.wait_for_empty_trash();
        assert!((2.99..3.2).contains(&seconds(began)), "took {}", seconds(began));
        assert_eq!((next.total_size(), next.total_trash_size()), (0, 0));
        assert_eq!((rig.names().len(), rig.counts()[3]), (0, 0));
    });
}

#[test]
fn namesakes_and_logs() {
    simulate(|rig| {
        let manager = rig.manager(100, 0);
        for name in ["000001.sst.trash", "000001.sst0.trash"] {
            rig.fs.create(&Path::new(DIR).join(name), &FileOptions::default()).unwrap();
        }
        rig.delete(&manager, &rig.table(&manager, 1, KB));
        let log = crate::filename::log_file(Path::new(DIR), 2);
        write_file(&*rig.fs, &log, &[1; 500], true).unwrap();
        rig.delete(&manager, &log);
        let trash = Path::new("/db/000001.sst1.trash").to_path_buf();
        let both = manager.tracked_files();
        assert!(both.is_empty() || both.keys().collect::<Vec<_>>() == [&trash], "{both:?}");
        assert!(manager.total_trash_size() >= 500, "logs are trash, but not tracked");
        manager.wait_for_empty_trash();
        assert_eq!(rig.names(), ["000001.sst.trash", "000001.sst0.trash"]);
        assert_eq!((manager.total_size(), manager.total_trash_size()), (0, 0));
    });
}

/// Waiting for a bucket does not wait for others.
#[test]
fn buckets() {
    simulate(|rig| {
        let manager = rig.manager(100 * KB, 0);
        let bucket = Arc::new(TrashBucket::default());
        let linked = rig.table(&manager, 1, 100 * KB);
        rig.fs.link(&linked, Path::new("/db/other")).unwrap();
        manager.delete_uncounted(rig.deletion(&linked), &bucket).unwrap();
        assert_eq!(rig.counts(), [0, 1, 0, 0, 0]);
        let began = now_micros();
        let file = rig.table(&manager, 2, 200 * KB);
        manager.delete_uncounted(rig.deletion(&file), &bucket).unwrap();
        assert_eq!(manager.total_trash_size(), 0, "not counted");
        rig.delete(&manager, &rig.table(&manager, 3, 900 * KB));
        manager.wait_for_trash_bucket(&bucket);
        assert!((1.99..2.2).contains(&seconds(began)), "took {}", seconds(began));
        assert!(rig.names().len() <= 2, "{:?}", rig.names());
        manager.wait_for_empty_trash();
        assert_eq!(rig.names(), ["other"]);
    });
}
