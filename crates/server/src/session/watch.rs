//! WATCH: keys whose change, between the watching and EXEC, makes the transaction fail.
//!
//! A watcher leaves a flag with each of its keys; a command that changes a key raises its flags,
//! after writing and before releasing the key's lock. EXEC checks its flag under the locks of the
//! keys.
//!
//! Thread safety: [`Watches`] is shared; [`Watched`] is a session's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pumice_port::sync::Mutex;

type Key = (u8, Vec<u8>);

/// A watcher's flag at a key, and whether the key had expired already.
type Flag = (Arc<AtomicBool>, bool);

/// The cost of a key besides its bytes, here and in the registry.
const KEY_BYTES: usize = 256;

/// Watched keys and their watchers.
#[derive(Default)]
pub struct Watches {
    /// Number of keys in `flags`; lets writers skip the map when there are no watchers.
    watched: AtomicUsize,
    flags: Mutex<BTreeMap<Key, Vec<Flag>>>,
}

/// What a session watches.
#[derive(Default)]
pub struct Watched {
    flag: Arc<AtomicBool>,
    /// The keys, and whether they had expired already.
    pub keys: BTreeMap<Key, bool>,
    /// What they cost.
    pub bytes: usize,
}

impl Watches {
    /// Adds a key to what `own` watches. `was_over`: it had expired.
    pub fn watch(&self, own: &mut Watched, db: u8, key: &[u8], was_over: bool) {
        let key = (db, key.to_vec());
        if own.keys.contains_key(&key) {
            return;
        }
        let mut flags = self.flags.lock();
        flags.entry(key.clone()).or_default().push((Arc::clone(&own.flag), was_over));
        self.watched.store(flags.len(), Ordering::SeqCst);
        own.bytes += 2 * key.1.len() + KEY_BYTES;
        own.keys.insert(key, was_over);
    }

    /// Watches nothing any more.
    pub fn unwatch(&self, own: &mut Watched) {
        if own.keys.is_empty() {
            return;
        }
        let mut flags = self.flags.lock();
        own.bytes = 0;
        for (key, _) in std::mem::take(&mut own.keys) {
            if let Some(list) = flags.get_mut(&key) {
                list.retain(|(flag, _)| !Arc::ptr_eq(flag, &own.flag));
                if list.is_empty() {
                    flags.remove(&key);
                }
            }
        }
        self.watched.store(flags.len(), Ordering::SeqCst);
        drop(flags);
        own.flag = Arc::default();
    }

    /// A key is watched.
    pub fn is_any(&self) -> bool {
        self.watched.load(Ordering::SeqCst) != 0
    }

    /// A key was changed. `is_over`: it was deleted because it had expired, which is not a change
    /// for watchers that saw it expired.
    pub fn touched(&self, db: u8, key: &[u8], is_over: bool) {
        if !self.is_any() {
            return;
        }
        if let Some(list) = self.flags.lock().get(&(db, key.to_vec())) {
            let changed = list.iter().filter(|(_, was_over)| !(is_over && *was_over));
            changed.for_each(|(flag, _)| flag.store(true, Ordering::SeqCst));
        }
    }

    /// All keys of a database were changed, or of all databases.
    pub fn all_touched(&self, only: Option<u8>) {
        for ((db, _), list) in self.flags.lock().iter() {
            if only.is_none_or(|only| only == *db) {
                list.iter().for_each(|(flag, _)| flag.store(true, Ordering::SeqCst));
            }
        }
    }
}

impl Watched {
    /// One of the keys was changed.
    pub fn is_touched(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }
}
