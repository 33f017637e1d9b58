//! A ring with a simulated, random kernel: everything io_uring may do, in any order, by seed.
//!
//! Requests are taken in part or not at all; operations complete in any order and any later time,
//! also short or with an error; a cancellation may end its target, come too late, or be ignored by
//! an operation that completes anyway; completions beyond the queue are kept aside and appear
//! later; a completion may even be reported twice, which the real kernel does not do. A ring may
//! fail for good, as if a sandbox had begun to refuse it.
//!
//! Invariants:
//! 1. While an operation is in the kernel its buffer is written to at random (reads) or must not
//!    change (writes): a buffer that is given back too early is detected by its bytes.
//! 2. Buffers are ranges of one arena that outlives the ring, so a late access, which is the bug
//!    this looks for, still touches only memory of the arena.
//!
//! Thread safety: none.

use crate::io::in_flight::{Completion, Request, Uring, Wait, What};
use crate::io::op::Call;
use pumice_base::checksum::crc32c;
use pumice_base::random::Rng;
use std::collections::{BTreeMap, VecDeque};
use std::io;

/// After this many waits for a completion that can never come the run counts as stuck.
const FRUITLESS_WAITS_MAX: u32 = 1000;
/// One in this many steps reports a completion twice, in runs that do so.
const DUPLICATE_ONE_IN: u64 = 4;

/// What the dice did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelReport {
    /// Operations that completed.
    pub operations: u64,
    /// Operations that were ended by a cancellation.
    pub cancelled: u64,
    /// Operations that completed although they had been cancelled.
    pub completed_anyway: u64,
    /// Submissions of which the kernel took only a part.
    pub partial: u64,
    /// Completions that did not fit into their queue at first.
    pub overflowed: u64,
    /// Completions that moved fewer bytes than asked for.
    pub short: u64,
    /// Completions with an error.
    pub errors: u64,
    /// Completions that were reported twice.
    pub duplicates: u64,
    /// Rings that failed for good.
    pub failed: u64,
    /// Most operations in flight at one time.
    pub inflight_max: u64,
    /// Hash of everything that happened: equal for equal seeds.
    pub trace_hash: u64,
}

struct InKernel {
    user_data: u64,
    call: Call,
    /// For a write: the checksum of its bytes.
    checksum: u32,
    /// Does not complete unless it is cancelled.
    hangs: bool,
    cancelled: bool,
}

/// See the head of this file.
pub(super) struct DiceRing {
    rng: Rng,
    capacity: usize,
    completion_capacity: usize,
    queued: VecDeque<Request>,
    kernel: Vec<InKernel>,
    completions: VecDeque<Completion>,
    overflow: VecDeque<Completion>,
    fruitless_waits: u32,
    duplicates: bool,
    /// How many times it can be entered before it fails.
    enters_left: Option<u64>,
    /// Results of operations that were reaped, by buffer.
    pub(super) results: BTreeMap<usize, i32>,
    /// Buffers of operations that are queued, in the kernel, or not yet reaped.
    in_use: BTreeMap<usize, u64>,
    pub(super) file: Vec<u8>,
    pub(super) report: ModelReport,
    pub(super) violation: Option<String>,
}

impl DiceRing {
    pub(super) fn new(mut rng: Rng, file_bytes: usize) -> Self {
        let capacity = 1 << rng.uniform(6);
        let enters_left = rng.one_in(4).then(|| rng.uniform(60));
        let mut completion_capacity = 1 + rng.uniform(2 * capacity as u64) as usize;
        if enters_left.is_some() {
            // Completions kept aside were done, and would otherwise never be reported.
            completion_capacity = usize::MAX;
        }
        DiceRing {
            capacity,
            completion_capacity,
            enters_left,
            duplicates: rng.one_in(4),
            rng,
            queued: VecDeque::new(),
            kernel: Vec::new(),
            completions: VecDeque::new(),
            overflow: VecDeque::new(),
            fruitless_waits: 0,
            results: BTreeMap::new(),
            in_use: BTreeMap::new(),
            file: vec![0; file_bytes],
            report: ModelReport::default(),
            violation: None,
        }
    }

