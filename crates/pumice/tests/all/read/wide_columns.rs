//! Entities: written, read whole and by their default columns, merged, filtered, deleted, ingested,
//! recovered and repaired. Random histories: `wide_columns_drawn`.

use std::sync::Arc;

use pumice::{
    BatchRecord, ColumnFamily, CompactRangeOptions, CompactionFilter, Db, ErrorKind,
    FilterDecision, IngestExternalFileOptions, MemFs, Options, PinnedColumns, ReadOptions,
    RowCache, SstFileWriter, WideColumn, WriteBatch, WriteOptions,
};
use pumice_base::ValueType;

fn options() -> Options {
    let mut options = Options::new();
    options.db.create_if_missing = true;
    options.db.file_system = Arc::new(MemFs::new(1));
    options.set("merge_operator", "stringappend").unwrap();
    options
}

fn text(columns: &PinnedColumns) -> String {
    shown(columns.iter())
}

fn shown<'a>(columns: impl IntoIterator<Item = WideColumn<'a>>) -> String {
    let part = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let columns = columns.into_iter().map(|column| part(column.name) + "=" + &part(column.value));
    columns.collect::<Vec<_>>().join(" ")
}

/// The result of all ways to read `key`, which must agree.
fn read(db: &Db, options: &ReadOptions, key: &str) -> Option<String> {
    let entity = db.get_entity_opt(options, key).unwrap();
    let value = db.get_opt(options, key).unwrap();
    let several = [key, "no such key", key];
    let all = db.multi_get_entity_opt(options, &several).into_iter().map(Result::unwrap);
    assert_eq!(
        all.collect::<Vec<_>>(),
        [db.get_entity_opt(options, key).unwrap(), None, {
            db.get_entity_opt(options, key).unwrap()
        }]
    );
    let values = db.multi_get_opt(options, &several).into_iter().map(Result::unwrap);
    let value_of = || db.get_opt(options, key).unwrap();
    assert_eq!(values.collect::<Vec<_>>(), [value_of(), None, value_of()]);
    let mut cursor = db.cursor_opt(options).unwrap();
    type Seek = fn(&mut pumice::DbIterator, &str);
    let seeks: [Seek; 2] = [|c, key| c.seek(key), |c, key| c.seek_for_prev(key)];
    for seek in seeks {
        seek(&mut cursor, key);
        cursor.status().unwrap();
        let found = cursor.key() == Some(key.as_bytes());
        assert_eq!(found, entity.is_some());
        if found {
            assert_eq!(cursor.value(), value.as_deref());
            assert_eq!(shown(cursor.columns().unwrap()), text(entity.as_ref().unwrap()));
        }
    }
    let entity = entity?;
    assert_eq!(entity.get("").unwrap_or_default(), &value.unwrap()[..]);
    Some(text(&entity))
}

fn now(db: &Db, key: &str) -> Option<String> {
    read(db, &ReadOptions::default(), key)
}

fn compact(db: &Db) {
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
}

