//! The maintenance half of [`Db`]: flush, compaction, properties, checkpoints, ingestion.
//!
//! Thread safety and invariants: those of `db`.

use crate::db::Db;
use crate::family::ColumnFamily;
use crate::{Result, c_path, c_string};
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;
use std::ptr;

/// One table file of the current version.
#[derive(Clone, Debug)]
pub struct LiveFile {
    /// Name inside the database directory, with a leading slash.
    pub name: String,
    /// Column family it belongs to.
    pub column_family: String,
    /// Level it is on.
    pub level: i32,
    /// Size in bytes.
    pub file_size: usize,
}

/// How to compact a range.
#[derive(Clone, Copy)]
pub struct CompactRangeSettings {
    /// No automatic compaction runs at the same time.
    pub exclusive: bool,
    /// 0 skip, 1 if a compaction filter is set, 2 force, 3 force optimised.
    pub bottommost_level: u8,
    /// Move the result to `target_level`.
    pub change_level: bool,
    /// Level for `change_level`; -1 is the lowest that fits.
    pub target_level: i32,
    /// Parallel parts; 0 takes the database's option.
    pub max_subcompactions: i32,
}

impl Default for CompactRangeSettings {
    fn default() -> Self {
        CompactRangeSettings {
            exclusive: false,
            bottommost_level: 1,
            change_level: false,
            target_level: -1,
            max_subcompactions: 0,
        }
    }
}

/// How files are ingested.
#[derive(Clone, Copy)]
#[allow(missing_docs)] // RocksDB's words.
pub struct IngestSettings {
    pub move_files: bool,
    pub snapshot_consistency: bool,
    pub allow_global_seqno: bool,
    pub allow_blocking_flush: bool,
    pub ingest_behind: bool,
    pub fail_if_not_bottommost_level: bool,
}

impl Default for IngestSettings {
    fn default() -> Self {
        IngestSettings {
            move_files: false,
            snapshot_consistency: true,
            allow_global_seqno: true,
            allow_blocking_flush: true,
            ingest_behind: false,
            fail_if_not_bottommost_level: false,
        }
    }
}

