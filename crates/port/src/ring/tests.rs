//! The protocol explored completely for small rings, and run with real threads, fibers and in
//! simulations.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::fiber::Runtime;
use crate::sync::{Event, Mutex};
use crate::{thread, time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The stages of a block in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Free,
    Emitted,
    Compressed,
}

/// The emitter of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Emitter {
    Holds(u8, usize),
    Waits,
    Ended,
}

/// A ring and all its participants, between two changes of the word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    word: State,
    emitter: Emitter,
    /// Kind and slot of the step each helper holds.
    helpers: Vec<Option<(u8, usize)>>,
    slots: Vec<(Phase, usize)>,
    emitted: usize,
    written: usize,
    aborted: bool,
}

fn pack(task: Task) -> (u8, usize) {
    match task {
        Task::Emit(slot) => (0, slot),
        Task::Compress(slot) => (1, slot),
        Task::Write(slot) => (2, slot),
        Task::CompressAndWrite(slot) => (3, slot),
    }
}

fn unpack((kind, slot): (u8, usize)) -> Task {
    [Task::Emit, Task::Compress, Task::Write, Task::CompressAndWrite][usize::from(kind)](slot)
}

/// All worlds of a ring of some slots with some helpers and blocks.
struct Explorer {
    ring: Ring,
    blocks: usize,
    seen: BTreeSet<World>,
    todo: Vec<World>,
    most_attached: usize,
    waits: usize,
    /// Whether helpers may leave early or fail, and any participant abort.
    unruly: bool,
}

impl Explorer {
    fn explore(slots: usize, helpers: usize, blocks: usize, unruly: bool) -> Explorer {
        let ring = Ring::new(slots);
        let first = World {
            word: State::EMPTY,
            emitter: Emitter::Holds(0, 0),
            helpers: vec![None; helpers],
            slots: vec![(Phase::Free, 0); slots],
            emitted: 0,
            written: 0,
            aborted: false,
        };
        let mut explorer = Explorer {
            ring,
            blocks,
            seen: BTreeSet::new(),
            todo: vec![first],
            most_attached: 0,
            waits: 0,
            unruly,
        };
        while let Some(world) = explorer.todo.pop() {
            if explorer.seen.insert(world.clone()) {
                explorer.check(&world);
                explorer.successors(&world);
            }
        }
        explorer
    }

    /// What must hold in every world.
    fn check(&mut self, world: &World) {
        let word = world.word;
        let held = world.helpers.iter().flatten().count();
        assert_eq!(word.attached(), held, "invariant 2: {world:?}");
        self.most_attached = self.most_attached.max(held);
        let mut slots: Vec<usize> = world.helpers.iter().flatten().map(|held| held.1).collect();
        if let Emitter::Holds(_, slot) = world.emitter {
            slots.push(slot);
        }
        let all = slots.len();
        assert_eq!(slots.into_iter().collect::<BTreeSet<_>>().len(), all, "shared: {world:?}");
        if word.is_waiting() {
            self.waits += 1;
            assert_eq!(world.emitter, Emitter::Waits, "{world:?}");
            assert!(held > 0, "invariant 1: no one is left to wake the emitter: {world:?}");
            assert!(!word.should_wake(self.ring.slots), "forgotten: {world:?}");
        }
        if world.emitter == Emitter::Ended {
            assert_eq!(held, 0, "invariant 3: {world:?}");
            assert!(world.aborted || world.written == self.blocks, "lost blocks: {world:?}");
        }
    }

    fn successors(&mut self, world: &World) {
        match world.emitter {
            Emitter::Holds(kind, slot) => self.emitter_goes_on(world, Some(unpack((kind, slot)))),
            Emitter::Waits if !world.word.is_waiting() => self.emitter_goes_on(world, None),
            Emitter::Waits | Emitter::Ended => {}
        }
        for number in 0..world.helpers.len() {
            match world.helpers[number].map(unpack) {
                None => {
                    let draft = self.ring.attach_draft(world.word, world.helpers.len());
                    if let Some((word, task)) = draft {
                        let mut next = world.clone();
                        next.word = word;
                        next.helpers[number] = Some(pack(task));
                        self.todo.push(next);
                    }
                }
                Some(task) => self.helper_goes_on(world, number, task),
            }
        }
        if self.unruly && !world.aborted {
            let mut next = world.clone();
            next.word = world.word.aborted().awake();
            next.aborted = true;
            self.todo.push(next);
        }
    }

