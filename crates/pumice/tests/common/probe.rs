//! A merge operator and compaction filter that notes which threads compute, at which priority.

use std::sync::Arc;

use pumice::{CompactionFilter, Db, FilterDecision, MergeOperator, Options, WriteOptions};
use pumice_port::os::{self, ThreadPriority};
use pumice_port::sync::Mutex;

/// (thread, its scheduling) for each merge and each filtered entry.
#[derive(Default)]
pub struct Probe(Mutex<Vec<(u64, ThreadPriority)>>);

impl MergeOperator for Probe {
    fn name(&self) -> &str {
        "probe"
    }
    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, with: &[&[u8]]) -> Option<Vec<u8>> {
        self.note();
        let mut all = existing.unwrap_or_default().to_vec();
        with.iter().for_each(|operand| all.extend_from_slice(operand));
        Some(all)
    }
}

impl CompactionFilter for Probe {
    fn name(&self) -> &str {
        "probe"
    }
    fn filter(&self, _: i32, _: &[u8], _: &[u8]) -> FilterDecision {
        self.note();
        FilterDecision::Keep
    }
}

impl Probe {
    fn note(&self) {
        self.0.lock().push((os::thread_id(), os::thread_priority()));
    }
    /// One that `options` use for merges.
    pub fn of(options: &mut Options) -> Arc<Self> {
        let probe = Arc::new(Probe::default());
        options.cf.merge_operator = Some(Arc::clone(&probe) as Arc<dyn MergeOperator>);
        probe
    }
    /// Merges that a flush has to compute, over a value.
    pub fn write(&self, db: &Db) {
        db.put_opt(&WriteOptions::default(), b"probe", b"").unwrap();
        self.append(db);
    }
    /// Merges that the next job which meets them has to compute.
    pub fn append(&self, db: &Db) {
        for operand in [b"a", b"b"] {
            db.merge_opt(&WriteOptions::default(), b"probe", operand).unwrap();
        }
    }
    /// What computed so far does not count.
    pub fn forget(&self) {
        self.0.lock().clear();
    }
    /// What computed since the last call; at least one did.
    pub fn seen(&self) -> (u64, ThreadPriority) {
        *std::mem::take(&mut *self.0.lock()).last().expect("something was merged")
    }
}
