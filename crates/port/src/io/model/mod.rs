//! Tests the reactor's bookkeeping on a ring that misbehaves as much as a kernel may.
//!
//! Clients do groups of operations on regions of their own of one file, with buffers from a common
//! arena, the one that real rings register; some cancel their operations; the run may end with
//! operations in flight. Checked: a group ends only when the kernel is done with each of its
//! buffers; each operation has its own result; what was read is what was written; unused buffers
//! are never touched; owners are woken exactly when a group of theirs has ended; draining ends
//! everything.
//!
//! Invariants cited by unsafe blocks: 1. the arena lives longer than the ring and is accessed
//! through raw pointers only, never by its buffers' slices.
//!
//! Thread safety: a run is a function of its seed.

mod ring;

pub use ring::ModelReport;

use super::arena::{Arena, COUNT_MAX as BUFFERS, PinnedBuffer};
use super::in_flight::{Group, InFlight, Wait};
use super::op::{Call, Socket};
use crate::task::{self, WaitReason};
use pumice_base::random::Rng;
use ring::DiceRing;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

static FOR_MODEL: WaitReason = WaitReason("the model of the ring");

const CLIENTS: usize = 8;
const REGION: usize = 512;
const BUFFER_BYTES: usize = 64;
const GROUP_MAX: u64 = 6;
/// Operations that have not ended after this many turns never will.
const TURNS_MAX: u32 = 10_000;
/// The contents of unused buffers.
const CANARY: u8 = 0xA5;

/// One planned operation of a client.
struct Planned {
    call: Call,
    buffer: PinnedBuffer,
    /// What a write writes.
    data: Vec<u8>,
    /// Position in the client's region.
    at: usize,
}

struct Active {
    group: Group,
    planned: Vec<Planned>,
}

struct Client {
    /// What the client's region of the file holds.
    shadow: Vec<u8>,
    active: Option<Active>,
}

struct Model {
    rng: Rng,
    /// On failure it is leaked: its drop would wait for the broken ring.
    operations: ManuallyDrop<InFlight<DiceRing>>,
    arena: Arc<Arena>,
    clients: Vec<Client>,
}

/// One run; `Err` says what was violated.
///
/// # Errors
/// A violated promise, or the message of a panic.
pub fn run(seed: u64) -> Result<ModelReport, String> {
    let arena = Arena::new(BUFFERS, BUFFER_BYTES);
    // SAFETY: invariant 1; no buffer is in use yet.
    unsafe { arena.start().write_bytes(CANARY, arena.len()) };
    let own = Arc::clone(&arena);
    let outcome = catch_unwind(AssertUnwindSafe(|| Model::new(seed, own).run()));
    drop(arena);
    let result = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_string())
    });
    result.map_err(|e| format!("ring model, seed {seed}: {e}"))
}

impl Model {
    fn new(seed: u64, arena: Arc<Arena>) -> Self {
        let mut rng = Rng::new(seed);
        let ring = DiceRing::new(rng.fork(), CLIENTS * REGION);
        let client = || Client { shadow: vec![0; REGION], active: None };
        Model {
            rng,
            operations: ManuallyDrop::new(InFlight::new(ring, None)),
            arena,
            clients: (0..CLIENTS).map(|_| client()).collect(),
        }
    }

    fn run(mut self) -> Result<ModelReport, String> {
        // An earlier notification is not ours.
        task::park_until(&FOR_MODEL, Some(0));
        let steps = 50 + self.rng.uniform(150);
        for _ in 0..steps {
            let client = self.rng.uniform(CLIENTS as u64) as usize;
            match self.rng.uniform(8) {
                0 => self.cancel(client),
                1..=3 => self.begin(client),
                _ => self.poll()?,
            }
        }
        if self.rng.one_in(2) {
            self.operations.drain();
        } else {
            self.wait_for_all()?;
        }
        for client in 0..CLIENTS {
            self.finish(client)?;
        }
        self.check_end()
    }

