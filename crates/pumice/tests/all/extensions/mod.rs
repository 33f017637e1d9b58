//! User code that a database calls: what it may do, and the effect of its failures.

mod callbacks;
mod merge_failures;
mod operands_together;
mod panics;
mod tables_watched;
mod user_code;
