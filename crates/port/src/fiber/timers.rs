//! The deadlines of a loop's timed waits: a binary heap that knows where each entry is, so that a
//! wait that ends early takes its entry out at once.
//!
//! Thread safety: none; the loop's thread only. It does not read the clock.

use super::slot::Slot;

/// Marks a slot that has no entry.
pub(crate) const NO_TIMER: u32 = u32::MAX;

struct Entry {
    deadline: u64,
    slot: &'static Slot,
}

/// See the head of this file. Invariant: `heap[i].slot.timer == i`, all other slots NO_TIMER.
#[derive(Default)]
pub(crate) struct Timers {
    heap: Vec<Entry>,
}

impl Timers {
    /// Adds the slot, which has no entry.
    pub(crate) fn insert(&mut self, deadline: u64, slot: &'static Slot) {
        debug_assert_eq!(slot.timer.get(), NO_TIMER, "a fiber waits for one thing at a time");
        let at = self.heap.len();
        self.heap.push(Entry { deadline, slot });
        slot.timer.set(at as u32);
        self.rise(at);
    }

    /// Takes the slot's entry out.
    pub(crate) fn remove(&mut self, slot: &'static Slot) {
        let at = slot.timer.replace(NO_TIMER) as usize;
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.heap[at].slot.timer.set(at as u32);
            self.sink(at);
            self.rise(at);
        }
    }

    /// Takes out the earliest entry if it is due.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<&'static Slot> {
        let first = self.heap.first()?;
        let slot = first.slot;
        if first.deadline > now {
            return None;
        }
        self.remove(slot);
        Some(slot)
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.deadline)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.heap[a].slot.timer.set(a as u32);
        self.heap[b].slot.timer.set(b as u32);
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.heap[at].deadline < self.heap[(at - 1) / 2].deadline {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let left = 2 * at + 1;
            let mut least = at;
            for child in [left, left + 1] {
                let earlier = |e: &Entry| e.deadline < self.heap[least].deadline;
                if self.heap.get(child).is_some_and(earlier) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::event_loop::Loop;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn deadlines_come_in_order_and_are_taken_back() {
        let own = Loop::claim();
        let slots: Vec<_> = (0..200).map(|_| Slot::leak(own)).collect();
        let place = |slot: &Slot| slots.iter().position(|s| std::ptr::eq(*s, slot));
        let (mut timers, mut model) = (Timers::default(), BTreeSet::new());
        let mut deadlines = [0u64; 200];
        let mut random = 42u64;
        for step in 0..20_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (at, kind) = ((random >> 33) as usize % slots.len(), (random >> 20) % 3);
            let waits = slots[at].timer.get() != NO_TIMER;
            assert_eq!(waits, model.contains(&(deadlines[at], at)), "step {step}");
            match (kind, waits) {
                (0, true) => {
                    timers.remove(slots[at]);
                    model.remove(&(deadlines[at], at));
                }
                (0 | 1, false) => {
                    // No two are equal.
                    deadlines[at] = ((random >> 40) << 16) + step;
                    timers.insert(deadlines[at], slots[at]);
                    model.insert((deadlines[at], at));
                }
                _ => {
                    let now = (random >> 41) << 16;
                    let due = model.first().copied().filter(|(deadline, _)| *deadline <= now);
                    let found = timers.pop_due(now).and_then(place);
                    assert_eq!(found, due.map(|(_, at)| at), "step {step}");
                    due.map(|entry| model.remove(&entry));
                }
            }
            assert_eq!(timers.next(), model.first().map(|(deadline, _)| *deadline));
        }
    }
}