    /// Lets everything complete, cancelling what would not.
    fn wait_for_all(&mut self) -> Result<(), String> {
        let mut turns = 0;
        while self.operations.inflight() > 0 {
            turns += 1;
            if turns > TURNS_MAX {
                return Err("operations are in flight and never end".to_string());
            }
            let client = self.rng.uniform(CLIENTS as u64) as usize;
            if self.rng.one_in(4) {
                self.cancel(client);
            }
            self.poll()?;
        }
        Ok(())
    }

    fn check_end(mut self) -> Result<ModelReport, String> {
        self.go_on();
        if self.operations.inflight() != 0 || self.arena.free() != BUFFERS {
            return Err("operations are left".to_string());
        }
        if !self.operations.ring_mut().is_idle() {
            return Err("the kernel still has buffers".to_string());
        }
        let mut canaries = Ok(());
        for buffer in 0..BUFFERS {
            canaries = canaries.and(self.check_canary(buffer));
        }
        canaries?;
        // Duplicate completions may not have been reaped: that is up to poll.
        while self.operations.ring_mut().can_complete() {
            self.operations.poll(Wait::No);
        }
        let stale = self.operations.stats().stale;
        let ring = self.operations.ring_mut();
        let report = ring.report.clone();
        if let Some(violation) = ring.violation.take() {
            return Err(violation);
        }
        if stale != report.duplicates {
            return Err(format!("{stale} strange completions, {} sent", report.duplicates));
        }
        ManuallyDrop::into_inner(self.operations);
        Ok(report)
    }

    fn buffer(&self, buffer: usize) -> *mut u8 {
        // SAFETY: invariant 1: within the arena.
        unsafe { self.arena.start().add(buffer * BUFFER_BYTES) }
    }

    fn bytes(&self, buffer: usize) -> [u8; BUFFER_BYTES] {
        // SAFETY: invariant 1.
        unsafe { self.buffer(buffer).cast::<[u8; BUFFER_BYTES]>().read() }
    }

    fn fill(&self, buffer: usize, bytes: &[u8; BUFFER_BYTES]) {
        // SAFETY: invariant 1.
        unsafe { self.buffer(buffer).cast::<[u8; BUFFER_BYTES]>().write(*bytes) };
    }

    fn check_canary(&self, buffer: usize) -> Result<(), String> {
        let intact = self.bytes(buffer) == [CANARY; BUFFER_BYTES];
        if intact { Ok(()) } else { Err("a buffer was written to that nobody uses".to_string()) }
    }

    /// Starts a group for a client that has none.
    fn begin(&mut self, client: usize) {
        if self.clients[client].active.is_some() {
            return;
        }
        let count = (1 + self.rng.uniform(GROUP_MAX)) as usize;
        let writes = self.rng.one_in(2);
        let mut planned = Vec::new();
        for number in 0..count {
            let Some(buffer) = self.arena.take() else { break };
            planned.push(self.plan(client, buffer, number, writes));
        }
        if planned.is_empty() {
            return;
        }
        let owner = Some(task::current());
        let group = self.operations.begin(planned.iter().map(|p| p.call), owner);
        self.clients[client].active = Some(Active { group, planned });
    }

    /// Operations of one group are on ranges of their own, since their order is open.
    fn plan(
        &mut self,
        client: usize,
        buffer: PinnedBuffer,
        number: usize,
        writes: bool,
    ) -> Planned {
        let at = number * BUFFER_BYTES + self.rng.uniform(16) as usize;
        let bytes = 1 + self.rng.uniform(48) as u32;
        let offset = (client * REGION + at) as u64;
        let buf = buffer.start();
        let mut data = Vec::new();
        let call = match self.rng.uniform(8) {
            0 => Call::Receive { socket: Socket::new(0), buf, bytes, later: false },
            1 => Call::Sync { fd: 0, all: false },
            _ if writes => {
                let mut content = [0; BUFFER_BYTES];
                self.rng.fill(&mut content);
                self.fill(buffer.index(), &content);
                data = content[..bytes as usize].to_vec();
                Call::Write { fd: 0, buf, bytes, offset }
            }
            _ => Call::Read { fd: 0, buf, bytes, offset },
        };
        Planned { call, buffer, data, at }
    }

