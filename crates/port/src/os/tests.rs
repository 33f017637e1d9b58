//! Files, locks between processes, identity and priorities.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::fiber::{IoMode, Runtime};
use crate::thread;
use std::path::PathBuf;

/// A directory of its own for a test, removed with the value.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("pumice-port-{name}-{}", pid()));
        create_dir_all(&dir).unwrap();
        TempDir(dir)
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Runs `test` on a thread, and on fibers over either kind of ring.
fn on_each_runtime(test: impl Fn(&str) + Sync) {
    test("thread");
    for (mode, name) in [(IoMode::Uring, "uring"), (IoMode::Threads, "pool")] {
        let runtime = Runtime::builder().loops(1).io(mode).build().unwrap();
        runtime.run(name, || test(name));
    }
}

#[test]
fn files_are_written_read_and_measured() {
    on_each_runtime(|runtime| {
        files_do_what_they_should(&TempDir::new(&format!("files-{runtime}")))
    });
}

/// The effect of `strict_bytes_per_sync`: only with this flag does the call wait.
#[test]
fn a_range_sync_waits_for_what_was_started_before() {
    use super::file::range_sync_flags;
    assert_eq!(range_sync_flags(false), libc::SYNC_FILE_RANGE_WRITE);
    let both = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE;
    assert_eq!(range_sync_flags(true), both);
}

fn files_do_what_they_should(dir: &TempDir) {
    let path = dir.path("f");
    let mut file = File::open(&path, OpenFlags::CREATE).unwrap();
    file.write_all(b"hello ").unwrap();
    file.write_all(b"world").unwrap();
    file.write_all_at(b"J", 0).unwrap();
    file.allocate(0, 1 << 20, true).unwrap();
    file.range_sync(0, 11, false).unwrap();
    file.range_sync(0, 11, true).unwrap();
    file.advise(0, 0, Advice::DontNeed).unwrap();
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    assert_eq!(file.stat().unwrap().bytes, 11);
    assert!(file.stat().unwrap().allocated_bytes >= 1 << 20);
    file.truncate(11).unwrap();
    file.close().unwrap();
    assert_eq!(read_file(&path).unwrap(), b"Jello world");

    let mut file = File::open(&path, OpenFlags::READ).unwrap();
    let mut buf = [0; 20];
    assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
    assert_eq!(file.read_at(&mut buf, 6).unwrap(), 5);
    assert_eq!(&buf[..5], b"world");
    assert_eq!(file.read(&mut buf).unwrap(), 11);
    assert_eq!(file.read(&mut buf).unwrap(), 0);
    assert!(file.write_all(b"x").is_err(), "opened for reading");

    let append = OpenFlags { append: true, ..OpenFlags::READ };
    File::open(&path, append).unwrap().write_all(b"!").unwrap();
    let exclusive = OpenFlags { exclusive: true, ..OpenFlags::CREATE };
    assert!(File::open(&path, exclusive).is_err());
    truncate(&path, 5).unwrap();
    assert_eq!(read_file(&path).unwrap(), b"Jello");
    assert!(!stat(&path).unwrap().is_dir && stat(&dir.0).unwrap().is_dir);
    sync_dir(&dir.0).unwrap();
    assert!(free_space(&dir.0).unwrap() > 0);
    assert_eq!(read_dir(&dir.0).unwrap(), ["f"]);
}

fn pattern(position: usize) -> u8 {
    (position.wrapping_mul(0x9E37_79B9) >> 13) as u8
}

/// A file whose bytes tell their position, none of them in the page cache if the kernel agrees.
fn numbered_file(path: &std::path::Path, bytes: usize, direct: bool) -> File {
    let data: Vec<u8> = (0..bytes).map(pattern).collect();
    let mut file = File::open(path, OpenFlags::CREATE).unwrap();
    file.write_all(&data).unwrap();
    file.sync_all().unwrap();
    file.advise(0, 0, Advice::DontNeed).unwrap();
    File::open(path, OpenFlags { direct, ..OpenFlags::READ }).unwrap()
}

