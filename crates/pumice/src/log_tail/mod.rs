//! Reading logs after they were written: what an iterator over them delivers, which logs there are,
//! and how long the archive keeps those that are no longer needed.
//!
//! Nothing here locks a database or deletes a file: the engine gives files and numbers.

pub(crate) mod files;
pub(crate) mod follow;
pub(crate) mod history;
pub(crate) mod iterator;
pub(crate) mod retention;
