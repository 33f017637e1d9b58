//! Reads on fibers, and batches of reads anywhere.
//!
//! A read that the page cache can serve costs one system call and no suspension: it is tried first
//! without waiting. What is not cached goes through the ring. A file whose reads mostly miss is no
//! longer tried, except for an occasional probe.
//!
//! Invariants cited by unsafe blocks: 1. the vector of `preadv2` points to one live slice.
//!
//! Thread safety: as [`File`]. A batch on a plain thread uses a ring that the thread borrows.

use super::file::File;
use crate::fiber;
use crate::io::{self as ring, Op};
use crate::task;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// How often reads of a file were served by the page cache, lately. Only a hint, so updates of
/// different threads may overwrite each other.
#[derive(Debug)]
pub(super) struct Heat(AtomicU32);

/// All of the last reads hit.
const HOT: u32 = 1 << 10;
/// Below this, trying costs more than it saves: a futile try costs about an eighth of what a hit
/// saves.
const COLD: u32 = HOT / 8;
/// The file system does not support non-blocking reads.
const NEVER: u32 = u32::MAX;

impl Heat {
    pub(super) const fn new() -> Self {
        Heat(AtomicU32::new(HOT))
    }
    #[inline]
    fn is_worth_trying(&self) -> bool {
        let heat = self.0.load(Ordering::Relaxed);
        heat >= COLD && heat != NEVER
    }
    #[inline]
    fn note_hit(&self) {
        let heat = self.0.load(Ordering::Relaxed);
        if heat < HOT {
            self.0.store(heat + (HOT - heat).div_ceil(16), Ordering::Relaxed);
        }
    }
    fn note_miss(&self) {
        let heat = self.0.load(Ordering::Relaxed);
        if heat != NEVER {
            self.0.store(heat - heat / 16, Ordering::Relaxed);
        }
    }
    /// A read that was not tried: after some of them, the next one is.
    fn note_skip(&self) {
        let heat = self.0.load(Ordering::Relaxed);
        if heat < COLD {
            self.0.store(heat + 1, Ordering::Relaxed);
        }
    }
    fn give_up(&self) {
        self.0.store(NEVER, Ordering::Relaxed);
    }
}

/// One read of a batch.
#[derive(Debug)]
pub struct BatchRead<'a> {
    /// Which file.
    pub file: &'a File,
    /// Where the bytes go.
    pub buf: &'a mut [u8],
    /// Position of the first byte.
    pub offset: u64,
    /// The number of bytes read, short only at the end of the file.
    pub result: io::Result<usize>,
}

/// The result of a non-blocking read.
enum Tried {
    /// All that was asked for, or all up to the end of the file.
    Whole(usize),
    /// This many bytes; the rest is not cached.
    Part(usize),
}

impl File {
    /// Whether a read that brought `n` bytes has reached the end of the file. A direct read must
    /// not continue after a partial block.
    pub(super) fn is_end(&self, n: usize) -> bool {
        n == 0 || (self.direct && !n.is_multiple_of(512))
    }

    pub(super) fn read_on_fiber(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.try_cached(buf, offset) {
            Tried::Whole(n) => Ok(n),
            Tried::Part(n) => self.read_waiting(buf, n, offset),
        }
    }

    /// Continues reading after the `done` bytes that `buf` has.
    fn read_waiting(&self, buf: &mut [u8], mut done: usize, offset: u64) -> io::Result<usize> {
        while done < buf.len() {
            let op = Op::read(self.fd(), &mut buf[done..], offset + done as u64);
            let Some(result) = ring::run(op) else {
                // A fiber without a loop: of a simulation, whose files are not these.
                return Ok(done + self.read_here(&mut buf[done..], offset + done as u64)?);
            };
            let n = result? as usize;
            done += n;
            if self.is_end(n) {
                break;
            }
        }
        Ok(done)
    }

