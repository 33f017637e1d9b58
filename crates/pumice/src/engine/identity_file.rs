//! The file IDENTITY.
//!
//! Thread safety: called while the database is opened. Suspends on I/O.

use pumice_base::Result;
use pumice_env::{FileOptions, filename};

use crate::state::parts::Directory;

impl Directory {
    /// Writes the identity that the MANIFEST will have to IDENTITY, if `is_wanted`.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn write_identity(&self, is_wanted: bool, how: &FileOptions) -> Result<()> {
        let path = filename::identity_file(&self.path);
        let same = self.fs.exists(&path)? && self.fs.read_file(&path)? == self.db_id.as_bytes();
        if same || !is_wanted {
            return Ok(());
        }
        let temp = filename::temp_file(&self.path, 0);
        pumice_env::write_file_with(&*self.fs, &temp, self.db_id.as_bytes(), true, how)?;
        self.fs.rename(&temp, &path)?;
        self.fs.sync_dir(&self.path)
    }
}
