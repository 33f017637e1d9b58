//! Tables that a repair writes: every version of every key, one sorted run at a time.
//!
//! Nothing is merged, dropped or filtered, so no merge operator is needed. A run is cut into files
//! between user keys; each gets its part of the range tombstones.
//!
//! Thread safety: one user. Invariant: every table is synced before its metadata is returned; the
//! caller makes its name durable. Suspends on I/O.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pumice_base::key::{InternalKey, internal_key, parse_internal_key};
use pumice_base::narrow::small_i32;
use pumice_base::range_tombstone::{FragmentedTombstones, RangeTombstone};
use pumice_base::{FileNumber, Result, UserKey, ValueType};
use pumice_env::{BufferedWriter, FileOptions};
use pumice_manifest::FileMetaData;
use pumice_table::{TableBuildContext, TableBuilder, TableReason};

use crate::blob::references::References;
use crate::options::codec::compression_of;
use crate::repair::context::{Family, RepairContext};
use crate::repair::tables::{Bounds, MARK};
use crate::table_output::table_collectors::Collectors;
use crate::version::identity::{host_id, new_session_id};

/// Entries in internal-key order.
pub(super) trait Entries {
    fn valid(&self) -> bool;
    fn key(&self) -> &[u8];
    fn value(&self) -> &[u8];
    fn next(&mut self) -> Result<()>;
}

/// Writes tables into the directory.
pub(super) struct Outputs<'a> {
    context: &'a RepairContext<'a>,
    db_id: String,
    session_id: String,
    next_number: FileNumber,
    /// What was written.
    pub written: Vec<PathBuf>,
    /// Blobs that the tables refer to, by family.
    pub references: BTreeMap<u32, References>,
}

/// A table that is being written.
struct Open {
    number: FileNumber,
    path: PathBuf,
    builder: TableBuilder,
    bounds: Bounds,
    collectors: Collectors,
}

impl<'a> Outputs<'a> {
    /// Files get numbers from `next_number` on.
    pub fn new(context: &'a RepairContext<'a>, db_id: &str, next_number: FileNumber) -> Self {
        let (db_id, session_id) = (db_id.to_string(), new_session_id());
        let (written, references) = (Vec::new(), BTreeMap::new());
        Outputs { context, db_id, session_id, next_number, written, references }
    }

