//! What the primitives need of the simulation when loom's models run: nothing.

/// A place where a simulation may let another task run; loom tries all interleavings anyway.
#[inline]
pub fn point() {}
