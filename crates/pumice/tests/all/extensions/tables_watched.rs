//! Code of the user's that is made for one job or one table: filters by factory, collectors.

use std::sync::Arc;

use crate::common::{DIR, contents, fill, flush, key, memory, options};
use pumice::stats::listener::TableFileCreationReason as Reason;
use pumice::{
    CollectorContext, CompactRangeOptions, CompactionFilter, CompactionFilterContext,
    CompactionFilterFactory, Db, EntryType, ErrorKind, EventListener, ExternalFileIngestionInfo,
    FilterDecision, IngestExternalFileOptions, ReadOptions, SstFileWriter,
    TablePropertiesCollector, TablePropertiesCollectorFactory, filter_of,
};
use pumice_port::sync::Mutex;

/// Records its calls; its filters drop the keys that end in 7.
struct Noting {
    contexts: Mutex<Vec<CompactionFilterContext>>,
    also: Option<Reason>,
}

impl CompactionFilterFactory for Noting {
    fn name(&self) -> &str {
        "noting"
    }
    fn should_filter(&self, reason: Reason) -> bool {
        reason == Reason::Compaction || Some(reason) == self.also
    }
    fn create_compaction_filter(
        &self,
        context: &CompactionFilterContext,
    ) -> Option<Arc<dyn CompactionFilter>> {
        self.contexts.lock().push(context.clone());
        Some(filter_of("sevens", |_, key, _| match key.last() {
            Some(b'7') => FilterDecision::Remove,
            _ => FilterDecision::Keep,
        }))
    }
}

fn noting(also: Option<Reason>) -> Arc<Noting> {
    Arc::new(Noting { contexts: Mutex::default(), also })
}

#[pumice_test_macros::test]
fn each_job_has_a_filter_that_knows_what_it_is_for() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    let factory = noting(None);
    options.cf.compaction_filter_factory =
        Some(Arc::clone(&factory) as Arc<dyn CompactionFilterFactory>);
    options.cf.level0_file_num_compaction_trigger = 3;
    let db = Db::open(&options, DIR).unwrap();
    let family = db.create_column_family(&options.cf, "family").unwrap();
    db.put_cf(&family, "key7", "value").unwrap();
    db.compact_range_cf(&CompactRangeOptions::default(), &family, None, None).unwrap();
    let context = factory.contexts.lock().remove(0);
    assert_eq!((context.column_family_id, context.reason), (family.id(), Reason::Compaction));
    assert!(context.is_full_compaction && context.is_manual_compaction);
    assert!(context.input_start_level >= 0 && context.output_level > 0);
    assert_eq!(db.iter_cf(&family).unwrap().count(), 0);
    drop(family);

    // An automatic one, of all that there is.
    factory.contexts.lock().clear();
    for _ in 0..3 {
        fill(&db, 0..100, "value");
        flush(&db);
    }
    db.wait_for_compact(&Default::default()).unwrap();
    let context = factory.contexts.lock().remove(0);
    assert!(context.is_full_compaction && !context.is_manual_compaction);
    assert_eq!((context.input_start_level, context.column_family_id), (0, 0));
    assert_eq!(contents(&db).len(), 90, "flushes have kept all, the compaction has not");
    // A part of it.
    fill(&db, 1000..1010, "value");
    factory.contexts.lock().clear();
    let part = (key(1000), key(1010));
    db.compact_range(&CompactRangeOptions::default(), Some(&part.0), Some(&part.1)).unwrap();
    let contexts = std::mem::take(&mut *factory.contexts.lock());
    assert!(contexts.iter().any(|context| !context.is_full_compaction), "{contexts:?}");
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn flushes_and_recoveries_filter_if_they_are_asked_to() {
    for also in [Reason::Flush, Reason::Recovery] {
        let (_, fs) = memory();
        let mut options = options(&fs);
        let factory = noting(Some(also));
        options.cf.compaction_filter_factory =
            Some(Arc::clone(&factory) as Arc<dyn CompactionFilterFactory>);
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..100, "value");
        if also == Reason::Flush {
            flush(&db);
            assert_eq!(contents(&db).len(), 90);
        }
        db.close().unwrap();
        drop(db);
        let db = Db::open(&options, DIR).unwrap();
        assert_eq!(contents(&db).len(), 90, "{also:?}");
        let contexts = std::mem::take(&mut *factory.contexts.lock());
        assert_eq!((contexts.len(), contexts[0].reason), (1, also));
        assert!(!contexts[0].is_full_compaction && !contexts[0].is_manual_compaction);
        db.close().unwrap();
    }
}

/// A flush filters whatever filter it gets, but nothing that a snapshot sees.
#[pumice_test_macros::test]
fn a_flush_filters_no_value_that_a_snapshot_sees() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.compaction_filter_factory = Some(noting(Some(Reason::Flush)));
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..100, "value");
    let before = ReadOptions::at(&db.snapshot());
    fill(&db, 100..200, "value");
    flush(&db);
    assert_eq!(db.iter_opt(&before).unwrap().count(), 100);
    assert_eq!(contents(&db).len(), 190, "of those after it 10 are gone");
    drop(before);
    db.close().unwrap();
}

