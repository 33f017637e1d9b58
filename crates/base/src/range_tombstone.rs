//! range_tombstone (being written).