    fn emitter_goes_on(&mut self, world: &World, done: Option<Task>) {
        let mut next = world.clone();
        let last = matches!(done, Some(Task::Emit(_))) && world.emitted + 1 == self.blocks;
        if let Some(task) = done {
            do_step(&mut next, task);
        }
        let closing = last || world.word.is_closed() || world.aborted;
        let (word, pick) = self.ring.emitter_draft(world.word, done, closing);
        next.word = word;
        next.emitter = match pick {
            Pick::Do(task) => Emitter::Holds(pack(task).0, pack(task).1),
            Pick::Finished => Emitter::Ended,
            Pick::Wait => {
                assert!(word.may_wait(self.ring.slots), "unjustified: {next:?}");
                Emitter::Waits
            }
        };
        self.todo.push(next);
    }

    fn helper_goes_on(&mut self, world: &World, number: usize, task: Task) {
        let ways: &[bool] = if self.unruly { &[true, false] } else { &[true] };
        for stays in ways {
            let mut next = world.clone();
            do_step(&mut next, task);
            let (word, given) = self.ring.helper_draft(world.word, task, *stays);
            next.word = word;
            next.helpers[number] = given.map(pack);
            self.todo.push(next);
        }
        if self.unruly {
            let mut next = world.clone();
            next.word = world.word.aborted().detach().awake();
            next.aborted = true;
            next.helpers[number] = None;
            self.todo.push(next);
        }
    }
}

/// Applies a step to the slots, and checks that it was due.
fn do_step(world: &mut World, task: Task) {
    let (kind, slot) = pack(task);
    if kind == 0 {
        assert_eq!(world.slots[slot].0, Phase::Free, "{world:?}");
        world.slots[slot] = (Phase::Emitted, world.emitted);
        world.emitted += 1;
    }
    if kind == 1 || kind == 3 {
        assert_eq!(world.slots[slot].0, Phase::Emitted, "{world:?}");
        world.slots[slot].0 = Phase::Compressed;
    }
    if kind >= 2 {
        assert_eq!(world.slots[slot], (Phase::Compressed, world.written), "order: {world:?}");
        world.slots[slot] = (Phase::Free, 0);
        world.written += 1;
    }
}

#[test]
fn every_order_of_changes_is_right_for_small_rings() {
    for (slots, helpers, blocks) in [(2, 0, 5), (2, 1, 6), (2, 2, 6), (2, 3, 5), (4, 2, 8)] {
        let explorer = Explorer::explore(slots, helpers, blocks, false);
        // Filling the last slot of a ring takes a block in the same change.
        assert_eq!(explorer.most_attached, helpers.min(slots - 1), "{slots} slots");
        assert_eq!(explorer.waits > 0, helpers > 0, "{slots} slots, {helpers} helpers");
    }
}

#[test]
fn every_order_is_right_with_aborts_panics_and_early_leavers() {
    for (slots, helpers, blocks) in [(2, 1, 5), (2, 2, 5), (4, 2, 6), (4, 3, 5)] {
        let explorer = Explorer::explore(slots, helpers, blocks, true);
        assert!(explorer.waits > 0 && explorer.seen.len() > 100);
    }
}

/// Block numbers wrap at 256.
#[test]
fn a_ring_goes_round_more_than_256_blocks() {
    let explorer = Explorer::explore(4, 1, 300, false);
    assert!(explorer.seen.len() > 300 * 4);
}

/// A build without a file: numbers go in, numbers come out.
pub(crate) struct Build {
    pub(crate) ring: Ring,
    /// Changed by relaxed operations: the ring alone orders them.
    slots: Vec<Count>,
    out: Mutex<Vec<u64>>,
    written: Count,
    spin: u64,
    pub(crate) panics_at: u64,
}

