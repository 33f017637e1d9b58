//! Cursors that show keys of one prefix only.
//!
//! Thread safety and suspension: the cursor's.

use pumice_base::UserKey;

use super::DbIterator;

impl DbIterator {
    pub(super) fn set_start_prefix(&mut self, target: &[u8]) {
        if let Some(extractor) = &self.limits.prefix
            && let Some(prefix) = extractor.prefix(target)
        {
            self.buffers.start_prefix.clear();
            self.buffers.start_prefix.extend_from_slice(prefix);
            self.at.has_start_prefix = true;
        }
    }

    /// After an open-ended seek the prefix is that of the key found.
    pub(super) fn remember_prefix(&mut self) {
        if self.limits.prefix.is_some()
            && let Some(key) = self.key()
        {
            let key = key.to_vec();
            self.set_start_prefix(&key);
        }
    }

    /// Called before `inner` seeks. If only keys with one prefix are shown, prefix filters are used
    /// with the target's prefix: if that is a different one, nothing beyond the target is left to
    /// show, since keys with one prefix are contiguous.
    #[inline]
    pub(super) fn scope_seek(&mut self) {
        self.set_scope(self.at.has_start_prefix);
    }

    #[inline]
    pub(super) fn set_scope(&mut self, scoped: bool) {
        if self.at.scoped != scoped {
            self.change_scope(scoped);
        }
    }

    #[cold]
    fn change_scope(&mut self, scoped: bool) {
        self.at.scoped = scoped;
        let scope = self.limits.prefix.as_ref().filter(|_| scoped);
        self.inner.sources_mut().for_each(|source| source.scope_to_prefix(scope));
    }

    #[inline]
    pub(super) fn leaves_prefix(&self, key: UserKey<'_>) -> bool {
        if !self.at.has_start_prefix {
            return false;
        }
        match &self.limits.prefix {
            Some(extractor) => {
                extractor.prefix(key.as_bytes()) != Some(self.buffers.start_prefix.as_slice())
            }
            None => false,
        }
    }
}
