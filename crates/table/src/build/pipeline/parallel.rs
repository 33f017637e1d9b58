//! The pipeline of several threads: blocks wait in the slots of a [`Ring`]; helpers of the
//! process's pool, and the emitter when the ring is full, compress them and write them in order.
//!
//! The bytes do not depend on which thread does what: any worker produces the same from a block,
//! the write role passes on in block order, and everything that decides about bytes happens on the
//! emitter, from entries alone (docs/decisions/0015).
//!
//! Thread safety: [`Shared`] is used by all threads, [`Parallel`] by the emitter. A slot's mutex is
//! never contended: the ring decides which thread has the slot, and the mutex only satisfies the
//! compiler. The same holds for the sink. Invariants: (1) the first error is recorded before the
//! ring is aborted; (2) the sink is there until [`Parallel::end`] takes it, which the ring allows
//! once no other thread can attach.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_base::{Error, Result, Severity};
use pumice_compress::CompressionType;
use pumice_port::helpers::{self, Assist, HelperPool, Offer, Urgency};
use pumice_port::ring::{MAX_SLOTS, Ring, Task};
use pumice_port::sync::Mutex;

use crate::build::context::{TableBuildContext, TableReason};
use crate::build::index_builder::IndexEntry;
use crate::build::pipeline::chooser::Chooser;
use crate::build::pipeline::serial::Serial;
use crate::build::pipeline::sink::Sink;
use crate::build::pipeline::worker::{Codec, Packed, Worker};
use crate::build::sizes::{LAG, SizeEstimate};
use crate::handle::BLOCK_TRAILER_LEN;

const _: () = assert!(MAX_SLOTS <= LAG, "a slot comes free before its block leaves the window");

/// A helper reports its CPU time once per this many blocks.
const BOOKED_BLOCKS: u32 = 8;

/// The helpers that may join, and the urgency.
pub(crate) struct Plan {
    pub helpers: HelperPool,
    /// `parallel_threads` of RocksDB: the maximum number of helpers.
    pub threads: usize,
    pub urgency: Urgency,
    /// Target of uncompressed bytes of a data block.
    pub block_bytes: usize,
}

impl Plan {
    /// The helpers: none without a pool, or for codecs that are faster than the hand-off.
    pub fn of(context: &TableBuildContext) -> Option<Plan> {
        let threads = context.compression_opts.effective_parallel_threads(context.compression);
        if context.compression == CompressionType::None || threads <= 1 {
            return None;
        }
        let urgency = match context.reason {
            TableReason::Flush | TableReason::Recovery => Urgency::High,
            TableReason::CompactionLevel0 => Urgency::Mid,
            TableReason::Compaction | TableReason::Other => Urgency::Low,
        };
        let helpers = context.helpers.clone()?;
        let block_bytes = context.table.block_size;
        Some(Plan { helpers, threads: threads as usize, urgency, block_bytes })
    }

    /// As many blocks as a megabyte holds, raw and compressed. RocksDB's rings grow with the number
    /// of threads, from 4; fewer slots mean more calls for helpers (docs/port/ring.md).
    fn slots(&self) -> usize {
        match self.block_bytes >> 10 {
            0..=16 => MAX_SLOTS,
            17..=32 => 16,
            _ => 8,
        }
    }
}

/// A block in progress.
#[derive(Default)]
struct Slot {
    raw: Vec<u8>,
    out: Vec<u8>,
    /// The codec, if one was chosen for the block.
    kind: Option<CompressionType>,
    packed: Packed,
    entry: IndexEntry,
    /// Bytes in the file of the last block written from this slot.
    stored: u64,
}

/// What emitter and helpers share.
struct Shared {
    ring: Ring,
    slots: Box<[Mutex<Slot>]>,
    /// Invariant 2.
    sink: Mutex<Option<Sink>>,
    codec: Codec,
    /// Contexts not in use.
    workers: Mutex<Vec<Worker>>,
    /// Invariant 1.
    failed: Mutex<Option<Error>>,
    max_helpers: usize,
    helper_cpu_nanos: AtomicU64,
}

