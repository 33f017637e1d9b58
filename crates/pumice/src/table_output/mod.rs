//! Table files that the engine writes: what survives of the entries, and the file itself.
//!
//! | part | is |
//! |---|---|
//! | `iterator` | which entries survive, in flush, recovery and compaction |
//! | `tombstones` | which range tombstones survive |
//! | `counts` | how many of both did not |
//! | `env` | what the writer of a table asks of its database |
//! | `output` | one output file |
//! | `collectors` | what watches its entries |

pub(crate) mod collectors;
pub(crate) mod counts;
pub(crate) mod env;
pub(crate) mod iterator;
pub(crate) mod output;
pub(crate) mod tombstones;
