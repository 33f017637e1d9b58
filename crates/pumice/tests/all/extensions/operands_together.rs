//! How many operands a merge operator gets at a time.

use std::sync::Arc;

use crate::common::{DIR, flush, memory, options};
use pumice::{CompactFilesOptions, CompactRangeOptions, Db, MergeOperator};
use pumice_port::sync::Mutex;

/// Joins operands, and notes those that it gets without a value below them.
#[derive(Default)]
struct Noting(Mutex<Vec<Vec<Vec<u8>>>>);

impl MergeOperator for Noting {
    fn name(&self) -> &str {
        "noting"
    }
    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some([existing.unwrap_or_default(), &operands.concat()].concat())
    }
    fn partial_merge(&self, _: &[u8], _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
        panic!("all at once")
    }
    fn partial_merge_multi(&self, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.0.lock().push(operands.iter().map(|operand| operand.to_vec()).collect());
        Some(operands.concat())
    }
}

/// In a flush those of the memtable, in a compaction what flushes made of them.
#[pumice_test_macros::test]
fn a_job_combines_all_operands_of_a_key_at_once() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    let operator = Arc::new(Noting::default());
    options.cf.merge_operator = Some(Arc::clone(&operator) as Arc<dyn MergeOperator>);
    options.cf.disable_auto_compactions = true;
    options.cf.level_compaction_dynamic_level_bytes = false;
    let db = Db::open(&options, DIR).unwrap();
    db.put("k", "0").unwrap();
    flush(&db);
    let down = CompactRangeOptions { change_level: true, target_level: 4, ..Default::default() };
    db.compact_range(&down, None, None).unwrap();
    for operands in ["1234", "567", "89"] {
        for operand in operands.chars() {
            db.merge("k", operand.to_string()).unwrap();
        }
        flush(&db);
        let alone = operands.bytes().map(|operand| vec![operand]).collect::<Vec<_>>();
        assert_eq!(std::mem::take(&mut *operator.0.lock()), [alone]);
    }
    let files = db.live_files_metadata();
    let level0 = files.iter().filter(|file| file.level == 0).map(|file| file.name.as_str());
    db.compact_files(&CompactFilesOptions::default(), &level0.collect::<Vec<_>>(), 1).unwrap();
    let runs = [["1234", "567", "89"].map(|run| run.as_bytes().to_vec()).to_vec()];
    assert_eq!(*operator.0.lock(), runs);
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"0123456789"[..]));
    db.close().unwrap();
}
