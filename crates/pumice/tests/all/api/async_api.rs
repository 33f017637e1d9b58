//! Futures: any executor polls them. The one here is a thread that parks.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use crate::common::{self, fill, flush, key, memory, options};
use pumice::{
    Db, DbFuture, ErrorKind, GetMergeOperandsAsyncOptions, Options, ReadOptions, Runtime, SubCode,
    WriteBatch, WriteOptions,
};
use pumice_port::testing::block_on;

/// All of the futures, polled when any of them wakes, as executors do.
fn join_all<T>(futures: Vec<DbFuture<T>>) -> Vec<T> {
    let mut slots: Vec<_> = futures.into_iter().map(|f| (Some(Box::pin(f)), None)).collect();
    block_on(std::future::poll_fn(move |context| {
        let mut open = 0;
        for (future, answer) in &mut slots {
            let Some(running) = future else { continue };
            match Pin::new(running).poll(context) {
                Poll::Ready(value) => (*future, *answer) = (None, Some(value)),
                Poll::Pending => open += 1,
            }
        }
        if open > 0 {
            return Poll::Pending;
        }
        Poll::Ready(slots.drain(..).map(|(_, answer)| answer.unwrap()).collect())
    }))
}

fn batch(from: usize, to: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for n in from..to {
        batch.put(&key(n), format!("value {n}").as_bytes());
    }
    batch
}

fn with_runtime(options: &mut Options) {
    options.db.runtime = Some(Arc::new(Runtime::builder().loops(2).build().unwrap()));
}

#[pumice_test_macros::test]
fn reads_and_writes_as_the_ordinary_calls() {
    for own_runtime in [false, true] {
        let (_, fs) = memory();
        let mut options = options(&fs);
        options.cf.table_factory.no_block_cache = true;
        if own_runtime {
            with_runtime(&mut options);
        }
        let db = Db::open(&options, common::DIR).unwrap();
        let write = WriteOptions { sync: true, ..WriteOptions::default() };
        let read = ReadOptions::default();
        let writes =
            (0..50).map(|n| db.write_opt_async(&write, batch(n * 20, n * 20 + 20))).collect();
        for written in join_all(writes) {
            written.unwrap();
        }
        flush(&db);
        let gets = (0..1010).map(|n| db.get_opt_async(&read, key(n))).collect();
        for (n, found) in join_all(gets).into_iter().enumerate() {
            let expected = db.get_opt(&read, &key(n)).unwrap().map(|v| v.to_vec());
            assert_eq!(found.unwrap().map(|v| v.to_vec()), expected, "key {n}");
            assert_eq!(expected.is_some(), n < 1000);
        }
        let keys: Vec<_> = [5, 2000, 5, 999].map(key).to_vec();
        let found = block_on(db.multi_get_opt_async(&read, keys));
        let found: Vec<_> = found.into_iter().map(|v| v.unwrap().map(|v| v.to_vec())).collect();
        let expected = [Some("value 5"), None, Some("value 5"), Some("value 999")];
        assert_eq!(found, expected.map(|v| v.map(|v| v.as_bytes().to_vec())));
        // A snapshot travels with its call.
        let before = ReadOptions { snapshot: Some(db.snapshot()), ..read.clone() };
        let mut change = WriteBatch::new();
        change.delete(&key(5));
        block_on(db.write_opt_async(&write, change)).unwrap();
        let cf = db.default_column_family().clone();
        let old = block_on(db.multi_get_cf_opt_async(&before, vec![(cf.clone(), key(5))]));
        assert!(matches!(&old[..], [Ok(Some(_))]));
        assert!(block_on(db.get_cf_opt_async(&read, &cf, key(5))).unwrap().is_none());
        db.close().unwrap();
    }
}

