//! The results of merges into values and entities as they are written.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use pumice_base::ValueType;

use crate::options::merge_operator_by_name;
use crate::{Db, FlushOptions, MemFs, Options, ReadOptions, WriteOptions};

#[pumice_test_macros::test]
fn an_entity_stays_one() {
    let fs = MemFs::new(1);
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    options.cf.merge_operator = merge_operator_by_name("stringappend");
    options.cf.max_successive_merges = 2;
    let db = Db::open(&options, "/db").unwrap();
    db.put_opt(&WriteOptions::default(), b"plain", b"base").unwrap();
    db.flush_opt(&FlushOptions::default()).unwrap();
    assert!(db.get_opt(&ReadOptions::default(), b"plain").unwrap().is_some(), "now in the cache");
    let (inner, cf) = (db.inner(), Arc::clone(&db.default_column_family().data));
    let mem = Arc::clone(&cf.super_version.load_full().mem);
    // An entity with the default column `dv` and one of name `n1`, as RocksDB writes it.
    let entity = b"\x01\x02\x00\x02\x02n1\x02dvv1";
    mem.add(10, ValueType::WideColumnEntity, b"entity", entity).unwrap();
    for (n, key) in [(20, &b"entity"[..]), (30, b"plain")] {
        mem.add(n, ValueType::Merge, key, b"a").unwrap();
        let view = cf.super_version.load_full();
        assert!(inner.merged(&cf, &view, n + 1, (key, b"b")).is_none(), "one is not two");
        mem.add(n + 1, ValueType::Merge, key, b"b").unwrap();
    }
    let view = cf.super_version.load_full();
    let merged = b"\x01\x02\x00\x08\x02n1\x02dv,a,b,cv1".to_vec();
    let merged = Some((ValueType::WideColumnEntity, merged));
    assert_eq!(inner.merged(&cf, &view, 22, (b"entity", b"c")), merged);
    assert_eq!(inner.merged(&cf, &view, 21, (b"plain", b"c")), None, "not yet at that sequence");
    let merged = inner.merged(&cf, &view, 32, (b"plain", b"c"));
    assert_eq!(merged, Some((ValueType::Value, b"base,a,b,c".to_vec())));
    inner.last_sequence.store(40, std::sync::atomic::Ordering::Release);
    let found = db.get_opt(&ReadOptions::default(), b"entity").unwrap();
    assert_eq!(found.as_deref(), Some(&b"dv,a,b"[..]));
}