impl Shared {
    /// Does a step that the ring has given out.
    fn step(&self, task: Task, worker: &mut Worker) -> Result<()> {
        match task {
            Task::Emit(_) => Ok(()),
            Task::Compress(at) => self.slots[at].lock().compress(worker),
            Task::Write(at) => self.write(&mut self.slots[at].lock()),
            Task::CompressAndWrite(at) => {
                let mut slot = self.slots[at].lock();
                slot.compress(worker)?;
                self.write(&mut slot)
            }
        }
    }

    /// May suspend.
    fn write(&self, slot: &mut Slot) -> Result<()> {
        let mut sink = self.sink.lock();
        let Some(sink) = &mut *sink else {
            return Err(Error::aborted("the table build was abandoned"));
        };
        slot.stored = sink.put(&mut slot.raw, &mut slot.out, slot.packed, &slot.entry)?;
        Ok(())
    }

    /// Records the first error and ends the work.
    fn fail(&self, error: Error) {
        self.failed.lock().get_or_insert(error);
        self.ring.abort();
    }

    /// One visit of a helper.
    fn visit(&self, worker: &mut Option<Worker>) {
        let mut steps = 0u32;
        let mut booked = pumice_port::time::thread_cpu_nanos();
        let mut account = || {
            let now = pumice_port::time::thread_cpu_nanos();
            self.helper_cpu_nanos.fetch_add(now - booked, Ordering::Relaxed);
            booked = now;
        };
        self.ring.help(self.max_helpers, helpers::should_leave, |task| {
            let noted = NotesPanic(self);
            if let Err(error) = self.helper_step(task, worker) {
                self.fail(error);
            }
            std::mem::forget(noted);
            steps += 1;
            if steps.is_multiple_of(BOOKED_BLOCKS) {
                account();
            }
        });
        if steps > 0 {
            account();
        }
    }

    fn helper_step(&self, task: Task, worker: &mut Option<Worker>) -> Result<()> {
        let worker = match worker {
            Some(worker) => worker,
            None => {
                let idle = self.workers.lock().pop();
                worker.insert(idle.map_or_else(|| self.codec.worker(), Ok)?)
            }
        };
        self.step(task, worker)
    }
}

impl Slot {
    fn compress(&mut self, worker: &mut Worker) -> Result<()> {
        self.packed = worker.pack_with(self.kind, &self.raw, &mut self.out)?;
        Ok(())
    }
}

impl Assist for Shared {
    fn assist(&self) {
        let mut worker = None;
        self.visit(&mut worker);
        self.workers.lock().extend(worker);
    }
}

/// Records that a helper panicked; the ring aborts itself after that.
struct NotesPanic<'a>(&'a Shared);

impl Drop for NotesPanic<'_> {
    fn drop(&mut self) {
        let error = Error::aborted("a helper panicked while building the table");
        self.0.fail(error.with_severity(Severity::Unrecoverable));
    }
}

/// The emitter's side.
pub(crate) struct Parallel {
    shared: Ends,
    /// Withdrawn when this is dropped.
    offer: Offer,
    worker: Worker,
    packed_block: Vec<u8>,
    chooser: Option<Box<Chooser>>,
    /// The slot to fill next; `None` after the last block.
    free: Option<usize>,
    /// The step that the emitter has done and not yet reported to the ring.
    done: Option<Task>,
}

impl Parallel {
    /// Continues from `serial`, with helpers.
    pub fn new(serial: Serial, plan: &Plan) -> Self {
        let Serial { sink, worker, packed_block, codec, chooser, .. } = serial;
        let count = plan.slots();
        let max_helpers = plan.threads.min(count - 1);
        let shared = Arc::new(Shared {
            ring: Ring::new(count),
            slots: (0..count).map(|_| Mutex::default()).collect(),
            sink: Mutex::new(Some(sink)),
            codec,
            workers: Mutex::default(),
            failed: Mutex::default(),
            max_helpers,
            helper_cpu_nanos: AtomicU64::new(0),
        });
        let Task::Emit(first) = shared.ring.start() else { unreachable!("a new ring is empty") };
        let job: Arc<dyn Assist> = Arc::clone(&shared) as _;
        let offer = plan.helpers.offer(plan.urgency, max_helpers, job);
        let shared = Ends(shared);
        Parallel { shared, offer, worker, packed_block, chooser, free: Some(first), done: None }
    }

