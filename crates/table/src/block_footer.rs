//! The last word of an entry block (docs/format/table.md#entry-blocks): bits of features, and the
//! number of restart points. Persisted.
//!
//! Constants only.

/// The number of restart points.
pub(crate) const RESTARTS_MASK: u32 = (1 << 28) - 1;
/// Values follow all keys.
pub(crate) const SEPARATED_VALUES: u32 = 1 << 28;
/// Keys lie at even distances: a hint to searches of index blocks.
pub(crate) const EVEN_KEYS: u32 = 1 << 29;
/// No meaning is known: such a block is refused.
pub(crate) const RESERVED: u32 = 1 << 30;
/// There is a hash index.
pub(crate) const HASH_INDEX: u32 = 1 << 31;