/// Each form of each call, with and without options, in the default family and in another.
#[pumice_test_macros::test]
fn every_form_does_what_the_ordinary_call_does() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.merge_operator = pumice::options::merge_operator_by_name("stringappend");
    let db = Db::open(&options, common::DIR).unwrap();
    let cf = db.create_column_family(&options.cf, "family").unwrap();
    let (read, sync) =
        (ReadOptions::default(), WriteOptions { sync: true, ..WriteOptions::default() });
    let mut batch = WriteBatch::new();
    batch.put_cf(&cf, "e", "5");
    batch.put("e", "6");
    block_on(async {
        db.put_async("a", "1").await?;
        db.put_opt_async(&sync, String::from("b"), vec![b'2']).await?;
        db.put_cf_async(&cf, b"c", b"3").await?;
        db.put_cf_opt_async(&sync, &cf, &b"d"[..], "4").await?;
        db.write_async(batch).await?;
        db.merge_async("a", "x").await?;
        db.merge_opt_async(&sync, "a", "y").await?;
        db.merge_cf_async(&cf, "c", "x").await?;
        db.merge_cf_opt_async(&sync, &cf, "c", "y").await?;
        assert_eq!(db.get_async("a").await?.unwrap(), b"1,x,y");
        assert_eq!(db.get_opt_async(&read, "b").await?.unwrap(), b"2");
        assert_eq!(db.get_cf_async(&cf, "c").await?.unwrap(), b"3,x,y");
        assert_eq!(db.get_cf_opt_async(&read, &cf, "d").await?.unwrap(), b"4");
        let found = db.multi_get_async(["e", "none"]).await;
        assert_eq!((found[0].clone_value(), found[1].clone_value()), (Some(b"6".to_vec()), None));
        let found = db.multi_get_cf_async([(cf.clone(), "e"), (cf.clone(), "a")]).await;
        assert_eq!((found[0].clone_value(), found[1].clone_value()), (Some(b"5".to_vec()), None));
        db.delete_async("a").await?;
        db.delete_opt_async(&sync, "b").await?;
        db.delete_cf_async(&cf, "c").await?;
        db.delete_cf_opt_async(&sync, &cf, "d").await?;
        let family = cf.clone();
        let left = db.call_async(move |db| {
            db.flush_all()?;
            let keys = |entries: pumice::Entries| -> pumice::Result<Vec<_>> {
                entries.map(|entry| Ok(entry?.0)).collect()
            };
            Ok((keys(db.iter()?)?, keys(db.iter_cf(&family)?)?))
        });
        assert_eq!(left.await?, (vec![b"e".to_vec()], vec![b"e".to_vec()]));
        let refused = db.call_async(|db| db.set_options(&[("nope", "1")])).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        Ok::<(), pumice::Error>(())
    })
    .unwrap();
    drop(cf);
    db.close().unwrap();
}

/// The bytes of an answer.
trait CloneValue {
    fn clone_value(&self) -> Option<Vec<u8>>;
}

impl CloneValue for pumice::Result<Option<pumice::PinnedSlice>> {
    fn clone_value(&self) -> Option<Vec<u8>> {
        self.as_ref().unwrap().as_ref().map(|value| value.to_vec())
    }
}