    fn cancel(&mut self, client: usize) {
        if let Some(active) = &self.clients[client].active {
            self.operations.cancel(active.group);
        }
    }

    /// One turn of the loop, then the clients whose groups have ended.
    fn poll(&mut self) -> Result<(), String> {
        let before = self.done_groups();
        let forever = self.rng.one_in(2) && self.operations.ring_mut().can_complete();
        self.operations.poll(if forever { Wait::Forever } else { Wait::No });
        self.go_on();
        let ended = self.done_groups() > before;
        let woken = task::park_until(&FOR_MODEL, Some(0));
        // Beginning a group may enter the kernel, too, and end others: then the owner was woken
        // before, and finds its groups done without another wake-up.
        if ended && !woken {
            return Err("a group has ended and its owner sleeps on".to_string());
        }
        for client in 0..CLIENTS {
            let done =
                self.clients[client].active.as_ref().map(|a| self.operations.is_done(a.group));
            // A client sometimes looks late.
            if done == Some(true) && !self.rng.one_in(4) {
                self.finish(client)?;
            }
        }
        match self.operations.ring_mut().violation.take() {
            Some(violation) => Err(violation),
            None => Ok(()),
        }
    }

    /// Replaces a table whose ring has failed by one that continues over the same ring.
    fn go_on(&mut self) {
        if self.operations.has_failed() {
            self.operations.give_up();
            let spare = DiceRing::new(self.rng.fork(), 0);
            let ring = std::mem::replace(self.operations.ring_mut(), spare);
            *self.operations = InFlight::over(ring, &mut self.operations);
        }
    }

    fn done_groups(&self) -> usize {
        let groups = self.clients.iter().filter_map(|c| c.active.as_ref());
        groups.filter(|active| self.operations.is_done(active.group)).count()
    }

    /// Ends a client's group, if it has one, and compares its results with what the kernel did.
    fn finish(&mut self, client: usize) -> Result<(), String> {
        let Some(Active { group, planned }) = self.clients[client].active.take() else {
            return Ok(());
        };
        if !self.operations.is_done(group) {
            return Err("drained, and a group has not ended".to_string());
        }
        let mut results = vec![0; planned.len()];
        self.operations.finish(group, |place, result| results[place] = result);
        for (planned, result) in planned.into_iter().zip(results) {
            self.check_result(&planned, result)?;
            self.check_bytes(client, &planned, result)?;
            // Then the buffer goes back, to be taken by the next group.
            self.fill(planned.buffer.index(), &[CANARY; BUFFER_BYTES]);
        }
        Ok(())
    }

    fn check_result(&mut self, p: &Planned, result: i32) -> Result<(), String> {
        if matches!(p.call, Call::Sync { .. }) {
            return Ok(());
        }
        let address = p.buffer.start().addr();
        let ring = self.operations.ring_mut();
        if ring.uses(address) {
            return Err("a group ended before the completion of its operation".to_string());
        }
        match ring.results.remove(&address) {
            Some(own) if own == result => Ok(()),
            // It waited for space in a ring that has failed, which never saw it.
            None if result == -libc::EINTR && ring.report.failed > 0 => Ok(()),
            own => Err(format!("an operation got result {result}, its own is {own:?}")),
        }
    }

    fn check_bytes(&mut self, client: usize, p: &Planned, result: i32) -> Result<(), String> {
        let Ok(n) = usize::try_from(result) else { return Ok(()) };
        let bytes = self.bytes(p.buffer.index());
        let region = &mut self.clients[client].shadow[p.at.min(REGION)..];
        match p.call {
            Call::Write { .. } => region[..n].copy_from_slice(&p.data[..n]),
            Call::Read { .. } if bytes[..n] != region[..n] => {
                return Err("a read brought other bytes than were written".to_string());
            }
            Call::Receive { .. } if bytes[..n].iter().any(|b| *b != 0x77) => {
                return Err("a receive brought other bytes than were sent".to_string());
            }
            _ => {}
        }
        Ok(())
    }
}
