//! The watchdog over a real emitter that a helper forgets, and over one that only waits long.
#![allow(clippy::unwrap_used)]

use super::watchdog::Watchdog;
use super::{Ring, Task};
use crate::sync::Event;
use crate::{thread, time};
use std::sync::Arc;
use std::time::Duration;

/// How long a watchdog that fires after a second may take before the test gives up.
const LIMIT: Duration = Duration::from_secs(120);

/// Reports that its owner has ended, also by a panic.
struct Ended(Arc<Event>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Fills a ring of two slots of which a helper holds the first, and does everything that is left
/// for the emitter: its next step waits.
fn wait_for_a_helper(ring: &Ring) -> Option<Task> {
    assert_eq!(ring.emitted(ring.start()), Some(Task::Emit(1)));
    assert_eq!(ring.attach(1), Some(Task::CompressAndWrite(0)));
    assert_eq!(ring.emitted(Task::Emit(1)), Some(Task::Compress(1)));
    ring.emitted(Task::Compress(1))
}

#[test]
fn an_emitter_that_a_helper_forgets_panics_instead_of_hanging() {
    let (ring, ended) = (Arc::new(Ring::new(2)), Arc::new(Event::new()));
    let emitter = thread::spawn("emitter", {
        let (ring, ended) = (Arc::clone(&ring), Ended(Arc::clone(&ended)));
        move || {
            let _ended = ended;
            wait_for_a_helper(&ring)
        }
    });
    let deadline = time::now_nanos() + LIMIT.as_nanos() as u64;
    while !ring.load().is_waiting() {
        assert!(time::now_nanos() < deadline, "the emitter does not wait");
        thread::yield_now();
    }
    // A wrong last step of the helper: it leaves and neither clears the mark nor wakes.
    let mut state = ring.load();
    while let Err(now) = ring.change(state, state.retire(Task::CompressAndWrite(0)).detach()) {
        state = now;
    }
    let fired = ended.wait_timeout(LIMIT);
    if !fired {
        ring.abort(); // So that the emitter ends at least.
    }
    let error = emitter.join().map(drop).unwrap_err().to_string();
    assert!(fired && error.contains("the emitter waits and was forgotten"), "{error}");
    assert!(error.contains("attached 0 waiting true"), "the state is told: {error}");
}

#[test]
fn a_step_that_takes_long_is_no_reason_to_panic() {
    let ring = Arc::new(Ring::new(2));
    let emitter = thread::spawn("emitter", {
        let ring = Arc::clone(&ring);
        move || wait_for_a_helper(&ring)
    });
    let deadline = time::now_nanos() + LIMIT.as_nanos() as u64;
    while !ring.load().is_waiting() {
        assert!(time::now_nanos() < deadline, "the emitter does not wait");
        thread::yield_now();
    }
    let state = ring.load();
    let mut watchdog = Watchdog::new(state);
    for _ in 0..200 {
        watchdog.check(state, ring.slots());
    }
    assert_eq!(ring.next(Task::CompressAndWrite(0)), Some(Task::Write(1)));
    assert_eq!(ring.next(Task::Write(1)), None);
    assert_eq!(emitter.join().unwrap(), Some(Task::Emit(0)));
}
