//! Blob files in a repair: which are whole, and what becomes of the values in the others.
//!
//! A file is whole if header, footer and length are those of a finished file and, where a MANIFEST
//! lists it, of the one that it lists. Values in whole files stay where they are. What can still be
//! read of another file moves into the table that refers to it; an entry whose value cannot be read
//! is lost. Every value is read and checked.
//!
//! What cannot be opened for another reason than that it is damaged or gone, as when there are no
//! descriptors left, ends the repair: nothing is lost for that.
//!
//! Thread safety: one user. Few files are open at a time. Suspends on I/O.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use pumice_base::key::internal_key;
use pumice_base::wide_columns::{self, StoredColumn, WideColumn};
use pumice_base::{Error, ErrorKind, FileNumber, InternalKey, Result, ValueType};
use pumice_env::{FileSystem, filename};
use pumice_manifest::edit::{BlobFileAddition, BlobFileGarbage};
use pumice_table::Table;
use pumice_table::blob::index::BlobIndex;

use crate::blob::file::BlobFile;
use crate::blob::record_key::RecordKey;
use crate::blob::references::{References, may_refer};
use crate::callbacks::key_forms::KeyForms;
use crate::recovery::version_recovery::RecoveredVersions;
use crate::repair::context::RepairContext;
use crate::repair::report::{FileFate, RepairReport, RepairedFile};

/// Blob files that are open at a time.
const OPEN_FILES: usize = 16;

/// The blob files of the directory.
pub(super) struct BlobFiles {
    fs: Arc<dyn FileSystem>,
    found: BTreeMap<FileNumber, FoundBlobFile>,
    open: RefCell<BTreeMap<FileNumber, Rc<BlobFile>>>,
    /// Values, by file and offset, that could not be read when the tables were examined.
    lost: RefCell<BTreeSet<(FileNumber, u64)>>,
    /// All tables were examined: what is lost is reported.
    examined: bool,
}

struct FoundBlobFile {
    path: PathBuf,
    is_there: bool,
    /// What it is as a part of the database; or why it is not whole.
    whole: Result<(u32, BlobFileAddition)>,
}

/// Whose values are read.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub family: u32,
    pub keys: KeyForms,
}

/// The table that has an entry.
#[derive(Clone, Copy)]
pub(super) struct Holder<'a> {
    pub table: &'a Table,
    /// Its entries stay in it, and with them what they refer to in it.
    pub stays: bool,
}

/// What becomes of an entry.
pub(super) enum Settled {
    /// It stays as it is.
    Stays,
    /// Its key and its value, all of which is now in the table.
    Moved(Vec<u8>, Vec<u8>),
    /// Its value cannot be read.
    Lost(Error),
}

/// Blob files of a column family of the repaired database.
#[derive(Default)]
pub(super) struct PlannedBlobs {
    pub additions: Vec<BlobFileAddition>,
    pub garbage: Vec<BlobFileGarbage>,
}

impl BlobFiles {
    /// Looks at the files at these paths.
    ///
    /// # Errors
    /// I/O.
    pub fn of(context: &RepairContext<'_>, paths: &BTreeMap<FileNumber, PathBuf>) -> Result<Self> {
        let look = |(number, path): (&FileNumber, &PathBuf)| {
            look(context, *number, path).map(|found| (*number, found))
        };
        Ok(BlobFiles {
            fs: Arc::clone(context.fs),
            found: paths.iter().map(look).collect::<Result<_>>()?,
            open: RefCell::default(),
            lost: RefCell::default(),
            examined: false,
        })
    }

    /// From now on a value that is lost and was not before ends the repair: the report has only
    /// those.
    pub fn end_survey(&mut self) {
        self.examined = true;
    }

    /// Holds the files to what a MANIFEST says of them.
    pub fn expect(&mut self, context: &RepairContext<'_>, recovered: &RecoveredVersions) {
        for (id, family) in &recovered.families {
            for (number, listed) in family.version.blob_files() {
                let found = self.found.entry(*number).or_insert_with(|| FoundBlobFile {
                    path: filename::blob_file(context.dir, *number),
                    is_there: false,
                    whole: Err(Error::corruption("it is missing")),
                });
                let listed = listed.addition();
                let Ok((owner, addition)) = &mut found.whole else { continue };
                let same = (listed.blob_count, listed.blob_bytes)
                    == (addition.blob_count, addition.blob_bytes);
                if *owner != *id || !same {
                    let text = format!(
                        "it has {} blobs of column family {owner} in {} bytes, \
                         not {} of {id} in {}",
                        addition.blob_count,
                        addition.blob_bytes,
                        listed.blob_count,
                        listed.blob_bytes
                    );
                    found.whole = Err(Error::corruption(text));
                    continue;
                }
                *addition = listed.clone();
            }
        }
    }

