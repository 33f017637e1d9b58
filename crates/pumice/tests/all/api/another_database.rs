//! A database refuses another one's column-family handles and snapshots, in every public call that
//! takes one. The lists are checked against the source.

use crate::common::{DIR, SYNC, contents, memory, options};
use pumice::options::merge_operator_by_name;
use pumice::trace::TraceReader;
use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, Db, DbWithTtl, Error, ErrorKind, FlushOptions,
    GetMergeOperandsAsyncOptions, GetMergeOperandsOptions, IngestExternalFileArg, RangeOpt,
    ReadOptions, Result, Snapshot, WriteBatch,
};
use pumice_port::testing::block_on;

/// A call with a handle and options with a snapshot, one of which belongs to another database;
/// returns its result.
type Call<D> = fn(&D, &ColumnFamily, &ReadOptions) -> Result<()>;
type Calls<D> = [(&'static str, Call<D>)];

/// A trace that is never read.
struct NoTrace;

impl TraceReader for NoTrace {
    fn read(&mut self) -> Result<Vec<u8>> {
        Err(Error::new(ErrorKind::Incomplete, "no trace"))
    }
    fn reset(&mut self) -> Result<()> {
        Ok(())
    }
}

fn operands(db: &Db, cf: &ColumnFamily, at: &ReadOptions) -> Result<()> {
    let how = GetMergeOperandsOptions::at_most(1);
    db.get_merge_operands_cf_opt(at, cf, "k", &how, &mut 0).map(drop)
}

fn operands_async(db: &Db, cf: &ColumnFamily, at: &ReadOptions) -> Result<()> {
    let how = GetMergeOperandsAsyncOptions::at_most(1);
    block_on(db.get_merge_operands_cf_opt_async(at, cf, "k", how)).map(drop)
}

fn ttl_operands(db: &DbWithTtl, cf: &ColumnFamily, at: &ReadOptions) -> Result<()> {
    let how = GetMergeOperandsOptions::at_most(1);
    db.get_merge_operands_cf_opt(at, cf, "k", &how, &mut 0).map(drop)
}

/// Every call of `Db` that takes a column family.
const WITH_FAMILY: &Calls<Db> = &[
    ("batch", |db, cf, _| {
        let mut batch = WriteBatch::new();
        batch.put_cf(cf, "k", "v");
        db.write(&mut batch)
    }),
    ("mixed batch", |db, cf, _| {
        let mut batch = WriteBatch::new();
        batch.put_cf(db.default_column_family(), "k", "v");
        batch.delete_cf(cf, "k");
        db.write(&mut batch)
    }),
    ("appended batch", |db, cf, _| {
        let (mut batch, mut other) = (WriteBatch::new(), WriteBatch::new());
        batch.put("k", "v");
        other.merge_cf(cf, "k", "v");
        batch.append(&other);
        db.write(&mut batch)
    }),
    ("future of a batch", |db, cf, _| {
        let mut batch = WriteBatch::new();
        batch.put_cf(cf, "k", "v");
        block_on(db.write_async(batch))
    }),
    ("full_history_ts_low", |db, cf, _| db.full_history_ts_low(cf).map(drop)),
    ("increase_full_history_ts_low", |db, cf, _| db.increase_full_history_ts_low(cf, 1u64)),
    ("get_with_timestamp", |db, cf, at| db.get_with_timestamp(at, cf, b"k").map(drop)),
    ("multi_get_with_timestamp", |db, cf, at| last(db.multi_get_with_timestamp(at, &[(cf, b"k")]))),
    ("multi_scan", |db, cf, at| scanned(db, cf, at)),
    ("put_cf", |db, cf, _| db.put_cf(cf, "k", "v")),
    ("put_cf_opt", |db, cf, _| db.put_cf_opt(&SYNC, cf, "k", "v")),
    ("put_cf_async", |db, cf, _| block_on(db.put_cf_async(cf, "k", "v"))),
    ("put_cf_opt_async", |db, cf, _| block_on(db.put_cf_opt_async(&SYNC, cf, "k", "v"))),
    ("put_entity_cf", |db, cf, _| db.put_entity_cf(cf, "k", [("n", "v")])),
    ("put_entity_cf_opt", |db, cf, _| db.put_entity_cf_opt(&SYNC, cf, "k", [("n", "v")])),
    ("put_entity_cf_async", |db, cf, _| block_on(db.put_entity_cf_async(cf, "k", [("n", "v")]))),
    ("put_entity_cf_opt_async", |db, cf, _| {
        block_on(db.put_entity_cf_opt_async(&SYNC, cf, "k", [("n", "v")]))
    }),
    ("delete_cf", |db, cf, _| db.delete_cf(cf, "k")),
    ("delete_cf_opt", |db, cf, _| db.delete_cf_opt(&SYNC, cf, "k")),
    ("delete_cf_async", |db, cf, _| block_on(db.delete_cf_async(cf, "k"))),
    ("delete_cf_opt_async", |db, cf, _| block_on(db.delete_cf_opt_async(&SYNC, cf, "k"))),
    ("single_delete_cf", |db, cf, _| db.single_delete_cf(cf, "k")),
    ("single_delete_cf_opt", |db, cf, _| db.single_delete_cf_opt(&SYNC, cf, "k")),
    ("merge_cf", |db, cf, _| db.merge_cf(cf, "k", "v")),
    ("merge_cf_opt", |db, cf, _| db.merge_cf_opt(&SYNC, cf, "k", "v")),
    ("merge_cf_async", |db, cf, _| block_on(db.merge_cf_async(cf, "k", "v"))),
    ("merge_cf_opt_async", |db, cf, _| block_on(db.merge_cf_opt_async(&SYNC, cf, "k", "v"))),
    ("delete_range_cf", |db, cf, _| db.delete_range_cf(cf, "k", "l")),
    ("delete_range_cf_opt", |db, cf, _| db.delete_range_cf_opt(&SYNC, cf, "k", "l")),
    ("get_cf", |db, cf, _| db.get_cf(cf, "k").map(drop)),
    ("get_cf_opt", |db, cf, at| db.get_cf_opt(at, cf, "k").map(drop)),
    ("get_cf_async", |db, cf, _| block_on(db.get_cf_async(cf, "k")).map(drop)),
    ("get_cf_opt_async", |db, cf, at| block_on(db.get_cf_opt_async(at, cf, "k")).map(drop)),
    ("multi_get_cf", |db, cf, _| last(db.multi_get_cf(&[(cf, "k"), (cf, "l")]))),
    ("multi_get_cf_opt", |db, cf, at| last(db.multi_get_cf_opt(at, &[(cf, "k")]))),
    ("multi_get_cf_async", |db, cf, _| last(block_on(db.multi_get_cf_async([(cf.clone(), "k")])))),
    ("multi_get_cf_opt_async", |db, cf, at| {
        last(block_on(db.multi_get_cf_opt_async(at, [(cf.clone(), "k")])))
    }),
    ("get_entity_cf", |db, cf, _| db.get_entity_cf(cf, "k").map(drop)),
    ("get_entity_cf_opt", |db, cf, at| db.get_entity_cf_opt(at, cf, "k").map(drop)),
    ("multi_get_entity_cf", |db, cf, _| last(db.multi_get_entity_cf(&[(cf, "k"), (cf, "l")]))),
    ("multi_get_entity_cf_opt", |db, cf, at| last(db.multi_get_entity_cf_opt(at, &[(cf, "k")]))),
    ("get_entity_cf_async", |db, cf, _| block_on(db.get_entity_cf_async(cf, "k")).map(drop)),
    ("get_entity_cf_opt_async", |db, cf, at| {
        block_on(db.get_entity_cf_opt_async(at, cf, "k")).map(drop)
    }),
    ("multi_get_entity_cf_async", |db, cf, _| {
        last(block_on(db.multi_get_entity_cf_async([(cf.clone(), "k")])))
    }),
    ("multi_get_entity_cf_opt_async", |db, cf, at| {
        last(block_on(db.multi_get_entity_cf_opt_async(at, [(cf.clone(), "k")])))
    }),
    ("get_merge_operands_cf", |db, cf, _| {
        db.get_merge_operands_cf(cf, "k", &GetMergeOperandsOptions::at_most(1), &mut 0).map(drop)
    }),
    ("get_merge_operands_cf_async", |db, cf, _| {
        let how = GetMergeOperandsAsyncOptions::at_most(1);
        block_on(db.get_merge_operands_cf_async(cf, "k", how)).map(drop)
    }),
    ("get_merge_operands_cf_opt_async", |db, cf, at| operands_async(db, cf, at)),
    ("get_merge_operands_cf_opt", |db, cf, at| operands(db, cf, at)),
    ("key_may_exist_cf", |db, cf, _| db.key_may_exist_cf(cf, "k").map(drop)),
    ("key_may_exist_cf_opt", |db, cf, at| db.key_may_exist_cf_opt(at, cf, "k").map(drop)),
    ("key_may_exist_cf_value", |db, cf, _| db.key_may_exist_cf_value(cf, "k").map(drop)),
    ("key_may_exist_cf_opt_value", |db, cf, at| {
        db.key_may_exist_cf_opt_value(at, cf, "k").map(drop)
    }),
    ("cursor_cf", |db, cf, _| db.cursor_cf(cf).map(drop)),
    ("cursor_cf_opt", |db, cf, at| db.cursor_cf_opt(at, cf).map(drop)),
    ("iter_cf", |db, cf, _| db.iter_cf(cf).map(drop)),
    ("iter_cf_opt", |db, cf, at| db.iter_cf_opt(at, cf).map(drop)),
    ("range_cf", |db, cf, _| db.range_cf(cf, "a".."b").map(drop)),
    ("range_cf_opt", |db, cf, at| db.range_cf_opt(at, cf, "a".."b").map(drop)),
    ("prefix_cf", |db, cf, _| db.prefix_cf(cf, "a").map(drop)),
    ("prefix_cf_opt", |db, cf, at| db.prefix_cf_opt(at, cf, "a").map(drop)),
    ("flush_cf", |db, cf, _| db.flush_cf(cf)),
    ("flush_cf_opt", |db, cf, _| db.flush_cf_opt(&FlushOptions::default(), cf)),
    ("flush_cfs", |db, cf, _| db.flush_cfs(&[cf])),
    ("flush_cfs_opt", |db, cf, _| db.flush_cfs_opt(&FlushOptions::default(), &[cf])),
    ("compact_range_cf", |db, cf, _| db.compact_range_cf(&Default::default(), cf, None, None)),
    ("drop_column_family", |db, cf, _| db.drop_column_family(cf)),
    ("set_options_cf", |db, cf, _| db.set_options_cf(cf, &[("ttl", "0")])),
    ("column_family_options", |db, cf, _| db.column_family_options(cf).map(drop)),
    ("approximate_memtable_stats_cf", |db, cf, _| {
        db.approximate_memtable_stats_cf(cf, "a", "z").map(drop)
    }),
    ("approximate_sizes_cf", |db, cf, _| db.approximate_sizes_cf(cf, &[(b"a", b"z")]).map(drop)),
    ("property_cf", |db, cf, _| there(db.property_cf(cf, "rocksdb.stats"))),
    ("property_int_cf", |db, cf, _| there(db.property_int_cf(cf, "rocksdb.num-files-at-level0"))),
    ("property_map_cf", |db, cf, _| {
        there(db.property_map_cf(cf, "rocksdb.block-cache-entry-stats"))
    }),
    ("delete_files_in_range_cf", |db, cf, _| db.delete_files_in_range_cf(cf, None, None)),
    ("delete_files_in_ranges_cf", |db, cf, _| {
        db.delete_files_in_ranges_cf(cf, &[(None, None)], true)
    }),
    ("suggest_compact_range_cf", |db, cf, _| db.suggest_compact_range_cf(cf, None, None)),
    ("export_column_family", |db, cf, _| db.export_column_family(cf, "/exported").map(drop)),
    ("new_default_replayer", |db, cf, _| {
        db.new_default_replayer(std::slice::from_ref(cf), Box::new(NoTrace)).map(drop)
    }),
    ("compact_files_cf", |db, cf, _| {
        db.compact_files_cf(&Default::default(), cf, &["000001.sst"], 1).map(drop)
    }),
    ("compact_files_job_cf", |db, cf, _| {
        db.compact_files_job_cf(&Default::default(), cf, &["000001.sst"], 1).map(drop)
    }),
    ("promote_l0", |db, cf, _| db.promote_l0(cf, 1)),
    ("newer_version_present_cf", |db, cf, at| db.newer_version_present_cf(cf, at, b"k").map(drop)),
    ("prepare_file_ingestion", |db, cf, _| {
        let files = vec!["/none.sst".into()];
        let arg = IngestExternalFileArg::new(cf, files, &Default::default());
        db.prepare_file_ingestion(&[arg]).map(drop)
    }),
    ("ingest_external_file_cf", |db, cf, _| {
        db.ingest_external_file_cf(&Default::default(), cf, &["/none.sst"])
    }),
    ("ingest_external_files", |db, cf, _| {
        let files = vec!["/none.sst".into()];
        db.ingest_external_files(&[IngestExternalFileArg::new(cf, files, &Default::default())])
    }),
];

fn last<T>(found: Vec<Result<Option<T>>>) -> Result<()> {
    found.into_iter().next_back().unwrap().map(drop)
}

fn scanned(db: &Db, cf: &ColumnFamily, at: &ReadOptions) -> Result<()> {
    let range = RangeOpt { start: Some(b"a".to_vec()), limit: Some(b"z".to_vec()) };
    db.multi_scan(at, cf, vec![range], false).map(drop)
}

/// A property that is not there: that is how these calls refuse.
fn there<T>(property: Option<T>) -> Result<()> {
    property.map(drop).ok_or_else(|| Error::invalid_argument("another database: no property"))
}

/// Every call of `Db` that takes a snapshot.
const WITH_SNAPSHOT: &Calls<Db> = &[
    ("newer_version_present_cf", |db, cf, at| db.newer_version_present_cf(cf, at, b"k").map(drop)),
    ("get_with_timestamp", |db, cf, at| db.get_with_timestamp(at, cf, b"k").map(drop)),
    ("multi_get_with_timestamp", |db, cf, at| last(db.multi_get_with_timestamp(at, &[(cf, b"k")]))),
    ("multi_scan", |db, cf, at| scanned(db, cf, at)),
    ("get_opt", |db, _, at| db.get_opt(at, "k").map(drop)),
    ("get_cf_opt", |db, cf, at| db.get_cf_opt(at, cf, "k").map(drop)),
    ("get_opt_async", |db, _, at| block_on(db.get_opt_async(at, "k")).map(drop)),
    ("get_cf_opt_async", |db, cf, at| block_on(db.get_cf_opt_async(at, cf, "k")).map(drop)),
    ("multi_get_opt", |db, _, at| last(db.multi_get_opt(at, &["k", "l"]))),
    ("get_entity_opt", |db, _, at| db.get_entity_opt(at, "k").map(drop)),
    ("get_entity_cf_opt", |db, cf, at| db.get_entity_cf_opt(at, cf, "k").map(drop)),
    ("multi_get_entity_opt", |db, _, at| last(db.multi_get_entity_opt(at, &["k"]))),
    ("multi_get_entity_cf_opt", |db, cf, at| last(db.multi_get_entity_cf_opt(at, &[(cf, "k")]))),
    ("multi_get_cf_opt", |db, cf, at| {
        last(db.multi_get_cf_opt(at, &[(cf, "k"), (db.default_column_family(), "k")]))
    }),
    ("multi_get_opt_async", |db, _, at| last(block_on(db.multi_get_opt_async(at, ["k", "l"])))),
    ("multi_get_cf_opt_async", |db, cf, at| {
        last(block_on(db.multi_get_cf_opt_async(at, [(cf.clone(), "k")])))
    }),
    ("get_entity_opt_async", |db, _, at| block_on(db.get_entity_opt_async(at, "k")).map(drop)),
    ("get_entity_cf_opt_async", |db, cf, at| {
        block_on(db.get_entity_cf_opt_async(at, cf, "k")).map(drop)
    }),
    ("multi_get_entity_opt_async", |db, _, at| {
        last(block_on(db.multi_get_entity_opt_async(at, ["k", "l"])))
    }),
    ("multi_get_entity_cf_opt_async", |db, cf, at| {
        last(block_on(db.multi_get_entity_cf_opt_async(at, [(cf.clone(), "k")])))
    }),
    ("get_merge_operands_opt_async", |db, _, at| {
        let how = GetMergeOperandsAsyncOptions::at_most(1);
        block_on(db.get_merge_operands_opt_async(at, "k", how)).map(drop)
    }),
    ("get_merge_operands_cf_opt_async", |db, cf, at| operands_async(db, cf, at)),
    ("get_merge_operands_opt", |db, _, at| {
        db.get_merge_operands_opt(at, "k", &GetMergeOperandsOptions::at_most(1), &mut 0).map(drop)
    }),
    ("get_merge_operands_cf_opt", |db, cf, at| operands(db, cf, at)),
    ("verify_file_checksums_opt", |db, _, at| db.verify_file_checksums_opt(at)),
    ("key_may_exist_opt", |db, _, at| db.key_may_exist_opt(at, "k").map(drop)),
    ("key_may_exist_cf_opt", |db, cf, at| db.key_may_exist_cf_opt(at, cf, "k").map(drop)),
    ("key_may_exist_opt_value", |db, _, at| db.key_may_exist_opt_value(at, "k").map(drop)),
    ("key_may_exist_cf_opt_value", |db, cf, at| {
        db.key_may_exist_cf_opt_value(at, cf, "k").map(drop)
    }),
    ("cursor_opt", |db, _, at| db.cursor_opt(at).map(drop)),
    ("cursor_cf_opt", |db, cf, at| db.cursor_cf_opt(at, cf).map(drop)),
    ("iter_opt", |db, _, at| db.iter_opt(at).map(drop)),
    ("iter_cf_opt", |db, cf, at| db.iter_cf_opt(at, cf).map(drop)),
    ("range_opt", |db, _, at| db.range_opt(at, "a".."b").map(drop)),
    ("range_cf_opt", |db, cf, at| db.range_cf_opt(at, cf, "a".."b").map(drop)),
    ("prefix_opt", |db, _, at| db.prefix_opt(at, "a").map(drop)),
    ("prefix_cf_opt", |db, cf, at| db.prefix_cf_opt(at, cf, "a").map(drop)),
];

/// Every call of `DbWithTtl` that takes a column family.
const TTL_WITH_FAMILY: &Calls<DbWithTtl> = &[
    ("batch", |db, cf, _| {
        let mut batch = WriteBatch::new();
        batch.put("k", "v");
        batch.merge_cf(cf, "k", "v");
        db.write(&mut batch)
    }),
    ("set_ttl", |db, cf, _| db.set_ttl(cf, 10)),
    ("get_merge_operands_cf", |db, cf, _| {
        db.get_merge_operands_cf(cf, "k", &GetMergeOperandsOptions::at_most(1), &mut 0).map(drop)
    }),
    ("get_merge_operands_cf_opt", |db, cf, at| ttl_operands(db, cf, at)),
    ("put_cf", |db, cf, _| db.put_cf(cf, "k", "v")),
    ("put_cf_opt", |db, cf, _| db.put_cf_opt(&SYNC, cf, "k", "v")),
    ("delete_cf", |db, cf, _| db.delete_cf(cf, "k")),
    ("delete_cf_opt", |db, cf, _| db.delete_cf_opt(&SYNC, cf, "k")),
    ("single_delete_cf", |db, cf, _| db.single_delete_cf(cf, "k")),
    ("single_delete_cf_opt", |db, cf, _| db.single_delete_cf_opt(&SYNC, cf, "k")),
    ("merge_cf", |db, cf, _| db.merge_cf(cf, "k", "v")),
    ("merge_cf_opt", |db, cf, _| db.merge_cf_opt(&SYNC, cf, "k", "v")),
    ("delete_range_cf", |db, cf, _| db.delete_range_cf(cf, "k", "l")),
    ("delete_range_cf_opt", |db, cf, _| db.delete_range_cf_opt(&SYNC, cf, "k", "l")),
    ("get_cf", |db, cf, _| db.get_cf(cf, "k").map(drop)),
    ("get_cf_opt", |db, cf, at| db.get_cf_opt(at, cf, "k").map(drop)),
    ("multi_get_cf", |db, cf, _| last(db.multi_get_cf(&[(cf, "k"), (cf, "l")]))),
    ("multi_get_cf_opt", |db, cf, at| last(db.multi_get_cf_opt(at, &[(cf, "k")]))),
    ("key_may_exist_cf", |db, cf, _| db.key_may_exist_cf(cf, "k").map(drop)),
    ("key_may_exist_cf_opt", |db, cf, at| db.key_may_exist_cf_opt(at, cf, "k").map(drop)),
    ("key_may_exist_cf_value", |db, cf, _| db.key_may_exist_cf_value(cf, "k").map(drop)),
    ("key_may_exist_cf_opt_value", |db, cf, at| {
        db.key_may_exist_cf_opt_value(at, cf, "k").map(drop)
    }),
    ("cursor_cf", |db, cf, _| db.cursor_cf(cf).map(drop)),
    ("cursor_cf_opt", |db, cf, at| db.cursor_cf_opt(at, cf).map(drop)),
    ("iter_cf", |db, cf, _| db.iter_cf(cf).map(drop)),
    ("iter_cf_opt", |db, cf, at| db.iter_cf_opt(at, cf).map(drop)),
    ("range_cf", |db, cf, _| db.range_cf(cf, "a".."b").map(drop)),
    ("range_cf_opt", |db, cf, at| db.range_cf_opt(at, cf, "a".."b").map(drop)),
    ("prefix_cf", |db, cf, _| db.prefix_cf(cf, "a").map(drop)),
    ("prefix_cf_opt", |db, cf, at| db.prefix_cf_opt(at, cf, "a").map(drop)),
];

/// Every call of `DbWithTtl` that takes a snapshot.
const TTL_WITH_SNAPSHOT: &Calls<DbWithTtl> = &[
    ("get_merge_operands_opt", |db, _, at| {
        db.get_merge_operands_opt(at, "k", &GetMergeOperandsOptions::at_most(1), &mut 0).map(drop)
    }),
    ("get_merge_operands_cf_opt", |db, cf, at| ttl_operands(db, cf, at)),
    ("get_opt", |db, _, at| db.get_opt(at, "k").map(drop)),
    ("get_cf_opt", |db, cf, at| db.get_cf_opt(at, cf, "k").map(drop)),
    ("multi_get_opt", |db, _, at| last(db.multi_get_opt(at, &["k", "l"]))),
    ("multi_get_cf_opt", |db, cf, at| last(db.multi_get_cf_opt(at, &[(cf, "k")]))),
    ("key_may_exist_opt", |db, _, at| db.key_may_exist_opt(at, "k").map(drop)),
    ("key_may_exist_cf_opt", |db, cf, at| db.key_may_exist_cf_opt(at, cf, "k").map(drop)),
    ("key_may_exist_opt_value", |db, _, at| db.key_may_exist_opt_value(at, "k").map(drop)),
    ("key_may_exist_cf_opt_value", |db, cf, at| {
        db.key_may_exist_cf_opt_value(at, cf, "k").map(drop)
    }),
    ("cursor_opt", |db, _, at| db.cursor_opt(at).map(drop)),
    ("cursor_cf_opt", |db, cf, at| db.cursor_cf_opt(at, cf).map(drop)),
    ("iter_opt", |db, _, at| db.iter_opt(at).map(drop)),
    ("iter_cf_opt", |db, cf, at| db.iter_cf_opt(at, cf).map(drop)),
    ("range_opt", |db, _, at| db.range_opt(at, "a".."b").map(drop)),
    ("range_cf_opt", |db, cf, at| db.range_cf_opt(at, cf, "a".."b").map(drop)),
    ("prefix_opt", |db, _, at| db.prefix_opt(at, "a").map(drop)),
    ("prefix_cf_opt", |db, cf, at| db.prefix_cf_opt(at, cf, "a").map(drop)),
];

/// Calls of keys with timestamps, which the families here do not have.
const NEED_TIMESTAMPS: &[&str] = &[
    "full_history_ts_low",
    "increase_full_history_ts_low",
    "get_with_timestamp",
    "multi_get_with_timestamp",
];

/// Calls that work only with files there; for the others it is checked that they work at all.
const NEED_FILES: &[&str] = &[
    "compact_files_cf",
    "compact_files_job_cf",
    "ingest_external_file_cf",
    "ingest_external_files",
    "prepare_file_ingestion",
];

/// The public calls of `sources` that have an argument whose type ends in one of `types`.
fn calls_with<'a>(sources: &[&'a str], types: &[&str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    for call in sources.iter().flat_map(|source| source.split("\n    pub fn ").skip(1)) {
        let (signature, _) = call.split_once(" {\n").unwrap();
        let (name, arguments) = signature.split_once(['(', '<']).unwrap();
        let arguments = arguments.split(" -> ").next().unwrap();
        let takes = |one: &&str| {
            [",", ")", "]"].iter().any(|end| arguments.contains(&format!("{one}{end}")))
        };
        if arguments.contains("&self") && types.iter().any(takes) {
            found.push(name);
        }
    }
    found
}

/// The names in the tables of forms, which say what a form takes: `_cf` a family, `_opt` options.
fn forms_with<'a>(tables: &[&'a str], part: &str) -> Vec<&'a str> {
    let code = tables.iter().flat_map(|table| table.lines());
    let code = code.filter(|line| !line.trim_start().starts_with("//"));
    let words = code.flat_map(|line| line.split(|c: char| !c.is_ascii_lowercase() && c != '_'));
    words
        .filter(|word| word.contains(part) && !word.starts_with('_') && !word.starts_with("in_cf"))
        .collect()
}

