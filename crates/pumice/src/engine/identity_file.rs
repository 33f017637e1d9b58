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
        let path = filename::identity_file(&self.dir.path);
        let same = self.dir.fs.exists(&path)?
            && self.dir.fs.read_file(&path)? == self.dir.db_id.as_bytes();
        if same || !self.options().write_identity_file {
            return Ok(());
        }
        let temp = filename::temp_file(&self.dir.path, 0);
        pumice_env::write_file(&*self.dir.fs, &temp, self.dir.db_id.as_bytes(), true)?;
        self.dir.fs.rename(&temp, &path)?;
        self.dir.fs.sync_dir(&self.dir.path)
    }
}