    /// All files that the MANIFEST lists are whole.
    pub fn are_whole(&self, recovered: &RecoveredVersions) -> bool {
        let listed = recovered.families.values().flat_map(|f| f.version.blob_files().keys());
        let whole = |number: &u64| self.found.get(number).is_some_and(|file| file.whole.is_ok());
        listed.into_iter().all(whole)
    }

    /// What becomes of an entry of a table of `owner`.
    ///
    /// # Errors
    /// What says nothing about the file: that it cannot be opened, a lack of memory, a codec that
    /// this build does not have. The repair ends.
    pub fn settle(
        &self,
        owner: Owner,
        holder: Holder<'_>,
        ikey: &[u8],
        value: &[u8],
    ) -> Result<Settled> {
        let key = InternalKey::new(ikey);
        if !may_refer(key.tag(), value) {
            return Ok(Settled::Stays);
        }
        match self.moved(owner, holder, key, value) {
            Ok(None) => Ok(Settled::Stays),
            Ok(Some((kind, value))) => {
                let ikey = internal_key(key.user_key().as_bytes(), key.sequence(), kind);
                Ok(Settled::Moved(ikey, value))
            }
            Err(Unread::Lost(error)) => Ok(Settled::Lost(error)),
            Err(Unread::Ends(error)) => Err(error),
        }
    }

