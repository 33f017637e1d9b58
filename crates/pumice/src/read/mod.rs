//! Reading: point lookups and iterators over a super version.

pub(crate) mod ahead;
pub(crate) mod answer;
pub(crate) mod columns;
pub(crate) mod elsewhere;
pub(crate) mod entries;
pub(crate) mod get;
pub(crate) mod guarded;
pub(crate) mod iterator;
pub(crate) mod key_bounds;
pub(crate) mod level_iterator;
pub(crate) mod merge;
pub(crate) mod merging_iterator;
pub(crate) mod multi_get;
pub(crate) mod newest;
pub(crate) mod operand_list;
pub(crate) mod overlapping;
pub(crate) mod padded;
pub(crate) mod pinned;
pub(crate) mod range_del;
pub(crate) mod sampling;
pub(crate) mod source;
pub(crate) mod timed;
pub(crate) mod together;
pub(crate) mod value;
pub(crate) mod write_time;
