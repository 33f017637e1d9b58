//! What reads and syncs cost on threads and on fibers: `cargo bench -p pumice-port --bench io`.
//!
//! Prints medians of interleaved rounds, with ratios, because absolute times on a shared machine
//! say little. `PUMICE_BENCH_DIR` names a folder on the disk to measure (default: the temporary
//! one); arguments choose parts: cached, direct, batch, sync, ring.
//!
//! Thread safety: a program of its own.
#![allow(clippy::unwrap_used, clippy::disallowed_types, clippy::disallowed_methods)]

use io_uring::{IoUring, opcode, types};
use pumice_base::random::Rng;
use pumice_port::fiber::{self, IoMode, Runtime};
use pumice_port::os::{self, Advice, AlignedBuffer, BatchRead, File, OpenFlags, PooledBuffer};
use pumice_port::time;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

const BLOCK: usize = 4096;
const CACHED_BYTES: usize = 256 << 20;
const DIRECT_BYTES: usize = 2 << 30;

struct Folder(PathBuf);

impl Folder {
    fn make() -> Self {
        let base = std::env::var_os("PUMICE_BENCH_DIR").map(PathBuf::from);
        let name = format!("pumice-bench-io-{}", os::pid());
        let dir = base.unwrap_or_else(std::env::temp_dir).join(name);
        os::create_dir_all(&dir).unwrap();
        Folder(dir)
    }
    fn file(&self, name: &str, bytes: usize, direct: bool) -> File {
        let path = self.0.join(name);
        let mut file = File::open(&path, OpenFlags::CREATE).unwrap();
        let chunk = Rng::new(1).bytes(1 << 20);
        for _ in 0..bytes >> 20 {
            file.write_all(&chunk).unwrap();
        }
        file.sync_all().unwrap();
        if direct {
            file.advise(0, 0, Advice::DontNeed).unwrap();
        }
        File::open(&path, OpenFlags { direct, write: true, ..OpenFlags::READ }).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What is measured of one way in one round.
#[derive(Clone, Copy)]
struct Cost {
    wall_nanos: f64,
    cpu_micros: f64,
}

/// Runs the ways in turn, `rounds` times; medians per operation.
fn compare(rounds: usize, operations: usize, ways: &[(&str, &dyn Fn())]) {
    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); ways.len()];
    for _ in 0..rounds {
        for (way, costs) in ways.iter().zip(&mut costs) {
            let (start, cpu) = (time::now_nanos(), time::process_cpu_micros());
            way.1();
            let wall_nanos = (time::now_nanos() - start) as f64 / operations as f64;
            let cpu_micros = (time::process_cpu_micros() - cpu) as f64 / operations as f64;
            costs.push(Cost { wall_nanos, cpu_micros });
        }
    }
    let first = median(costs[0].iter().map(|c| c.wall_nanos).collect());
    for (way, costs) in ways.iter().zip(&costs) {
        let wall = median(costs.iter().map(|c| c.wall_nanos).collect());
        let cpu = median(costs.iter().map(|c| c.cpu_micros).collect());
        println!(
            "  {:<28} {:>9.0} ns/op {:>9.0} op/s {:>8.2} us CPU/op   speed x{:.2}",
            way.0,
            wall,
            1e9 / wall,
            cpu,
            first / wall
        );
    }
}

fn read_some(file: &File, seed: u64, count: usize, buf: &mut [u8], bytes: usize) {
    let mut rng = Rng::new(seed);
    for _ in 0..count {
        let offset = rng.uniform((bytes / BLOCK) as u64) * BLOCK as u64;
        assert_eq!(file.read_at(buf, offset).unwrap(), BLOCK);
    }
}

