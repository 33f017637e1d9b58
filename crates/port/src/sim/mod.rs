//! Deterministic simulation: fibers on one thread, a virtual clock, a seeded run queue.

/// A place where the simulation may let another task run. Outside a simulation: nothing.
#[inline]
pub fn point() {}
