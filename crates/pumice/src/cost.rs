//! What calls take from a fiber's quantum (`pumice_port::fiber::spend`): about the time they take
//! when everything is in memory, in units of 50 nanoseconds. Calls that wait let others run anyway.
//!
//! Constants only.

/// An entry that an iterator passes.
pub(crate) const STEP: u32 = 1;
/// A point read, of `multi_get` too.
pub(crate) const GET: u32 = 16;
/// A seek of an iterator.
pub(crate) const SEEK: u32 = 16;
/// Creating an iterator.
pub(crate) const ITERATOR: u32 = 64;
/// Writing a batch.
pub(crate) const WRITE: u32 = 24;
/// An update in a caller's batch, or in a file that is being written.
pub(crate) const UPDATE: u32 = 8;
