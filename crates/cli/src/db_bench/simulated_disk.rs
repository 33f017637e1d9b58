//! `--simulate_hdd`, `--simulate_hybrid_fs_file`: the file system below, with files that are as
//! slow as on hard disks.
//!
//! A request takes a fixed time and some for each byte; a limiter that all files share lets through
//! as much of that time as the disks have. Slow are, of all files or of those in a list: reads at
//! any position, announcements of them, and what a sync, or an append that bypasses the page cache,
//! brings to the device, of files that are made here. These are the times and the calls of
//! RocksDB's SimulatedHybridFileSystem.
//!
//! The list is a file with a path a line. It is read at the start, gets the files that are made
//! with the temperature kWarm, loses those that are removed, and is written at the end.
//!
//! Thread safety: any thread. What is slow suspends its caller.

use super::flags::Flags;
use pumice::{FileSystem, RateLimiter, RateLimiterOptions, Result};
use pumice_env::{
    FileOptions, FileSyncer, FileSystemWrapper, IoKind, IoPriority, RandomAccessFile,
    RandomAccessFileWrapper, ReadFileOptions, ReadRequest, Temperature, WritableFile,
    WritableFileWrapper, write_file,
};
use pumice_port::sync::Mutex;
use pumice_port::thread::sleep;
use pumice_port::time::now_micros;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Microseconds that a request takes.
const REQUEST_MICROS: u64 = 12_200;

/// Microseconds that a byte of it takes.
const BYTE_MICROS: f64 = 0.005215;

/// The limiter counts bytes: a microsecond is so many.
const TOKENS_PER_MICRO: u64 = 1024;

/// What is requested of the limiter at once.
const TOKENS_AT_ONCE: u64 = 1_000_000;

/// See the module head.
pub struct SimulatedDisks {
    inner: Arc<dyn FileSystem>,
    disks: Arc<Disks>,
    /// All files are slow, not only those of the list.
    all: bool,
    /// The list, with the file that it is kept in.
    list: Option<(PathBuf, Mutex<BTreeSet<String>>)>,
}

impl SimulatedDisks {
    /// The file system that `flags` ask for, over `inner`: that one, if they ask for none.
    ///
    /// # Errors
    /// There is no disk, or the list cannot be read.
    pub fn wanted(
        flags: &Flags,
        inner: Arc<dyn FileSystem>,
    ) -> std::result::Result<Arc<dyn FileSystem>, String> {
        let list = &flags.simulate_hybrid_fs_file;
        let is_listed = !list.as_os_str().is_empty();
        // As in RocksDB, a file system that is named comes before one that is simulated.
        let is_named = !flags.env_uri.is_empty() || !flags.fs_uri.is_empty();
        if is_named || (!flags.simulate_hdd && !is_listed) {
            return Ok(inner);
        }
        let count = u64::try_from(flags.simulate_hybrid_hdd_multipliers).unwrap_or(0);
        if count == 0 {
            return Err("simulate_hybrid_hdd_multipliers must be at least 1".into());
        }
        let list = match is_listed {
            true => Some((list.clone(), Mutex::new(read_list(&*inner, list)?))),
            false => None,
        };
        let (disks, all) = (Arc::new(Disks::new(count)), flags.simulate_hdd);
        Ok(Arc::new(SimulatedDisks { inner, disks, all, list }))
    }

    fn is_slow(&self, path: &Path) -> bool {
        let is_listed = || {
            let list = self.list.as_ref();
            list.is_some_and(|(_, listed)| listed.lock().contains(&*path.to_string_lossy()))
        };
        self.all || is_listed()
    }
}

/// The files of the list at `path`, which need not exist.
fn read_list(fs: &dyn FileSystem, path: &Path) -> std::result::Result<BTreeSet<String>, String> {
    let list = match fs.exists(path) {
        Ok(false) => return Ok(BTreeSet::new()),
        Ok(true) => fs.read_file(path),
        Err(error) => Err(error),
    };
    let list =
        list.map_err(|error| format!("Error reading from file {}: {error}", path.display()))?;
    let listed: BTreeSet<String> =
        String::from_utf8_lossy(&list).lines().map(str::to_string).collect();
    listed.iter().for_each(|file| eprintln!("Warm file {file}"));
    Ok(listed)
}