fn names<D>(calls: &Calls<D>) -> Vec<&'static str> {
    calls.iter().map(|(name, _)| *name).collect()
}

const FAMILY: &[&str] = &["ColumnFamily", "IngestExternalFileArg"];
const SNAPSHOT: &[&str] = &["&ReadOptions"];

// Plain #[test]: nothing of it waits.
#[test]
fn no_call_is_missing() {
    const ROOM: &str = include_str!("../../../src/db/mod.rs");
    let db = [
        ("api", include_str!("../../../src/db/api.rs")),
        ("at", include_str!("../../../src/db/at.rs")),
        ("background_api", include_str!("../../../src/db/background_api.rs")),
        ("builder", include_str!("../../../src/db/builder.rs")),
        ("calls", include_str!("../../../src/db/calls.rs")),
        ("file_api", include_str!("../../../src/db/file_api.rs")),
        ("follower_api", include_str!("../../../src/db/follower_api.rs")),
        ("forms", include_str!("../../../src/db/forms/mod.rs")),
        ("ingest_api", include_str!("../../../src/db/ingest_api.rs")),
        ("multi_scan", include_str!("../../../src/db/multi_scan.rs")),
        ("replay", include_str!("../../../src/db/replay.rs")),
        ("secondary_api", include_str!("../../../src/db/secondary_api.rs")),
        ("sst_file_reader", ""), // It has no database.
        ("store", include_str!("../../../src/db/store/mod.rs")),
        ("stream", include_str!("../../../src/db/stream.rs")),
        ("trace_api", include_str!("../../../src/db/trace_api.rs")),
        ("view", include_str!("../../../src/db/view.rs")),
        ("wal_api", include_str!("../../../src/db/wal_api.rs")),
    ];
    let files = ROOM.split("mod ").skip(1).map(|rest| rest.split(';').next().unwrap());
    assert_eq!(files.collect::<Vec<_>>(), db.map(|(name, _)| name), "files of the handle");
    let reads = include_str!("../../../src/db/forms/reads.rs");
    let writes = include_str!("../../../src/db/forms/writes.rs");
    let futures = include_str!("../../../src/db/forms/futures.rs");
    let reads_async = futures.split_once("macro_rules! async_forms").unwrap().1;
    let reads_async = reads_async.split_once("put_async").unwrap().0;
    let db = db.map(|(_, source)| source);
    let ttl = [include_str!("../../../src/ttl/mod.rs")];
    for (sources, types, forms, part, listed, least) in [
        (&db[..], FAMILY, &[reads, writes, futures][..], "_cf", names(WITH_FAMILY), 50),
        (&db, SNAPSHOT, &[reads, reads_async], "_opt", names(WITH_SNAPSHOT), 19),
        (&ttl, FAMILY, &[reads, writes], "_cf", names(TTL_WITH_FAMILY), 25),
        (&ttl, SNAPSHOT, &[reads], "_opt", names(TTL_WITH_SNAPSHOT), 14),
    ] {
        let mut found = calls_with(sources, types);
        found.extend(forms_with(forms, part));
        // With TTL entities are refused.
        found.retain(|name| sources.len() == db.len() || !name.contains("_entity"));
        let missing: Vec<_> = found.iter().filter(|name| !listed.contains(name)).collect();
        assert!(missing.is_empty(), "not in the list: {missing:?}");
        assert!(found.len() >= least, "only {found:?}");
    }
}

