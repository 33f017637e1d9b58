//! Reading a MANIFEST without opening the database, and `manifest_dump`.
//!
//! Thread safety: plain data. Does not look at table files.

use super::data::no_words;
use super::open::text as failure;
use super::{Failure, Invocation};
use crate::output::Output;
use crate::text::show_plain;
use pumice_base::{Comparator, Error, ErrorKind, Result};
use pumice_env::filename::{self, FileType};
use pumice_env::{FileSystem, PosixFs};
use pumice_manifest::file_meta::debug_key;
use pumice_manifest::{FileMetaData, Version, VersionBuilder, VersionEdit};
use pumice_wal::{LogReader, LogReaderOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Levels of a version, as RocksDB's ldb prints them, when no file is on a deeper one.
const LEVELS: usize = 64;

/// Fields that a MANIFEST must have, in whichever edits, by RocksDB's names: files of other kinds,
/// which may look like logs without a record, have none of them.
const NEEDED: [&str; 3] = ["log_file_number", "next_file_number", "last_sequence"];

/// A column family as the MANIFEST leaves it.
pub struct Family {
    /// The family's name.
    pub name: String,
    /// Name of its key order; the default one if the MANIFEST is silent.
    pub comparator: String,
    /// Logs from this number on may have data of it.
    pub log_number: u64,
    /// The family's files.
    pub version: Arc<Version>,
}

/// The final state of a MANIFEST.
pub struct ManifestState {
    /// How many column families were ever there.
    created: u64,
    /// Column families by id.
    pub families: BTreeMap<u32, Family>,
    /// The next number for a file.
    pub next_file_number: u64,
    /// The last sequence number.
    pub last_sequence: u64,
    /// A number that only old databases use.
    pub prev_log_number: u64,
    /// The largest id of a column family.
    pub max_column_family: u32,
    /// Older logs are not needed.
    pub min_log_number_to_keep: u64,
}

/// The MANIFEST that CURRENT names.
///
/// # Errors
/// There is no CURRENT, or it names no MANIFEST.
pub fn current_manifest(fs: &dyn FileSystem, db: &Path) -> Result<PathBuf> {
    let path = filename::current_file(db);
    let bytes = fs.read_file(&path)?;
    let name = String::from_utf8_lossy(&bytes);
    match filename::parse(name.trim_end_matches('\n')) {
        Some((number, FileType::Descriptor)) => Ok(filename::manifest_file(db, number)),
        _ => Err(Error::corruption(format!("CURRENT file corrupted: {}", path.display()))),
    }
}

/// Calls `each` for every edit of the MANIFEST at `path`.
///
/// # Errors
/// Damage, I/O errors, and those of `each`.
pub fn for_each_edit(
    fs: &dyn FileSystem,
    path: &Path,
    mut each: impl FnMut(VersionEdit) -> Result<()>,
) -> Result<()> {
    let file = fs.open_sequential(path)?;
    let mut reader = LogReader::new(file, LogReaderOptions::manifest(), None);
    let mut record = Vec::new();
    while reader.read_record(&mut record)?.is_some() {
        if !record.is_empty() {
            each(VersionEdit::decode(&record)?)?;
        }
    }
    Ok(())
}

struct Growing {
    name: String,
    comparator: Option<String>,
    /// Its tables have keys without the timestamps of that order.
    stripped: bool,
    log_number: u64,
    edits: Vec<VersionEdit>,
}

impl ManifestState {
    /// Replays the MANIFEST at `path`.
    ///
    /// # Errors
    /// As [`for_each_edit`]; edits that contradict each other; an unknown comparator; files that
    /// overlap, unless they `may_overlap`.
    pub fn read(fs: &dyn FileSystem, path: &Path, may_overlap: bool) -> Result<ManifestState> {
        let (mut state, growing) = Self::replay(fs, path)?;
        for (id, family) in growing {
            state.families.insert(id, family.build(may_overlap)?);
        }
        Ok(state)
    }

    /// The state without its families, and the families before the check that their files do not
    /// contradict each other.
    fn replay(fs: &dyn FileSystem, path: &Path) -> Result<(ManifestState, BTreeMap<u32, Growing>)> {
        let grow = |name: String| Growing {
            name,
            comparator: None,
            stripped: false,
            log_number: 0,
            edits: Vec::new(),
        };
        let mut growing = BTreeMap::from([(0u32, grow("default".into()))]);
        let mut state = ManifestState {
            created: 1,
            families: BTreeMap::new(),
            next_file_number: 0,
            last_sequence: 0,
            prev_log_number: 0,
            max_column_family: 0,
            min_log_number_to_keep: 0,
        };
        let mut seen = [false; 3];
        for_each_edit(fs, path, |edit| {
            state.note(&edit);
            seen[0] |= edit.log_number.is_some();
            seen[1] |= edit.next_file_number.is_some();
            seen[2] |= edit.last_sequence.is_some();
            let id = edit.column_family;
            if let Some(name) = &edit.add_column_family {
                state.created += 1;
                growing.insert(id, grow(name.clone()));
            }
            if edit.drop_column_family {
                growing.remove(&id);
            } else if let Some(family) = growing.get_mut(&id) {
                family.log_number = edit.log_number.unwrap_or(family.log_number);
                if edit.comparator.is_some() {
                    family.comparator.clone_from(&edit.comparator);
                    family.stripped = edit.persist_user_defined_timestamps == Some(false);
                }
                family.edits.push(edit);
            }
            Ok(())
        })?;
        let missing = |(name, seen): (_, bool)| (!seen).then_some(name);
        let missing: Vec<&str> = NEEDED.into_iter().zip(seen).filter_map(missing).collect();
        match missing.is_empty() {
            true => Ok((state, growing)),
            false => Err(Error::corruption(format!("no {} entry in MANIFEST", missing.join(", ")))),
        }
    }

    fn note(&mut self, edit: &VersionEdit) {
        self.next_file_number = edit.next_file_number.unwrap_or(self.next_file_number);
        self.last_sequence = edit.last_sequence.unwrap_or(self.last_sequence);
        self.prev_log_number = edit.prev_log_number.unwrap_or(self.prev_log_number);
        self.max_column_family = edit.max_column_family.unwrap_or(self.max_column_family);
        let min_log = edit.min_log_number_to_keep.unwrap_or(0);
        self.min_log_number_to_keep = self.min_log_number_to_keep.max(min_log);
    }

    /// Prints the versions that it ends with; keys as hexadecimal digits if `hex`.
    pub fn print(&self, hex: bool, out: &mut Output) {
        // RocksDB numbers the versions that it makes: an empty one of each family, then these.
        for (version, (id, family)) in (self.created..).zip(&self.families) {
            out.text(&format!(
                "--------------- Column family \"{}\"  (ID {id}) --------------\n\
                 log number: {}\ncomparator: {}\n",
                family.name, family.log_number, family.comparator
            ));
            for level in family.version.levels() {
                out.text(&format!("--- level {} --- version# {version} ---\n", level.number()));
                for file in level.files() {
                    out.text(&describe(file, hex));
                }
            }
            print_blob_files(&family.version, version, out);
        }
        out.text(&format!(
            "next_file_number {} last_sequence {}  prev_log_number {} max_column_family {} \
             min_log_number_to_keep {}\n",
            // As RocksDB's counter is after reading it.
            self.next_file_number.saturating_add(1),
            self.last_sequence,
            self.prev_log_number,
            self.max_column_family,
            self.min_log_number_to_keep,
        ));
    }

    /// All live table files, with the names of their column families.
    pub fn files_by_family(&self) -> impl Iterator<Item = (&str, &Arc<FileMetaData>)> {
        self.families.values().flat_map(|family| {
            family.version.all_files().map(|(_, file)| (family.name.as_str(), file))
        })
    }

    /// All live table files.
    pub fn files(&self) -> impl Iterator<Item = &Arc<FileMetaData>> {
        self.families.values().flat_map(|family| family.version.all_files().map(|(_, file)| file))
    }
}

/// The blob files of a version, each with the tables that name it as their oldest.
fn print_blob_files(version: &Version, number: u64, out: &mut Output) {
    if !version.blob_files().is_empty() {
        out.text(&format!("--- blob files --- version# {number} ---\n"));
    }
    for file in version.blob_files().values() {
        let added = file.addition();
        let linked = version.all_files().map(|(_, table)| table);
        let linked = linked.filter(|table| table.oldest_blob_file_number == added.number);
        let linked: String = linked.map(|table| format!("{} ", table.number)).collect();
        out.text(&format!(
            "blob_file_number: {} total_blob_count: {} total_blob_bytes: {} checksum_method: {} \
             checksum_value: {} linked_ssts: {{ {linked}}} garbage_blob_count: {} \
             garbage_blob_bytes: {}\n",
            added.number,
            added.blob_count,
            added.blob_bytes,
            added.checksum_method,
            String::from_utf8_lossy(&show_plain(&added.checksum_value, true)),
            file.garbage_count,
            file.garbage_bytes,
        ));
    }
}

/// The files of a MANIFEST, even of one whose files overlap where they must not.
pub struct Places {
    /// Column families by id: name and files.
    pub families: BTreeMap<u32, (String, VersionBuilder)>,
    /// The next number for a file.
    pub next_file_number: u64,
}

impl Places {
    /// Replays the MANIFEST at `path`.
    ///
    /// # Errors
    /// As [`ManifestState::read`], but for files that overlap.
    pub fn read(fs: &dyn FileSystem, path: &Path) -> Result<Places> {
        let (state, growing) = ManifestState::replay(fs, path)?;
        let mut families = BTreeMap::new();
        for (id, family) in growing {
            let (_, files) = family.builder()?;
            families.insert(id, (family.name.clone(), files));
        }
        Ok(Places { families, next_file_number: state.next_file_number })
    }
}

impl Growing {
    /// The name of its comparator, and its files before any check.
    fn builder(&self) -> Result<(String, VersionBuilder)> {
        let default = || Comparator::default().name().into();
        let comparator: String = self.comparator.clone().unwrap_or_else(default);
        let order = Comparator::builtin(&comparator).ok_or_else(|| {
            Error::not_supported(format!(
                "comparator {comparator} of {} is not built in",
                self.name
            ))
        })?;
        let deepest = self.edits.iter().filter_map(VersionEdit::max_level).max().unwrap_or(0);
        let levels = LEVELS.max(deepest + 1);
        let stripped = self.stripped && order.timestamp_size() > 0;
        let empty = Version::of_family(&order, stripped, levels);
        let mut builder = VersionBuilder::new(empty);
        for edit in &self.edits {
            builder.apply(edit)?;
        }
        Ok((comparator, builder))
    }

    fn build(self, may_overlap: bool) -> Result<Family> {
        let (comparator, builder) = self.builder()?;
        Ok(Family {
            name: self.name,
            comparator,
            log_number: self.log_number,
            version: builder.may_overlap(may_overlap).build()?,
        })
    }
}

/// `manifest_dump`
pub fn manifest_dump(it: &Invocation, out: &mut Output) -> std::result::Result<(), Failure> {
    no_words(it, "manifest_dump")?;
    let fs = PosixFs::shared();
    let path = match it.arguments.path("path") {
        Some(path) => path.to_path_buf(),
        // RocksDB's checks for the file itself, and not for what CURRENT names.
        None if !fs.exists(&it.db).map_err(failure)? => {
            return Err(format!("NotFound: : Failed to list the content of {}", it.db.display()));
        }
        None => current_manifest(&*fs, &it.db).map_err(failure)?,
    };
    let wrong = |error: Error| {
        let place = match error.kind() {
            ErrorKind::Corruption => format!(" in file {}", path.display()),
            _ => String::new(),
        };
        format!("Error in processing file {} {}{place}", path.display(), failure(error))
    };
    let (verbose, json) = (it.arguments.flag("verbose"), it.arguments.flag("json"));
    if verbose {
        out.text(&format!("Processing Manifest file {}\n", path.display()));
    }
    if verbose || json {
        let mut number = 0;
        let printed = for_each_edit(&*fs, &path, |edit| {
            match json {
                true => out.text(&format!("{}\n", edit.debug_json(number, it.key_hex))),
                false => out.text(&edit.debug_string(it.key_hex)),
            }
            number += 1;
            Ok(())
        });
        printed.map_err(&wrong)?;
    }
    let state = ManifestState::read(&*fs, &path, it.may_overlap()).map_err(&wrong)?;
    state.print(it.key_hex, out);
    if verbose {
        out.text(&format!("Processing Manifest file {} done\n", path.display()));
    }
    Ok(())
}

/// ` 25:1006[4 .. 6]['c' seq:4, type:1 .. 'e' seq:6, type:1]`
fn describe(file: &FileMetaData, hex: bool) -> String {
    let blobs = match file.oldest_blob_file_number {
        0 => String::new(),
        oldest => format!(" blob_file:{oldest}"),
    };
    format!(
        " {}:{}[{} .. {}][{} .. {}]{blobs}\n",
        file.number,
        file.file_size,
        file.smallest_seq,
        file.largest_seq,
        debug_key(&file.smallest, hex),
        debug_key(&file.largest, hex)
    )
}
