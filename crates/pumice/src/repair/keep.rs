//! Repair with a MANIFEST that can be trusted: levels, column families and everything else stay,
//! damaged tables are replaced with their readable entries, damaged logs with tables of level 0.
//!
//! Thread safety: the caller holds the lock of the database. Suspends on I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use pumice_base::{FileNumber, Result};
use pumice_env::filename;
use pumice_manifest::FileMetaData;

use crate::blob::references::References;
use crate::recovery::version_recovery::RecoveredVersions;
use crate::repair::blobs::BlobFiles;
use crate::repair::context::{Family, RepairContext};
use crate::repair::install::{Plan, PlannedFamily, install};
use crate::repair::logs::{self, FoundLog};
use crate::repair::merged_tables::{Input, Merge};
use crate::repair::repaired_tables::Outputs;
use crate::repair::report::{FileFate, RepairOutcome, RepairReport, RepairedFile};
use crate::repair::survey::Survey;
use crate::repair::tables::{self, FoundTable};

/// What to do about a table of the MANIFEST.
enum Finding {
    /// With the blobs that it refers to.
    Sound(References),
    /// A part of it can be read.
    Damaged(Input),
    Gone,
}

/// Repairs the database; `recovered` is the content of its MANIFEST.
///
/// # Errors
/// InvalidArgument and NotSupported, before anything is changed, for what cannot be kept; I/O.
pub(super) fn keep(
    context: &RepairContext<'_>,
    survey: &Survey,
    blobs: &mut BlobFiles,
    unlisted: &[FoundTable],
    recovered: &RecoveredVersions,
    report: &mut RepairReport,
) -> Result<()> {
    let mut families: BTreeMap<u32, Family> = families(context, recovered)?;
    report.column_families = families.values().map(|family| family.name.clone()).collect();
    let mut findings = BTreeMap::new();
    for (id, family) in &recovered.families {
        for (_, file) in family.version.all_files() {
            let finding = look(context, survey, blobs, (*id, &family.name, file), report)?;
            findings.insert(file.number, finding);
        }
    }
    blobs.end_survey();
    let blobs = &*blobs;
    let logs = logs::find(context, recovered.oldest_log())?;
    if logs.is_empty() {
        report.note(
            "there is no log: normal for checkpoints and backups, otherwise its data is lost",
        );
    }
    let convert = logs.iter().any(|log| !log.damage.is_empty());
    check_logs(if convert { &logs } else { &[] }, &mut families)?;
    for log in &logs {
        report.files.push(log.reported(convert, 0));
    }
    let listed = listed_blobs(recovered);
    let are_sound = findings.values().all(|finding| match finding {
        Finding::Sound(references) => references.files().all(|number| listed.contains(&number)),
        _ => false,
    });
    if convert || !are_sound || !blobs.are_whole(recovered) {
        report.outcome = RepairOutcome::Repaired;
        report.files.extend(
            unlisted
                .iter()
                .map(|table| table.reported(FileFate::NotUsed, "the MANIFEST does not name it")),
        );
        let change = Change {
            context,
            survey,
            blobs,
            unlisted,
            recovered,
            families,
            findings,
            logs,
            convert,
        };
        return survey.undoing(
            context,
            (recovered.db_id.as_deref(), recovered.next_file_number),
            |outputs| change.make(outputs, report),
        );
    }
    for (_, file) in recovered.families.values().flat_map(|family| family.version.all_files()) {
        report.tables += 1;
        report.table_bytes += file.file_size;
    }
    if survey.current.as_ref().ok() == Some(&recovered.manifest_number) {
        return Ok(());
    }
    report.outcome = RepairOutcome::CurrentRestored;
    filename::set_current_file(&**context.fs, context.dir, recovered.manifest_number, true)
}

