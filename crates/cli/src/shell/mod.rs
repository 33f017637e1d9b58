//! What shells and readers get from the tables of commands and flags: completions and man
//! pages.
//!
//! | file | what |
//! |---|---|
//! | `commands` | the subcommands |
//! | `complete` | `pumice completions` |
//! | `man` | `pumice man` |
//!
//! Thread safety: plain functions.

pub mod commands;
mod complete;
mod man;