impl Build {
    pub(crate) fn new(slots: usize, spin: u64) -> Arc<Build> {
        Arc::new(Build {
            ring: Ring::new(slots),
            slots: (0..slots).map(|_| Count::new(0)).collect(),
            out: Mutex::new(Vec::new()),
            written: Count::new(0),
            spin,
            panics_at: u64::MAX,
        })
    }
    pub(crate) fn work(&self, task: Task) {
        let compress = |slot: usize| {
            let value = self.slots[slot].load(Relaxed);
            assert!(value != self.panics_at, "planned");
            for i in 0..self.spin {
                std::hint::black_box(i);
            }
            self.slots[slot].store(value * 3 + 1, Relaxed);
        };
        // No other thread uses it: the lock is there for the compiler, and lets the test check
        // that.
        let write = |slot: usize| {
            self.out.try_lock().unwrap().push(self.slots[slot].load(Relaxed));
            self.written.fetch_add(1, Relaxed);
        };
        match task {
            Task::Emit(_) => panic!("the emitter's own"),
            Task::Compress(slot) => compress(slot),
            Task::Write(slot) => write(slot),
            Task::CompressAndWrite(slot) => {
                compress(slot);
                write(slot);
            }
        }
    }
    /// The emitter's whole part; false when the ring was aborted.
    pub(crate) fn emit(&self, blocks: u64, mut call: impl FnMut()) -> bool {
        let mut task = self.ring.start();
        for block in 0..blocks {
            while !matches!(task, Task::Emit(_)) {
                self.work(task);
                match self.ring.emitted(task) {
                    Some(next) => task = next,
                    None => return self.drain(None),
                }
            }
            let Task::Emit(slot) = task else { unreachable!() };
            self.slots[slot].store(block, Relaxed);
            if block + 1 == blocks {
                return self.drain(Some(task));
            }
            match self.ring.emitted(task) {
                Some(next) => task = next,
                None => return self.drain(None),
            }
            if self.ring.wants_helper() {
                call();
            }
        }
        self.drain(None)
    }
    fn drain(&self, mut done: Option<Task>) -> bool {
        while let Some(task) = self.ring.drain(done) {
            self.work(task);
            done = Some(task);
        }
        !self.ring.is_aborted()
    }
    pub(crate) fn check(&self, blocks: u64) {
        let out = self.out.lock();
        assert!(out.iter().copied().eq((0..blocks).map(|block| block * 3 + 1)), "{:?}", *out);
    }
}

#[test]
fn without_helpers_the_emitter_does_everything() {
    for slots in [2, 4, 8, 16, 32] {
        for blocks in [0, 1, 2, 31, 32, 33, 1000] {
            let build = Build::new(slots, 0);
            let mut calls = 0u64;
            assert!(build.emit(blocks, || calls += 1));
            build.check(blocks);
            let stats = build.ring.stats();
            assert_eq!((stats.emitted, stats.steals_compressed), (blocks, blocks));
            assert_eq!((stats.steals_written, stats.helper_compressed), (blocks, 0));
            assert_eq!(stats.waits, 0);
            // Whether the last block makes a call worthwhile is not checked.
            assert!(stats.calls - calls <= 1, "{slots} slots, {blocks} blocks");
            assert!(calls > 0 || blocks <= slots as u64);
        }
    }
}

/// Helpers that come again and again, each with a thread of its own.
fn with_helpers(slots: usize, helpers: usize, blocks: u64, spin: u64) -> RingStats {
    let build = Build::new(slots, spin);
    let end = Arc::new(Event::new());
    let threads: Vec<_> = (0..helpers)
        .map(|_| {
            let (build, end) = (Arc::clone(&build), Arc::clone(&end));
            thread::spawn("helper", move || {
                while !end.is_set() {
                    build.ring.help(helpers, || false, |task| build.work(task));
                    thread::yield_now();
                }
            })
        })
        .collect();
    assert!(build.emit(blocks, || {}));
    build.check(blocks);
    end.set();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    build.ring.stats()
}

fn stress(blocks: u64) {
    for slots in [2, 4, 8, 32] {
        for helpers in [1, 2, 4] {
            let stats = with_helpers(slots, helpers, blocks, 200);
            assert_eq!(stats.emitted, blocks);
            assert_eq!(stats.steals_compressed + stats.helper_compressed, blocks);
            assert_eq!(stats.steals_written + stats.helper_written, blocks);
        }
    }
}

#[test]
fn threads_keep_the_order() {
    stress(20_000);
}

