//! Lists the directory's files by name, and decides whether a MANIFEST can be trusted.
//!
//! A MANIFEST that can be read may still be old: its last changes may be cut off without a trace.
//! Then tables that it names are gone while others are there that it does not name; or the log that
//! it names is gone and a table has later entries than those that it names; or a file belongs to a
//! column family that was created later.
//!
//! Thread safety: plain data; only `undoing` writes. Suspends on I/O.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pumice_base::{Error, FileNumber, Result, SequenceNumber};
use pumice_env::filename::{self, FileType};

use crate::options::MAX_LEVELS;
use crate::recovery::version_recovery::{self, RecordedOrder, RecoveredVersions, Shape};
use crate::repair::blobs::BlobFiles;
use crate::repair::context::RepairContext;
use crate::repair::history::{History, is_refusal};
use crate::repair::install::LOST;
use crate::repair::logs;
use crate::repair::repaired_tables::Outputs;
use crate::repair::report::{FileFate, RepairReport, RepairedFile};
use crate::repair::tables::{self, FoundTable};

/// See the module head.
pub(super) struct Survey {
    pub tables: BTreeMap<FileNumber, PathBuf>,
    blob_paths: BTreeMap<FileNumber, PathBuf>,
    /// Ascending.
    pub manifests: Vec<FileNumber>,
    /// The MANIFEST that CURRENT names.
    pub current: Result<FileNumber>,
    /// No file has this number or a larger one.
    pub next_number: FileNumber,
}

impl Survey {
    /// Lists the directory.
    ///
    /// # Errors
    /// Corruption if no file belongs to a database; I/O.
    pub fn new(context: &RepairContext<'_>) -> Result<Self> {
        let (mut tables, mut blob_paths, mut manifests) =
            (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let mut largest = 0;
        let mut found = false;
        for name in context.fs.list(context.dir)? {
            let Some((number, kind)) = filename::parse(&name) else { continue };
            found |= !matches!(kind, FileType::Lock | FileType::InfoLog);
            match kind {
                FileType::Table => drop(tables.insert(number, context.dir.join(&name))),
                FileType::Descriptor => manifests.push(number),
                FileType::Blob => drop(blob_paths.insert(number, context.dir.join(&name))),
                FileType::InfoLog => continue,
                _ => {}
            }
            largest = largest.max(number);
        }
        for dir in [context.wal_dir.clone(), context.wal_dir.join(LOST), context.dir.join(LOST)] {
            for name in context.fs.list(&dir).unwrap_or_default() {
                // Names in `lost` may have a number after them.
                let parsed = filename::parse(&name).or_else(|| {
                    filename::parse(name.rsplit_once('.').map_or("", |(stem, _)| stem))
                });
                if let Some((number, kind)) = parsed.filter(|(_, kind)| *kind != FileType::InfoLog)
                {
                    found |= kind == FileType::Wal;
                    largest = largest.max(number);
                }
            }
        }
        if !found {
            return Err(Error::corruption(format!(
                "{}: repair found no files",
                context.dir.display()
            )));
        }
        manifests.sort_unstable();
        let next_number = version_recovery::check_found(largest, context.dir)? + 1;
        let current = version_recovery::current_manifest(&**context.fs, context.dir);
        Ok(Survey { tables, blob_paths, manifests, current, next_number })
    }

    /// The blob files of the directory.
    ///
    /// # Errors
    /// I/O.
    pub fn blobs(&self, context: &RepairContext<'_>) -> Result<BlobFiles> {
        BlobFiles::of(context, &self.blob_paths)
    }

    /// The MANIFEST to trust and the tables that it does not name; None if there is none, with the
    /// reason noted.
    ///
    /// # Errors
    /// InvalidArgument and NotSupported for what cannot be kept.
    pub fn believable(
        &self,
        context: &RepairContext<'_>,
        blobs: &BlobFiles,
        report: &mut RepairReport,
    ) -> Result<Option<(RecoveredVersions, Vec<FoundTable>)>> {
        if let Err(error) = &self.current {
            report.note(format!("CURRENT: {error}"));
        }
        let first = self.current.as_ref().copied().unwrap_or(0);
        let newer = self.manifests.iter().rev().filter(|number| **number > first);
        for number in self.current.iter().chain(newer) {
            let spec = |_: u32, name: &str, order: Option<RecordedOrder<'_>>| {
                let (comparator, stripped) = context.order_of(name, order)?;
                Ok(Some(Shape {
                    comparator,
                    stripped,
                    levels: MAX_LEVELS as usize,
                    may_overlap: false,
                }))
            };
            let fs = &**context.fs;
            match version_recovery::recover_manifest(fs, context.dir, *number, &spec) {
                Ok(recovered) => {
                    recovered.check_prepared(fs, &context.wal_dir)?;
                    let unlisted = self.unlisted(context, blobs, &recovered)?;
                    match self.out_of_date(context, &recovered, &unlisted)? {
                        None => return Ok(Some((recovered, unlisted))),
                        Some(why) => {
                            let name = filename::manifest_file_name(*number);
                            report.note(format!("{name} is out of date: {why}"));
                        }
                    }
                }
                Err(error) if is_refusal(&error) => return Err(error),
                Err(error) => {
                    report.note(format!("{}: {error}", filename::manifest_file_name(*number)));
                }
            }
        }
        Ok(None)
    }

