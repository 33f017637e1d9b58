//! What calls cost of a fiber's budget (`pumice_port::fiber::spend`): about how long they take when
//! all they need is in memory, in units of 50 nanoseconds. Calls that wait give way by that.
//!
//! Constants only.

/// An entry that an iterator passes.
pub(crate) const STEP: u32 = 1;
/// A point read, of `multi_get` too.
pub(crate) const GET: u32 = 16;
/// A seek of an iterator.
pub(crate) const SEEK: u32 = 16;
/// The making of an iterator.
pub(crate) const ITERATOR: u32 = 64;
/// A batch that is written.
pub(crate) const WRITE: u32 = 24;
/// An update in a batch of the caller's, or in a file that is written.
pub(crate) const UPDATE: u32 = 8;