#[test]
fn fibers_keep_the_order() {
    let runtime = Runtime::builder().loops(2).spawn_as_fibers(true).build().unwrap();
    runtime.run("ring", || stress(3000));
}

#[test]
fn simulations_keep_the_order() {
    for seed in 0..300 {
        let options = sim::Options { preempt_per_mille: 300, ..sim::Options::new(seed) };
        let (_, result) = sim::run(&options, || {
            let stats = with_helpers(2 << (seed % 3), 1 + seed as usize % 3, 40, 0);
            (stats.waits, stats.helper_compressed)
        });
        result.unwrap_or_else(|failure| panic!("seed {seed}: {failure:?}"));
    }
}

#[test]
fn an_abort_ends_everybody() {
    for round in 0..200 {
        let build = Build::new(4, 100);
        let helpers: Vec<_> = (0..2)
            .map(|_| {
                let build = Arc::clone(&build);
                thread::spawn("helper", move || {
                    while !build.ring.is_aborted() {
                        build.ring.help(2, || false, |task| build.work(task));
                    }
                })
            })
            .collect();
        let aborter = Arc::clone(&build);
        let aborter = thread::spawn("aborter", move || {
            while aborter.written.load(Relaxed) < round {
                time::spin_loop();
            }
            assert!(aborter.ring.abort() && !aborter.ring.abort());
        });
        assert!(!build.emit(u64::MAX, || {}));
        // No helper is inside any longer.
        assert_eq!(build.ring.attached(), 0);
        aborter.join().unwrap();
        helpers.into_iter().for_each(|helper| helper.join().unwrap());
        let out = build.out.lock();
        assert!(out.iter().copied().eq((0..out.len() as u64).map(|block| block * 3 + 1)));
    }
}

#[test]
fn a_helper_s_panic_aborts_the_ring() {
    let mut build = Build::new(2, 0);
    Arc::get_mut(&mut build).unwrap().panics_at = 0;
    assert_eq!(build.ring.emitted(build.ring.start()), Some(Task::Emit(1)));
    let helper = Arc::clone(&build);
    let helper = thread::spawn("helper", move || {
        helper.ring.help(1, || false, |task| helper.work(task));
    });
    assert!(helper.join().unwrap_err().to_string().contains("planned"));
    assert!(build.ring.is_aborted());
    assert_eq!(build.ring.emitted(Task::Emit(1)), None);
    assert_eq!(build.ring.drain(None), None);
    assert_eq!(build.ring.attach(1), None);
}

#[test]
fn a_helper_is_called_when_it_pays_and_not_for_one_block() {
    let ring = Ring::new(16);
    let mut task = ring.start();
    let mut called = Vec::new();
    for block in 1..=12 {
        task = ring.emitted(task).unwrap();
        if ring.wants_helper() {
            called.push(block);
        }
    }
    // A quarter of the slots, and eager at first.
    assert_eq!(called, [4, 5, 6, 7, 9, 12]);
}

#[test]
fn a_waiting_emitter_is_woken_for_several_slots_at_once() {
    let build = Build::new(16, 0);
    let mut task = build.ring.start();
    for _ in 0..15 {
        task = build.ring.emitted(task).unwrap();
    }
    let first = build.ring.attach(1).unwrap();
    assert_eq!(first, Task::CompressAndWrite(0));
    // The ring is full: the emitter takes what it can and then has to wait.
    let emitter = Arc::clone(&build);
    let emitter = thread::spawn("emitter", move || {
        let mut step = emitter.ring.emitted(task).unwrap();
        while !matches!(step, Task::Emit(_)) {
            step = emitter.ring.emitted(step).unwrap();
        }
        emitter.ring.stats()
    });
    while !build.ring.load().is_waiting() {
        thread::yield_now();
    }
    let mut step = first;
    for slot in 1..5 {
        assert!(build.ring.load().is_waiting(), "woken for {slot}");
        step = build.ring.next(step).unwrap();
        assert_eq!(step, Task::Write(slot));
    }
    let stats = emitter.join().unwrap();
    assert_eq!((stats.waits, stats.ring_full, stats.steals_compressed), (1, 1, 15));
    build.ring.leave(step);
    assert_eq!(build.ring.attached(), 0);
}
