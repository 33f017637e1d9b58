//! Tables with prefix filters, and the checker of prefix seeks.
#![allow(clippy::unwrap_used, dead_code, missing_docs)]

use std::sync::Arc;

use pumice_base::ValueType;
use pumice_base::extension::{SliceTransform, builtin_slice_transform};
use pumice_base::key::{InternalKey, MAX_SEQUENCE, internal_key, seek_key};
use pumice_filter::FilterPolicy;
use pumice_table::{
    IndexType, Table, TableBuildContext, TableIter, TableOptions, TableReadContext,
    TableReadOptions,
};

use crate::support;

/// How the filter of a table is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Full,
    Coupled,
    Decoupled,
}

pub const LAYOUTS: [Layout; 3] = [Layout::Full, Layout::Coupled, Layout::Decoupled];

/// Small blocks and partitions, Bloom filters without a false positive worth mentioning.
pub fn context(layout: Layout, whole: bool, extractor: &str) -> TableBuildContext {
    let table = TableOptions {
        filter_policy: Some(FilterPolicy::bloom(40.0)),
        index_type: IndexType::TwoLevel,
        partition_filters: layout != Layout::Full,
        decouple_partitioned_filters: layout == Layout::Decoupled,
        whole_key_filtering: whole,
        block_size: 300,
        metadata_block_size: 200,
        ..Default::default()
    };
    TableBuildContext {
        table: Arc::new(table),
        prefix_extractor: builtin_slice_transform(extractor),
        original_file_number: 7,
        db_id: "db".into(),
        db_session_id: "ABCDEFGHIJKLMNOPQRST".into(),
        ..Default::default()
    }
}

pub fn with_options(
    mut context: TableBuildContext,
    change: impl FnOnce(&mut TableOptions),
) -> TableBuildContext {
    let mut options = TableOptions::clone(&context.table);
    change(&mut options);
    context.table = Arc::new(options);
    context
}

/// A table of these user keys in order, and the context to open it.
pub fn build(context: &TableBuildContext, users: &[Vec<u8>]) -> (Vec<u8>, TableReadContext) {
    let entries: Vec<_> =
        users.iter().map(|user| internal_key(user, 9, ValueType::Value)).collect();
    let value = [7u8; 20];
    let built = support::build(context.clone(), entries.iter().map(|k| (&k[..], &value[..])));
    let mut read = support::read_context(context);
    read.tail_size = built.tail_size;
    (built.bytes, read)
}

pub fn open(context: &TableBuildContext, users: &[Vec<u8>]) -> Arc<Table> {
    let (bytes, read) = build(context, users);
    support::open(read, &bytes).unwrap()
}

/// The key that an iterator is at.
pub fn at(iter: &TableIter) -> Option<Vec<u8>> {
    iter.status().unwrap();
    iter.valid().then(|| iter.key().user_key().to_vec())
}

/// Seeks to user key `target` in both directions. The filter may hide only keys with another prefix
/// than the target's; returns how many of the seeks it cut short.
pub fn check_seek(table: &Arc<Table>, extractor: &dyn SliceTransform, target: &[u8]) -> usize {
    let mut cut = 0;
    for back in [false, true] {
        let seek = |options: &TableReadOptions| {
            let mut iter = table.iter(options);
            if back {
                iter.seek_for_prev(InternalKey::new(&internal_key(target, 0, ValueType::Deletion)));
            } else {
                iter.seek(InternalKey::new(&seek_key(target, MAX_SEQUENCE)));
            }
            at(&iter)
        };
        let all = seek(&TableReadOptions { total_order_seek: true, ..Default::default() });
        let filtered = seek(&TableReadOptions::default());
        let prefix =
            |key: &[u8]| extractor.in_domain(key).then(|| extractor.transform(key).to_vec());
        let same = all.as_deref().is_some_and(|key| prefix(key) == prefix(target));
        if same || prefix(target).is_none() || filtered.is_some() {
            assert_eq!(filtered, all, "target {target:?} back {back}");
        }
        cut += usize::from(filtered != all);
    }
    cut
}

/// Up to the colon; keys without one have no prefix: a domain that depends on more than the length.
pub struct UpToColon;

impl SliceTransform for UpToColon {
    fn name(&self) -> String {
        "up-to-colon".to_string()
    }
    fn in_domain(&self, key: &[u8]) -> bool {
        key.contains(&b':')
    }
    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        &key[..key.iter().position(|byte| *byte == b':').unwrap_or(0)]
    }
}
