//! What is read of files, and in which pieces.
#![allow(clippy::unwrap_used)]

use crate::mem::{Fault, FaultOp, FaultRule};
use crate::{
    FileSystem, MemFs, RandomAccessFile, RandomAccessFileWrapper, ReadFileOptions, ReadRequest,
    ReadaheadBuffer, read_one_by_one, write_file,
};
use pumice_base::random::Rng;
use pumice_base::{Error, Result};
use pumice_port::os::DIRECT_ALIGNMENT;
use pumice_port::sync::{Event, Mutex};
use pumice_port::thread;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A file that notes what is read and what is hinted at.
struct Noting {
    file: Arc<dyn RandomAccessFile>,
    prefetches: bool,
    unit: usize,
    /// Ranges, hints first.
    noted: Mutex<[Vec<std::ops::Range<u64>>; 2]>,
}

impl RandomAccessFileWrapper for Noting {
    fn wrapped(&self) -> &dyn RandomAccessFile {
        &*self.file
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if self.unit > 1 {
            assert_eq!((offset as usize | buf.len()) % self.unit, 0, "{offset}, {}", buf.len());
            assert_eq!(buf.as_ptr().addr() % DIRECT_ALIGNMENT, 0);
        }
        self.noted.lock()[1].push(offset..offset + buf.len() as u64);
        self.file.read_at(offset, buf)
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        read_one_by_one(self, requests);
    }
    fn needs_little_stack(&self) -> bool {
        self.file.needs_little_stack()
    }
    fn read_unit(&self) -> usize {
        self.unit
    }
    fn prefetch(&self, offset: u64, bytes: u64) {
        self.noted.lock()[0].push(offset..offset + bytes);
    }
    fn prefetches(&self) -> bool {
        self.prefetches
    }
}

#[pumice_test_macros::test]
fn readahead_of_the_system_needs_little_memory() {
    const STEP: usize = 2 << 20;
    let fs = MemFs::new(0);
    let path = Path::new("/f");
    let data = Rng::new(9).bytes(9_000_000);
    write_file(&fs, path, &data, false).unwrap();
    for prefetches in [false, true] {
        let file = fs.open_random_with(path, &ReadFileOptions::default()).unwrap();
        let file = Arc::new(Noting { file, prefetches, unit: 1, noted: Mutex::default() });
        let mut buffer = ReadaheadBuffer::new(file.clone(), STEP, STEP);
        for (block, bytes) in data.chunks(4096).enumerate() {
            assert!(buffer.read_at(block as u64 * 4096, bytes.len()).unwrap() == bytes);
        }
        let [hints, reads] = std::mem::take(&mut *file.noted.lock());
        let largest = reads.iter().map(|read| read.end - read.start).max().unwrap();
        if !prefetches {
            assert!(hints.is_empty() && largest == STEP as u64, "{largest} bytes at once");
            continue;
        }
        assert!(largest < 300_000, "{largest} bytes at once");
        assert!(hints.len() < 12, "{} hints", hints.len());
        // All that is read, each byte once.
        assert!(hints.windows(2).all(|pair| pair[0].end == pair[1].start), "{hints:?}");
        assert!(hints[0].start == 0 && hints.last().unwrap().end == data.len() as u64);
        // A damaged index may name any place.
        for offset in [data.len() as u64, u64::MAX - 1, u64::MAX] {
            assert!(buffer.read_at(offset, 4096).unwrap().is_empty());
        }
        assert_eq!(file.noted.lock()[0], [], "there is nothing to hint at");
    }
}

