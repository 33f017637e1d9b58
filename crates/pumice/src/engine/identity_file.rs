//! The file IDENTITY.
//!
//! Thread safety: called while the database is opened. Suspends on I/O.

use pumice_base::Result;
use pumice_env::filename;

use crate::engine::DbInner;

impl DbInner {
    /// Makes the file IDENTITY say what the MANIFEST will say.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn write_identity(&self) -> Result<()> {
        let path = filename::identity_file(&self.path);
        let same = self.fs.exists(&path)? && self.fs.read_file(&path)? == self.db_id.as_bytes();
        if same || !self.options().write_identity_file {
            return Ok(());
        }
        let temp = filename::temp_file(&self.path, 0);
        pumice_env::write_file(&*self.fs, &temp, self.db_id.as_bytes(), true)?;
        self.fs.rename(&temp, &path)?;
        self.fs.sync_dir(&self.path)
    }
}
