//! `--use_secondary_db`: the databases follow another process, catching up at an interval.
//!
//! Thread safety: `Following` belongs to the driver; the thread that it starts ends with it.

use super::engine::BenchDb;
use super::flags::Flags;
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::thread::{self, JoinHandle};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Directory of the info log; None if the databases are not secondaries.
pub fn info_log_dir(flags: &Flags, db: &Path) -> Option<PathBuf> {
    flags.use_secondary_db.then(|| secondary_dir(flags, db))
}

/// `--secondary_path`, or its default beside the database.
pub fn secondary_dir(flags: &Flags, db: &Path) -> PathBuf {
    match flags.secondary_path.as_os_str().is_empty() {
        true => db.with_file_name("dbbench_secondary"),
        false => flags.secondary_path.clone(),
    }
}

#[derive(Default)]
struct Shared {
    over: Mutex<bool>,
    changed: Condvar,
    updates: AtomicU64,
}

/// Catch-ups under way. See the module head.
pub struct Following {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Following {
    /// Lets `dbs` catch up now and then every `seconds`; never if that is not above 0.
    pub fn start<D: BenchDb>(dbs: Vec<Arc<D>>, seconds: i32) -> Self {
        let shared = Arc::new(Shared::default());
        let seconds = u64::try_from(seconds).unwrap_or(0);
        let with = Arc::clone(&shared);
        let thread = (seconds > 0).then(|| {
            thread::spawn("secondary", move || {
                while dbs.iter().all(|db| with.update(&**db)) && !with.wait(seconds) {}
            })
        });
        Following { shared, thread }
    }
}

impl Shared {
    /// One catch-up; returns whether others are to follow.
    fn update<D: BenchDb>(&self, db: &D) -> bool {
        match db.catch_up() {
            Ok(()) => {
                self.updates.fetch_add(1, Relaxed);
                true
            }
            Err(error) => {
                eprintln!("Failed to catch up with primary: {error}");
                false
            }
        }
    }

    /// Waits until the next one is due; returns whether it is over instead.
    fn wait(&self, seconds: u64) -> bool {
        let over = self.over.lock();
        if *over {
            return true;
        }
        *self.changed.wait_timeout(over, Duration::from_secs(seconds)).0
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        *self.shared.over.lock() = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        println!("Secondary instance updated  {} times.", self.shared.updates.load(Relaxed));
    }
}