impl Db {
    /// Flushes the memtable of `cf` and waits.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn flush(&self, cf: &ColumnFamily) -> Result<()> {
        self.inner.peer.checked(|api, error| {
            // SAFETY: live objects; the flush options are ours.
            unsafe {
                let options = (api.flushoptions_create)();
                (api.flushoptions_set_wait)(options, 1);
                (api.flush_cf)(self.inner.raw, options, cf.raw(), error);
                (api.flushoptions_destroy)(options);
            }
        })
    }

    /// Writes the WAL buffer out, and syncs it if `sync`.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn flush_wal(&self, sync: bool) -> Result<()> {
        self.inner.peer.checked(|api, error| {
            // SAFETY: live object.
            unsafe { (api.flush_wal)(self.inner.raw, sync.into(), error) }
        })
    }

    /// Compacts `[begin, end]`; `None` is unbounded. RocksDB's C API reports no error here.
    pub fn compact_range(
        &self,
        cf: &ColumnFamily,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        settings: &CompactRangeSettings,
    ) {
        let part = |bound: Option<&[u8]>| {
            bound.map_or((ptr::null(), 0), |bytes| (bytes.as_ptr(), bytes.len()))
        };
        let ((begin, begin_len), (end, end_len)) = (part(begin), part(end));
        let api = &self.inner.peer.api;
        // SAFETY: live objects; the compact options are ours.
        unsafe {
            let options = (api.compactoptions_create)();
            (api.compactoptions_set_exclusive_manual_compaction)(
                options,
                settings.exclusive.into(),
            );
            (api.compactoptions_set_bottommost_level_compaction)(
                options,
                settings.bottommost_level,
            );
            (api.compactoptions_set_change_level)(options, settings.change_level.into());
            (api.compactoptions_set_target_level)(options, settings.target_level);
            (api.compactoptions_set_max_subcompactions)(options, settings.max_subcompactions);
            let compact = api.compact_range_cf_opt;
            compact(self.inner.raw, cf.raw(), options, begin, begin_len, end, end_len);
            (api.compactoptions_destroy)(options);
        }
    }

    /// Waits until no flush or compaction is due; flushes first if `flush`.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn wait_for_compact(&self, flush: bool) -> Result<()> {
        self.inner.peer.checked(|api, error| {
            // SAFETY: live object; the options are ours.
            unsafe {
                let options = (api.wait_for_compact_options_create)();
                (api.wait_for_compact_options_set_flush)(options, flush.into());
                (api.wait_for_compact)(self.inner.raw, options, error);
                (api.wait_for_compact_options_destroy)(options);
            }
        })
    }

    /// A property's text, for example of `rocksdb.stats`.
    pub fn property(&self, cf: &ColumnFamily, name: &str) -> Option<String> {
        let name = c_string(name).ok()?;
        let api = &self.inner.peer.api;
        // SAFETY: live objects; the text is handed over to us.
        let text = unsafe { (api.property_value_cf)(self.inner.raw, cf.raw(), name.as_ptr()) };
        (!text.is_null()).then(|| self.inner.peer.take_string(text))
    }

    /// A property's number, for example of `rocksdb.estimate-num-keys`.
    pub fn property_int(&self, cf: &ColumnFamily, name: &str) -> Option<u64> {
        let name = c_string(name).ok()?;
        let api = &self.inner.peer.api;
        let mut out = 0;
        // SAFETY: live objects.
        let failed =
            unsafe { (api.property_int_cf)(self.inner.raw, cf.raw(), name.as_ptr(), &mut out) };
        (failed == 0).then_some(out)
    }

    /// Changes options of `cf` at run time.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn set_options(&self, cf: &ColumnFamily, options: &[(&str, &str)]) -> Result<()> {
        let names: Vec<CString> = options.iter().map(|o| c_string(o.0)).collect::<Result<_>>()?;
        let values: Vec<CString> = options.iter().map(|o| c_string(o.1)).collect::<Result<_>>()?;
        let names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let values: Vec<*const c_char> = values.iter().map(|value| value.as_ptr()).collect();
        let count = options.len() as c_int;
        self.inner.peer.checked(|api, error| {
            let (db, n, v) = (self.inner.raw, names.as_ptr(), values.as_ptr());
            // SAFETY: live objects, two arrays of `count` C strings.
            unsafe { (api.set_options_cf)(db, cf.raw(), count, n, v, error) }
        })
    }

    /// The last published sequence number.
    pub fn latest_sequence_number(&self) -> u64 {
        // SAFETY: live object.
        unsafe { (self.inner.peer.api.get_latest_sequence_number)(self.inner.raw) }
    }

    /// Makes an openable copy at `path`, which must not exist.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn checkpoint(&self, path: &Path) -> Result<()> {
        let path = c_path(path)?;
        let peer = &self.inner.peer;
        // SAFETY: live object; the checkpoint object is ours.
        let object = peer.checked(|api, error| unsafe {
            (api.checkpoint_object_create)(self.inner.raw, error)
        })?;
        peer.checked(|api, error| {
            // SAFETY: as above.
            unsafe {
                (api.checkpoint_create)(object, path.as_ptr(), 0, error);
                (api.checkpoint_object_destroy)(object);
            }
        })
    }

    /// The table files of the current version.
    pub fn live_files(&self) -> Vec<LiveFile> {
        let api = &self.inner.peer.api;
        // SAFETY: the list is ours to destroy; names are C strings inside it.
        unsafe {
            let list = (api.livefiles)(self.inner.raw);
            let text = |raw| CStr::from_ptr(raw).to_string_lossy().into_owned();
            let files = (0..(api.livefiles_count)(list))
                .map(|i| LiveFile {
                    name: text((api.livefiles_name)(list, i)),
                    column_family: text((api.livefiles_column_family_name)(list, i)),
                    level: (api.livefiles_level)(list, i),
                    file_size: (api.livefiles_size)(list, i),
                })
                .collect();
            (api.livefiles_destroy)(list);
            files
        }
    }

    /// Adds table files made by [`crate::SstFileWriter`].
    ///
    /// # Errors
    /// RocksDB's.
    pub fn ingest(&self, cf: &ColumnFamily, files: &[&Path], move_files: bool) -> Result<()> {
        self.ingest_with(cf, files, &IngestSettings { move_files, ..IngestSettings::default() })
    }

    /// [`Db::ingest`], with settings.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn ingest_with(
        &self,
        cf: &ColumnFamily,
        files: &[&Path],
        settings: &IngestSettings,
    ) -> Result<()> {
        let files: Vec<CString> = files.iter().map(|file| c_path(file)).collect::<Result<_>>()?;
        let names: Vec<*const c_char> = files.iter().map(|file| file.as_ptr()).collect();
        self.inner.peer.checked(|api, error| {
            // SAFETY: live objects; the options are ours.
            unsafe {
                let options = (api.ingestexternalfileoptions_create)();
                let s = settings;
                (api.ingestexternalfileoptions_set_move_files)(options, s.move_files.into());
                (api.ingestexternalfileoptions_set_snapshot_consistency)(
                    options,
                    s.snapshot_consistency.into(),
                );
                (api.ingestexternalfileoptions_set_allow_global_seqno)(
                    options,
                    s.allow_global_seqno.into(),
                );
                (api.ingestexternalfileoptions_set_allow_blocking_flush)(
                    options,
                    s.allow_blocking_flush.into(),
                );
                (api.ingestexternalfileoptions_set_ingest_behind)(options, s.ingest_behind.into());
                (api.ingestexternalfileoptions_set_fail_if_not_bottommost_level)(
                    options,
                    s.fail_if_not_bottommost_level.into(),
                );
                let (db, ingest) = (self.inner.raw, api.ingest_external_file_cf);
                ingest(db, cf.raw(), names.as_ptr(), names.len(), options, error);
                (api.ingestexternalfileoptions_destroy)(options);
            }
        })
    }

    /// Stops background work for good; the last handle then closes quickly.
    pub fn cancel_background_work(&self, wait: bool) {
        // SAFETY: live object.
        unsafe { (self.inner.peer.api.cancel_all_background_work)(self.inner.raw, wait.into()) }
    }
}
