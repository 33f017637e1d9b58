//! Repair without a trusted MANIFEST: the database is rebuilt from its tables and logs.
//!
//! The order of tables by age is unknown, so sequence numbers decide, key by key: tables whose keys
//! overlap are merged into one sorted run with every version of every key, which goes below
//! everything else. Tables that overlap with no other stay as they are. If there is only level 0,
//! tables whose sequence numbers overlap are merged. The readable part of a damaged MANIFEST is
//! used: column families, and tables that were obsolete.
//!
//! Thread safety: the caller holds the lock of the database. Suspends on I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use pumice_base::key::{FILE_NUMBER_FOUND_MAX, LAST_SEQUENCE_MAX, U64_TS_LEN, U64_TS_SUFFIX};
use pumice_base::order;
use pumice_base::{Error, FileNumber, Result};
use pumice_manifest::FileMetaData;

use crate::blob::references::References;
use crate::engine::open::DEFAULT_COLUMN_FAMILY_NAME;
use crate::recovery::version_recovery::RecordedOrder;
use crate::repair::blobs::BlobFiles;
use crate::repair::context::{Family, RepairContext};
use crate::repair::history::History;
use crate::repair::install::{Plan, PlannedFamily, install};
use crate::repair::logs::{self, FoundLog};
use crate::repair::merged_tables::{Input, Merge};
use crate::repair::repaired_tables::Outputs;
use crate::repair::report::{FileFate, RepairOutcome, RepairReport};
use crate::repair::survey::Survey;
use crate::repair::tables::{self, Contents, FoundTable, order_in_table};

struct Rebuild<'a> {
    context: &'a RepairContext<'a>,
    survey: &'a Survey,
    blobs: &'a BlobFiles,
    history: History,
    families: BTreeMap<u32, Family>,
    inputs: BTreeMap<u32, Vec<Input>>,
    logs: Vec<FoundLog>,
}

/// Rebuilds the database.
///
/// # Errors
/// InvalidArgument and NotSupported, before anything is changed, for what cannot be kept; I/O.
pub(super) fn rebuild(
    context: &RepairContext<'_>,
    survey: &Survey,
    blobs: &mut BlobFiles,
    report: &mut RepairReport,
) -> Result<()> {
    report.outcome = RepairOutcome::Rebuilt;
    let history = History::of(&**context.fs, context.dir, &survey.manifests);
    let mut found = Vec::new();
    for (number, path) in &survey.tables {
        let known = history
            .live
            .get(number)
            .and_then(|(id, meta)| Some((*id, history.families.get(id)?.name.as_str(), &**meta)));
        found.push(tables::examine(context, blobs, path.clone(), *number, known)?);
    }
    blobs.end_survey();
    let blobs = &*blobs;
    let logs = logs::find(context, 0)?;
    let families = families(context, &history, (&found, &logs), report)?;
    logs::check(&logs, &families)?;
    report.column_families = families.values().map(|family| family.name.clone()).collect();
    let mut rebuild =
        Rebuild { context, survey, blobs, history, families, inputs: BTreeMap::new(), logs };
    for table in &found {
        rebuild.take(table, report);
    }
    for log in &rebuild.logs {
        let strange =
            |id: &u32| !rebuild.families.contains_key(id) && !rebuild.history.dropped.contains(id);
        let unknown = log.entries.iter().filter(|(id, _)| strange(id));
        let left_out = unknown.map(|(_, entries)| entries).sum();
        let mut file = log.reported(true, left_out);
        if left_out > 0 {
            file.reason.push_str("the name of a column family that it writes to is unknown");
        }
        report.files.push(file);
    }
    let db_id = rebuild.history.db_id.clone();
    let next_file = rebuild.history.next_file.min(FILE_NUMBER_FOUND_MAX);
    survey.undoing(context, (db_id.as_deref(), next_file), |outputs| rebuild.make(outputs, report))
}

/// What files say of a column family.
#[derive(Default)]
struct Evidence {
    name: String,
    /// The order of its keys, and whether tables lack their timestamps.
    order: Option<(String, bool)>,
    /// Files were written when its keys had no timestamps.
    was_plain: bool,
    /// Files were written when its keys had some, which tables lack.
    was_timed: bool,
    /// The orders of tables that refer to blob files, whose records have its keys.
    of_blobs: Vec<(String, bool)>,
}

