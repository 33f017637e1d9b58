//! The level of a line of the info log.
//!
//! A plain value; its text form as an option is in `options::enums`.

/// Lowest level of info-log lines that are written.
///
/// Example: that of [`Logger`](crate::Logger).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InfoLogLevel {
    /// Everything.
    Debug,
    /// Normal operation and above.
    #[default]
    Info,
    /// Warnings and above.
    Warn,
    /// Errors and above.
    Error,
    /// Fatal errors and above.
    Fatal,
    /// Header lines only.
    Header,
}
