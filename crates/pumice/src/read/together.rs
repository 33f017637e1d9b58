//! Reads that wait together: each is a fiber of the caller's loop, or of the calling thread.
//!
//! What runs there has to get by with the stack of a fiber: it reads, checks and decompresses, and
//! calls no user code. Reads that would call some are made by the caller, one after the other.
//!
//! Thread safety: one call on its task. Suspends.

use std::cell::Cell;
use std::panic::resume_unwind;

use pumice_env::perf::Loan;
use pumice_env::{IoActivity, activity};
use pumice_port::fiber;
use pumice_port::thread::NotStarted;

/// Most reads in flight of one call; further ones wait for their turn.
const READS_AT_ONCE: usize = 64;
/// Where the calls of a loop's fibers have this many in flight, the device has enough to do:
/// meanwhile further calls read one block after the other, since more in flight would only wait for
/// longer.
const ENOUGH_READS: usize = 32;

pumice_port::worker_local! {
    /// Reads in flight of all calls on this thread.
    static IN_FLIGHT: Cell<usize> = const { Cell::new(0) };
}

/// The share of a call in the reads in flight.
struct Share(usize);

impl Share {
    /// For a call that could read `count` blocks at once.
    fn take(count: usize) -> Share {
        let share = match IN_FLIGHT.get() {
            0 => count.min(READS_AT_ONCE),
            others => count.min(ENOUGH_READS.saturating_sub(others)).max(1),
        };
        IN_FLIGHT.set(IN_FLIGHT.get() + share);
        Share(share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        IN_FLIGHT.set(IN_FLIGHT.get() - self.0);
    }
}

/// Calls `read` for each of `reads`, for that purpose; at the same time for those that get by with
/// little stack. What is counted there counts for the caller.
pub(crate) fn read_together<R>(
    purpose: IoActivity,
    reads: impl Iterator<Item = R>,
    needs_little_stack: impl Fn(&R) -> bool,
    read: impl Fn(R),
) {
    let loan = Loan::new();
    let read = |which| {
        let read = || activity::during(purpose, || read(which));
        match &loan {
            Some(loan) => loan.run(read),
            None => read(),
        }
    };
    // A fiber's children have as much stack as it has.
    let apart = |which: &R| fiber::is_fiber() || needs_little_stack(which);
    let (apart, here): (Vec<_>, Vec<_>) = reads.partition(apart);
    let apart: Vec<_> = apart.into_iter().map(|which| Cell::new(Some(which))).collect();
    together(apart.len(), |at| {
        if let Some(which) = apart[at].take() {
            read(which);
        }
    });
    here.into_iter().for_each(read);
    if let Some(loan) = loan {
        loan.end();
    }
}

/// Does `work` for each number below `count`, on fibers of the calling thread, or on the caller if
/// there is no memory for fibers.
fn together(count: usize, work: impl Fn(usize)) {
    let next = &Cell::new(0);
    let work = &work;
    while next.get() < count {
        let share = Share::take(count - next.get());
        // A small share is taken anew soon: the calls that have the others may end.
        let end = match share.0 {
            1 => next.get() + 1,
            READS_AT_ONCE => count,
            share => count.min(next.get() + share * 4),
        };
        let some = move || {
            while next.get() < end {
                work(next.replace(next.get() + 1));
            }
        };
        if share.0 > 1 {
            apart(share.0, some);
        }
        some();
    }
}

/// Does `some` on so many fibers of the calling thread, of which the caller may be one.
fn apart(share: usize, some: impl Fn() + Copy) {
    fiber::scope_independent(|scope| {
        // A fiber reads as they do. Those of a thread stand still until it waits for them.
        let reads_itself = fiber::is_fiber();
        let fibers = share - usize::from(reads_itself);
        let fibers: Vec<_> = (0..fibers).map(|_| scope.spawn("read", some)).collect();
        if reads_itself {
            some();
        }
        for fiber in fibers {
            match fiber.join() {
                Err(panic) if !panic.is::<NotStarted>() => resume_unwind(panic),
                _ => {}
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use pumice_port::fiber::{Runtime, spawn_here};
    use pumice_port::sync::Event;
    use pumice_port::thread;

    use super::*;

    #[test] // On a loop of its own.
    fn a_call_reads_at_once_again_when_others_have_ended() {
        let run = Runtime::builder().loops(1).build().expect("a loop");
        let most = run.run("calls", || {
            let gate = Rc::new(Event::new());
            let own = Rc::clone(&gate);
            let first = spawn_here("first", move || together(READS_AT_ONCE, |_| own.wait()));
            while IN_FLIGHT.get() < READS_AT_ONCE {
                thread::yield_now();
            }
            let (now, most) = (Cell::new(0), Cell::new([0, 0]));
            together(1000, |at| {
                now.set(now.get() + 1);
                let mut seen = most.get();
                let of = &mut seen[usize::from(gate.is_set())];
                *of = now.get().max(*of);
                most.set(seen);
                if at == 3 {
                    gate.set();
                }
                // The others end, or begin.
                (0..100).for_each(|_| thread::yield_now());
                now.set(now.get() - 1);
            });
            first.join().expect("it ends");
            assert_eq!(IN_FLIGHT.get(), 0);
            most.get()
        });
        assert_eq!(most, [1, READS_AT_ONCE]);
    }
}
