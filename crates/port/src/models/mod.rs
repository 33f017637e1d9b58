//! Models of the primitives: loom runs them under every order of their steps and every value that
//! the memory model allows a load to return.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p pumice-port --lib --release` (cargo xtask loom).
//! A lost wake-up is a deadlock, which loom reports; a missing order is a concurrent access to one
//! of its cells; a double wake-up of a fiber is an assertion. Each primitive also has models
//! with a wrong line switched on (`sync::planted`), which loom must reject: a model that cannot see
//! the bug proves nothing. At most three threads per model; time runs out at every possible moment
//! (there is no clock).
#![allow(clippy::unwrap_used)]

mod kicks;
mod locks;
mod ring;
mod tasks;
mod work;

use crate::sync::planted::{ACTIVE, HAND_OFF, Planted};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// The switches are for the whole process: one model at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Explores `model` with at most `preemptions` forced switches per execution.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Checks that the model holds.
fn holds(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    explore(preemptions, model);
    drop(guard);
}

/// Checks that the model holds when every waiter that lost the lock once is overdue.
fn holds_with_hand_off(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    HAND_OFF.store(true, Ordering::Relaxed);
    explore(preemptions, model);
    HAND_OFF.store(false, Ordering::Relaxed);
    drop(guard);
}

/// Checks that loom rejects the model with `bug` in it, saying `because`.
fn is_caught(
    bug: Planted,
    because: &str,
    preemptions: usize,
    model: impl Fn() + Sync + Send + 'static,
) {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    ACTIVE.store(bug as u32, Ordering::Relaxed);
    let message = rejects(preemptions, model);
    ACTIVE.store(0, Ordering::Relaxed);
    let message = message.unwrap_or_else(|| panic!("loom did not find {bug:?}"));
    assert!(message.contains(because), "{bug:?} failed for another reason: {message}");
    drop(guard);
}

/// Loom's report of a failing execution of the model, if it finds one.
fn rejects(preemptions: usize, model: impl Fn() + Sync + Send + 'static) -> Option<String> {
    let run = std::panic::AssertUnwindSafe(|| explore(preemptions, model));
    let panic = std::panic::catch_unwind(run).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
}
