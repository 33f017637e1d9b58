//! Point reads that end at a value in a blob file, or at an entity with columns in some.
//!
//! Thread safety: as the search. Reads blob files and so suspends.

use pumice_base::UserKey;

use super::{Answer, Lookup, Pin};
use crate::read::elsewhere::{BlobReads, Fetched};

impl Lookup<'_> {
    /// Processes the last version of the key's history, which may be in a blob file.
    #[cold]
    pub(super) fn take_elsewhere(&mut self, tag: u8, stored: &[u8], pin: Option<Pin<'_>>) {
        let timed = self.observers.times.is_some().then(|| self.key_of_blob());
        let key = timed.as_deref().map_or(self.key, UserKey::new);
        match self.values.fetch(&BlobReads::of(self.options), key, tag, stored) {
            Ok(None) => self.take_stored(tag, stored, pin),
            Ok(Some(found)) if self.operands.is_empty() && self.wants_whole(&found) => {
                self.entity = found.is_entity();
                self.answer = Answer::Found(found.value);
            }
            Ok(Some(found)) => {
                let (tag, stored) = found.stored();
                self.take_stored(tag, stored, None);
            }
            Err(error) => self.answer = Answer::Failed(error),
        }
    }

    fn wants_whole(&self, found: &Fetched) -> bool {
        self.columns || !found.is_entity()
    }
}