#[pumice_test_macros::test]
fn entities_are_read_whole_and_by_their_default_columns() {
    let db = Db::open(&options(), "/db").unwrap();
    db.put_entity("all", [("b", "2"), ("", "0"), ("a", "1")]).unwrap();
    db.put_entity("some", [("z", "")]).unwrap();
    db.put_entity("none", [] as [(&str, &str); 0]).unwrap();
    db.put("plain", "v").unwrap();
    let check = || {
        assert_eq!(now(&db, "all").as_deref(), Some("=0 a=1 b=2"));
        assert_eq!(now(&db, "some").as_deref(), Some("z="));
        assert_eq!(now(&db, "none").as_deref(), Some(""));
        assert_eq!(now(&db, "plain").as_deref(), Some("=v"));
        assert_eq!(now(&db, "gone"), None);
        assert_eq!(db.get("some").unwrap().as_deref(), Some(&b""[..]));
        let all = db.get_entity("all").unwrap().unwrap();
        assert_eq!((all.get("a"), all.get("c"), all.len()), (Some(&b"1"[..]), None, 3));
        assert_eq!(format!("{:?}", db.get_entity("some").unwrap().unwrap()), "{[122]: []}");
        let keys: Vec<_> = db.iter().unwrap().rev().map(|entry| entry.unwrap()).collect();
        let keys: Vec<_> = keys.iter().map(|(key, value)| [&key[..], value].concat()).collect();
        assert_eq!(keys, [&b"some"[..], b"plainv", b"none", b"all0"]);
    };
    check();
    db.flush().unwrap();
    check();
    compact(&db);
    check();
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn two_columns_with_one_name_are_refused() {
    let db = Db::open(&options(), "/db").unwrap();
    let twice = [("a", "1"), ("b", "2"), ("a", "3")];
    let error = db.put_entity("k", twice).unwrap_err();
    assert_eq!(error.to_string(), "Corruption: Wide columns out of order");
    let mut batch = WriteBatch::new();
    batch.put("other", "v");
    batch.put_entity("k", twice);
    assert_eq!(batch.status().unwrap_err(), error);
    assert_eq!(db.write(&mut batch).unwrap_err(), error);
    assert_eq!((now(&db, "k"), now(&db, "other")), (None, None));
    // The same from outside: nothing that could not be read again gets in.
    for (entity, kind) in [
        (&b"\x01\x02\x01b\x00\x01a\x00"[..], ErrorKind::Corruption),
        (b"\x03\x00", ErrorKind::NotSupported),
        (b"\x02\x01\x01\x01\x00\x11\x00\x05\x01\x0a\x40\x28\x00", ErrorKind::NotSupported),
    ] {
        let mut data = vec![0; 12];
        data[8] = 1;
        data.extend_from_slice(b"\x16\x01k");
        data.push(entity.len() as u8);
        data.extend_from_slice(entity);
        assert_eq!(WriteBatch::from_data(&data).unwrap_err().kind(), kind);
    }
    db.close().unwrap();
}

/// Byte for byte RocksDB's records: `PutEntity` of the default family, and of another one.
#[pumice_test_macros::test]
fn batches_have_rocksdbs_records() {
    let db = Db::open(&options(), "/db").unwrap();
    let cf = db.create_column_family(&options().cf, "cf").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_entity("k", [("n", "v")]);
    batch.put_entity_cf(&cf, "k", [("n", "w"), ("", "d")]);
    let first = b"\x16\x01k\x06\x01\x01\x01n\x01v";
    let second = b"\x17\x01\x01k\x09\x01\x02\x00\x01\x01n\x01dw";
    assert_eq!(batch.data()[12..], [&first[..], second].concat());
    assert_eq!(batch.count(), 2);
    let again = WriteBatch::from_data(batch.data()).unwrap();
    for record in again.iter() {
        let BatchRecord::Entry { value_type, .. } = record.unwrap() else { panic!() };
        assert_eq!(value_type, ValueType::WideColumnEntity);
    }
    db.write(&mut batch).unwrap();
    let of = |family: &ColumnFamily| text(&db.get_entity_cf(family, "k").unwrap().unwrap());
    assert_eq!((of(db.default_column_family()), of(&cf)), ("n=v".into(), "=d n=w".into()));
    let pair = [(&cf, "k"), (db.default_column_family(), "k")];
    let both = db.multi_get_entity_cf(&pair).into_iter().map(|found| found.unwrap().unwrap());
    assert_eq!(both.map(|found| text(&found)).collect::<Vec<_>>(), ["=d n=w", "n=v"]);
    // The records come out of the log as they went in.
    let mut updates = db.get_updates_since(1).unwrap();
    let (_, batch) = updates.next().unwrap().unwrap();
    assert_eq!(batch.data()[12..], [&first[..], second].concat());
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn merges_go_into_the_default_column() {
    let mut options = options();
    options.db.row_cache = Some(RowCache::new(1 << 20));
    let db = Db::open(&options, "/db").unwrap();
    db.put_entity("with", [("", "0"), ("a", "1")]).unwrap();
    db.put_entity("without", [("a", "1")]).unwrap();
    let before = db.snapshot();
    let merge = |operand: &str| {
        for key in ["with", "without", "fresh"] {
            db.merge(key, operand).unwrap();
        }
    };
    let check = |operands: &str| {
        assert_eq!(now(&db, "with"), Some(format!("=0,{operands} a=1")));
        // As RocksDB has it: a default column that is not there is empty, not absent.
        assert_eq!(now(&db, "without"), Some(format!("=,{operands} a=1")));
        assert_eq!(now(&db, "fresh"), Some(format!("={operands}")));
    };
    merge("x");
    check("x");
    let then = ReadOptions::at(&before);
    db.flush().unwrap();
    check("x");
    merge("y");
    check("x,y");
    db.flush().unwrap();
    compact(&db);
    check("x,y");
    assert_eq!(read(&db, &then, "with").as_deref(), Some("=0 a=1"));
    assert_eq!(read(&db, &then, "without").as_deref(), Some("a=1"));
    drop((before, then));
    compact(&db);
    check("x,y");
    // Entities now, and nothing is merged any more where they are read.
    for key in ["with", "without", "fresh"] {
        db.delete(key).unwrap();
        assert_eq!(now(&db, key), None);
        merge("z");
    }
    assert_eq!(now(&db, "with").as_deref(), Some("=z,z,z"));
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn entities_are_deleted_as_values_are() {
    let db = Db::open(&options(), "/db").unwrap();
    let keys = ["delete", "range", "single"];
    for flushed in [false, true] {
        for key in keys {
            db.put_entity(key, [("a", "1")]).unwrap();
        }
        if flushed {
            db.flush().unwrap();
        }
        db.delete("delete").unwrap();
        db.delete_range("r", "s").unwrap();
        db.single_delete("single").unwrap();
        assert!(keys.iter().all(|key| now(&db, key).is_none()));
        db.flush().unwrap();
        compact(&db);
        assert!(keys.iter().all(|key| now(&db, key).is_none()));
        assert_eq!(db.property("rocksdb.estimate-num-keys").as_deref(), Some("0"));
    }
    db.close().unwrap();
}

/// Turns plain values into entities and back, drops some.
struct Turning;

impl CompactionFilter for Turning {
    fn name(&self) -> &str {
        "Turning"
    }
    fn filter(&self, _: i32, key: &[u8], value: &[u8]) -> FilterDecision {
        match key {
            b"plain" => FilterDecision::ChangeWideColumnEntity(vec![
                (b"old".to_vec(), value.to_vec()),
                (b"".to_vec(), b"new".to_vec()),
            ]),
            _ => FilterDecision::Keep,
        }
    }
    fn filter_entity(&self, _: i32, key: &[u8], columns: &[WideColumn<'_>]) -> FilterDecision {
        assert!(columns.is_sorted_by_key(|column| column.name));
        match key {
            b"drop" => FilterDecision::Remove,
            b"flat" => FilterDecision::ChangeValue(columns[1].value.to_vec()),
            b"less" => FilterDecision::ChangeWideColumnEntity(vec![(
                columns[1].name.to_vec(),
                columns[1].value.to_vec(),
            )]),
            _ => FilterDecision::Keep,
        }
    }
}

#[pumice_test_macros::test]
fn compaction_filters_see_columns() {
    let mut options = options();
    options.cf.compaction_filter = Some(Arc::new(Turning));
    let db = Db::open(&options, "/db").unwrap();
    for key in ["drop", "flat", "keep", "less"] {
        db.put_entity(key, [("b", "2"), ("a", "1")]).unwrap();
    }
    db.put("plain", "v").unwrap();
    compact(&db);
    assert_eq!(now(&db, "drop"), None);
    assert_eq!(now(&db, "flat").as_deref(), Some("=2"));
    assert_eq!(now(&db, "keep").as_deref(), Some("a=1 b=2"));
    assert_eq!(now(&db, "less").as_deref(), Some("b=2"));
    assert_eq!(now(&db, "plain").as_deref(), Some("=new old=v"));
    db.close().unwrap();
    // A filter that knows plain values only keeps entities, as RocksDB's FilterV3 does.
    let mut options = self::options();
    options.cf.set_compaction_filter("Nothing", |_, _, _| FilterDecision::Remove);
    let db = Db::open(&options, "/db").unwrap();
    db.put_entity("entity", [("a", "1")]).unwrap();
    db.put("plain", "v").unwrap();
    compact(&db);
    assert_eq!((now(&db, "entity").as_deref(), now(&db, "plain")), (Some("a=1"), None));
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn entities_are_recovered_repaired_and_ingested() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    db.put_entity("flushed", [("a", "1")]).unwrap();
    db.flush().unwrap();
    db.put_entity_opt(&WriteOptions { sync: true, ..Default::default() }, "logged", [("b", "2")])
        .unwrap();
    db.close().unwrap();
    let check = |db: &Db| {
        assert_eq!(now(db, "flushed").as_deref(), Some("a=1"));
        assert_eq!(now(db, "logged").as_deref(), Some("b=2"));
    };
    let families = [pumice::ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let (reader, _) = Db::open_read_only(&options.db, "/db", &families, false).unwrap();
    check(&reader);
    reader.close().unwrap();
    pumice::repair(&options, "/db").unwrap();
    let db = Db::open(&options, "/db").unwrap();
    check(&db);
    let mut writer = SstFileWriter::new(&options).unwrap();
    writer.open("/in.sst").unwrap();
    writer.put_entity("ingested", [("c", "3"), ("", "0")]).unwrap();
    assert!(writer.put_entity("later", [("c", "3"), ("c", "0")]).is_err());
    writer.finish().unwrap();
    db.ingest_external_file(&IngestExternalFileOptions::default(), &["/in.sst"]).unwrap();
    check(&db);
    assert_eq!(now(&db, "ingested").as_deref(), Some("=0 c=3"));
    compact(&db);
    check(&db);
    assert_eq!(now(&db, "ingested").as_deref(), Some("=0 c=3"));
    db.close().unwrap();
}
