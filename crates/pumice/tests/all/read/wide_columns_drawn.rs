//! Random histories of entities, plain values, merges and deletions, against a model that knows
//! columns, with snapshots, cursors in both directions, flushes and compactions.

use std::collections::BTreeMap;
use std::sync::Arc;

use pumice::{
    CompactRangeOptions, Db, MemFs, Options, PinnedColumns, ReadOptions, Snapshot, WideColumn,
};
use pumice_base::random::Rng;

type Columns = BTreeMap<Vec<u8>, Vec<u8>>;
type Model = BTreeMap<Vec<u8>, Columns>;

fn owned<'a>(columns: impl IntoIterator<Item = WideColumn<'a>>) -> Columns {
    columns.into_iter().map(|column| (column.name.to_vec(), column.value.to_vec())).collect()
}

fn bytes(rng: &mut Rng, at_most: u64) -> Vec<u8> {
    (0..rng.uniform(at_most + 1)).map(|_| rng.uniform(256) as u8).collect()
}

fn key(rng: &mut Rng) -> Vec<u8> {
    format!("key{:02}", rng.uniform(30)).into_bytes()
}

fn columns(rng: &mut Rng) -> Columns {
    (0..rng.uniform(5)).map(|_| (bytes(rng, 2), bytes(rng, 40))).collect()
}

/// One write, in the database and in the model.
fn write(db: &Db, model: &mut Model, rng: &mut Rng) {
    let key = key(rng);
    match rng.uniform(10) {
        0..4 => {
            let columns = columns(rng);
            // In any order: from the last to the first.
            db.put_entity(&key, columns.iter().rev()).unwrap();
            model.insert(key, columns);
        }
        4..6 => {
            let value = bytes(rng, 40);
            db.put(&key, &value).unwrap();
            model.insert(key, Columns::from([(Vec::new(), value)]));
        }
        6..9 => {
            let operand = bytes(rng, 5);
            db.merge(&key, &operand).unwrap();
            match model.get_mut(&key) {
                // Into the default column, which counts as empty if there is none.
                Some(columns) => {
                    let value = columns.entry(Vec::new()).or_default();
                    value.push(b',');
                    value.extend_from_slice(&operand);
                }
                None => drop(model.insert(key, Columns::from([(Vec::new(), operand)]))),
            }
        }
        _ => {
            db.delete(&key).unwrap();
            model.remove(&key);
        }
    }
}

fn check(db: &Db, options: &ReadOptions, model: &Model) {
    let default = |columns: &Columns| columns.get(&b""[..]).cloned().unwrap_or_default();
    let keys: Vec<Vec<u8>> = (0..30).map(|n| format!("key{n:02}").into_bytes()).collect();
    let several = db.multi_get_entity_opt(options, &keys);
    for (key, among) in keys.iter().zip(several) {
        let expected = model.get(key);
        let among = among.unwrap().map(|found: PinnedColumns| owned(found.iter()));
        assert_eq!(among.as_ref(), expected);
        let alone = db.get_entity_opt(options, key).unwrap().map(|found| owned(found.iter()));
        assert_eq!(alone.as_ref(), expected);
        let value = db.get_opt(options, key).unwrap().map(|value| value.to_vec());
        assert_eq!(value, expected.map(default));
    }
    let mut cursor = db.cursor_opt(options).unwrap();
    cursor.seek_to_first();
    for (key, columns) in model {
        assert_eq!(cursor.item(), Some((&key[..], &default(columns)[..])));
        assert_eq!(owned(cursor.columns().unwrap()), *columns);
        cursor.next();
    }
    assert!(!cursor.valid() && cursor.columns().is_none());
    cursor.seek_to_last();
    for (key, columns) in model.iter().rev() {
        assert_eq!(cursor.item(), Some((&key[..], &default(columns)[..])));
        assert_eq!(owned(cursor.columns().unwrap()), *columns);
        cursor.prev();
    }
    assert!(!cursor.valid());
    cursor.status().unwrap();
}

#[pumice_test_macros::test]
fn as_the_model_has_it() {
    for seed in 0..12 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut options = Options::new();
        options.db.create_if_missing = true;
        options.db.file_system = Arc::new(MemFs::new(seed));
        options.set("merge_operator", "stringappend").unwrap();
        options.cf.max_successive_merges = (seed % 3) as usize;
        options.cf.table_factory.block_size = 256;
        let mut db = Db::open(&options, "/db").unwrap();
        let mut model = Model::new();
        let mut held: Option<(Snapshot, Model)> = None;
        for _ in 0..40 {
            for _ in 0..rng.uniform(20) {
                write(&db, &mut model, &mut rng);
            }
            check(&db, &ReadOptions::default(), &model);
            if let Some((snapshot, then)) = &held {
                check(&db, &ReadOptions::at(snapshot), then);
            }
            match rng.uniform(8) {
                0 => held = Some((db.snapshot(), model.clone())),
                1 => held = None,
                2..5 => db.flush().unwrap(),
                5 | 6 => db.compact_range(&CompactRangeOptions::default(), None, None).unwrap(),
                _ => {
                    held = None;
                    db.close().unwrap();
                    db = Db::open(&options, "/db").unwrap();
                }
            }
        }
        check(&db, &ReadOptions::default(), &model);
        drop(held);
        db.close().unwrap();
    }
}