    /// Reads what the page cache has, without waiting.
    #[inline]
    fn try_cached(&self, buf: &mut [u8], offset: u64) -> Tried {
        if self.direct {
            return Tried::Part(0);
        }
        if !self.heat.is_worth_trying() {
            self.heat.note_skip();
            return Tried::Part(0);
        }
        let mut done = 0;
        while done < buf.len() {
            match self.read_nowait(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(libc::EINTR) => {}
                Err(libc::EAGAIN) => {
                    self.heat.note_miss();
                    return Tried::Part(done);
                }
                // EOPNOTSUPP, or an error that the ring will report as well.
                Err(_) => {
                    self.heat.give_up();
                    return Tried::Part(done);
                }
            }
        }
        self.heat.note_hit();
        Tried::Whole(done)
    }

    fn read_nowait(&self, buf: &mut [u8], offset: u64) -> Result<usize, i32> {
        let vector = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
        // SAFETY: invariant 1.
        let n = unsafe {
            // Not through the C library's function, which, as for `pread`, makes the call a
            // cancellation point, at a few per cent of a cached read. The position is passed in two
            // halves; 64-bit systems take all of it from the first.
            let (low, high) = (offset as libc::c_long, 0 as libc::c_long);
            let (fd, vector) = (self.fd(), std::ptr::from_ref(&vector));
            libc::syscall(libc::SYS_preadv2, fd, vector, 1usize, low, high, libc::RWF_NOWAIT)
        };
        usize::try_from(n).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

/// Performs the reads, of any files, each with its own result. Those that the page cache does not
/// serve are submitted together. On a fiber it suspends once for them; a plain thread blocks.
pub fn read_batch(reads: &mut [BatchRead<'_>]) {
    let mut done = [0usize; BATCH];
    for chunk in reads.chunks_mut(BATCH) {
        let mut missing = 0;
        for (read, done) in chunk.iter_mut().zip(&mut done) {
            match read.file.try_cached(read.buf, read.offset) {
                Tried::Whole(n) => read.result = Ok(n),
                Tried::Part(n) => {
                    (*done, missing) = (n, missing + 1);
                    read.result = Err(io::ErrorKind::WouldBlock.into());
                }
            }
        }
        if missing > 0 {
            read_missing(chunk, &mut done, missing);
        }
    }
}

/// This many reads of a batch are handled together.
const BATCH: usize = 64;

fn is_missing(read: &BatchRead<'_>) -> bool {
    matches!(&read.result, Err(e) if e.kind() == io::ErrorKind::WouldBlock)
}

/// Performs those reads of the chunk that are marked as missing, after the bytes they have.
fn read_missing(chunk: &mut [BatchRead<'_>], done: &mut [usize; BATCH], mut missing: usize) {
    let mut together = true;
    while missing > 0 {
        if missing == 1 || !together {
            for (read, done) in chunk.iter_mut().zip(&*done).filter(|(read, _)| is_missing(read)) {
                read.result = read.file.read_waiting(read.buf, *done, read.offset);
            }
            return;
        }
        let mut ops: Vec<Op<'_>> = chunk
            .iter_mut()
            .zip(&*done)
            .filter(|(read, _)| is_missing(read))
            .map(|(read, done)| {
                Op::read(read.file.fd(), &mut read.buf[*done..], read.offset + *done as u64)
            })
            .collect();
        together = ring::run_all(&mut ops) || run_on_thread(&mut ops);
        if !together {
            continue;
        }
        let outcomes: Vec<_> = ops.iter().map(Op::outcome).collect();
        let waiting = chunk.iter_mut().zip(done.iter_mut()).filter(|(read, _)| is_missing(read));
        for ((read, done), outcome) in waiting.zip(outcomes) {
            let n = match outcome {
                Ok(n) => n as usize,
                Err(e) => {
                    (read.result, missing) = (Err(e), missing - 1);
                    continue;
                }
            };
            *done += n;
            if *done == read.buf.len() || read.file.is_end(n) {
                (read.result, missing) = (Ok(*done), missing - 1);
            }
        }
    }
}

/// Performs the operations on a ring that the calling thread borrows; false when there is none.
fn run_on_thread(ops: &mut [Op<'_>]) -> bool {
    task::current_fiber().is_none()
        && fiber::with_lent_reactor(|reactor| reactor.run_all_here(ops)).is_some()
}
