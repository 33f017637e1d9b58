//! A flush whose input is not what the memtable holds.
#![allow(clippy::unwrap_used)]

use std::sync::OnceLock;

use pumice_base::extension::FilterDecision;
use pumice_base::{SequenceNumber, ValueType};

use super::*;
use crate::options::CompactionFilterFactory;
use crate::version::family::new_memtable;
use crate::{Db, MemFs, Options};

/// Inserts an entry where the merge has just passed: the merge misses it as it would miss an entry
/// that a memtable lost.
#[derive(Default)]
struct Unseen(OnceLock<Arc<MemTable>>);

struct Filter(Arc<MemTable>);

impl CompactionFilterFactory for Arc<Unseen> {
    fn name(&self) -> &str {
        "unseen"
    }
    fn should_filter(&self, _: TableFileCreationReason) -> bool {
        true
    }
    fn create_compaction_filter(
        &self,
        _: &CompactionFilterContext,
    ) -> Option<Arc<dyn CompactionFilter>> {
        self.0.get().map(|mem| Arc::new(Filter(Arc::clone(mem))) as Arc<dyn CompactionFilter>)
    }
}

impl CompactionFilter for Filter {
    fn name(&self) -> &str {
        "unseen"
    }
    fn filter(&self, _: i32, key: &[u8], _: &[u8]) -> FilterDecision {
        if key == b"b" {
            self.0.add(3, ValueType::Value, b"a", b"unseen").unwrap();
        }
        FilterDecision::Keep
    }
}

fn flush(verify: bool, unseen: bool) -> Result<Option<Flushed>> {
    let factory = Arc::new(Unseen::default());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = MemFs::new(1).shared();
    options.db.flush_verify_memtable_count = verify;
    options.cf.compaction_filter_factory = Some(Arc::new(Arc::clone(&factory)));
    let db = Db::open(&options, "/db").unwrap();
    let inner = db.inner();
    let cf = inner.cfs.load().by_name("default").unwrap().clone();
    let mem = new_memtable(&cf.options(), &cf.icmp, 1, 1, None);
    for (sequence, key) in (1..).zip([b"b", b"c"]) {
        let sequence: SequenceNumber = sequence;
        mem.add(sequence, ValueType::Value, key, b"value").unwrap();
    }
    if unseen {
        assert!(factory.0.set(Arc::clone(&mem)).is_ok());
    }
    let number = inner.new_file_number();
    let reason = TableReason::Flush;
    let blob_files = &Mutex::new(Vec::new());
    let note = JobNote::default();
    let output =
        FlushOutput { number, epoch: 1, reason, older: None, times: None, blob_files, note };
    let written = write_level0(&**inner, &cf, &[mem], &output, None);
    drop(cf);
    db.close().unwrap();
    written
}

/// `flush_verify_memtable_count`: an entry that did not reach the table fails the flush, which
/// keeps memtable and log.
#[pumice_test_macros::test]
fn a_flush_counts_what_it_reads() {
    assert!(flush(true, false).unwrap().is_some());
    let error = flush(true, true).err().unwrap();
    assert!(error.is_corruption(), "{error}");
    assert!(error.to_string().contains("read during flush: 2, memtables hold 3"), "{error}");
    assert!(flush(false, true).unwrap().is_some(), "without the option nothing is counted");
}