#[pumice_test_macros::test]
fn errors_come_as_in_the_ordinary_calls() {
    let (_, fs) = memory();
    let db = Db::open(&options(&fs), common::DIR).unwrap();
    let impossible = WriteOptions { sync: true, disable_wal: true, ..WriteOptions::default() };
    let refused = block_on(db.write_opt_async(&impossible, batch(0, 1))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let (_, other_fs) = memory();
    let other = Db::open(&options(&other_fs), common::DIR).unwrap();
    let foreign = other.default_column_family();
    let refused =
        block_on(db.get_cf_opt_async(&ReadOptions::default(), foreign, key(0))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let keys = vec![(foreign.clone(), key(0))];
    let refused = block_on(db.multi_get_cf_opt_async(&ReadOptions::default(), keys))
        .pop()
        .unwrap()
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

/// A dropped future: the call continues, and what it holds is released.
#[pumice_test_macros::test]
fn a_dropped_future_is_written_all_the_same() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    with_runtime(&mut options);
    let db = Db::open(&options, common::DIR).unwrap();
    let write = WriteOptions { sync: true, ..WriteOptions::default() };
    for n in 0..200 {
        let mut future = db.write_opt_async(&write, batch(n, n + 1));
        if n % 2 == 0 {
            // Polled once, then dropped.
            let answer = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
            assert!(answer.is_pending() || matches!(answer, Poll::Ready(Ok(()))));
        }
        drop(future);
        drop(db.get_opt_async(&ReadOptions::default(), key(n)));
    }
    // The last handle: the database closes after the calls, and the runtime after that.
    drop((db, options.db.runtime.take()));
    let mut reopened = None;
    for _ in 0..2000 {
        match Db::open(&options, common::DIR) {
            Ok(db) => {
                reopened = Some(db);
                break;
            }
            // Still locked by the calls under way.
            Err(error) => assert_eq!(error.kind(), ErrorKind::IoError, "{error}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let db = reopened.expect("the calls end and release the database");
    for n in 0..200 {
        let found = db.get_opt(&ReadOptions::default(), &key(n)).unwrap();
        assert_eq!(found.as_deref(), Some(format!("value {n}").as_bytes()), "key {n}");
    }
}

#[pumice_test_macros::test]
fn calls_on_a_closed_database_end() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = dir.join(format!("pumice-async-close-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &dir).unwrap();
    fill(&db, 0..100, "before");
    flush(&db);
    let sync = WriteOptions { sync: true, ..WriteOptions::default() };
    let writes: Vec<_> = (0..100).map(|n| db.write_opt_async(&sync, batch(n, n + 1))).collect();
    let closer = {
        let db = db.clone();
        std::thread::spawn(move || db.close())
    };
    let acknowledged = AtomicUsize::new(0);
    let outcomes = join_all(writes);
    for outcome in &outcomes {
        match outcome {
            Ok(()) => acknowledged.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ShutdownInProgress, "{error}");
                0
            }
        };
    }
    closer.join().unwrap().unwrap();
    // Writes are refused from now on, reads show the last state.
    let late = block_on(db.write_opt_async(&sync, batch(0, 1))).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::ShutdownInProgress);
    let late = block_on(db.get_opt_async(&ReadOptions::default(), key(1))).unwrap();
    assert!(late.is_some());
    drop(db);
    let db = Db::open(&options, &dir).unwrap();
    for (n, outcome) in outcomes.iter().enumerate() {
        if outcome.is_ok() {
            let found = db.get_opt(&ReadOptions::default(), &key(n)).unwrap().unwrap();
            assert_eq!(&found[..], format!("value {n}").as_bytes());
        }
    }
    println!("{} of 100 writes came before the close", acknowledged.into_inner());
    db.close().unwrap();
    Db::destroy(&options, &dir).unwrap();
}

#[pumice_test_macros::test]
fn entities_as_the_ordinary_calls() {
    let (_, fs) = memory();
    let db = Db::open(&options(&fs), common::DIR).unwrap();
    let cf = db.create_column_family(&Default::default(), "more").unwrap();
    let (sync, read) = (WriteOptions { sync: true, ..Default::default() }, ReadOptions::default());
    block_on(db.put_entity_async("a", [("", "1"), ("n", "2")])).unwrap();
    block_on(db.put_entity_opt_async(&sync, "b", [("n", "3")])).unwrap();
    block_on(db.put_entity_cf_async(&cf, "a", [("m", "4")])).unwrap();
    block_on(db.put_entity_cf_opt_async(&sync, &cf, "b", [("m", "5")])).unwrap();
    let twice = block_on(db.put_entity_async("c", [("n", "1"), ("n", "2")])).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Corruption);
    let same = |future, call: pumice::Result<Option<pumice::PinnedColumns>>| {
        let found: pumice::Result<Option<pumice::PinnedColumns>> = block_on(future);
        let (found, expected) = (found.unwrap().unwrap(), call.unwrap().unwrap());
        assert!(found.iter().eq(expected.iter()));
    };
    same(db.get_entity_async("a"), db.get_entity("a"));
    same(db.get_entity_opt_async(&read, "b"), db.get_entity_opt(&read, "b"));
    same(db.get_entity_cf_async(&cf, "a"), db.get_entity_cf(&cf, "a"));
    same(db.get_entity_cf_opt_async(&read, &cf, "b"), db.get_entity_cf_opt(&read, &cf, "b"));
    let columns = |found: Vec<pumice::Result<Option<pumice::PinnedColumns>>>| -> Vec<String> {
        let show = |found: pumice::PinnedColumns| format!("{:?}", found.iter().collect::<Vec<_>>());
        found.into_iter().map(|found| found.unwrap().map_or_else(String::new, show)).collect()
    };
    let keys = ["a", "c", "b"];
    let expected = columns(db.multi_get_entity(&keys));
    assert!(!expected[0].is_empty() && expected[1].is_empty() && !expected[2].is_empty());
    assert_eq!(columns(block_on(db.multi_get_entity_async(keys))), expected);
    assert_eq!(columns(block_on(db.multi_get_entity_opt_async(&read, keys))), expected);
    let expected = columns(db.multi_get_entity_cf(&keys.map(|key| (&cf, key))));
    let named = || keys.map(|key| (cf.clone(), key));
    assert_eq!(columns(block_on(db.multi_get_entity_cf_async(named()))), expected);
    assert_eq!(columns(block_on(db.multi_get_entity_cf_opt_async(&read, named()))), expected);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn operands_as_the_ordinary_calls() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.merge_operator = pumice::options::merge_operator_by_name("stringappend");
    let db = Db::open(&options, common::DIR).unwrap();
    let cf = db.create_column_family(&options.cf, "family").unwrap();
    for operand in ["a", "b", "c"] {
        db.merge("k", operand).unwrap();
        db.merge_cf(&cf, "k", operand.to_uppercase()).unwrap();
    }
    let before = ReadOptions::at(&db.snapshot());
    db.put("k", "base").unwrap();
    let texts = |found: pumice::Result<Vec<pumice::PinnedSlice>>| {
        let found = found.unwrap();
        found.iter().map(|one| String::from_utf8_lossy(one).into_owned()).collect::<Vec<_>>()
    };
    let at_most = GetMergeOperandsAsyncOptions::at_most;
    block_on(async {
        assert_eq!(texts(db.get_merge_operands_async("k", at_most(1)).await), ["base"]);
        let old = db.get_merge_operands_opt_async(&before, "k", at_most(3)).await;
        assert_eq!(texts(old), ["a", "b", "c"]);
        let few = db.get_merge_operands_opt_async(&before, "k", at_most(2)).await.unwrap_err();
        assert_eq!(few.subcode(), SubCode::MergeOperandsInsufficientCapacity);
        let newest = at_most(3).while_true(|operand| operand != b"B");
        assert_eq!(texts(db.get_merge_operands_cf_async(&cf, "k", newest).await), ["B", "C"]);
        let all = db.get_merge_operands_cf_opt_async(&before, &cf, "k", at_most(3)).await;
        assert_eq!(texts(all), ["A", "B", "C"]);
    });
    drop((before, cf));
    db.close().unwrap();
}