    /// A number for a new file.
    pub fn new_number(&mut self) -> FileNumber {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Writes one sorted run for `level`, cut into files of `cut` bytes.
    ///
    /// # Errors
    /// I/O; what was written so far is in `written`.
    pub fn write(
        &mut self,
        family: &Family,
        level: usize,
        cut: Option<u64>,
        entries: &mut dyn Entries,
        tombstones: Vec<RangeTombstone>,
    ) -> Result<Vec<Arc<FileMetaData>>> {
        let order = &family.icmp.user;
        let tombstones = FragmentedTombstones::build(tombstones, order);
        let mut files = Vec::new();
        let mut open: Option<Open> = None;
        let mut from: Option<Vec<u8>> = None;
        while entries.valid() {
            let full = open.as_ref().is_some_and(|file| {
                cut.is_some_and(|bytes| file.builder.file_size() >= bytes)
                    && !order.same_user_key(
                        InternalKey::new(file.builder.last_key()).user_key(),
                        InternalKey::new(entries.key()).user_key(),
                    )
            });
            if full && let Some(file) = open.take() {
                // A range ends before all versions of a key.
                let key = order.without_timestamp(InternalKey::new(entries.key()).user_key());
                let to = order.at_newest(key.as_bytes());
                let part = (from.as_deref().map(UserKey::new), Some(UserKey::new(&to)));
                files.extend(self.finish(family, file, &tombstones, part)?);
                from = Some(to);
            }
            let file = match &mut open {
                Some(file) => file,
                None => open.insert(self.open(family, level)?),
            };
            file.add(entries.key(), entries.value())?;
            entries.next()?;
            pumice_port::fiber::maybe_yield();
        }
        if open.is_none() && !tombstones.is_empty() {
            open = Some(self.open(family, level)?);
        }
        if let Some(file) = open {
            files.extend(self.finish(
                family,
                file,
                &tombstones,
                (from.as_deref().map(UserKey::new), None),
            )?);
        }
        Ok(files)
    }

    fn open(&mut self, family: &Family, level: usize) -> Result<Open> {
        let number = self.new_number();
        let path = self.context.table(number);
        let options = &family.options;
        let (kind, parameters) = compression_of(options, level, 1, level > 0, None);
        let now = pumice_port::time::wall_seconds();
        let context = TableBuildContext {
            table: Arc::new(options.table_factory.to_table_options()?),
            comparator: family.icmp.clone(),
            stripped_of: options.stripped_of(),
            compression: kind,
            compression_opts: parameters,
            compression_manager: options.compression_manager,
            column_family_id: family.id,
            column_family_name: family.name.clone(),
            level: small_i32(level),
            oldest_ancestor_time: now,
            file_creation_time: now,
            original_file_number: number,
            db_id: self.db_id.clone(),
            db_session_id: self.session_id.clone(),
            db_host_id: host_id(self.context.db),
            merge_operator_name: options.merge_operator.as_ref().map(|m| m.name().to_string()),
            prefix_extractor: options.prefix_extractor.clone(),
            reason: TableReason::Recovery,
            user_collected: vec![(MARK.to_string(), b"1".to_vec())],
            property_collectors: Collectors::names(options),
            limits: self.context.db.limits,
            ..TableBuildContext::default()
        };
        let file = self.context.fs.create(&path, &FileOptions::default())?;
        self.written.push(path.clone());
        let writer = BufferedWriter::new(file, self.context.db.table_writer(0));
        Ok(Open {
            number,
            path,
            builder: TableBuilder::new(context, writer)?,
            bounds: Bounds::new(family.icmp.clone(), family.key_forms()),
            collectors: Collectors::new(options, family.id, small_i32(level)),
        })
    }

    /// Adds the tombstones in `from..to` and ends the file; None if it is empty.
    fn finish(
        &mut self,
        family: &Family,
        mut file: Open,
        tombstones: &FragmentedTombstones,
        (from, to): (Option<UserKey<'_>>, Option<UserKey<'_>>),
    ) -> Result<Option<Arc<FileMetaData>>> {
        let cmp = &family.icmp.user;
        for fragment in tombstones.fragments() {
            let start = from.filter(|from| cmp.compare(*from, fragment.start()).is_gt());
            let end = to.filter(|to| cmp.compare(*to, fragment.end()).is_lt());
            let (start, end) = (start.unwrap_or(fragment.start()), end.unwrap_or(fragment.end()));
            if cmp.compare(start, end).is_lt() {
                for (seq, time) in fragment.tombstones() {
                    let (start, end, time) = (start.to_vec(), end.to_vec(), time.to_vec());
                    file.add_tombstone(&RangeTombstone { start, end, seq, time })?;
                }
            }
        }
        if file.bounds.is_empty() {
            file.builder.abandon()?;
            self.context.fs.remove(&file.path)?;
            return Ok(None);
        }
        let (min_timestamp, max_timestamp) = file.collectors.times().cloned().unwrap_or_default();
        file.collectors.finish(&mut file.builder)?;
        file.builder.finish()?;
        file.builder.finish_file(true, self.context.db.use_fsync)?;
        let references = std::mem::take(&mut file.bounds.references);
        let oldest_blob_file_number = references.oldest();
        self.references.entry(family.id).or_default().merge(references);
        let meta = FileMetaData {
            oldest_blob_file_number,
            min_timestamp,
            max_timestamp,
            tail_size: file.builder.tail_size(),
            ..file.bounds.meta(file.number, file.builder.file_size(), file.builder.properties())
        };
        Ok(Some(Arc::new(meta)))
    }
}

impl Open {
    fn add(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        self.bounds.add(ikey, parse_internal_key(ikey)?.sequence, value);
        if !self.collectors.is_empty() {
            self.collectors.add(InternalKey::new(ikey), value, self.builder.file_size());
        }
        self.builder.add(ikey, value)
    }

    fn add_tombstone(&mut self, tombstone: &RangeTombstone) -> Result<()> {
        let (start, end) = (tombstone.stored_start(), tombstone.stored_end());
        let ikey = internal_key(&start, tombstone.seq, ValueType::RangeDeletion);
        self.bounds.add_tombstone(tombstone);
        self.collectors.add(InternalKey::new(&ikey), &end, self.builder.file_size());
        self.builder.add(&ikey, &end)
    }
}