/// Refuses logs whose keys cannot be those of their families.
fn check_logs(logs: &[FoundLog], families: &mut BTreeMap<u32, Family>) -> Result<()> {
    for (id, size) in logs.iter().flat_map(|log| &log.timestamp_sizes) {
        if let Some(family) = families.get_mut(id) {
            let own = family.options.comparator.timestamp_size();
            family.has_changed |= size.is_some_and(|size| size != own);
        }
    }
    logs::check(logs, families)
}

/// The blob files that the MANIFEST names.
fn listed_blobs(recovered: &RecoveredVersions) -> BTreeSet<FileNumber> {
    let families = recovered.families.values();
    families.flat_map(|family| family.version.blob_files().keys().copied()).collect()
}

fn families(
    context: &RepairContext<'_>,
    recovered: &RecoveredVersions,
) -> Result<BTreeMap<u32, Family>> {
    let family = |(id, found): (&u32, &crate::recovery::version_recovery::RecoveredFamily)| {
        let version = &found.version;
        let order = (version.time_order().name(), version.is_stripped());
        let mut family = context.family(*id, &found.name, Some(order))?;
        family.raise_low(version.full_history_ts_low().map(|low| &**low));
        Ok((*id, Family { log_number: found.log_number, ..family }))
    };
    recovered.families.iter().map(family).collect()
}

/// A file that the MANIFEST names and that is gone.
fn missing(name: &str, column_family: &str) -> RepairedFile {
    RepairedFile {
        name: name.to_string(),
        column_family: column_family.to_string(),
        fate: FileFate::Lost,
        entries: 0,
        entries_lost: None,
        reason: "it is missing".to_string(),
    }
}

/// Reads a table that the MANIFEST names.
fn look(
    context: &RepairContext<'_>,
    survey: &Survey,
    blobs: &BlobFiles,
    known: tables::Known<'_>,
    report: &mut RepairReport,
) -> Result<Finding> {
    let (_, family, meta) = known;
    let number = meta.number;
    let Some(path) = survey.tables.get(&number) else {
        report.old_data_may_return = true;
        report.files.push(missing(&filename::table_file_name(number), family));
        return Ok(Finding::Gone);
    };
    let mut found = tables::examine(context, blobs, path.clone(), number, Some(known))?;
    if found.bytes != meta.file_size && found.is_sound() {
        let text = format!("it has {} bytes, not {}", found.bytes, meta.file_size);
        found.contents = Err(pumice_base::Error::corruption(text));
    }
    let (finding, fate) = match &found.contents {
        Ok(contents) if contents.damage.is_empty() => {
            (Finding::Sound(contents.references.clone()), FileFate::Kept)
        }
        Ok(contents) if contents.entries > 0 => {
            let meta = Arc::new(meta.clone());
            let references = contents.references.clone();
            let path = path.clone();
            let input = Input { path, meta, known: true, rewrite: true, references };
            (Finding::Damaged(input), FileFate::Rewritten)
        }
        _ => (Finding::Gone, FileFate::Lost),
    };
    let lossless = |contents: &tables::Contents| contents.entries_lost == Some(0);
    report.old_data_may_return |= !found.contents.as_ref().is_ok_and(lossless);
    let mut file = found.reported(fate, &found.defect());
    file.column_family = family.to_string();
    report.files.push(file);
    Ok(finding)
}

struct Change<'a> {
    context: &'a RepairContext<'a>,
    survey: &'a Survey,
    blobs: &'a BlobFiles,
    unlisted: &'a [FoundTable],
    recovered: &'a RecoveredVersions,
    families: BTreeMap<u32, Family>,
    findings: BTreeMap<FileNumber, Finding>,
    logs: Vec<FoundLog>,
    convert: bool,
}