#[test]
fn batches_over_several_files_bring_every_byte() {
    on_each_runtime(|runtime| {
        let dir = TempDir::new(&format!("batches-{runtime}"));
        const BYTES: usize = 1_000_001;
        let files: Vec<File> = (0..4)
            .map(|number| numbered_file(&dir.path(&number.to_string()), BYTES, number % 2 == 0))
            .collect();
        for round in 0..5 {
            let mut bufs: Vec<AlignedBuffer> = (0..150).map(|_| AlignedBuffer::new(8192)).collect();
            let mut reads: Vec<BatchRead<'_>> = bufs
                .iter_mut()
                .enumerate()
                .map(|(i, buf)| BatchRead {
                    file: &files[i % 4],
                    buf,
                    offset: ((i * 37 + round) % 250 * 4096) as u64,
                    result: Ok(0),
                })
                .collect();
            read_batch(&mut reads);
            for read in &reads {
                let n = *read.result.as_ref().unwrap();
                let offset = read.offset as usize;
                assert_eq!(n, 8192.min(BYTES.saturating_sub(offset)), "{runtime} at {offset}");
                assert!((0..n).all(|j| read.buf[j] == pattern(offset + j)));
            }
        }
        let mut buf = AlignedBuffer::new(4096);
        let mut small = [0u8; 100];
        let mut reads = [
            BatchRead { file: &files[0], buf: &mut small, offset: 0, result: Ok(0) },
            BatchRead { file: &files[0], buf: &mut buf, offset: 4096, result: Ok(0) },
        ];
        read_batch(&mut reads);
        assert_eq!(reads[1].result.as_ref().unwrap(), &4096);
        let refused = reads[0].result.as_ref().unwrap_err().raw_os_error();
        assert_eq!(refused, Some(libc::EINVAL), "not aligned");
    });
}

#[test]
fn single_reads_bring_every_byte_whether_cached_or_not() {
    on_each_runtime(|runtime| {
        let dir = TempDir::new(&format!("singles-{runtime}"));
        const BYTES: usize = 3 << 20;
        let file = numbered_file(&dir.path("f"), BYTES, false);
        for round in 0..400 {
            if round % 20 == 0 {
                file.advise(0, 0, Advice::DontNeed).unwrap();
            }
            let offset = round * 104_729 % BYTES;
            let mut buf = vec![0u8; 1 + round * 331 % 70_000];
            let n = file.read_at(&mut buf, offset as u64).unwrap();
            assert_eq!(n, buf.len().min(BYTES - offset));
            assert!((0..n).all(|i| buf[i] == pattern(offset + i)), "{runtime} {round}");
        }
    });
}

const CHILD_LOCK: &str = "PUMICE_TEST_CHILD_LOCK";

/// Started again as another process, with the file's path in the environment, this test tries to
/// take the lock and says by its exit code what happened.
#[test]
fn a_lock_keeps_other_processes_out() {
    if let Some(path) = std::env::var_os(CHILD_LOCK) {
        let code = match FileLock::acquire(std::path::Path::new(&path)) {
            Ok(_) => 0,
            Err(LockFailure::Lock(e)) if e.raw_os_error() == Some(libc::EAGAIN) => 10,
            Err(_) => 20,
        };
        std::process::exit(code);
    }
    let dir = TempDir::new("lock");
    let path = dir.path("LOCK");
    let child = || {
        let name = "os::tests::a_lock_keeps_other_processes_out";
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--exact", name]).env(CHILD_LOCK, &path).output().unwrap();
        output.status.code().unwrap()
    };
    let lock = FileLock::acquire(&path).unwrap();
    assert_eq!(child(), 10);
    // Failing here must not have released it.
    assert!(matches!(FileLock::acquire(&path), Err(LockFailure::HeldHere { .. })));
    assert_eq!(child(), 10);
    drop(lock);
    assert_eq!(child(), 0);
    drop(FileLock::acquire(&path).unwrap());
    let none = dir.path("none/LOCK");
    assert!(matches!(FileLock::acquire(&none), Err(LockFailure::Open(_))));
}