impl Drop for SimulatedDisks {
    fn drop(&mut self) {
        let Some((path, listed)) = &self.list else { return };
        let listed: String = listed.lock().iter().map(|file| format!("{file}\n")).collect();
        if let Err(error) = write_file(&*self.inner, path, listed.as_bytes(), true) {
            eprintln!("Error writing to file {}: {error}", path.display());
        }
    }
}

impl FileSystemWrapper for SimulatedDisks {
    fn wrapped(&self) -> &dyn FileSystem {
        &*self.inner
    }
    fn is_own(&self) -> bool {
        self.inner.is_own()
    }
    fn open_random_with(
        &self,
        path: &Path,
        options: &ReadFileOptions,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        let inner = self.inner.open_random_with(path, options)?;
        Ok(match self.is_slow(path) {
            true => Arc::new(Random { inner, disks: Arc::clone(&self.disks) }),
            false => inner,
        })
    }
    fn create(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        let inner = self.inner.create(path, options)?;
        if options.temperature == Temperature::Warm
            && let Some((_, listed)) = &self.list
        {
            listed.lock().insert(path.to_string_lossy().into_owned());
        }
        if !self.is_slow(path) {
            return Ok(inner);
        }
        let unsynced = Unsynced { bytes: AtomicU64::new(0), disks: Arc::clone(&self.disks) };
        let (is_direct, unsynced) = (options.direct, Arc::new(unsynced));
        Ok(Box::new(Writable { inner, is_direct, unsynced }))
    }
    fn remove(&self, path: &Path) -> Result<()> {
        if let Some((_, listed)) = &self.list {
            listed.lock().remove(&*path.to_string_lossy());
        }
        self.inner.remove(path)
    }
}

/// The time of the disks.
struct Disks {
    limiter: RateLimiter,
}

impl Disks {
    /// Requires: `count` is above 0.
    fn new(count: u64) -> Self {
        let limiter = RateLimiter::new(&RateLimiterOptions {
            refill_period_us: 1000,
            ..RateLimiterOptions::new(count.saturating_mul(TOKENS_PER_MICRO * 1_000_000))
        });
        Disks { limiter: limiter.expect("a rate above 0") }
    }

    /// How long a request of `bytes` takes, microseconds.
    fn service_micros(bytes: u64) -> u64 {
        REQUEST_MICROS + (bytes as f64 * BYTE_MICROS) as u64
    }

    fn take(&self, micros: u64) {
        let mut left = micros * TOKENS_PER_MICRO;
        while left > 0 {
            let part = left.min(TOKENS_AT_ONCE);
            self.limiter.request(part, IoPriority::Low, IoKind::Write, None);
            left -= part;
        }
    }

    /// Waits as long as a read of `bytes` takes: the wait for a disk counts.
    fn read(&self, bytes: u64) {
        let (micros, started) = (Self::service_micros(bytes), now_micros());
        self.take(micros);
        let waited = now_micros() - started;
        if waited < micros {
            sleep(Duration::from_micros(micros - waited));
        }
    }

    /// Waits as long as a write of `bytes` takes, and then for a disk.
    fn write(&self, bytes: u64) {
        let micros = Self::service_micros(bytes);
        sleep(Duration::from_micros(micros));
        self.take(micros);
    }
}

struct Random {
    inner: Arc<dyn RandomAccessFile>,
    disks: Arc<Disks>,
}

impl RandomAccessFileWrapper for Random {
    fn wrapped(&self) -> &dyn RandomAccessFile {
        &*self.inner
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.disks.read(buf.len() as u64);
        self.inner.read_at(offset, buf)
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        requests.iter().for_each(|request| self.disks.read(request.buf.len() as u64));
        self.inner.read_batch(requests);
    }
    fn needs_little_stack(&self) -> bool {
        // One after the other, as the arm of a disk.
        false
    }
    fn prefetch(&self, offset: u64, bytes: u64) {
        self.disks.read(bytes);
        self.inner.prefetch(offset, bytes);
    }
}

/// What was written to a file since its last sync.
struct Unsynced {
    bytes: AtomicU64,
    disks: Arc<Disks>,
}

impl Unsynced {
    fn sync(&self) {
        let bytes = self.bytes.swap(0, Relaxed);
        if bytes > 0 {
            self.disks.write(bytes);
        }
    }
}

struct Writable {
    inner: Box<dyn WritableFile>,
    is_direct: bool,
    unsynced: Arc<Unsynced>,
}

impl Writable {
    fn wrote(&self, bytes: usize) {
        match self.is_direct {
            true => self.unsynced.disks.write(bytes as u64),
            false => _ = self.unsynced.bytes.fetch_add(bytes as u64, Relaxed),
        }
    }
}

