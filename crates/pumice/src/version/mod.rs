//! What a reader of a column family uses: its super version, the open tables, its options.
//!
//! | part | is |
//! |---|---|
//! | `family` | the part of a column family that needs no lock, and its memtables |
//! | `super_version` | memtables and version of one moment |
//! | `table_cache` | the open tables |
//! | `counters` | what the jobs of a column family did |
//! | `charges` | memory that counts in the block cache |
//! | `identity` | names of databases and of their incarnations |

pub(crate) mod blob_files;
pub(crate) mod charges;
pub(crate) mod counters;
pub mod family;
pub(crate) mod identity;
pub(crate) mod l0_reads;
pub(crate) mod super_version;
pub(crate) mod table_cache;
mod table_file;