/// `jobs` fibers share `count` reads.
fn read_on_fibers(runtime: &Runtime, file: &'static File, jobs: usize, count: usize, bytes: usize) {
    let handles: Vec<_> = (0..jobs)
        .map(|job| {
            runtime.spawn("reader", move || {
                let mut buf = PooledBuffer::take(BLOCK);
                read_some(file, job as u64, count / jobs, &mut buf[..BLOCK], bytes);
            })
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

fn read_on_threads(file: &File, jobs: usize, count: usize, bytes: usize) {
    std::thread::scope(|scope| {
        for job in 0..jobs {
            scope.spawn(move || {
                let mut buf = AlignedBuffer::new(BLOCK);
                read_some(file, job as u64, count / jobs, &mut buf, bytes);
            });
        }
    });
}

fn runtime(loops: usize, mode: IoMode) -> Runtime {
    Runtime::builder().loops(loops).io(mode).build().unwrap()
}

/// The system call that fibers try first, alone.
fn nowait_on_thread(file: &File, count: usize) {
    let mut rng = Rng::new(0);
    let mut buf = AlignedBuffer::new(BLOCK);
    for _ in 0..count {
        let offset = rng.uniform((CACHED_BYTES / BLOCK) as u64) * BLOCK as u64;
        let vector = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: BLOCK };
        // SAFETY: the vector points to a live buffer.
        let n =
            unsafe { libc::preadv2(file.as_raw(), &vector, 1, offset as i64, libc::RWF_NOWAIT) };
        // Not cached (any more), or marked for readahead.
        if n != BLOCK as isize {
            assert_eq!(file.read_at(&mut buf, offset).unwrap(), BLOCK);
        }
    }
}

fn cached(folder: &Folder) {
    println!("4 KiB reads from the page cache, 200000 per round, median of 11 rounds");
    let file: &'static File = Box::leak(Box::new(folder.file("cached", CACHED_BYTES, false)));
    read_on_threads(file, 1, 200_000, CACHED_BYTES);
    let one = runtime(1, IoMode::Auto);
    let n = 200_000;
    compare(
        11,
        n,
        &[
            ("1 thread, pread", &|| read_on_threads(file, 1, n, CACHED_BYTES)),
            ("1 thread, preadv2 nowait", &|| nowait_on_thread(file, n)),
            ("1 fiber, nowait first", &|| read_on_fibers(&one, file, 1, n, CACHED_BYTES)),
            ("64 fibers on 1 loop", &|| read_on_fibers(&one, file, 64, n, CACHED_BYTES)),
        ],
    );
}

fn direct(folder: &Folder) {
    println!("4 KiB direct reads of a file of 2 GiB, 80000 per round, median of 5 rounds");
    let file: &'static File = Box::leak(Box::new(folder.file("direct", DIRECT_BYTES, true)));
    let (one, two) = (runtime(1, IoMode::Auto), runtime(2, IoMode::Auto));
    let pool = runtime(2, IoMode::Threads);
    let n = 80_000;
    compare(
        5,
        n,
        &[
            ("2 threads", &|| read_on_threads(file, 2, n, DIRECT_BYTES)),
            ("64 threads", &|| read_on_threads(file, 64, n, DIRECT_BYTES)),
            ("64 fibers on 1 loop", &|| read_on_fibers(&one, file, 64, n, DIRECT_BYTES)),
            ("64 fibers on 2 loops", &|| read_on_fibers(&two, file, 64, n, DIRECT_BYTES)),
            ("64 fibers, 2 loops, no uring", &|| {
                read_on_fibers(&pool, file, 64, n, DIRECT_BYTES);
            }),
        ],
    );
}

fn batches(file: &File, together: bool) {
    let mut rng = Rng::new(5);
    let mut bufs: Vec<AlignedBuffer> = (0..16).map(|_| AlignedBuffer::new(BLOCK)).collect();
    for _ in 0..500 {
        let mut reads: Vec<BatchRead<'_>> = bufs
            .iter_mut()
            .map(|buf| {
                let offset = rng.uniform((DIRECT_BYTES / BLOCK) as u64) * BLOCK as u64;
                BatchRead { file, buf, offset, result: Ok(0) }
            })
            .collect();
        if together {
            os::read_batch(&mut reads);
        } else {
            for read in &mut reads {
                read.result = read.file.read_at(read.buf, read.offset);
            }
        }
        assert!(reads.iter().all(|read| *read.result.as_ref().unwrap() == BLOCK));
    }
}

fn batch(folder: &Folder) {
    println!("16 direct reads, 500 times per round, per read, median of 7 rounds");
    let file: &'static File = Box::leak(Box::new(folder.file("batch", DIRECT_BYTES, true)));
    let one = runtime(1, IoMode::Auto);
    compare(
        7,
        8000,
        &[
            ("thread, one by one", &|| batches(file, false)),
            ("thread, together", &|| batches(file, true)),
            ("fiber, one by one", &|| one.run("b", || batches(file, false))),
            ("fiber, together", &|| one.run("b", || batches(file, true))),
        ],
    );
}

fn write_and_sync(file: &File, count: usize, seed: u64) {
    let mut rng = Rng::new(seed);
    let data = [7u8; 200];
    for _ in 0..count {
        file.write_all_at(&data, rng.uniform(1 << 20)).unwrap();
        file.sync_data().unwrap();
    }
}

fn sync(folder: &Folder) {
    println!("200 bytes into a file that has its blocks, then fdatasync; median of 7 rounds");
    let file: &'static File = Box::leak(Box::new(folder.file("sync", 2 << 20, false)));
    let one = runtime(1, IoMode::Auto);
    let n = 1000;
    compare(
        7,
        n,
        &[
            ("1 thread, inline", &|| write_and_sync(file, n, 1)),
            ("1 fiber, ring", &|| one.run("s", || write_and_sync(file, n, 1))),
            ("10 fibers, ring", &|| {
                let job = |i| one.spawn("s", move || write_and_sync(file, n / 10, i));
                let jobs: Vec<_> = (0..10).map(job).collect();
                jobs.into_iter().for_each(|job| job.join().unwrap());
            }),
            ("1 fiber, offload", &|| {
                one.run("s", || {
                    for _ in 0..n {
                        file.write_all_at(&[7u8; 200], 3).unwrap();
                        let raw = file.as_raw();
                        fiber::offload(|| assert_eq!(raw_sync(raw), 0));
                    }
                });
            }),
        ],
    );
}

fn raw_sync(fd: i32) -> i32 {
    // SAFETY: a number of an open file.
    unsafe { libc::fdatasync(fd) }
}

/// Reads `count` blocks, `depth` at a time, through a bare ring.
fn bare(
    ring: &mut IoUring,
    fd: i32,
    fixed_file: bool,
    fixed_buffer: bool,
    bufs: &mut [AlignedBuffer],
) {
    let depth = bufs.len();
    let mut rng = Rng::new(9);
    for _ in 0..40_000 / depth {
        for (slot, buf) in bufs.iter_mut().enumerate() {
            let offset = rng.uniform((CACHED_BYTES / BLOCK) as u64) * BLOCK as u64;
            let (start, bytes) = (buf.as_mut_ptr(), BLOCK as u32);
            let entry = match (fixed_file, fixed_buffer) {
                (_, true) => opcode::ReadFixed::new(types::Fixed(0), start, bytes, slot as u16)
                    .offset(offset)
                    .build(),
                (true, false) => {
                    opcode::Read::new(types::Fixed(0), start, bytes).offset(offset).build()
                }
                _ => opcode::Read::new(types::Fd(fd), start, bytes).offset(offset).build(),
            };
            // SAFETY: the buffers outlive the wait below.
            unsafe { ring.submission().push(&entry) }.unwrap();
        }
        let mut seen = 0;
        while seen < depth {
            ring.submit_and_wait(depth - seen).unwrap();
            seen += ring.completion().map(|c| assert_eq!(c.result(), BLOCK as i32)).count();
        }
    }
}

fn ring(folder: &Folder) {
    let plain = std::fs::File::open({
        folder.file("ring", CACHED_BYTES, false);
        folder.0.join("ring")
    });
    let direct = File::open(&folder.0.join("ring"), OpenFlags { direct: true, ..OpenFlags::READ });
    let (plain, direct) = (plain.unwrap(), direct.unwrap());
    for (kind, fd) in [("cached", plain.as_raw_fd()), ("direct", direct.as_raw())] {
        for depth in [1, 32] {
            println!("bare ring, {kind} reads, {depth} at a time, median of 5 rounds");
            let bufs = || -> Vec<AlignedBuffer> {
                (0..depth).map(|_| AlignedBuffer::new(BLOCK)).collect()
            };
            let prepared = |files: bool, buffers: bool| {
                let mut ring = IoUring::builder()
                    .setup_single_issuer()
                    .setup_defer_taskrun()
                    .build(64)
                    .unwrap();
                let mut bufs = bufs();
                if files {
                    ring.submitter().register_files(&[fd]).unwrap();
                }
                if buffers {
                    let vectors: Vec<libc::iovec> = bufs
                        .iter_mut()
                        .map(|b| libc::iovec { iov_base: b.as_mut_ptr().cast(), iov_len: BLOCK })
                        .collect();
                    // SAFETY: the buffers live as long as the ring.
                    unsafe { ring.submitter().register_buffers(&vectors) }.unwrap();
                }
                bare(&mut ring, fd, files, buffers, &mut bufs);
            };
            compare(
                5,
                40_000,
                &[
                    ("plain", &|| prepared(false, false)),
                    ("registered file", &|| prepared(true, false)),
                    ("registered file and buffers", &|| prepared(true, true)),
                ],
            );
        }
    }
}

type Part = fn(&Folder);

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let folder = Folder::make();
    let parts: [(&str, Part); 5] =
        [("cached", cached), ("direct", direct), ("batch", batch), ("sync", sync), ("ring", ring)];
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            part(&folder);
        }
    }
}
