//! Traces of a database and their replay, which the C library has since 11.
//!
//! Thread safety: [`Traces`] from anywhere. Invariants: the crate's; the library is loaded a second
//! time, which gives the same one.

use crate::api::{ErrorOut, Object, Text, functions};
use crate::{ColumnFamily, Db, Error, Result, c_path};
use libloading::Library;
use std::path::Path;

functions! {
    TracesApi;

    create_default_env() -> Object;
    env_destroy(Object);
    envoptions_create() -> Object;
    envoptions_destroy(Object);
    trace_options_create() -> Object;
    trace_options_destroy(Object);
    start_trace(Object, Object, Object, Object, Text, ErrorOut);
    end_trace(Object, ErrorOut);
    start_io_trace(Object, Object, Object, Object, Text, ErrorOut);
    end_io_trace(Object, ErrorOut);
    start_block_cache_trace(Object, Object, Object, Object, Text, ErrorOut);
    end_block_cache_trace(Object, ErrorOut);
    new_default_replayer(
        Object, *const Object, usize, Object, Object, Text, ErrorOut) -> Object;
    replayer_prepare(Object, ErrorOut);
    replayer_replay(Object, Object, ErrorOut);
    replayer_destroy(Object);
    replay_options_create() -> Object;
    replay_options_destroy(Object);
    replay_options_set_num_threads(Object, u32);
    replay_options_set_fast_forward(Object, f64);
}

/// What is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// Reads and writes.
    Queries,
    /// Operations on files.
    Files,
    /// Uses of the block cache.
    BlockCache,
}

/// The functions of a library about traces.
pub struct Traces {
    api: TracesApi,
    env: Object,
    env_options: Object,
}

// SAFETY: both objects are constant.
unsafe impl Send for Traces {}
// SAFETY: as above.
unsafe impl Sync for Traces {}

impl Traces {
    /// Those of the library at `path`.
    ///
    /// # Errors
    /// It has none.
    pub fn load(path: impl AsRef<Path>) -> Result<Traces> {
        let api = TracesApi::load(path.as_ref())?;
        // SAFETY: both make objects of the caller's.
        let (env, env_options) = unsafe { ((api.create_default_env)(), (api.envoptions_create)()) };
        Ok(Traces { api, env, env_options })
    }

    /// Begins a trace of `db` at `path`.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn start(&self, db: &Db, kind: TraceKind, path: &Path) -> Result<()> {
        let api = &self.api;
        let start = match kind {
            TraceKind::Queries => api.start_trace,
            TraceKind::Files => api.start_io_trace,
            TraceKind::BlockCache => api.start_block_cache_trace,
        };
        let path = c_path(path)?;
        // SAFETY: the options are this function's.
        let options = unsafe { (api.trace_options_create)() };
        let started = db.inner.peer.checked(|_, error| {
            let (db, env, env_options) = (db.inner.raw, self.env, self.env_options);
            // SAFETY: live objects.
            unsafe { start(db, env, env_options, options, path.as_ptr(), error) }
        });
        // SAFETY: made above, and used no more.
        unsafe { (api.trace_options_destroy)(options) };
        started
    }

    /// Ends it.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn end(&self, db: &Db, kind: TraceKind) -> Result<()> {
        let end = match kind {
            TraceKind::Queries => self.api.end_trace,
            TraceKind::Files => self.api.end_io_trace,
            TraceKind::BlockCache => self.api.end_block_cache_trace,
        };
        // SAFETY: a live object.
        db.inner.peer.checked(|_, error| unsafe { end(db.inner.raw, error) })
    }

    /// Makes the calls of the trace at `path` in `db`, as fast as it can.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn replay(
        &self,
        db: &Db,
        families: &[&ColumnFamily],
        path: &Path,
        threads: u32,
    ) -> Result<()> {
        let (api, peer, path) = (&self.api, &db.inner.peer, c_path(path)?);
        let families: Vec<Object> = families.iter().map(|family| family.raw()).collect();
        let replayer = peer.checked(|_, error| {
            let (env, env_options) = (self.env, self.env_options);
            let (list, len) = (families.as_ptr(), families.len());
            let path = path.as_ptr();
            // SAFETY: live objects; the list is read during the call.
            unsafe {
                (api.new_default_replayer)(db.inner.raw, list, len, env, env_options, path, error)
            }
        })?;
        // SAFETY: the options are this function's.
        let options = unsafe { (api.replay_options_create)() };
        // SAFETY: a live object.
        unsafe { (api.replay_options_set_num_threads)(options, threads) };
        // SAFETY: a live object.
        unsafe { (api.replay_options_set_fast_forward)(options, 1e6) };
        let prepared = peer.checked(|_, error| {
            // SAFETY: a live object.
            unsafe { (api.replayer_prepare)(replayer, error) }
        });
        let replayed = prepared.and_then(|()| {
            // SAFETY: live objects.
            peer.checked(|_, error| unsafe { (api.replayer_replay)(replayer, options, error) })
        });
        // SAFETY: made above, and used no more.
        unsafe { (api.replay_options_destroy)(options) };
        // SAFETY: as above.
        unsafe { (api.replayer_destroy)(replayer) };
        replayed
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // SAFETY: made by `load`, and used no more.
        unsafe { (self.api.envoptions_destroy)(self.env_options) };
        // SAFETY: as above.
        unsafe { (self.api.env_destroy)(self.env) };
    }
}
