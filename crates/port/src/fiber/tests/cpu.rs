//! A fiber's CPU time is its own.

use super::*;
use crate::time::{task_cpu_nanos, thread_cpu_nanos};

fn burn(nanos: u64) {
    let start = thread_cpu_nanos();
    while thread_cpu_nanos() - start < nanos {
        std::hint::spin_loop();
    }
}

const BURNED: u64 = 3_000_000;

/// CPU time of a fiber and of its thread, while the fiber waits for one that computes.
fn beside_one_that_computes() -> (u64, u64) {
    runtime(1).run("waits", || {
        let (thread, own) = (thread_cpu_nanos(), task_cpu_nanos());
        scope_here(|scope| {
            scope.spawn("computes", || {
                thread::yield_now();
                burn(BURNED);
            });
        });
        let own = task_cpu_nanos() - own;
        (own, thread_cpu_nanos() - thread)
    })
}

#[test]
fn what_others_compute_is_left_out_while_it_is_watched() {
    let (own, thread) = beside_one_that_computes();
    assert!(own >= BURNED && thread >= own, "nobody watches: {own} of {thread}");
    let watch = watch_cpu();
    let (own, thread) = beside_one_that_computes();
    assert!(own + BURNED <= thread, "{own} of {thread}");
    let own = task_cpu_nanos();
    burn(BURNED);
    assert!(task_cpu_nanos() - own >= BURNED, "a thread has all of it");
    drop(watch);
}