/// A read that is said to be alone reads its own bytes and no others; in a sequence that is so for
/// the first two reads, or without readahead for all.
#[pumice_test_macros::test]
fn what_reads_alone_reads_nothing_else() {
    let fs = MemFs::new(0);
    let path = Path::new("/f");
    let data = Rng::new(9).bytes(300_000);
    write_file(&fs, path, &data, false).unwrap();
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let file = fs.open_random_with(path, &ReadFileOptions::default()).unwrap();
        let file = Arc::new(Noting { file, prefetches: false, unit: 1, noted: Mutex::default() });
        let (step, step_max) = [(0, 8192), (1024, 8192), (8192, 8192), (0, 0)][seed as usize % 4];
        let mut buffer = ReadaheadBuffer::new(file.clone(), step, step_max);
        let mut next = 0;
        for run in 0..60 {
            let mut offset = if rng.one_in(3) { next } else { rng.uniform(250_000) };
            for at in 0..rng.uniform(6) {
                let bytes = 1 + rng.uniform(3000);
                let alone = buffer.reads_alone(offset, bytes as usize);
                buffer.read_at(offset, bytes as usize).unwrap();
                let reads = std::mem::take(&mut file.noted.lock()[1]);
                let what = format!("PUMICE_SEED={seed} run {run}: {offset} + {bytes}: {reads:?}");
                if alone {
                    let own = offset..offset + bytes;
                    assert!(reads.len() == 1, "{what}");
                    assert!(own.start <= reads[0].start && reads[0].end == own.end, "{what}");
                } else if at == 0 && step < step_max && offset != next {
                    assert!(reads.is_empty(), "{what}");
                }
                assert!(!alone || at < 2 || step == 0, "{what}");
                assert!(!alone || step < step_max || step_max == 0, "{what}");
                offset += bytes;
                next = offset;
            }
        }
    }
}

/// What bypasses the system's cache is read in whole units into suitable memory, each unit once.
#[pumice_test_macros::test]
fn readahead_reads_units_once() {
    let fs = MemFs::new(0);
    let path = Path::new("/f");
    let data = Rng::new(9).bytes(700_001);
    write_file(&fs, path, &data, false).unwrap();
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let file = fs.open_random_with(path, &ReadFileOptions::default()).unwrap();
        let unit = 512 << rng.uniform(4);
        let file = Arc::new(Noting { file, prefetches: false, unit, noted: Mutex::default() });
        let step = 4096 << rng.uniform(6);
        let max = step << rng.uniform(3);
        let mut buffer = ReadaheadBuffer::new(file.clone(), step, max);
        let mut offset = rng.uniform(5000) as usize;
        while offset < data.len() {
            let bytes = rng.uniform(9000) as usize;
            let end = (offset + bytes).min(data.len());
            let read = buffer.read_at(offset as u64, bytes).unwrap();
            assert!(read == &data[offset..end], "seed {seed}, {offset}");
            offset = end;
        }
        let [_, reads] = std::mem::take(&mut *file.noted.lock());
        assert!(reads.windows(2).all(|pair| pair[0].end == pair[1].start), "{seed}: {reads:?}");
        assert!(buffer.read_at(data.len() as u64 + 9, 4096).unwrap().is_empty());
    }
}

#[pumice_test_macros::test]
fn readahead_gives_the_same_bytes_in_fewer_reads() {
    let fs = MemFs::new(0);
    let path = Path::new("/f");
    let data = Rng::new(9).bytes(300_000);
    write_file(&fs, path, &data, false).unwrap();
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let max = 1 << (12 + rng.uniform(6));
        let mut buffer = ReadaheadBuffer::new(
            fs.open_random_with(path, &ReadFileOptions::default()).unwrap(),
            8192,
            max,
        );
        let mut offset = 0;
        for _ in 0..200 {
            if rng.one_in(20) {
                offset = rng.uniform(310_000);
            }
            let bytes = rng.uniform(5000) as usize;
            let start = (offset as usize).min(data.len());
            let end = (offset as usize + bytes).min(data.len()).max(start);
            assert!(buffer.read_at(offset, bytes).unwrap() == &data[start..end], "seed {seed}");
            offset += bytes as u64;
        }
    }
    // Only this many reads may happen before the fault: sequential reading must have batched them.
    fs.add_fault(FaultRule { skip: 12, ..FaultRule::always(FaultOp::Read, "*", Fault::Eio) });
    let mut buffer = ReadaheadBuffer::new(
        fs.open_random_with(path, &ReadFileOptions::default()).unwrap(),
        8192,
        256 << 10,
    );
    for block in data.chunks(4096).enumerate() {
        assert!(buffer.read_at(block.0 as u64 * 4096, block.1.len()).unwrap() == block.1);
    }
}

