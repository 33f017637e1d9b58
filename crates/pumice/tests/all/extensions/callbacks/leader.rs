//! A merge operator that a leading writer calls, in a database without other user code: a call that
//! would wait for that writer is refused, others succeed.

use std::sync::Arc;

use pumice::{Db, FlushOptions, MemFs, MergeOperator, ReadOptions};
use pumice_port::sync::Mutex;

use super::simulate;
use crate::common::{DIR, SYNC, options};

#[derive(Default)]
struct Calls {
    /// Taken by the first call.
    db: Mutex<Option<Db>>,
    answers: Mutex<Vec<String>>,
}

impl MergeOperator for Calls {
    fn name(&self) -> &str {
        "calls"
    }
    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, all: &[&[u8]]) -> Option<Vec<u8>> {
        if let Some(db) = self.db.lock().take() {
            let answers = [
                db.put_opt(&SYNC, b"called", b"1"),
                db.flush_opt(&FlushOptions::default()),
                db.close(),
                db.get_opt(&ReadOptions::default(), b"key").map(drop),
            ];
            self.answers.lock().extend(answers.map(|answer| match answer {
                Ok(()) => "answered".to_string(),
                Err(error) => error.to_string(),
            }));
        }
        Some([existing.unwrap_or_default(), &all.concat()].concat())
    }
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn an_operator_calls_while_its_writer_leads() {
    simulate(1, "operator", || {
        let operator = Arc::new(Calls::default());
        let mut options = options(&MemFs::new(1).shared());
        options.cf.merge_operator = Some(Arc::clone(&operator) as _);
        options.cf.max_successive_merges = 2;
        let db = Db::open(&options, DIR).unwrap();
        *operator.db.lock() = Some(db.clone());
        (0..8).for_each(|_| db.merge_opt(&SYNC, b"merged", b"+").unwrap());
        let answers = operator.answers.lock().clone();
        assert_eq!(answers.len(), 4, "the operator was not called");
        let refused = |text: &String| text.contains("called from code that the database");
        assert!(answers[..3].iter().all(refused), "{answers:?}");
        assert_eq!(answers[3], "answered");
        let merged = db.get_opt(&ReadOptions::default(), b"merged").unwrap();
        assert_eq!(merged.map(|merged| merged.len()), Some(8));
        db.close().unwrap();
    });
}
