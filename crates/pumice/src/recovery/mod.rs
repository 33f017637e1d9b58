//! What an open finds in a directory: its lock, CURRENT, the MANIFEST and the versions in it.

pub(crate) mod destroy;
pub(crate) mod lock;
pub(crate) mod manifest_reader;
pub(crate) mod manifest_tail;
pub(crate) mod moment;
pub(crate) mod version_recovery;
