//! `verify_manifest_content_on_close`: the MANIFEST is read back before it is closed.
//!
//! Thread safety: on the task that closes the database, when no job runs any more.

use pumice_base::{Error, Result};
use pumice_env::filename;
use pumice_manifest::VersionEdit;
use pumice_wal::{LogReader, LogReaderOptions, LogWriter, WalRecoveryMode};

use crate::engine::DbInner;
use crate::state::manifest_log::ManifestLog;

impl DbInner {
    /// Reads the MANIFEST, if this open has written one: a damaged one is replaced by a new one out
    /// of memory, which is read too. Suspends.
    ///
    /// # Errors
    /// I/O; Corruption if the new one is damaged too.
    pub(super) fn check_manifest_content(&self) -> Result<()> {
        let mut manifest = self.manifest.lock();
        if !self.options().verify_manifest_content_on_close || manifest.writer.is_none() {
            return Ok(());
        }
        let Err(damage) = self.read_manifest_back(&manifest)? else { return Ok(()) };
        self.reports.info(format_args!("the MANIFEST is damaged and written anew: {damage}"));
        manifest.writer = None;
        let nothing = VersionEdit::default();
        self.versions().apply_edits(&mut manifest, nothing.into(), |_| ())?;
        self.read_manifest_back(&manifest)?
    }

    /// Whether each record of the MANIFEST is whole and says something, and none is missing at its
    /// end, or what is wrong.
    ///
    /// # Errors
    /// It cannot be opened.
    fn read_manifest_back(&self, manifest: &ManifestLog) -> Result<Result<()>> {
        let path = filename::manifest_file(&self.dir.path, manifest.number);
        let written = manifest.writer.as_ref().map_or(0, LogWriter::file_size);
        let file = self.dir.fs.open_sequential(&path)?;
        let recovery_mode = WalRecoveryMode::AbsoluteConsistency;
        let options = LogReaderOptions { recovery_mode, ..LogReaderOptions::manifest() };
        let mut reader = LogReader::new(file, options, None);
        let (mut record, mut end) = (Vec::new(), 0);
        Ok(loop {
            match reader.read_record(&mut record) {
                Ok(None) if end == written => break Ok(()),
                Ok(None) => {
                    let text = format!("records end at {end}, {written} bytes were written");
                    break Err(Error::corruption(text));
                }
                Ok(Some(info)) => {
                    end = info.end;
                    if let Err(damage) = VersionEdit::decode(&record) {
                        break Err(damage);
                    }
                }
                Err(damage) => break Err(damage),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use pumice_env::write_file;

    use crate::{Db, FileSystem, MemFs, Options};

    fn opened(fs: &Arc<dyn FileSystem>, verify: bool) -> Db {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = Arc::clone(fs);
        options.db.verify_manifest_content_on_close = verify;
        Db::open(&options, "/db").unwrap()
    }

    /// The MANIFEST that CURRENT names.
    fn manifest(fs: &Arc<dyn FileSystem>) -> PathBuf {
        let name = String::from_utf8(fs.read_file(Path::new("/db/CURRENT")).unwrap()).unwrap();
        Path::new("/db").join(name.trim())
    }

    /// Changes the MANIFEST of an open database, and closes it.
    fn damaged(fs: &Arc<dyn FileSystem>, verify: bool, damage: impl Fn(&mut Vec<u8>)) {
        let db = opened(fs, verify);
        for key in 0..20 {
            db.put(format!("{key}"), "value").unwrap();
            db.flush().unwrap();
        }
        let path = manifest(fs);
        let mut bytes = fs.read_file(&path).unwrap();
        damage(&mut bytes);
        write_file(&**fs, &path, &bytes, true).unwrap();
        db.close().unwrap();
        assert_eq!(manifest(fs) != path, verify, "it is replaced");
    }

    #[pumice_test_macros::test]
    fn a_damaged_manifest_is_replaced_at_the_close() {
        let middle = |bytes: &mut Vec<u8>| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        };
        let fs: Arc<dyn FileSystem> = MemFs::new(1).shared();
        damaged(&fs, true, middle);
        let db = opened(&fs, false);
        assert_eq!(db.iter().unwrap().count(), 20);
        db.close().unwrap();
        let fs: Arc<dyn FileSystem> = MemFs::new(1).shared();
        damaged(&fs, false, middle);
        let mut options = Options::default();
        options.db.file_system = fs;
        assert!(Db::open(&options, "/db").is_err(), "it is damaged");
    }

    /// What is left of it is sound: only its length says that flushed data is lost.
    #[pumice_test_macros::test]
    fn one_without_its_last_records_is_replaced_at_the_close() {
        for left in [0, 1, 3] {
            let fs: Arc<dyn FileSystem> = MemFs::new(1).shared();
            damaged(&fs, true, |bytes| {
                let ends = ends_of_records(bytes);
                bytes.truncate(ends[ends.len() * left / 4]);
            });
            let db = opened(&fs, false);
            assert_eq!(db.iter().unwrap().count(), 20, "{left} fourths are left");
            db.close().unwrap();
        }
    }

    fn ends_of_records(bytes: &[u8]) -> Vec<usize> {
        let mut ends = vec![0];
        while let Some(&[_, _, _, _, low, high, ..]) = bytes.get(ends[ends.len() - 1]..) {
            let length = usize::from(u16::from_le_bytes([low, high]));
            ends.push(ends[ends.len() - 1] + 7 + length);
        }
        ends
    }

    #[pumice_test_macros::test]
    fn one_that_is_whole_stays() {
        let fs: Arc<dyn FileSystem> = MemFs::new(1).shared();
        let db = opened(&fs, true);
        db.put("a", "1").unwrap();
        db.flush().unwrap();
        let path = manifest(&fs);
        db.close().unwrap();
        assert_eq!(manifest(&fs), path);
        // One that is missing cannot be read, which the close says.
        let db = opened(&fs, true);
        db.put("b", "2").unwrap();
        db.flush().unwrap();
        fs.remove(&manifest(&fs)).unwrap();
        assert!(db.close().is_err());
    }
}