    /// The tables that a MANIFEST does not name, without those of an unfinished repair.
    fn unlisted(
        &self,
        context: &RepairContext<'_>,
        blobs: &BlobFiles,
        recovered: &RecoveredVersions,
    ) -> Result<Vec<FoundTable>> {
        let listed = |number| {
            recovered.families.values().any(|f| f.version.find_by_number(number).is_some())
        };
        let mut unlisted = Vec::new();
        for (number, path) in self.tables.iter().filter(|(number, _)| !listed(**number)) {
            let table = tables::examine(context, blobs, path.clone(), *number, None)?;
            if !table.contents.as_ref().is_ok_and(|contents| contents.marked) {
                unlisted.push(table);
            }
        }
        Ok(unlisted)
    }

    /// Why the MANIFEST is older than the files; see the module head.
    fn out_of_date(
        &self,
        context: &RepairContext<'_>,
        recovered: &RecoveredVersions,
        unlisted: &[FoundTable],
    ) -> Result<Option<String>> {
        // A file that it has replaced itself is not a sign of a later change.
        let history = History::of(&**context.fs, context.dir, &[recovered.manifest_number]);
        let strange: Vec<_> = unlisted
            .iter()
            .filter(|table| !history.obsolete.contains(&table.number))
            .filter_map(|table| Some((table, table.contents.as_ref().ok()?)))
            .collect();
        let logs = logs::find(context, recovered.oldest_log())?;
        let in_tables = strange.iter().map(|(table, contents)| (&table.name, contents.family));
        let in_logs = logs.iter().flat_map(|log| log.entries.keys().map(|id| (&log.name, *id)));
        let later = |(_, id): &(&String, u32)| *id > recovered.max_column_family;
        if let Some((name, id)) = in_tables.chain(in_logs).find(later) {
            return Ok(Some(format!("it does not name column family {id}, but {name} does")));
        }
        let Some((table, _)) = strange.first() else { return Ok(None) };
        for (_, file) in recovered.families.values().flat_map(|f| f.version.all_files()) {
            if !self.tables.contains_key(&file.number) {
                let gone = filename::table_file_name(file.number);
                let text = format!("it names {gone}, which is missing, but not {}", table.name);
                return Ok(Some(text));
            }
        }
        let log = filename::log_file(&context.wal_dir, recovered.oldest_log());
        if context.fs.exists(&log)? {
            return Ok(None);
        }
        let newer = strange.iter().find(|(_, contents)| {
            let last = contents.meta.largest_seq;
            last > newest_of(recovered, contents.family) && !logs.iter().any(|log| log.covers(last))
        });
        Ok(newer.map(|(table, _)| {
            let log = log.file_name().unwrap_or_default().to_string_lossy().into_owned();
            format!("it names {log}, which is missing, but not {}, which is newer", table.name)
        }))
    }

    /// The MANIFESTs.
    pub fn manifest_paths(&self, context: &RepairContext<'_>) -> Vec<PathBuf> {
        let path = |number: &FileNumber| filename::manifest_file(context.dir, *number);
        self.manifests.iter().map(path).collect()
    }

    /// Calls `change`, which writes files; if it fails before CURRENT is reached, they are removed:
    /// the disk may be full of them.
    ///
    /// # Errors
    /// Of `change`; I/O.
    pub fn undoing(
        &self,
        context: &RepairContext<'_>,
        (db_id, next_file): (Option<&str>, FileNumber),
        change: impl FnOnce(&mut Outputs<'_>) -> Result<()>,
    ) -> Result<()> {
        let id = crate::version::identity::identity(&**context.fs, context.dir, db_id, true)?;
        let mut outputs = Outputs::new(context, &id, self.next_number.max(next_file));
        let changed = change(&mut outputs);
        if changed.is_err() {
            for path in &outputs.written {
                drop(context.fs.remove(path));
            }
        }
        changed
    }
}

/// The largest sequence number in the tables of a column family.
fn newest_of(recovered: &RecoveredVersions, family: u32) -> SequenceNumber {
    let version = recovered.families.get(&family).map(|family| &family.version);
    let files = version.into_iter().flat_map(|version| version.all_files());
    files.map(|(_, file)| file.largest_seq).max().unwrap_or(0)
}

impl FoundTable {
    /// The table in the report.
    pub fn reported(&self, fate: FileFate, reason: &str) -> RepairedFile {
        let contents = self.contents.as_ref().ok();
        RepairedFile {
            name: self.name.clone(),
            column_family: contents.map_or(String::new(), |c| c.family_name.clone()),
            fate,
            entries: contents.map_or(0, |contents| contents.entries),
            entries_lost: contents.and_then(|contents| contents.entries_lost),
            reason: reason.to_string(),
        }
    }
}

impl logs::FoundLog {
    /// The log in the report; `left_out` of its entries have no place in the database.
    pub fn reported(&self, convert: bool, left_out: u64) -> RepairedFile {
        RepairedFile {
            name: self.name.clone(),
            column_family: String::new(),
            fate: if convert { FileFate::Rewritten } else { FileFate::Kept },
            entries: self.count() - left_out,
            entries_lost: self.damage.is_empty().then_some(left_out),
            reason: self.damage.join("; "),
        }
    }
}
