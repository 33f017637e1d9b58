//! The state of a column family for a read, as one immutable object found with one atomic load.
//!
//! A super version is replaced, never changed: on memtable switch, flush, compaction and option
//! change. Readers load it without a lock or a shared reference count (`arc-swap`); iterators hold
//! it, which keeps its memtables and table files alive.
//!
//! Order that makes reads right: load the super version first, the sequence number second. A
//! sequence read first could name versions that a later compaction has already dropped. If files
//! were ingested between the two (`CfData::ingestions` says so), load both again: writes after the
//! files go to a memtable that the old super version shares, but it lacks the files.
//!
//! A snapshot that was taken while a filter ran keeps super versions of that time: what it sees is
//! in them, whatever the filter has dropped since.

use std::sync::Arc;

use pumice_manifest::Version;
use pumice_memtable::MemTable;
use pumice_table::SeqnoToTimeMapping;

use crate::snapshot::{Kept, Snapshot};
use crate::version::family::CfData;

/// See the module head.
pub struct SuperVersion {
    /// The memtable that takes writes.
    pub mem: Arc<MemTable>,
    /// Memtables waiting for flush, newest first.
    pub imm: Vec<Arc<MemTable>>,
    /// Flushed memtables, newest first, that say which keys were written lately: for conflict
    /// checks of transactions. Reads do not look here.
    pub history: Vec<Arc<MemTable>>,
    /// The table files.
    pub version: Arc<Version>,
    /// When entries were written, as far back as options ask for; None if they do not.
    pub times: Option<Arc<SeqnoToTimeMapping>>,
    /// `CfData::ingestions` when it was made.
    pub ingestions: u64,
    /// How often files of this family may have lost entries that readers of older super versions
    /// see, although nothing hides them: by filters, by FIFO. See `DeadRange::removals`.
    pub removals: u64,
}

/// The super versions that a snapshot keeps, by column family.
struct KeptViews(Vec<(u32, Arc<SuperVersion>)>);

/// What a new snapshot keeps of the families with filters. Loaded after its sequence number is
/// taken, so they have all that it sees.
pub(crate) fn keep_views<'a>(families: impl Iterator<Item = &'a Arc<CfData>>) -> Kept {
    let filtered = families.filter(|cf| cf.options().has_filter());
    Box::new(KeptViews(filtered.map(|cf| (cf.id, cf.super_version.load_full())).collect()))
}

/// The super version that `snapshot` keeps of the column family `cf`.
#[inline]
pub(crate) fn kept_view(snapshot: &Snapshot, cf: u32) -> Option<Arc<SuperVersion>> {
    let views = snapshot.kept()?.downcast_ref::<KeptViews>()?;
    views.0.iter().find(|(id, _)| *id == cf).map(|(_, view)| Arc::clone(view))
}
