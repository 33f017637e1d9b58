//! Models of the ring: an emitter and helpers over loom's cells, so that a slot in two hands, or
//! one handed over without order, is an error, as is an emitter that is never woken.
//!
//! The bounds: two slots, three blocks, one or two helpers, each of which comes a fixed number of
//! times (a helper need never come: that is invariant 1 of the ring), at most four forced switches
//! per execution with one helper and three with two. Without a bound on switches, but over changes
//! of the word as single steps, the ring's own unit tests explore rings of up to three helpers.

use super::{holds, is_caught};
use crate::ring::{Ring, Task};
use crate::sync::planted::Planted;
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

/// A build whose blocks are numbers: block n is written as 10 n + 1.
struct Build {
    ring: Ring,
    slots: [UnsafeCell<u64>; 2],
    out: UnsafeCell<Vec<u64>>,
    /// The step that fails, if any: the compression of this block.
    fails_at: u64,
}

// A slot and the output belong to one thread at a time, which is what the models check.
unsafe impl Sync for Build {}
unsafe impl Send for Build {}

impl Build {
    fn new(fails_at: u64) -> Arc<Build> {
        let slots = [UnsafeCell::new(0), UnsafeCell::new(0)];
        Arc::new(Build { ring: Ring::new(2), slots, out: UnsafeCell::new(Vec::new()), fails_at })
    }

    fn compress(&self, slot: usize) -> bool {
        self.slots[slot].with_mut(|value| {
            // SAFETY: loom checks that no other thread is in here.
            let value = unsafe { &mut *value };
            if *value == self.fails_at * 10 {
                return false;
            }
            *value += 1;
            true
        })
    }
    fn write(&self, slot: usize) {
        // SAFETY: loom checks that no other thread is in here.
        let value = self.slots[slot].with(|value| unsafe { *value });
        // SAFETY: as above.
        self.out.with_mut(|out| unsafe { (*out).push(value) });
    }
    fn work(&self, task: Task) {
        match task {
            Task::Emit(_) => panic!("the emitter's own"),
            Task::Write(slot) => self.write(slot),
            Task::Compress(slot) | Task::CompressAndWrite(slot) => {
                if !self.compress(slot) {
                    self.ring.abort();
                } else if matches!(task, Task::CompressAndWrite(_)) {
                    self.write(slot);
                }
            }
        }
    }
    /// A helper that comes `visits` times.
    fn help(self: &Arc<Self>, visits: u32, leaves: bool) -> thread::JoinHandle<()> {
        let build = Arc::clone(self);
        thread::spawn(move || {
            for _ in 0..visits {
                build.ring.help(2, || leaves, |task| build.work(task));
            }
        })
    }
    /// The emitter's part.
    fn emit(&self, blocks: u64) {
        let mut next = Some(self.ring.start());
        let mut emitted = 0;
        let mut last = None;
        while let Some(task) = next {
            if let Task::Emit(slot) = task {
                // SAFETY: as in `compress`.
                self.slots[slot].with_mut(|value| unsafe { *value = emitted * 10 });
                emitted += 1;
                if emitted == blocks {
                    last = Some(task);
                    break;
                }
            } else {
                self.work(task);
            }
            next = self.ring.emitted(task);
        }
        while let Some(task) = self.ring.drain(last) {
            self.work(task);
            last = Some(task);
        }
    }
    /// What was written. No other thread may be inside, although the helpers were not joined.
    fn written(&self) -> Vec<u64> {
        // SAFETY: as in `compress`.
        self.out.with(|out| unsafe { (*out).clone() })
    }
}

/// Nothing fails: everything is written, in order.
fn build(blocks: u64, visits: &'static [u32], leaves: bool) -> impl Fn() + Sync + Send {
    move || {
        let build = Build::new(u64::MAX / 10);
        let helpers: Vec<_> = visits.iter().map(|n| build.help(*n, leaves)).collect();
        build.emit(blocks);
        assert_eq!(build.written(), (0..blocks).map(|n| n * 10 + 1).collect::<Vec<_>>());
        helpers.into_iter().for_each(|helper| helper.join().unwrap());
    }
}

#[test]
fn one_helper_and_the_emitter_write_in_order() {
    holds(4, build(3, &[2], false));
}

#[test]
fn two_helpers_and_the_emitter_write_in_order() {
    holds(3, build(3, &[1, 1], false));
}

#[test]
fn a_helper_may_leave_after_any_step() {
    holds(3, build(3, &[2], true));
}

/// A failed step ends the build; the output is not touched after the emitter has drained.
#[test]
fn an_abort_ends_the_build() {
    for fails_at in [0, 1] {
        holds(3, move || {
            let build = Build::new(fails_at);
            let helper = build.help(2, false);
            build.emit(3);
            let expected: Vec<u64> = (0..fails_at).map(|n| n * 10 + 1).collect();
            assert_eq!(build.written(), expected);
            assert!(build.ring.is_aborted());
            helper.join().unwrap();
        });
    }
}

/// Another task aborts at any moment; what was written is a prefix.
#[test]
fn an_abort_may_come_at_any_moment() {
    holds(2, || {
        let build = Build::new(u64::MAX / 10);
        let helper = build.help(1, false);
        let aborter = Arc::clone(&build);
        let aborter = thread::spawn(move || aborter.ring.abort());
        build.emit(3);
        let written = build.written();
        let prefix = [1, 11, 21];
        assert!(prefix.starts_with(&written), "{written:?}");
        aborter.join().unwrap();
        helper.join().unwrap();
    });
}

/// RocksDB's mistake of PR 13959: availability is tested against the old number of emitted blocks,
/// and the emitter idles although it has just emitted a block.
#[test]
fn an_emitter_that_overlooks_its_own_block_is_caught() {
    is_caught(Planted::RingOldEmit, "the emitter waits, and no thread", 3, build(3, &[2], false));
}

#[test]
fn a_helper_that_asks_too_early_whether_to_wake_is_caught() {
    is_caught(Planted::RingWakesLate, "deadlock", 3, build(3, &[2], false));
}

#[test]
fn a_hand_over_without_order_is_caught() {
    is_caught(Planted::RingRelaxed, "Causality violation", 3, build(3, &[2], false));
}
