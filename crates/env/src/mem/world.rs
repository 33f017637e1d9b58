//! What handles and the file system share.
//!
//! Thread safety: `World` is behind the lock of `Shared`, whose parts may be used from anywhere.

use super::device::Device;
use super::fault::FaultTable;
use super::inode::SpaceMeter;
use super::names::Names;
use pumice_port::sync::RwLock;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Everything a crash replaces.
pub(super) struct World {
    pub(super) epoch: u64,
    /// The power was cut: every call fails.
    pub(super) dead: bool,
    pub(super) names: Names,
    pub(super) locks: BTreeSet<PathBuf>,
    pub(super) space: Arc<SpaceMeter>,
}

pub(super) struct Shared {
    pub(super) world: RwLock<World>,
    pub(super) faults: FaultTable,
    pub(super) device: Device,
}
