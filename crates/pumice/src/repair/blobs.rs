//! Blob files in a repair: which are whole, and what becomes of the values in the others.
//!
//! A file is whole if header, footer and length are those of a finished file and, where a MANIFEST
//! lists it, of the one that it lists. Values in whole files stay where they are. What can still be
//! read of another file moves into the table that refers to it; an entry whose value cannot be read
//! is lost. Every value is read and checked.
//!
//! Thread safety: read only after `expect`. Suspends on I/O.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pumice_base::key::internal_key;
use pumice_base::wide_columns::{self, StoredColumn, WideColumn};
use pumice_base::{Error, FileNumber, InternalKey, Result, ValueType};
use pumice_env::filename;
use pumice_manifest::edit::{BlobFileAddition, BlobFileGarbage};
use pumice_table::blob::index::BlobIndex;

use crate::blob::file::BlobFile;
use crate::blob::references::{References, may_refer};
use crate::recovery::version_recovery::RecoveredVersions;
use crate::repair::context::RepairContext;
use crate::repair::report::{FileFate, RepairReport, RepairedFile};

/// The blob files of the directory.
pub(super) struct BlobFiles(BTreeMap<FileNumber, FoundBlobFile>);

struct FoundBlobFile {
    path: PathBuf,
    /// None if there is no such file, or it cannot be opened.
    file: Option<BlobFile>,
    is_there: bool,
    /// What it is as a part of the database; or why it is not whole.
    whole: Result<(u32, BlobFileAddition)>,
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
    /// Opens the files at these paths.
    pub fn open(context: &RepairContext<'_>, paths: &BTreeMap<FileNumber, PathBuf>) -> Self {
        let found = paths.iter().map(|(number, path)| (*number, open(context, *number, path)));
        BlobFiles(found.collect())
    }

    /// Holds the files to what a MANIFEST says of them.
    pub fn expect(&mut self, context: &RepairContext<'_>, recovered: &RecoveredVersions) {
        for (id, family) in &recovered.families {
            for (number, listed) in family.version.blob_files() {
                let found = self.0.entry(*number).or_insert_with(|| FoundBlobFile {
                    path: filename::blob_file(context.dir, *number),
                    file: None,
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
        listed.into_iter().all(|number| self.0.get(number).is_some_and(|file| file.whole.is_ok()))
    }

    /// What becomes of an entry of a table of `family`.
    pub fn settle(&self, family: u32, ikey: &[u8], value: &[u8]) -> Settled {
        let key = InternalKey::new(ikey);
        if !may_refer(key.tag(), value) {
            return Settled::Stays;
        }
        match self.moved(family, key, value) {
            Ok(None) => Settled::Stays,
            Ok(Some((kind, value))) => {
                let ikey = internal_key(key.user_key().as_bytes(), key.sequence(), kind);
                Settled::Moved(ikey, value)
            }
            Err(error) => Settled::Lost(error),
        }
    }

    /// Type and value of an entry with values in files that are not whole.
    fn moved(
        &self,
        family: u32,
        key: InternalKey<'_>,
        stored: &[u8],
    ) -> Result<Option<(ValueType, Vec<u8>)>> {
        let user_key = key.user_key().as_bytes();
        if key.tag() == ValueType::BlobIndex as u8 {
            let value = self.value(family, user_key, stored)?;
            return Ok(value.map(|value| (ValueType::Value, value)));
        }
        let columns = wide_columns::decode_stored(stored)?;
        let read = |stored: &StoredColumn<'_>| match stored.in_blob_file {
            true => self.value(family, user_key, stored.column.value),
            false => Ok(None),
        };
        let values = columns.iter().map(read).collect::<Result<Vec<_>>>()?;
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
            let entity = wide_columns::encode_stored(&changed)?;
            return Ok(Some((ValueType::WideColumnEntity, entity)));
        }
        let mut columns: Vec<_> = changed.into_iter().map(|stored| stored.column).collect();
        Ok(Some((ValueType::WideColumnEntity, wide_columns::encode(&mut columns)?)))
    }

    /// The value that an index refers to, unless it can stay where it is. It is read either way.
    fn value(&self, family: u32, key: &[u8], index: &[u8]) -> Result<Option<Vec<u8>>> {
        let index = BlobIndex::decode(index)?;
        let found = self.0.get(&index.file);
        let Some((found, file)) = found.and_then(|found| Some((found, found.file.as_ref()?)))
        else {
            return Err(Error::corruption(format!("{:06}.blob cannot be read", index.file)));
        };
        let mut value = Vec::new();
        file.read(key, &index, true, &mut value)?;
        let stays = found.whole.as_ref().is_ok_and(|(owner, _)| *owner == family);
        Ok((!stays).then_some(value))
    }

    /// The files that stay with `family`, to which its tables have these references, and what of
    /// them is garbage.
    pub fn plan(&self, family: u32, references: &References) -> PlannedBlobs {
        let mut planned = PlannedBlobs::default();
        for (number, found) in &self.0 {
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
        for (number, found) in &self.0 {
            let stays = kept.iter().any(|addition| addition.number == *number);
            let (fate, reason) = match (&found.whole, &found.file) {
                (Ok(_), _) if stays => (FileFate::Kept, String::new()),
                (Ok(_), _) => (FileFate::NotUsed, "no table refers to it".to_string()),
                (Err(error), Some(_)) => (FileFate::Rewritten, error.to_string()),
                (Err(error), None) => (FileFate::Lost, error.to_string()),
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

fn open(context: &RepairContext<'_>, number: FileNumber, path: &Path) -> FoundBlobFile {
    let path = path.to_path_buf();
    let (file, whole) = match context.fs.open_random(&path) {
        Ok(file) => BlobFile::salvage(file),
        Err(error) => return FoundBlobFile { path, file: None, is_there: true, whole: Err(error) },
    };
    let blob_bytes = file.record_bytes();
    let whole = whole.map(|ends| {
        let blob_count = ends.blobs;
        let addition =
            BlobFileAddition { number, blob_count, blob_bytes, ..BlobFileAddition::default() };
        (ends.family, addition)
    });
    FoundBlobFile { path, file: Some(file), is_there: true, whole }
}