/// With halves in flight the same bytes come, each is read once, nothing beyond the limit, and no
/// more ahead of the reader than the step.
#[pumice_test_macros::test]
fn halves_in_flight_are_the_same_bytes() {
    let fs = MemFs::new(0);
    let path = Path::new("/f");
    let data = Rng::new(9).bytes(700_001);
    write_file(&fs, path, &data, false).unwrap();
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let file = fs.open_random_with(path, &ReadFileOptions::default()).unwrap();
        let unit = 512 << rng.uniform(4);
        let file = Arc::new(Noting { file, prefetches: false, unit, noted: Mutex::default() });
        let max = 4096 << rng.uniform(8);
        let step = if rng.one_in(2) { max } else { 4096 };
        let mut buffer = ReadaheadBuffer::new(file.clone(), step, max);
        let limit = if rng.one_in(2) { data.len() } else { rng.uniform(700_000) as usize };
        buffer.overlap();
        buffer.limit(limit as u64);
        let mut offset = rng.uniform(5000) as usize;
        let units = |at: usize| at.next_multiple_of(unit) as u64;
        let mut needed = 0;
        while offset < data.len() {
            buffer.fly(!rng.one_in(5));
            let bytes = rng.uniform(9000) as usize;
            let end = (offset + bytes).min(data.len());
            let read = buffer.read_at(offset as u64, bytes).unwrap();
            assert!(read == &data[offset..end], "seed {seed}, {offset}");
            needed = needed.max(units(end));
            let ahead = (needed + units(max)).min(units(limit)).max(needed);
            let begun = file.noted.lock()[1].iter().map(|read| read.end).max().unwrap();
            assert!(begun <= ahead, "seed {seed}: {begun}, {needed}, {limit}");
            // Sometimes the reader goes elsewhere, with a read in flight.
            offset = if rng.one_in(200) { rng.uniform(700_000) as usize } else { end };
        }
    }
}

/// An error of what is read ahead comes with the bytes that it concerns, or not at all.
#[pumice_test_macros::test]
fn errors_come_with_their_bytes() {
    struct Broken(Arc<dyn RandomAccessFile>, u64);
    impl RandomAccessFileWrapper for Broken {
        fn wrapped(&self) -> &dyn RandomAccessFile {
            &*self.0
        }
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
            match offset <= self.1 && self.1 < offset + buf.len() as u64 {
                true => Err(Error::corruption("broken")),
                false => self.0.read_at(offset, buf),
            }
        }
        fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
            read_one_by_one(self, requests);
        }
        fn needs_little_stack(&self) -> bool {
            true
        }
    }
    let fs = MemFs::new(0);
    let path = Path::new("/f");
    let data = Rng::new(9).bytes(300_000);
    write_file(&fs, path, &data, false).unwrap();
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let file = fs.open_random_with(path, &ReadFileOptions::default()).unwrap();
        let broken = rng.uniform(data.len() as u64);
        let max = 4096 << rng.uniform(7);
        let step = if rng.one_in(2) { max } else { 4096 };
        let mut buffer = ReadaheadBuffer::new(Arc::new(Broken(file, broken)), step, max);
        if rng.one_in(2) {
            buffer.overlap();
        }
        for (block, bytes) in data.chunks(3000).enumerate() {
            let offset = block as u64 * 3000;
            match buffer.read_at(offset, bytes.len()) {
                Ok(read) => assert!(read == bytes, "seed {seed}"),
                Err(_) => {
                    let has = (offset..offset + bytes.len() as u64).contains(&broken);
                    assert!(has, "seed {seed}: {offset}, {broken}");
                }
            }
        }
    }
}

/// A file whose reads from a place on wait for an event.
struct Gated {
    file: Arc<dyn RandomAccessFile>,
    from: u64,
    gate: Arc<Event>,
    begun: Arc<AtomicUsize>,
}

impl RandomAccessFileWrapper for Gated {
    fn wrapped(&self) -> &dyn RandomAccessFile {
        &*self.file
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if offset >= self.from {
            self.begun.fetch_add(1, Ordering::Relaxed);
            self.gate.wait();
        }
        self.file.read_at(offset, buf)
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        read_one_by_one(self, requests);
    }
    fn needs_little_stack(&self) -> bool {
        true
    }
    fn prefetches(&self) -> bool {
        false
    }
}

/// Waits, but not for ever.
fn until(what: &str, holds: impl Fn() -> bool) {
    let waits = || {
        thread::sleep(Duration::from_millis(1));
        holds()
    };
    assert!(holds() || (0..300_000).any(|_| waits()), "never: {what}");
}

/// More than the pool of threads can read at one time.
const MANY: usize = 40;
const POOL: usize = 16;

