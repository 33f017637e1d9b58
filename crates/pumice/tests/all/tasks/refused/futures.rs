//! Futures where the shared runtime cannot start.

use crate::common::test_name;
use pumice::{Db, ErrorKind, Options, ReadOptions, WriteBatch, WriteOptions};
use pumice_port::machine::{self, Resource};
use pumice_port::testing::block_on;

// Plain #[test]: a runtime would need the refused resource.
#[test]
fn a_future_is_an_error_where_the_runtime_cannot_start() {
    const NAME: &str = "a_future_is_an_error_where_the_runtime_cannot_start";
    if !super::is_child(&test_name(module_path!(), NAME)) {
        return;
    }
    let folder = super::folder("futures");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &folder).unwrap();
    let (read, write) = (ReadOptions::default(), WriteOptions::default());
    let batch = || {
        let mut batch = WriteBatch::new();
        batch.put(b"key", b"value");
        batch
    };
    let keys = || vec![b"key".to_vec(), b"other".to_vec()];
    let cf = db.default_column_family().clone();
    let named = || keys().into_iter().map(|key| (cf.clone(), key)).collect::<Vec<_>>();
    for resource in [Resource::Descriptor, Resource::Thread] {
        for _again in 0..2 {
            machine::refuse(resource, resource.usual_errno(), 0, u64::MAX);
            let errors = [
                block_on(db.get_opt_async(&read, "key")).unwrap_err(),
                block_on(db.get_cf_opt_async(&read, &cf, "key")).unwrap_err(),
                block_on(db.write_opt_async(&write, batch())).unwrap_err(),
                block_on(db.multi_get_opt_async(&read, keys())).pop().unwrap().unwrap_err(),
                block_on(db.multi_get_cf_opt_async(&read, named())).pop().unwrap().unwrap_err(),
            ];
            assert_eq!(block_on(db.multi_get_opt_async(&read, keys())).len(), 2);
            machine::refuse(resource, 0, 0, 0);
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::IoError);
                let text = error.to_string();
                assert!(text.contains("While starting the loops of the shared runtime"), "{text}");
            }
        }
    }
    // Nothing of it was done, and now it can be.
    assert!(block_on(db.get_opt_async(&read, "key")).unwrap().is_none());
    block_on(db.write_opt_async(&write, batch())).unwrap();
    assert_eq!(&*block_on(db.get_opt_async(&read, "key")).unwrap().unwrap(), b"value");
    db.close().unwrap();
    drop(db);
    std::fs::remove_dir_all(&folder).unwrap();
}
