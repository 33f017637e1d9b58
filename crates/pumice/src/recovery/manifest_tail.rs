//! Follows the versions that a MANIFEST describes while its owner changes them.
//!
//! Reads only what is new, and builds only the families that changed. It follows one file: once
//! CURRENT names another one, a new tail must be opened, which takes over the metadata of unchanged
//! files.
//!
//! Thread safety: one owner. Writes nothing. Suspends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Weak;

use pumice_base::{FileNumber, Result};
use pumice_env::{FileSystem, filename};
use pumice_manifest::FileMetaData;

use crate::recovery::manifest_reader::GrowingManifest;
use crate::recovery::version_recovery::{
    FamilySpec, ManifestReplay, RecoveredVersions, current_manifest, in_file,
};

/// See the module head.
pub(crate) struct ManifestTail {
    path: PathBuf,
    number: FileNumber,
    file: GrowingManifest,
    replay: ManifestReplay,
}

impl ManifestTail {
    /// The MANIFEST that CURRENT names; nothing of it is read yet.
    ///
    /// # Errors
    /// I/O; Corruption of CURRENT.
    pub fn open(
        fs: &dyn FileSystem,
        dir: &Path,
        known: BTreeMap<FileNumber, Weak<FileMetaData>>,
    ) -> Result<Self> {
        let number = current_manifest(fs, dir)?;
        let path = filename::manifest_file(dir, number);
        let file = GrowingManifest::open(fs, &path)?;
        Ok(ManifestTail { path, number, file, replay: ManifestReplay::new(known) })
    }

    /// CURRENT names it, it is still the same file, and it can be read further.
    pub fn is_current(&self, fs: &dyn FileSystem, dir: &Path) -> bool {
        self.file.dropped().is_none()
            && current_manifest(fs, dir).is_ok_and(|number| number == self.number)
            && self.file.is_in_place(fs)
    }

    /// Reads what is new and returns the database as of then. After an error it must not be used
    /// any more.
    ///
    /// # Errors
    /// Corruption naming the file; I/O; errors of `spec`.
    pub fn read_on(
        &mut self,
        fs: &dyn FileSystem,
        spec: &FamilySpec<'_>,
    ) -> Result<RecoveredVersions> {
        let replay = &mut self.replay;
        self.file
            .read_on(fs, &mut |edit| replay.take(edit))
            .map_err(|e| if e.is_corruption() { in_file(&e, &self.path) } else { e })?;
        let versions = replay.versions(&self.path, self.number, spec)?;
        Ok(RecoveredVersions { dropped: self.file.dropped().cloned(), ..versions })
    }
}