/// Counts entries by type, and requests a compaction if there are `wanted` values.
#[derive(Debug)]
struct Counting {
    name: &'static str,
    wanted: usize,
    contexts: Mutex<Vec<CollectorContext>>,
}

#[derive(Default)]
struct Counts {
    property: &'static str,
    seen: Vec<EntryType>,
    last: Vec<u8>,
    values: usize,
    wanted: usize,
}

impl TablePropertiesCollectorFactory for Counting {
    fn name(&self) -> &str {
        "Counting"
    }
    fn create_collector(&self, at: &CollectorContext) -> Option<Box<dyn TablePropertiesCollector>> {
        self.contexts.lock().push(at.clone());
        Some(Box::new(Counts { property: self.name, wanted: self.wanted, ..Counts::default() }))
    }
}

impl TablePropertiesCollector for Counts {
    fn add(&mut self, key: &[u8], value: &[u8], kind: EntryType, sequence: u64, _bytes: u64) {
        assert!(sequence > 0 || kind == EntryType::Put || self.property == "external");
        if kind != EntryType::RangeDeletion {
            assert!(self.last.as_slice() <= key);
            self.last = key.to_vec();
        }
        self.seen.push(kind);
        self.values += usize::from(kind == EntryType::Put && value == b"value");
    }
    fn finish(&mut self) -> Vec<(String, Vec<u8>)> {
        let text = format!("{} of {}", self.values, self.seen.len());
        vec![(self.property.to_string(), text.into_bytes())]
    }
    fn needs_compaction(&self) -> bool {
        self.wanted > 0 && self.values >= self.wanted
    }
}

fn counting(name: &'static str, wanted: usize) -> Arc<Counting> {
    Arc::new(Counting { name, wanted, contexts: Mutex::default() })
}

#[derive(Default)]
struct Ingested(Mutex<Vec<(String, Vec<u8>)>>);

impl EventListener for Ingested {
    fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {
        let properties = &info.table_properties;
        let value = properties.collected("external").unwrap_or_default().to_vec();
        self.0.lock().push((properties.property_collectors.clone(), value));
    }
}

#[pumice_test_macros::test]
fn collectors_see_each_entry_and_leave_properties() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    let factory = counting("external", 0);
    options.cf.table_properties_collector_factories =
        vec![Arc::clone(&factory) as Arc<dyn TablePropertiesCollectorFactory>];
    let listener = Arc::new(Ingested::default());
    options.db.listeners = vec![Arc::clone(&listener) as Arc<dyn EventListener>];
    fs.create_dir_all("/in".as_ref()).unwrap();
    let mut writer = SstFileWriter::new(&options).unwrap();
    writer.open("/in/1.sst").unwrap();
    writer.put(b"a", b"value").unwrap();
    writer.delete(b"b").unwrap();
    writer.put(b"c", b"other").unwrap();
    writer.delete_range(b"x", b"z").unwrap();
    writer.finish().unwrap();
    let unknown = factory.contexts.lock().remove(0);
    assert_eq!((unknown.level_at_creation, unknown.num_levels), (-1, 7));
    let db = Db::open(&options, DIR).unwrap();
    db.ingest_external_file(&IngestExternalFileOptions::default(), &["/in/1.sst"]).unwrap();
    let reported = listener.0.lock().clone();
    assert_eq!(reported, [("[Counting]".to_string(), b"1 of 4".to_vec())]);
    factory.contexts.lock().clear();
    fill(&db, 0..10, "value");
    flush(&db);
    let flushed = factory.contexts.lock().remove(0);
    assert_eq!((flushed.column_family_id, flushed.level_at_creation), (0, 0));
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn collectors_ask_for_compactions() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.table_properties_collector_factories = vec![counting("mine", 50)];
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..100, "other");
    flush(&db);
    db.wait_for_compact(&Default::default()).unwrap();
    assert_eq!(db.property_int("rocksdb.num-files-at-level0"), Some(1));
    fill(&db, 0..49, "value");
    flush(&db);
    db.wait_for_compact(&Default::default()).unwrap();
    assert_eq!(db.property_int("rocksdb.num-files-at-level0"), Some(2));
    fill(&db, 49..100, "value");
    flush(&db);
    db.wait_for_compact(&Default::default()).unwrap();
    assert_eq!(db.property_int("rocksdb.num-files-at-level0"), Some(0));
    db.close().unwrap();
}

/// What RocksDB stores under its own names is not for others.
#[pumice_test_macros::test]
fn names_of_rocksdbs_properties_are_refused() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.table_properties_collector_factories = vec![counting("rocksdb.num.entries", 0)];
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..10, "value");
    let error = db.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("rocksdb.num.entries"), "{error}");
    drop(db.close());
    options.cf.table_properties_collector_factories.clear();
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(contents(&db).len(), 10);
    db.close().unwrap();
}