/// A lock file is removed by the holder of its lock: a process that opened it before must not lock
/// the unlinked file while others make a new one.
#[test]
fn a_lock_is_of_the_file_that_has_the_name() {
    let dir = TempDir::new("renewed-lock");
    let path = dir.path("LOCK");
    let mut removed = false;
    let lock = FileLock::acquire_with(&path, &mut || {
        if !std::mem::replace(&mut removed, true) {
            std::fs::remove_file(&path).unwrap();
        }
    });
    assert!(removed);
    let lock = lock.unwrap();
    assert!(matches!(FileLock::acquire(&path), Err(LockFailure::HeldHere { .. })));
    drop(lock);
    // Not forever.
    let endless = FileLock::acquire_with(&path, &mut || std::fs::remove_file(&path).unwrap());
    assert!(matches!(endless, Err(LockFailure::Lock(_))), "{endless:?}");
}

#[test]
fn the_process_knows_itself() {
    assert!(!hostname().is_empty());
    assert!(total_memory_bytes() > 1 << 20);
    assert!(current_cpu() < 4096);
    let (mut a, mut b) = ([0; 300], [0; 300]);
    read_random_bytes(&mut a);
    read_random_bytes(&mut b);
    assert_ne!(a, b);
    let other = thread::spawn("other", || (thread_id(), thread::current_id())).join().unwrap();
    assert_ne!(other, (thread_id(), thread::current_id()));
    assert_eq!(thread::current_id(), thread::current_id());
}

#[test]
fn huge_pages_are_as_wanted() {
    // PR_GET_THP_DISABLE: 0 forbids nothing, 1 everything, 3 all but memory that has asked.
    // SAFETY: integers only.
    let forbidden = || unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) };
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let is_always = setting.is_ok_and(|setting| setting.contains("[always]"));
    use_huge_pages(HugePages::Advised);
    assert!([3, i32::from(is_always)].contains(&forbidden()), "{}", forbidden());
    use_huge_pages(HugePages::All);
    assert_eq!(forbidden(), 0);
}

#[test]
fn a_huge_region_is_aligned_zeroed_and_asks_for_huge_pages() {
    let region = HugeRegion::new(HUGE_PAGE_BYTES + 1).unwrap();
    let start = region.start();
    assert_eq!((region.bytes(), start.as_ptr() as usize % HUGE_PAGE_BYTES), (4 << 20, 0));
    // SAFETY: the region's own bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), region.bytes()) };
    assert!(bytes.iter().all(|byte| *byte == 0));
    bytes.fill(7);
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let first = format!("{:x}-", start.as_ptr() as usize);
    let mut lines = maps.lines().skip_while(|line| !line.starts_with(&first));
    let flags = lines.find(|line| line.starts_with("VmFlags:")).unwrap();
    // Kernels without huge pages have no such flag.
    let is_known = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
    assert_eq!(flags.split(' ').any(|flag| flag == "hg"), is_known, "{flags}");
}

#[test]
fn pages_are_zeroed_however_often_they_were_used() {
    for value in 1..4 {
        let pages = Pages::new((1 << 20) + 1).unwrap();
        assert_eq!(pages.start().as_ptr() as usize % 4096, 0);
        // SAFETY: the pages' own bytes.
        let bytes = unsafe { std::slice::from_raw_parts_mut(pages.start().as_ptr(), 1 << 20) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        bytes.fill(value);
    }
}

#[test]
fn priorities_are_lowered_for_one_thread_only() {
    let own = nice_of(thread_id()).unwrap();
    let lowered = thread::spawn("nice", || {
        set_thread_cpu_priority(CpuPriority::Low).unwrap();
        set_thread_io_priority(IoPriority::Idle).unwrap();
        nice_of(thread_id()).unwrap()
    });
    assert_eq!(lowered.join().unwrap(), 19);
    assert_eq!(nice_of(thread_id()).unwrap(), own);
    assert!(nice_of(u64::from(u32::MAX >> 2)).is_err());
}

#[test]
fn a_panic_is_the_result_of_joining() {
    let handle = thread::spawn("doomed", || panic!("because"));
    let e = handle.join().unwrap_err();
    assert!(e.to_string().contains("doomed panicked: because"), "{e}");
    let (tell, told) = std::sync::mpsc::channel();
    let sleeper = thread::spawn("parked", move || {
        tell.send(thread::current()).unwrap();
        thread::park();
    });
    let task = told.recv().unwrap();
    while !sleeper.is_finished() {
        task.unpark();
        thread::yield_now();
    }
    sleeper.join().unwrap();
}