impl WritableFileWrapper for Writable {
    fn wrapped(&self) -> &dyn WritableFile {
        &*self.inner
    }
    fn wrapped_mut(&mut self) -> &mut dyn WritableFile {
        &mut *self.inner
    }
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.wrote(data.len());
        self.inner.append(data)
    }
    fn overwrite(&mut self, ahead: u64, data: &[u8], step: u64) -> Result<()> {
        self.wrote(data.len());
        self.inner.overwrite(ahead, data, step)
    }
    fn sync(&mut self) -> Result<()> {
        self.unsynced.sync();
        self.inner.sync()
    }
    fn syncer(&self) -> Result<Arc<dyn FileSyncer>> {
        let (inner, unsynced) = (self.inner.syncer()?, Arc::clone(&self.unsynced));
        Ok(Arc::new(Syncer { inner, unsynced }))
    }
}

struct Syncer {
    inner: Arc<dyn FileSyncer>,
    unsynced: Arc<Unsynced>,
}

impl FileSyncer for Syncer {
    fn sync(&self) -> Result<()> {
        self.unsynced.sync();
        self.inner.sync()
    }
}

#[cfg(test)]
mod tests {
    //! Times on the clock of a simulation.
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pumice_env::MemFs;
    use pumice_port::{sim, thread};

    fn simulated(test: impl FnOnce() + Send + 'static) {
        let (report, outcome) = sim::run(&sim::Options::new(1), test);
        assert_eq!(outcome, Ok(()), "{report:?}");
    }

    fn flags(words: &[(&str, &str)]) -> Flags {
        let mut flags = Flags::default();
        words.iter().for_each(|(name, value)| assert!(flags.assign(name, value)));
        flags
    }

    /// Microseconds that `work` took.
    fn micros(work: impl FnOnce()) -> u64 {
        let started = now_micros();
        work();
        now_micros() - started
    }

    /// 10,000 bytes.
    const BYTES: [u8; 10_000] = [7; 10_000];
    const SERVICE: u64 = 12_200 + 52;

    /// What `file` takes for a read of all, a batch of two reads of half, and an announcement.
    fn reads(fs: &dyn FileSystem, path: &str) -> [u64; 3] {
        let file = fs.open_random(Path::new(path)).unwrap();
        let mut bytes = BYTES;
        let one = micros(|| assert_eq!(file.read_at(0, &mut bytes).unwrap(), 10_000));
        let two = micros(|| {
            let (first, second) = bytes.split_at_mut(5000);
            let request = |offset, buf| ReadRequest { offset, buf, result: Ok(0) };
            let mut requests = [request(0, first), request(5000, second)];
            file.read_batch(&mut requests);
            assert!(requests.iter().all(|request| *request.result.as_ref().unwrap() == 5000));
        });
        [one, two, micros(|| file.prefetch(0, 10_000))]
    }

    /// What no disk makes slow: the steps of the simulation alone.
    fn assert_fast(micros: u64) {
        assert!(micros < 1000, "{micros}");
    }

    /// Up to the refills of the limiter, which come each millisecond.
    fn assert_takes(micros: u64, expected: u64) {
        assert!((expected..expected + 2500).contains(&micros), "{micros} for {expected}");
    }

    #[test]
    fn all_files_of_a_disk_are_slow() {
        simulated(|| {
            let inner: Arc<dyn FileSystem> = MemFs::new(0).shared();
            let fs =
                SimulatedDisks::wanted(&flags(&[("simulate_hdd", "true")]), inner.clone()).unwrap();
            let mut file = fs.create(Path::new("/a"), &FileOptions::default()).unwrap();
            // Into the page cache.
            assert_fast(micros(|| file.append(&BYTES).unwrap()));
            let syncer = file.syncer().unwrap();
            // The disk's time, and then the wait for a disk that is free.
            assert!(micros(|| file.sync().unwrap()) >= SERVICE);
            // Nothing is left to sync.
            assert_fast(micros(|| syncer.sync().unwrap()));
            file.append(&BYTES[..1]).unwrap();
            assert!(micros(|| syncer.sync().unwrap()) >= REQUEST_MICROS);
            drop(file);
            thread::sleep(Duration::from_secs(1));
            let [one, two, hint] = reads(&*fs, "/a");
            assert_takes(one, SERVICE);
            assert_takes(two, 2 * (REQUEST_MICROS + 26));
            assert_takes(hint, SERVICE);
            let direct = FileOptions { direct: true, ..FileOptions::default() };
            let mut file = fs.create(Path::new("/b"), &direct).unwrap();
            assert!(micros(|| file.append(&BYTES).unwrap()) >= SERVICE);
            assert_fast(micros(|| file.sync().unwrap()));
            reads(&*inner, "/a").into_iter().for_each(assert_fast);
        });
    }