    /// Whether an operation still has the buffer.
    pub(super) fn uses(&self, buffer: usize) -> bool {
        self.in_use.contains_key(&buffer)
    }
    /// Whether the ring holds no operation; late cancellations may remain.
    pub(super) fn is_idle(&self) -> bool {
        let calls = self.queued.iter().any(|request| matches!(request.what, What::Call(_)));
        self.kernel.is_empty() && self.in_use.is_empty() && !calls
    }
    /// Whether an operation could complete by itself.
    pub(super) fn can_complete(&self) -> bool {
        let willing = |op: &InKernel| !op.hangs || op.cancelled;
        !self.completions.is_empty() || !self.overflow.is_empty() || self.kernel.iter().any(willing)
    }
    /// Mixes `value` into the trace.
    pub(super) fn note(&mut self, value: u64) {
        let mixed = (self.report.trace_hash ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.report.trace_hash = mixed ^ (mixed >> 29);
    }
    fn blame(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    fn take(&mut self, request: Request) {
        match request.what {
            What::Call(call) => {
                let checksum = written(&call).map_or(0, crc32c);
                let hangs = match call {
                    Call::Receive { .. } | Call::Poll { .. } => !self.rng.one_in(3),
                    _ => false,
                };
                let user_data = request.user_data;
                self.kernel.push(InKernel { user_data, call, checksum, hangs, cancelled: false });
            }
            What::Cancel(target) => {
                let found = self.kernel.iter().position(|op| op.user_data == target);
                let result = match found {
                    None => -libc::ENOENT,
                    Some(place) => self.cancel(place),
                };
                self.post(Completion { user_data: request.user_data, result, more: false });
            }
            What::Kicks(_) => {}
        }
    }

    fn cancel(&mut self, place: usize) -> i32 {
        self.kernel[place].cancelled = true;
        match self.rng.uniform(3) {
            0 => {
                let op = self.kernel.swap_remove(place);
                self.report.cancelled += 1;
                self.end(&op, -libc::ECANCELED);
                0
            }
            1 => {
                let op = self.kernel.swap_remove(place);
                self.report.completed_anyway += 1;
                self.perform(&op);
                -libc::EALREADY
            }
            _ => {
                // Running: it completes some time later.
                self.report.completed_anyway += 1;
                -libc::EALREADY
            }
        }
    }

    fn post(&mut self, completion: Completion) {
        if self.overflow.is_empty() && self.completions.len() < self.completion_capacity {
            // In any order among those not yet seen.
            let place = self.rng.uniform(self.completions.len() as u64 + 1) as usize;
            self.completions.insert(place, completion);
        } else {
            self.report.overflowed += 1;
            self.overflow.push_back(completion);
        }
    }

    fn end(&mut self, op: &InKernel, result: i32) {
        self.report.operations += 1;
        if result < 0 {
            self.report.errors += 1;
        }
        if let Some(buffer) = buffer_of(&op.call) {
            self.results.insert(buffer, result);
        }
        self.note(op.user_data ^ (result as u64) << 32);
        let completion = Completion { user_data: op.user_data, result, more: false };
        self.post(completion);
        if self.duplicates && self.rng.one_in(DUPLICATE_ONE_IN) {
            self.report.duplicates += 1;
            self.overflow.push_back(completion);
        }
    }

    /// Does the operation, perhaps only a part of it, or fails it.
    fn perform(&mut self, op: &InKernel) {
        if let Some(bytes) = written(&op.call)
            && crc32c(bytes) != op.checksum
        {
            self.blame("the buffer of a write changed while the kernel had it".to_string());
        }
        if self.rng.one_in(25) {
            self.end(op, -libc::EIO);
            return;
        }
        let whole = length_of(&op.call);
        let mut bytes = whole;
        if whole > 1 && self.rng.one_in(6) {
            bytes = 1 + self.rng.uniform(whole as u64 - 1) as usize;
            self.report.short += 1;
        }
        match op.call {
            Call::Read { buf, offset, .. } => {
                let from = offset as usize;
                store(buf, &self.file[from..from + bytes]);
            }
            Call::Receive { buf, .. } => store(buf, &vec![0x77; bytes]),
            Call::Write { offset, .. } => {
                let from = offset as usize;
                let data = written(&op.call).unwrap_or_default()[..bytes].to_vec();
                self.file[from..from + bytes].copy_from_slice(&data);
            }
            Call::Send { .. } | Call::Sync { .. } | Call::Poll { .. } | Call::Accept { .. } => {}
        }
        self.end(op, bytes as i32);
    }

    /// Time passes in the kernel: buffers are overwritten, operations complete.
    fn turn(&mut self, at_least_one: bool) {
        for place in 0..self.kernel.len() {
            let call = self.kernel[place].call;
            if let Call::Read { buf, .. } | Call::Receive { buf, .. } = call
                && self.rng.one_in(2)
            {
                let bytes = self.rng.uniform(length_of(&call) as u64 + 1) as usize;
                store(buf, &self.rng.bytes(bytes));
            }
        }
        let share = self.rng.uniform(4);
        let mut completed = false;
        let mut place = 0;
        while place < self.kernel.len() {
            let op = &self.kernel[place];
            let willing = !op.hangs || op.cancelled;
            let forced = at_least_one && !completed && self.completions.is_empty();
            if willing && (forced || self.rng.uniform(4) < share) {
                let op = self.kernel.swap_remove(place);
                self.perform(&op);
                completed = true;
            } else {
                place += 1;
            }
        }
    }
}

/// Invariant 2: the model's only accesses to buffers.
fn store(buf: *mut u8, bytes: &[u8]) {
    // SAFETY: invariant 2: a buffer of the arena, at least as long as its operation.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buf, bytes.len()) };
}

fn written(call: &Call) -> Option<&[u8]> {
    match *call {
        Call::Write { buf, bytes, .. } | Call::Send { buf, bytes, .. } => {
            // SAFETY: invariant 2, as above; the slice does not outlive the caller's statement.
            Some(unsafe { std::slice::from_raw_parts(buf, bytes as usize) })
        }
        _ => None,
    }
}

fn buffer_of(call: &Call) -> Option<usize> {
    match *call {
        Call::Read { buf, .. } | Call::Receive { buf, .. } => Some(buf.addr()),
        Call::Write { buf, .. } | Call::Send { buf, .. } => Some(buf.addr()),
        Call::Sync { .. } | Call::Poll { .. } | Call::Accept { .. } => None,
    }
}

fn length_of(call: &Call) -> usize {
    match *call {
        Call::Read { bytes, .. }
        | Call::Receive { bytes, .. }
        | Call::Write { bytes, .. }
        | Call::Send { bytes, .. } => bytes as usize,
        Call::Sync { .. } | Call::Poll { .. } | Call::Accept { .. } => 0,
    }
}

impl Uring for DiceRing {
    fn push(&mut self, request: &Request) -> bool {
        if self.queued.len() == self.capacity {
            return false;
        }
        if let What::Call(call) = &request.what
            && let Some(buffer) = buffer_of(call)
            && self.in_use.insert(buffer, request.user_data).is_some()
        {
            self.blame("a buffer was given to two operations at a time".to_string());
        }
        self.queued.push_back(*request);
        true
    }

    fn queued(&self) -> usize {
        self.queued.len()
    }

    fn is_ready(&self) -> bool {
        !self.completions.is_empty() || !self.overflow.is_empty()
    }

    fn submit(&mut self, wait: Wait) -> io::Result<()> {
        match &mut self.enters_left {
            Some(0) => return Err(io::Error::from_raw_os_error(libc::EPERM)),
            Some(left) => *left -= 1,
            None => {}
        }
        let waits = wait != Wait::No;
        let mut count = self.queued.len();
        if self.rng.one_in(4) {
            count = self.rng.uniform(count as u64 + 1) as usize;
            self.report.partial += u64::from(count < self.queued.len());
        }
        for _ in 0..count {
            if let Some(request) = self.queued.pop_front() {
                self.take(request);
            }
        }
        self.report.inflight_max = self.report.inflight_max.max(self.kernel.len() as u64);
        self.turn(waits);
        while self.completions.len() < self.completion_capacity
            && let Some(late) = self.overflow.pop_front()
        {
            self.completions.push_back(late);
        }
        self.fruitless_waits =
            if waits && !self.can_complete() { self.fruitless_waits + 1 } else { 0 };
        if self.fruitless_waits > FRUITLESS_WAITS_MAX {
            self.blame("waits for what never completes".to_string());
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    fn reap(&mut self) -> Option<Completion> {
        let completion = self.completions.pop_front()?;
        self.in_use.retain(|_, user_data| *user_data != completion.user_data);
        Some(completion)
    }

    fn close(&mut self, is_used: bool) {
        let calls = self.kernel.iter().map(|op| (op.call, -libc::EPERM));
        let sent = calls.len();
        let queued = self.queued.iter().filter_map(|request| match request.what {
            What::Call(call) => Some((call, -libc::EINTR)),
            _ => None,
        });
        let ended: Vec<_> = calls.chain(queued).collect();
        self.report.failed += 1;
        for (call, result) in ended {
            if let Some(buffer) = buffer_of(&call) {
                self.results.insert(buffer, result);
            }
        }
        if is_used != (sent > 0) {
            self.blame(format!("{sent} operations are with the kernel, the table says {is_used}"));
        }
        self.kernel.clear();
        self.queued.clear();
        self.in_use.clear();
        // Continues as another ring.
        self.enters_left = None;
    }
}