impl Change<'_> {
    fn make(&self, outputs: &mut Outputs<'_>, report: &mut RepairReport) -> Result<()> {
        let mut converted = match self.convert {
            true => logs::convert(self.context, outputs, &self.logs, &self.families)?,
            false => BTreeMap::new(),
        };
        let behind_logs = self.convert.then(|| outputs.new_number());
        let mut last_sequence = self.recovered.last_sequence;
        let mut planned = Vec::new();
        for (id, family) in &self.families {
            let version = &self.recovered.families[id].version;
            let mut files = Vec::new();
            for (level, file) in version.all_files() {
                if let Some(Finding::Sound(references)) = self.findings.get(&file.number) {
                    outputs.references.entry(*id).or_default().merge(references.clone());
                }
                files.extend(self.kept(outputs, family, level, file)?.map(|file| (level, file)));
            }
            let converted = converted.remove(id).unwrap_or_default();
            converted.note_left_out(&family.name, report);
            for (epoch, table) in (version.max_epoch_number() + 1..).zip(converted.tables) {
                last_sequence = last_sequence.max(table.largest_seq);
                let table = FileMetaData { epoch_number: epoch, ..(*table).clone() };
                files.push((0, Arc::new(table)));
            }
            let log_number = behind_logs.unwrap_or(family.log_number);
            let cursors = version.compact_cursors().iter();
            let mut family = Family { log_number, ..family.clone() };
            family.raise_low(converted.low.as_deref());
            planned.push(PlannedFamily {
                family,
                files,
                cursors: cursors.map(|(level, key)| (*level, key.clone())).collect(),
                blobs: self.blobs.plan(*id, outputs.references.entry(*id).or_default()),
            });
        }
        for (_, file) in planned.iter().flat_map(|family| &family.files) {
            report.tables += 1;
            report.table_bytes += file.file_size;
        }
        let mut retire = self.retired();
        retire.extend(self.blobs.retire(planned.iter().map(|family| &family.blobs), report));
        let plan = Plan {
            families: planned,
            min_log: behind_logs.unwrap_or(self.recovered.min_log_to_keep),
            new_log: behind_logs,
            last_sequence,
            max_family: self.recovered.max_column_family,
            db_id: self.recovered.db_id.clone(),
            retire,
            remove: Vec::new(),
        };
        install(self.context, outputs, &plan)
    }

    /// The table itself, or the rest of it, in its place.
    fn kept(
        &self,
        outputs: &mut Outputs<'_>,
        family: &Family,
        level: usize,
        file: &Arc<FileMetaData>,
    ) -> Result<Option<Arc<FileMetaData>>> {
        let input = match self.findings.get(&file.number) {
            Some(Finding::Sound(_)) => return Ok(Some(Arc::clone(file))),
            Some(Finding::Damaged(input)) => input,
            Some(Finding::Gone) | None => return Ok(None),
        };
        let mut merge = Merge::new(self.context, self.blobs, family, std::slice::from_ref(input))?;
        let tombstones = std::mem::take(&mut merge.tombstones);
        let written = outputs.write(family, level, None, &mut merge, tombstones)?;
        // Bounds and age stay the same, so that it keeps its place among its neighbours.
        let placed = written.into_iter().next().map(|new| FileMetaData {
            smallest: file.smallest.clone(),
            largest: file.largest.clone(),
            smallest_seq: file.smallest_seq,
            largest_seq: file.largest_seq,
            epoch_number: file.epoch_number,
            oldest_ancester_time: file.oldest_ancester_time,
            file_creation_time: file.file_creation_time,
            ..(*new).clone()
        });
        Ok(placed.map(Arc::new))
    }

    fn retired(&self) -> Vec<PathBuf> {
        let replaced = self.findings.iter().filter(|(_, f)| !matches!(f, Finding::Sound(_)));
        let mut retired: Vec<PathBuf> =
            replaced.filter_map(|(number, _)| self.survey.tables.get(number).cloned()).collect();
        retired.extend(self.unlisted.iter().map(|table| table.path.clone()));
        if self.convert {
            retired.extend(self.logs.iter().map(|log| log.path.clone()));
        }
        retired.extend(self.survey.manifest_paths(self.context));
        retired
    }
}