    /// As [`Serial::submit`]; `raw` and `entry` are swapped for used ones. After the `last` block
    /// only [`Parallel::end`] may follow, after an error too. May suspend.
    ///
    /// # Errors
    /// The first error of any thread.
    pub fn submit(
        &mut self,
        raw: &mut Vec<u8>,
        entry: &mut IndexEntry,
        sizes: &mut SizeEstimate,
        tail: u64,
        last: bool,
    ) -> Result<()> {
        let Some(at) = self.free.take() else { return Err(Error::aborted("no slot is free")) };
        let raw_bytes = (raw.len() + BLOCK_TRAILER_LEN) as u64;
        let mut slot = self.shared.slots[at].lock();
        let slots = self.shared.slots.len();
        if let Some(before) = sizes.blocks().checked_sub(slots) {
            sizes.stored(before, slot.stored);
        }
        if let Some(chooser) = &mut self.chooser {
            chooser.note(slots, slot.packed);
            slot.kind = Some(chooser.data_block(raw.len()));
        }
        std::mem::swap(raw, &mut slot.raw);
        std::mem::swap(entry, &mut slot.entry);
        drop(slot);
        sizes.emitted(raw_bytes, 0, tail);
        self.done = Some(Task::Emit(at));
        if last { Ok(()) } else { self.next_slot() }
    }

    /// Works until there is a slot to fill.
    fn next_slot(&mut self) -> Result<()> {
        while let Some(done) = self.done.take() {
            let task = self.shared.ring.emitted(done);
            if self.shared.ring.wants_helper() {
                self.offer.call();
            }
            match task {
                None => return Err(self.error()),
                Some(Task::Emit(at)) => self.free = Some(at),
                Some(task) => self.work(task)?,
            }
        }
        Ok(())
    }

    fn work(&mut self, task: Task) -> Result<()> {
        self.done = Some(task);
        self.shared.step(task, &mut self.worker).inspect_err(|error| {
            self.shared.fail(error.clone());
        })
    }

    fn error(&self) -> Error {
        let failed = self.shared.failed.lock().clone();
        failed.unwrap_or_else(|| Error::aborted("the table build was abandoned"))
    }

    /// Writes what is in progress, or with `abort` drops it, and returns what one thread needs to
    /// continue. No helper is at work any longer then. Suspends.
    ///
    /// The error is the first one of any thread.
    pub fn end(mut self, abort: bool) -> (Option<Serial>, Result<()>) {
        if abort {
            self.shared.ring.abort();
        }
        while let Some(task) = self.shared.ring.drain(self.done.take()) {
            if self.work(task).is_err() {
                debug_assert!(self.shared.ring.is_aborted(), "an error ends the ring");
            }
        }
        let aborted = self.shared.ring.is_aborted();
        let result = if aborted { Err(self.error()) } else { Ok(()) };
        let Parallel { shared, worker, packed_block, chooser, .. } = self;
        let Some(mut sink) = shared.sink.lock().take() else {
            return (None, result);
        };
        sink.stats.helper_cpu_nanos += shared.helper_cpu_nanos.load(Ordering::Relaxed);
        sink.stats.ring.add(&shared.ring.stats());
        let codec = shared.codec.clone();
        (Some(Serial { sink, worker, packed_block, codec, plain: None, chooser }), result)
    }
}

/// The emitter's handle on the shared state: once it is dropped, helpers get no more work.
struct Ends(Arc<Shared>);

impl Drop for Ends {
    fn drop(&mut self) {
        // Also after the last block, where it has no effect.
        self.0.ring.abort();
    }
}

impl Deref for Ends {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}
