//! Table files that the engine writes: which entries survive, and the file itself.
//!
//! | part | is |
//! |---|---|
//! | `iterator` | which entries survive, in flush, recovery and compaction |
//! | `value` | what filters and merges see of stored values |
//! | `tombstones` | which range tombstones survive |
//! | `counts` | how many of both did not |
//! | `env` | how the writer of a table uses its database |
//! | `output` | one output file |
//! | `collectors` | property collectors of its entries |

pub(crate) mod collectors;
pub(crate) mod counts;
pub(crate) mod env;
pub(crate) mod file_checksum;
pub(crate) mod iterator;
pub(crate) mod output;
pub(crate) mod tombstones;
pub(crate) mod value;
