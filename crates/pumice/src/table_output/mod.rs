//! Table files that the engine writes: which entries survive, and the file itself.
//!
//! | part | is |
//! |---|---|
//! | `compaction_iterator` | which entries survive, in flush, recovery and compaction |
//! | `value` | what filters and merges see of stored values |
//! | `tombstones` | which range tombstones survive |
//! | `counts` | how many of both did not |
//! | `env` | how the writer of a table uses its database |
//! | `filter_bits` | how many bits of filter its keys get |
//! | `output_file` | one output file |
//! | `blob_output` | blob files with the large values of its entries |
//! | `metered` | which blobs the input of a compaction refers to |
//! | `table_collectors` | property collectors of its entries |

pub(crate) mod blob_output;
pub(crate) mod compaction_iterator;
pub(crate) mod counts;
pub(crate) mod env;
pub(crate) mod file_checksum;
pub(crate) mod filter_bits;
pub(crate) mod metered;
pub(crate) mod output_file;
pub(crate) mod table_collectors;
pub(crate) mod tombstones;
pub(crate) mod value;
