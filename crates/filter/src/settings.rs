//! Settings of builders that depend on the filter's table.
//!
//! Thread safety: values.

/// What a builder needs to know about the table besides the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterBuildSettings {
    /// `format_version` of the table.
    pub format_version: u32,
    /// Level of the table, or [`FilterBuildSettings::FLUSH`] or
    /// [`FilterBuildSettings::UNKNOWN_LEVEL`].
    pub level: i32,
    /// `optimize_filters_for_memory`: sizes that use allocations fully.
    pub optimize_for_memory: bool,
    /// `detect_filter_construct_corruption`: look for hashes that memory has changed.
    pub detect_corruption: bool,
}

impl FilterBuildSettings {
    /// The level of tables that a flush writes.
    pub const FLUSH: i32 = -1;
    /// The level of tables that will be on any level or on none: FIFO compaction, tables written
    /// outside a database. It counts as the last.
    pub const UNKNOWN_LEVEL: i32 = i32::MAX;

    /// A table of unknown level in that format: exact sizes, no verification.
    pub const fn new(format_version: u32) -> Self {
        FilterBuildSettings {
            format_version,
            level: Self::UNKNOWN_LEVEL,
            optimize_for_memory: false,
            detect_corruption: false,
        }
    }
}