impl Evidence {
    /// The family has this table.
    fn take(&mut self, contents: &Contents) {
        if contents.comparator.is_empty() {
            return;
        }
        let found = (contents.comparator.clone(), contents.stripped);
        self.was_timed |= contents.stripped;
        self.was_plain |= !contents.stripped && !contents.comparator.ends_with(U64_TS_SUFFIX);
        if contents.references.oldest() > 0 && !self.of_blobs.contains(&found) {
            self.of_blobs.push(found.clone());
        }
        let gains = |(known, _): &(String, bool)| {
            contents.stripped && found.0.strip_suffix(U64_TS_SUFFIX) == Some(known)
        };
        // Which form is the last is not known. With timestamps nothing is lost: the next open may
        // take them off.
        if self.order.as_ref().is_none_or(gains) {
            self.order = Some(found);
        }
    }

    /// The order of its keys, and whether tables lack their timestamps.
    ///
    /// # Errors
    /// NotSupported if the keys of blobs have both forms.
    fn order(&self) -> Result<Option<RecordedOrder<'_>>> {
        let Some(order) = self.order.as_ref() else { return Ok(None) };
        let own = order_in_table(&order.0, order.1);
        let mut of_blobs =
            self.of_blobs.iter().filter(|(name, stripped)| order_in_table(name, *stripped) == own);
        match (of_blobs.next(), of_blobs.next()) {
            (Some(_), Some(_)) => Err(Error::not_supported(format!(
                "repair of column family {}: values in blob files have keys with timestamps and \
                 keys without",
                self.name
            ))),
            (of_blobs, _) => {
                let (name, stripped) = of_blobs.unwrap_or(order);
                Ok(Some((name, *stripped)))
            }
        }
    }

    /// The family has keys with timestamps of this length in a log.
    fn take_size(&mut self, size: Option<usize>, has: impl Fn(&str) -> bool) {
        self.was_plain |= size == Some(0);
        if size == Some(U64_TS_LEN) {
            self.was_timed = true;
            let gained = self.order.as_ref().map(|(known, _)| format!("{known}{U64_TS_SUFFIX}"));
            let gained = gained.filter(|gained| has(gained));
            self.order = gained.map(|gained| (gained, true)).or(self.order.take());
        }
    }
}

/// The column families that MANIFESTs or tables name.
fn families(
    context: &RepairContext<'_>,
    history: &History,
    (found, logs): (&[FoundTable], &[FoundLog]),
    report: &mut RepairReport,
) -> Result<BTreeMap<u32, Family>> {
    let mut evidence: BTreeMap<u32, Evidence> = BTreeMap::new();
    for (id, known) in &history.families {
        let order = known.comparator.clone().map(|order| (order, known.stripped));
        let was_timed = known.stripped;
        let was_plain = order.as_ref().is_some_and(|(name, _)| !name.ends_with(U64_TS_SUFFIX));
        let name = known.name.clone();
        let known = Evidence { name, order, was_plain, was_timed, ..Evidence::default() };
        evidence.insert(*id, known);
    }
    for table in found {
        let Ok(contents) = &table.contents else { continue };
        let id = contents.family;
        if history.dropped.contains(&id) {
            continue;
        }
        let name = match contents.family_name.as_str() {
            "" => format!("column_family_{id}"),
            name => name.to_string(),
        };
        let fresh = Evidence { name, ..Evidence::default() };
        let of_family = evidence.entry(id).or_insert(fresh);
        if !history.obsolete.contains(&table.number) {
            of_family.take(contents);
        }
    }
    let name = DEFAULT_COLUMN_FAMILY_NAME.to_string();
    evidence.entry(0).or_insert(Evidence { name, ..Evidence::default() });
    for (id, size) in logs.iter().flat_map(|log| &log.timestamp_sizes) {
        if let Some(found) = evidence.get_mut(id) {
            let name = found.name.clone();
            found.take_size(*size, |order| context.has_order(&name, order));
        }
    }
    let mut families: BTreeMap<u32, Family> = BTreeMap::new();
    // Of two with one name, the later was created after the earlier had been dropped.
    let mut taken = BTreeSet::new();
    for (id, found) in evidence.iter().rev() {
        let name = &found.name;
        if !taken.insert(name.clone()) {
            report.note(format!("a later column family is also named {name}: #{id} was dropped"));
            continue;
        }
        let mut family = context.family(*id, name, found.order()?)?;
        family.has_changed = found.was_plain && found.was_timed;
        if let Some(known) = history.families.get(id) {
            known.lows.iter().for_each(|low| family.raise_low(Some(low)));
            family.log_number = known.log_number;
        }
        if family.options.comparator.timestamp_size() > 0 {
            report.note(format!(
                "column family {name}: from which time on its history is whole is known only as \
                 far as a MANIFEST could be read"
            ));
        }
        families.insert(*id, family);
    }
    Ok(families)
}