    /// Type and value of an entry with values in files that are not whole, or that it leaves.
    fn moved(
        &self,
        owner: Owner,
        holder: Holder<'_>,
        key: InternalKey<'_>,
        stored: &[u8],
    ) -> std::result::Result<Option<(ValueType, Vec<u8>)>, Unread> {
        let user_key = &RecordKey::of(owner.keys, key.user_key());
        if key.tag() == ValueType::BlobIndex as u8 {
            let value = self.value(owner.family, holder, user_key, stored)?;
            return Ok(value.map(|value| (ValueType::Value, value)));
        }
        let columns = wide_columns::decode_stored(stored).map_err(Unread::Lost)?;
        let read = |stored: &StoredColumn<'_>| match stored.in_blob_file {
            true => self.value(owner.family, holder, user_key, stored.column.value),
            false => Ok(None),
        };
        let values = columns.iter().map(read).collect::<std::result::Result<Vec<_>, _>>()?;
        if values.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut changed = Vec::with_capacity(columns.len());
        for (stored, value) in columns.iter().zip(&values) {
            let StoredColumn { column, in_blob_file } = stored;
            changed.push(StoredColumn {
                column: WideColumn::new(column.name, value.as_deref().unwrap_or(column.value)),
                in_blob_file: *in_blob_file && value.is_none(),
            });
        }
        if changed.iter().any(|stored| stored.in_blob_file) {
            let entity = wide_columns::encode_stored(&changed).map_err(Unread::Ends)?;
            return Ok(Some((ValueType::WideColumnEntity, entity)));
        }
        let mut columns: Vec<_> = changed.into_iter().map(|stored| stored.column).collect();
        let entity = wide_columns::encode(&mut columns).map_err(Unread::Ends)?;
        Ok(Some((ValueType::WideColumnEntity, entity)))
    }

    /// The value that an index refers to, unless it can stay where it is. It is read either way.
    fn value(
        &self,
        family: u32,
        holder: Holder<'_>,
        key: &RecordKey<'_>,
        index: &[u8],
    ) -> std::result::Result<Option<Vec<u8>>, Unread> {
        let index = BlobIndex::decode(index).map_err(Unread::Lost)?;
        if index.in_table {
            let value = holder.table.embedded_blob(&index, true);
            let value = value.map_err(|error| self.unread(&index, error))?;
            return Ok((!holder.stays).then_some(value));
        }
        let Some(found) = self.found.get(&index.file).filter(|found| found.is_there) else {
            let text = format!("{:06}.blob is missing", index.file);
            return Err(Unread::Lost(Error::corruption(text)));
        };
        let mut value = Vec::new();
        let file = self.file(index.file, found).map_err(Unread::Ends)?;
        if let Err(error) = file.read(key, &index, true, &mut value) {
            return Err(self.unread(&index, error));
        }
        let stays = found.whole.as_ref().is_ok_and(|(owner, _)| *owner == family);
        Ok((!stays).then_some(value))
    }

    /// What an error of a read means for the value.
    fn unread(&self, index: &BlobIndex, error: Error) -> Unread {
        let of_file = matches!(error.kind(), ErrorKind::Corruption | ErrorKind::IoError);
        let mut lost = self.lost.borrow_mut();
        let place = (index.file, index.offset);
        match of_file && (!self.examined || lost.contains(&place)) {
            true => {
                lost.insert(place);
                Unread::Lost(error)
            }
            false => Unread::Ends(error),
        }
    }

    fn file(&self, number: FileNumber, found: &FoundBlobFile) -> Result<Rc<BlobFile>> {
        let mut open = self.open.borrow_mut();
        if let Some(file) = open.get(&number) {
            return Ok(Rc::clone(file));
        }
        if open.len() >= OPEN_FILES {
            open.pop_first();
        }
        let (file, _) = BlobFile::salvage(self.fs.open_random(&found.path)?);
        let file = Rc::new(file);
        open.insert(number, Rc::clone(&file));
        Ok(file)
    }

    /// The files that stay with `family`, to which its tables have these references, and what of
    /// them is garbage.
    pub fn plan(&self, family: u32, references: &References) -> PlannedBlobs {
        let mut planned = PlannedBlobs::default();
        for (number, found) in &self.found {
            let Ok((owner, addition)) = &found.whole else { continue };
            let used = references.of(*number);
            if *owner != family || used.count == 0 {
                continue;
            }
            planned.additions.push(addition.clone());
            let garbage = BlobFileGarbage {
                number: *number,
                garbage_count: addition.blob_count.saturating_sub(used.count),
                garbage_bytes: addition.blob_bytes.saturating_sub(used.bytes),
            };
            planned.garbage.extend((garbage.garbage_count > 0).then_some(garbage));
        }
        planned
    }

    /// Reports the files, of which those that are `planned` stay; returns the others that exist.
    pub fn retire<'a>(
        &self,
        planned: impl Iterator<Item = &'a PlannedBlobs>,
        report: &mut RepairReport,
    ) -> Vec<PathBuf> {
        let kept: Vec<_> = planned.flat_map(|planned| &planned.additions).collect();
        let mut retired = Vec::new();
        for (number, found) in &self.found {
            let stays = kept.iter().any(|addition| addition.number == *number);
            let (fate, reason) = match &found.whole {
                Ok(_) if stays => (FileFate::Kept, String::new()),
                Ok(_) => (FileFate::NotUsed, "no table refers to it".to_string()),
                Err(error) if found.is_there => (FileFate::Rewritten, error.to_string()),
                Err(error) => (FileFate::Lost, error.to_string()),
            };
            report.files.push(RepairedFile {
                name: filename::blob_file_name(*number),
                column_family: String::new(),
                fate,
                entries: 0,
                entries_lost: (fate != FileFate::Lost).then_some(0), // Tables count them.
                reason,
            });
            retired.extend((!stays && found.is_there).then(|| found.path.clone()));
        }
        retired
    }
}

/// Why a value is not there.
enum Unread {
    /// It cannot be read.
    Lost(Error),
    /// That is not known.
    Ends(Error),
}

fn look(context: &RepairContext<'_>, number: FileNumber, path: &Path) -> Result<FoundBlobFile> {
    let (file, whole) = BlobFile::salvage(context.fs.open_random(path)?);
    let blob_bytes = file.record_bytes();
    let whole = whole.map(|ends| {
        let blob_count = ends.blobs;
        let addition =
            BlobFileAddition { number, blob_count, blob_bytes, ..BlobFileAddition::default() };
        (ends.family, addition)
    });
    Ok(FoundBlobFile { path: path.to_path_buf(), is_there: true, whole })
}
