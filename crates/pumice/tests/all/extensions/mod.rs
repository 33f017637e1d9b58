//! Code of the user's that a database calls: what it may do, and what its failures do.

mod callbacks;
mod panics;
mod tables_watched;
mod user_code;