impl Rebuild<'_> {
    /// Decides whether a table is used.
    fn take(&mut self, table: &FoundTable, report: &mut RepairReport) {
        let contents = match &table.contents {
            Ok(contents) => contents,
            Err(error) => {
                let fate = match self.history.obsolete.contains(&table.number) {
                    true => FileFate::NotUsed,
                    false => FileFate::Lost,
                };
                return report.files.push(table.reported(fate, &error.to_string()));
            }
        };
        if let Some(reason) = self.unusable(table, contents) {
            return report.files.push(table.reported(FileFate::NotUsed, reason));
        }
        report.old_data_may_return = true;
        if contents.entries == 0 {
            return report.files.push(table.reported(FileFate::Lost, &table.defect()));
        }
        if contents.lacks_sequence {
            report.note(format!(
                "{} was ingested: its entries count as the oldest, because only the MANIFEST had \
                 their sequence number",
                table.name
            ));
        }
        let known = self.history.live.get(&table.number).map(|(_, meta)| meta);
        let known = known
            .filter(|meta| meta.file_size == table.bytes && meta.largest_seq <= LAST_SEQUENCE_MAX);
        let rewrite = !contents.damage.is_empty() || table.path != self.usual_name(table.number);
        let fate = if rewrite { FileFate::Rewritten } else { FileFate::Kept };
        report.files.push(table.reported(fate, &table.defect()));
        self.inputs.entry(contents.family).or_default().push(Input {
            path: table.path.clone(),
            meta: Arc::clone(known.unwrap_or(&contents.meta)),
            known: known.is_some(),
            rewrite,
            references: contents.references.clone(),
        });
    }

    fn usual_name(&self, number: FileNumber) -> PathBuf {
        self.context.table(number)
    }

    fn unusable(&self, table: &FoundTable, contents: &Contents) -> Option<&'static str> {
        if self.history.obsolete.contains(&table.number) {
            return Some("other tables had replaced it");
        }
        if self.history.dropped.contains(&contents.family) {
            return Some("its column family was dropped");
        }
        let Some(family) = self.families.get(&contents.family) else {
            return Some("its column family was replaced by one of the same name");
        };
        let order = order_in_table(&contents.comparator, contents.stripped);
        if !order.is_empty() && order != family.icmp.user.name() {
            return Some("its column family has another comparator");
        }
        // Such sequence numbers would leave a database no further ones.
        if contents.meta.largest_seq > LAST_SEQUENCE_MAX {
            return Some("its sequence numbers are out of range");
        }
        (contents.entries == 0 && contents.damage.is_empty()).then_some("it has no entries")
    }

    fn make(mut self, outputs: &mut Outputs<'_>, report: &mut RepairReport) -> Result<()> {
        let mut last_sequence = self.history.last_sequence;
        for log in &self.logs {
            last_sequence = last_sequence.max(log.last_sequence());
        }
        let mut ours = BTreeSet::new();
        for (id, written) in logs::convert(self.context, outputs, &self.logs, &self.families)? {
            if let Some(family) = self.families.get_mut(&id) {
                family.raise_low(written.low.as_deref());
                written.note_left_out(&family.name, report);
            }
            for meta in written.tables {
                let path = self.context.table(meta.number);
                ours.insert(path.clone());
                let references = References::default();
                let input = Input { path, meta, known: false, rewrite: false, references };
                self.inputs.entry(id).or_default().push(input);
            }
        }
        let behind_logs = outputs.new_number();
        let (mut planned, mut kept) = (Vec::new(), BTreeSet::new());
        for (id, family) in &self.families {
            let inputs = self.inputs.remove(id).unwrap_or_default();
            last_sequence =
                inputs.iter().map(|input| input.meta.largest_seq).fold(last_sequence, u64::max);
            let files = place((self.context, self.blobs), outputs, family, inputs, &mut kept)?;
            let family = Family { log_number: behind_logs, ..family.clone() };
            let blobs = self.blobs.plan(*id, outputs.references.entry(*id).or_default());
            planned.push(PlannedFamily { family, files, cursors: Vec::new(), blobs });
        }
        for (_, file) in planned.iter().flat_map(|family| &family.files) {
            report.tables += 1;
            report.table_bytes += file.file_size;
        }
        for file in report.files.iter_mut().filter(|file| file.fate == FileFate::Kept) {
            if !kept.contains(&self.context.dir.join(&file.name)) {
                file.fate = FileFate::Rewritten;
            }
        }
        let in_logs = self.logs.iter().flat_map(|log| log.entries.keys().copied());
        let ids = self.families.keys().copied().chain(in_logs);
        let mut retire = self.retired(&kept);
        retire.extend(self.blobs.retire(planned.iter().map(|family| &family.blobs), report));
        let plan = Plan {
            families: planned,
            min_log: behind_logs,
            new_log: Some(behind_logs),
            last_sequence,
            max_family: ids.fold(self.history.max_family, u32::max),
            db_id: self.history.db_id.clone(),
            retire,
            remove: ours.into_iter().filter(|path| !kept.contains(path)).collect(),
        };
        install(self.context, outputs, &plan)
    }

    fn retired(&self, kept: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let tables = self.survey.tables.values().filter(|path| !kept.contains(*path)).cloned();
        let logs = self.logs.iter().map(|log| log.path.clone());
        tables.chain(logs).chain(self.survey.manifest_paths(self.context)).collect()
    }
}

