//! Any RocksDB since 7.8 through the few C functions that all versions have: how it handles the
//! OPTIONS file of a database.
//!
//! Thread safety: [`AnyVersion`] belongs to one thread at a time.
//! Invariants: those of the crate's head; nothing here outlives the call that made it.
//!
//! It does not replace [`Peer`](crate::Peer), which has everything else and needs 10.10.

use crate::api::{ErrorOut, Object, Text, functions};
use crate::{Error, Result, c_path, c_string};
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

functions! {
    AnyVersionApi;

    free(*mut c_void);
    options_create() -> Object;
    options_destroy(Object);
    get_options_from_string(Object, Text, Object, ErrorOut);
    load_latest_options(
        Text, Object, bool, Object, *mut Object, *mut usize, *mut *mut *mut c_char,
        *mut *mut Object, ErrorOut);
    load_latest_options_destroy(Object, *mut *mut c_char, *mut Object, usize);
    create_default_env() -> Object;
    env_destroy(Object);
    cache_create_lru(usize) -> Object;
    cache_destroy(Object);
    open_column_families(
        Object, Text, c_int, *const Text, *const Object, *mut Object, ErrorOut) -> Object;
    column_family_handle_destroy(Object);
    close(Object);
    writeoptions_create() -> Object;
    writeoptions_destroy(Object);
    put_cf(Object, Object, Object, *const u8, usize, *const u8, usize, ErrorOut);
}

/// A loaded RocksDB library of some version.
pub struct AnyVersion {
    api: AnyVersionApi,
}

/// The result of loading an OPTIONS file: one object for the database, and one for each family.
struct Loaded {
    db: Object,
    names: *mut *mut c_char,
    families: *mut Object,
    len: usize,
}

impl AnyVersion {
    /// Loads the shared library at `path`, or of that name.
    ///
    /// # Errors
    /// It cannot be loaded, or is not RocksDB.
    pub fn load(path: impl AsRef<Path>) -> Result<AnyVersion> {
        Ok(AnyVersion { api: AnyVersionApi::load(path.as_ref())? })
    }

    /// Whether the library accepts `text`, options as in an OPTIONS file, separated by semicolons.
    ///
    /// # Errors
    /// `text` has a NUL in it.
    pub fn takes(&self, text: &str) -> Result<bool> {
        let text = c_string(text)?;
        // SAFETY: plain constructors (crate invariant 1).
        let (base, fresh) = unsafe { ((self.api.options_create)(), (self.api.options_create)()) };
        let taken = self.checked(|api, error| {
            // SAFETY: both objects are live options.
            unsafe { (api.get_options_from_string)(base, text.as_ptr(), fresh, error) }
        });
        // SAFETY: each is destroyed once.
        unsafe {
            (self.api.options_destroy)(base);
            (self.api.options_destroy)(fresh);
        }
        Ok(taken.is_ok())
    }

    /// Opens the database at `path` by its OPTIONS file, with all families that it lists, puts
    /// `key` into the first one and closes the database, which has written an OPTIONS file of its
    /// own by then. `ignore_unknown`: names that the library does not know are skipped, if the file
    /// claims a newer version.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn reopen(&self, path: &Path, ignore_unknown: bool, key: &[u8]) -> Result<Vec<String>> {
        let path = c_path(path)?;
        let loaded = self.load_latest(&path, ignore_unknown)?;
        let mut handles = vec![null_mut(); loaded.len];
        let opened = self.checked(|api, error| {
            let (names, families) = (loaded.names as *const Text, loaded.families as *const Object);
            let count = loaded.len as c_int;
            let out = handles.as_mut_ptr();
            // SAFETY: three arrays of `len` elements; RocksDB copies names and options.
            unsafe {
                (api.open_column_families)(
                    loaded.db,
                    path.as_ptr(),
                    count,
                    names,
                    families,
                    out,
                    error,
                )
            }
        });
        let done = opened.and_then(|db| {
            let put = self.put(db, handles[0], key);
            // SAFETY: live objects, each destroyed once; the database last (invariant 2).
            unsafe {
                handles.iter().for_each(|handle| (self.api.column_family_handle_destroy)(*handle));
                (self.api.close)(db);
            }
            put
        });
        // SAFETY: an array of `len` C strings.
        let name = |i: usize| unsafe { CStr::from_ptr(*loaded.names.add(i)) };
        let names = (0..loaded.len).map(|i| name(i).to_string_lossy().into_owned()).collect();
        let Loaded { db, names: raw, families, len } = loaded;
        // SAFETY: objects returned by `load_latest`, destroyed once.
        unsafe { (self.api.load_latest_options_destroy)(db, raw, families, len) };
        done.map(|()| names)
    }

    fn load_latest(&self, path: &CStr, ignore_unknown: bool) -> Result<Loaded> {
        let mut loaded = Loaded { db: null_mut(), names: null_mut(), families: null_mut(), len: 0 };
        // SAFETY: plain constructors (crate invariant 1).
        let (env, cache) =
            unsafe { ((self.api.create_default_env)(), (self.api.cache_create_lru)(1 << 20)) };
        let result = self.checked(|api, error| {
            let Loaded { db, names, families, len } = &mut loaded;
            let load = api.load_latest_options;
            // SAFETY: live objects, and out-parameters, which are set when there is no error.
            unsafe {
                load(path.as_ptr(), env, ignore_unknown, cache, db, len, names, families, error);
            }
        });
        // SAFETY: what was loaded shares the cache and the process's environment.
        unsafe {
            (self.api.cache_destroy)(cache);
            (self.api.env_destroy)(env);
        }
        result.map(|()| loaded)
    }

    fn put(&self, db: Object, family: Object, key: &[u8]) -> Result<()> {
        // SAFETY: plain constructor.
        let options = unsafe { (self.api.writeoptions_create)() };
        let put = self.checked(|api, error| {
            let (at, len) = (key.as_ptr(), key.len());
            // SAFETY: live objects; key and value are copied.
            unsafe { (api.put_cf)(db, options, family, at, len, at, len, error) }
        });
        // SAFETY: destroyed once.
        unsafe { (self.api.writeoptions_destroy)(options) };
        put
    }

    fn checked<T>(&self, call: impl FnOnce(&AnyVersionApi, ErrorOut) -> T) -> Result<T> {
        let mut error: *mut c_char = null_mut();
        let result = call(&self.api, &mut error);
        if error.is_null() {
            return Ok(result);
        }
        // SAFETY: a C string of RocksDB's, freed once.
        let text = unsafe {
            let text = CStr::from_ptr(error).to_string_lossy().into_owned();
            (self.api.free)(error.cast());
            text
        };
        Err(Error::new(text))
    }
}
