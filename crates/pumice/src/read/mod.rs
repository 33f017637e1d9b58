//! Reading: point lookups, iterators, and the super version they read from.

pub(crate) mod get;
pub(crate) mod iterator;
pub(crate) mod level_iterator;
pub(crate) mod merge;
pub(crate) mod merging_iterator;
pub(crate) mod multi_get;
pub(crate) mod pinned;
pub(crate) mod range_del;
pub(crate) mod source;
pub(crate) mod super_version;