/// Puts the tables of a column family into one level, merged where they must be. Notes those that
/// stay as they are in `kept`.
fn place(
    (context, blobs): (&RepairContext<'_>, &BlobFiles),
    outputs: &mut Outputs<'_>,
    family: &Family,
    inputs: Vec<Input>,
    kept: &mut BTreeSet<PathBuf>,
) -> Result<Vec<(usize, Arc<FileMetaData>)>> {
    let level = family.run_level();
    let mut files = Vec::new();
    for group in groups(family, level, inputs) {
        match group.as_slice() {
            [alone] if !alone.rewrite => {
                kept.insert(alone.path.clone());
                let references = outputs.references.entry(family.id).or_default();
                references.merge(alone.references.clone());
                files.push(Arc::clone(&alone.meta));
            }
            group => {
                let mut merge = Merge::new(context, blobs, family, group)?;
                let tombstones = std::mem::take(&mut merge.tombstones);
                let cut = (level > 0).then_some(family.options.target_file_size_base);
                files.extend(outputs.write(family, level, cut, &mut merge, tombstones)?);
            }
        }
    }
    order::sort_by_key(&mut files, |file| (file.largest_seq, file.number));
    let with_epoch = |(at, file): (usize, Arc<FileMetaData>)| {
        let epoch_number = if level == 0 { at as u64 + 1 } else { 1 };
        // Those from before the family had timestamps lack them too.
        let timestamps_stripped = file.timestamps_stripped || family.options.strips_timestamps();
        (level, Arc::new(FileMetaData { epoch_number, timestamps_stripped, ..(*file).clone() }))
    };
    Ok(files.into_iter().enumerate().map(with_epoch).collect())
}

/// Groups tables that cannot be on one level unmerged.
fn groups(family: &Family, level: usize, mut inputs: Vec<Input>) -> Vec<Vec<Input>> {
    match level {
        0 => order::sort_by_key(&mut inputs, |input| input.meta.smallest_seq),
        _ => order::sort_by(&mut inputs, |a, b| {
            family.icmp.compare(a.meta.smallest_key(), b.meta.smallest_key())
        }),
    }
    let mut groups: Vec<Vec<Input>> = Vec::new();
    for input in inputs {
        let joins = groups.last().is_some_and(|group| {
            group.iter().any(|other| match level {
                0 => input.meta.smallest_seq <= other.meta.largest_seq,
                _ => touches(family, &other.meta, &input.meta),
            })
        });
        match groups.last_mut().filter(|_| joins) {
            Some(group) => group.push(input),
            None => groups.push(vec![input]),
        }
    }
    groups
}

/// Whether `next`, which does not begin before `file`, begins within it.
fn touches(family: &Family, file: &FileMetaData, next: &FileMetaData) -> bool {
    let order = &family.icmp.user;
    // Versions of a key are in one file.
    let order = order.compare_without_timestamp(next.smallest_user_key(), file.largest_user_key());
    order.is_lt() || order.is_eq() && !file.largest_key().is_range_end()
}