/// Readers whose next half waits for the event; how many of these reads have begun.
fn gated(data: &[u8]) -> (Vec<ReadaheadBuffer>, Arc<Event>, Arc<AtomicUsize>) {
    let fs = MemFs::new(0);
    let path = Path::new("/f");
    write_file(&fs, path, data, false).unwrap();
    let (gate, begun) = (Arc::new(Event::new()), Arc::new(AtomicUsize::new(0)));
    let reader = |_| {
        let file = fs.open_random_with(path, &ReadFileOptions::default()).unwrap();
        let (gate, begun) = (Arc::clone(&gate), Arc::clone(&begun));
        let file = Arc::new(Gated { file, from: 1, gate, begun });
        let mut buffer = ReadaheadBuffer::new(file, 64 << 10, 64 << 10);
        buffer.overlap();
        assert!(buffer.read_at(0, 4096).unwrap() == &data[..4096]);
        buffer
    };
    let readers = (0..MANY).map(reader).collect();
    (readers, gate, begun)
}

#[pumice_test_macros::test]
fn what_nobody_wants_any_more_is_not_read() {
    let data = Rng::new(9).bytes(300_000);
    let (readers, gate, begun) = gated(&data);
    drop(readers);
    gate.set();
    // Each holds the event until it has read, or will not.
    until("all have ended", || Arc::strong_count(&begun) == 1);
    assert!(begun.load(Ordering::Relaxed) <= POOL, "only those that were under way");
}

#[pumice_test_macros::test]
fn what_nobody_has_begun_to_read_is_read_by_its_owner() {
    let data = Rng::new(9).bytes(300_000);
    let (readers, gate, begun) = gated(&data);
    // Other tests use the pool, too, and go on.
    until("the pool is busy", || begun.load(Ordering::Relaxed) >= POOL);
    // The threads are busy; those that read something else do not wait for them.
    let fs = MemFs::new(0);
    let path = Path::new("/g");
    write_file(&fs, path, &data, false).unwrap();
    let file = fs.open_random_with(path, &ReadFileOptions::default()).unwrap();
    let file = Arc::new(Noting { file, prefetches: false, unit: 1, noted: Mutex::default() });
    let mut buffer = ReadaheadBuffer::new(file.clone(), 64 << 10, 64 << 10);
    buffer.overlap();
    for (block, bytes) in data.chunks(4096).enumerate() {
        assert!(buffer.read_at(block as u64 * 4096, bytes.len()).unwrap() == bytes);
    }
    let mut reads = std::mem::take(&mut file.noted.lock()[1]);
    reads.sort_by_key(|read| read.start);
    assert!(reads.windows(2).all(|pair| pair[0].end == pair[1].start), "{reads:?}");
    assert_eq!(reads.last().unwrap().end, data.len() as u64);
    gate.set();
    drop(readers);
}

/// A half that is no more than what is read anyway would be a second read of each block.
#[pumice_test_macros::test]
fn small_steps_are_whole() {
    let fs = MemFs::new(0);
    let path = Path::new("/f");
    let data = Rng::new(9).bytes(400_000);
    write_file(&fs, path, &data, false).unwrap();
    let reads_of = |step: usize, block: usize, overlaps: bool| {
        let file = fs.open_random_with(path, &ReadFileOptions::default()).unwrap();
        let file = Arc::new(Noting { file, prefetches: false, unit: 1, noted: Mutex::default() });
        let mut buffer = ReadaheadBuffer::new(file.clone(), step, step);
        if overlaps {
            buffer.overlap();
        }
        for offset in (0..data.len()).step_by(block) {
            let bytes = block.min(data.len() - offset);
            assert!(buffer.read_at(offset as u64, bytes).unwrap() == &data[offset..offset + bytes]);
        }
        let reads = std::mem::take(&mut file.noted.lock()[1]).len();
        for offset in (0..data.len() - block).step_by(block).rev().skip(1) {
            assert!(buffer.read_at(offset as u64, block).unwrap() == &data[offset..offset + block]);
        }
        let back = std::mem::take(&mut file.noted.lock()[1]);
        let largest = back.iter().skip(1).map(|read| read.end - read.start).max().unwrap();
        assert_eq!(largest, block as u64, "nothing is read ahead backwards");
        reads
    };
    let small = [(4096, 4096), (16 << 10, 4096), (40_000, 40_000), (64 << 10, 50_000)];
    for (step, block) in small {
        let [whole, halved] = [false, true].map(|overlaps| reads_of(step, block, overlaps));
        assert_eq!(whole, halved, "{step}, {block}");
    }
    assert!(reads_of(64 << 10, 4096, true) > reads_of(64 << 10, 4096, false), "this is halved");
}