fn refused(name: &str, called: Result<()>) {
    let error = called.err().unwrap_or_else(|| panic!("{name}: taken"));
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}: {error}");
    assert!(error.to_string().contains("another database"), "{name}: {error}");
}

/// Handles and snapshots name things by numbers that every database has.
fn refuses_what_is_anothers<D>(
    open: fn() -> (D, ColumnFamily),
    plain: fn(&D) -> &Db,
    with_family: &Calls<D>,
    with_snapshot: &Calls<D>,
) {
    let ((ours, own), (theirs, foreign)) = (open(), open());
    let at = |db: &D| ReadOptions::at(&plain(db).snapshot());
    for (name, call) in with_family {
        if !NEED_FILES.contains(name) && !NEED_TIMESTAMPS.contains(name) {
            let (again, family) = open();
            call(&again, &family, &ReadOptions::default())
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            drop(family);
            plain(&again).close().unwrap();
        }
        refused(name, call(&ours, &foreign, &ReadOptions::default()));
    }
    for (name, call) in with_snapshot {
        if !NEED_TIMESTAMPS.contains(name) {
            call(&ours, &own, &at(&ours)).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        refused(name, call(&ours, &own, &at(&theirs)));
    }
    let (ours, theirs) = (plain(&ours), plain(&theirs));
    assert_eq!((contents(ours).len(), contents(theirs).len()), (1, 1));
    drop((own, foreign));
    ours.close().unwrap();
    theirs.close().unwrap();
}

fn mergeable() -> pumice::Options {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.merge_operator = merge_operator_by_name("stringappend");
    options.set("file_checksum_gen_factory", "FileChecksumGenCrc32cFactory").unwrap();
    options
}

#[pumice_test_macros::test]
fn handles_of_another_database_are_refused() {
    let open = || {
        let options = mergeable();
        let db = Db::open(&options, DIR).unwrap();
        let family = db.create_column_family(&options.cf, "family").unwrap();
        db.put_opt(&SYNC, "k", "v").unwrap();
        (db, family)
    };
    refuses_what_is_anothers(open, |db| db, WITH_FAMILY, WITH_SNAPSHOT);
}

#[pumice_test_macros::test]
fn a_database_with_ttl_refuses_them_too() {
    let open = || {
        let mut options = mergeable();
        options.db.create_missing_column_families = true;
        let named = |name: &str| (ColumnFamilyDescriptor::new(name, options.cf.clone()), 1000);
        let (db, mut families) =
            DbWithTtl::open_cf(&options.db, DIR, &[named("default"), named("family")]).unwrap();
        db.put_opt(&SYNC, "k", "v").unwrap();
        (db, families.pop().unwrap())
    };
    refuses_what_is_anothers(open, DbWithTtl::db, TTL_WITH_FAMILY, TTL_WITH_SNAPSHOT);
}

/// A snapshot taken before a reopen counts as one of another database: its data may have been
/// compacted away in between.
#[pumice_test_macros::test]
fn a_snapshot_ends_with_its_database() {
    let options = mergeable();
    let db = Db::open(&options, DIR).unwrap();
    db.put("k", "v").unwrap();
    let snapshot: Snapshot = db.snapshot();
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, DIR).unwrap();
    refused("get_opt", db.get_opt(&ReadOptions::at(&snapshot), "k").map(drop));
    db.close().unwrap();
}