    /// Eight readers of one disk wait for each other, those of four disks less.
    #[test]
    fn more_disks_serve_more_readers() {
        simulated(|| {
            let took = |disks: &str| {
                let words = [("simulate_hdd", "1"), ("simulate_hybrid_hdd_multipliers", disks)];
                let inner: Arc<dyn FileSystem> = MemFs::new(0).shared();
                write_file(&*inner, Path::new("/a"), &BYTES, false).unwrap();
                let fs = SimulatedDisks::wanted(&flags(&words), inner).unwrap();
                micros(|| {
                    let reader = |_| {
                        let fs = Arc::clone(&fs);
                        thread::spawn("reader", move || reads(&*fs, "/a"))
                    };
                    let readers: Vec<_> = (0..8).map(reader).collect();
                    readers.into_iter().for_each(|reader| _ = reader.join().unwrap());
                })
            };
            // Each reads once and twice the half, and announces once.
            let all = 8 * (2 * SERVICE + 2 * (REQUEST_MICROS + 26));
            let (one, four) = (took("1"), took("4"));
            assert!((all - 2 * SERVICE..all + 2 * SERVICE).contains(&one), "{one}, not {all}");
            assert!(
                (all / 4 - SERVICE..all / 4 + 2 * SERVICE).contains(&four),
                "{four}, not {all} / 4"
            );
        });
    }

    #[test]
    fn a_list_says_which_files_are_slow() {
        simulated(|| {
            let inner: Arc<dyn FileSystem> = MemFs::new(0).shared();
            let list = Path::new("/list");
            for path in ["/a", "/b", "/c"] {
                write_file(&*inner, Path::new(path), &BYTES, false).unwrap();
            }
            let wanted = flags(&[("simulate_hybrid_fs_file", "/list")]);
            drop(SimulatedDisks::wanted(&wanted, inner.clone()).unwrap());
            assert_eq!(inner.read_file(list).unwrap(), b"", "it is made");
            write_file(&*inner, list, b"/c\n/a\n", false).unwrap();
            let fs = SimulatedDisks::wanted(&wanted, inner.clone()).unwrap();
            assert_takes(reads(&*fs, "/a")[0], SERVICE);
            reads(&*fs, "/b").into_iter().for_each(assert_fast);
            fs.remove(Path::new("/c")).unwrap();
            drop(fs);
            assert_eq!(inner.read_file(list).unwrap(), b"/a\n");
            // Those of a disk all are.
            let both = [("simulate_hybrid_fs_file", "/list"), ("simulate_hdd", "1")];
            let fs = SimulatedDisks::wanted(&flags(&both), inner.clone()).unwrap();
            assert_takes(reads(&*fs, "/b")[0], SERVICE);
            fs.remove(Path::new("/a")).unwrap();
            drop(fs);
            assert_eq!(inner.read_file(list).unwrap(), b"");
        });
    }

    #[test]
    fn a_named_file_system_is_not_simulated() {
        let inner: Arc<dyn FileSystem> = MemFs::new(0).shared();
        let same = |words: &[(&str, &str)]| {
            let fs = SimulatedDisks::wanted(&flags(words), inner.clone()).unwrap();
            Arc::ptr_eq(&fs, &inner)
        };
        assert!(same(&[]));
        assert!(same(&[("simulate_hdd", "1"), ("env_uri", "posix")]));
        assert!(!same(&[("simulate_hdd", "1")]));
        let none = [("simulate_hdd", "1"), ("simulate_hybrid_hdd_multipliers", "0")];
        let refused = SimulatedDisks::wanted(&flags(&none), inner.clone()).err().unwrap();
        assert_eq!(refused, "simulate_hybrid_hdd_multipliers must be at least 1");
        let unreadable = flags(&[("simulate_hybrid_fs_file", "/")]);
        let refused = SimulatedDisks::wanted(&unreadable, inner.clone()).err().unwrap();
        assert!(refused.starts_with("Error reading from file /: "), "{refused}");
    }
}
