//! The forms of the calls of a [`Store`], as methods of its handles.
//!
//! Each call has four forms: `put`, `put_cf`, `put_opt`, `put_cf_opt`; options come first, as in
//! RocksDB's C++. Keys and values are `AsRef<[u8]>`; the generic methods only pass slices to a call
//! that is not generic. [`store_forms!`] writes all of them for a handle, with the futures. A call
//! is one entry, here in `reads`, `writes` and `futures`, with the names of its forms, so that a
//! search finds them. The macros use the names that this module imports: a handle's file has
//! `use crate::db::forms::*`.
//!
//! Thread safety: as the handle. Not here: anything but other forms of a call; what it does is the
//! [`Store`]'s.

pub(crate) mod futures;
pub(crate) mod reads;
pub(crate) mod writes;

use pumice_base::ErrorKind;
pub(crate) use pumice_base::Result;
pub(crate) use pumice_base::wide_columns::encode_pairs;

pub(crate) use crate::commit::batch::WriteBatch;
pub(crate) use crate::db::forms::futures::DbFuture;
pub(crate) use crate::db::store::{READ_DEFAULT, Store, WRITE_DEFAULT};
pub(crate) use crate::options::requests::{
    GetMergeOperandsAsyncOptions, GetMergeOperandsOptions, ReadOptions, WriteOptions,
};
pub(crate) use crate::read::columns::PinnedColumns;
pub(crate) use crate::read::entries::{Entries, Limits};
pub(crate) use crate::read::key_bounds::KeyBounds;
pub(crate) use crate::read::pinned::PinnedSlice;
pub(crate) use crate::version::family::ColumnFamily;

/// Writes the methods of a handle: reads, cursors, writes, futures.
macro_rules! store_forms {
    ($handle:ty) => {
        /// Reads of keys.
        impl $handle {
            $crate::db::forms::reads::read_forms!();
        }
        /// Reads of entries in their order.
        impl $handle {
            $crate::db::forms::reads::cursor_forms!();
        }
        /// Writes.
        impl $handle {
            $crate::db::forms::writes::write_forms!();
        }
        /// Calls as futures. Writes that are started one after the other are not ordered: wait for
        /// the first if it matters.
        impl $handle {
            $crate::db::forms::futures::async_forms!();
        }
    };
}
pub(crate) use store_forms;

/// The four forms of a call, under four names: in the default family and in any, with the default
/// options and with others. `$call` takes the handle, options, family and what `=>` makes of the
/// arguments.
macro_rules! forms {
    (
        $(#[$doc:meta])*
        $name:ident $in_cf:ident $with:ident $in_cf_with:ident:
        $call:path, $options:ty = $default:ident $(, <$($generic:ident: $bound:path),*>)?;
        ($($arg:ident: $type:ty => $passed:expr),*) -> $result:ty
    ) => {
        $(#[$doc])*
        #[inline]
        pub fn $name$(<$($generic: $bound),*>)?(&self, $($arg: $type),*) -> $result {
            $call(self, &$default, Store::default_column_family(self), $($passed),*)
        }
        #[doc = concat!("[`Self::", stringify!($name), "`] in `cf`.\n\n# Errors\nAs there.")]
        #[inline]
        pub fn $in_cf$(<$($generic: $bound),*>)?(
            &self,
            cf: &ColumnFamily,
            $($arg: $type),*
        ) -> $result {
            $call(self, &$default, cf, $($passed),*)
        }
        #[doc = concat!("[`Self::", stringify!($name), "`] with options.\n\n# Errors\nAs there.")]
        #[inline]
        pub fn $with$(<$($generic: $bound),*>)?(
            &self,
            options: &$options,
            $($arg: $type),*
        ) -> $result {
            $call(self, options, Store::default_column_family(self), $($passed),*)
        }
        #[doc = concat!("[`Self::", stringify!($name), "`] in `cf` with options.")]
        ///
        /// # Errors
        /// As there.
        #[inline]
        pub fn $in_cf_with$(<$($generic: $bound),*>)?(
            &self,
            options: &$options,
            cf: &ColumnFamily,
            $($arg: $type),*
        ) -> $result {
            $call(self, options, cf, $($passed),*)
        }
    };
}
pub(crate) use forms;

/// The four forms of a read of several keys.
macro_rules! forms_of_many {
    (
        $(#[$doc:meta])*
        $name:ident $in_cf:ident $with:ident $in_cf_with:ident: $call:path; -> $result:ty
    ) => {
        $(#[$doc])*
        pub fn $name<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<$result> {
            $call(self, &READ_DEFAULT, &in_default(self, keys))
        }
        #[doc = concat!("[`Self::", stringify!($name), "`] over several column families.")]
        pub fn $in_cf<K: AsRef<[u8]>>(&self, keys: &[(&ColumnFamily, K)]) -> Vec<$result> {
            $call(self, &READ_DEFAULT, &as_slices(keys))
        }
        #[doc = concat!("[`Self::", stringify!($name), "`] with options.")]
        pub fn $with<K: AsRef<[u8]>>(&self, options: &ReadOptions, keys: &[K]) -> Vec<$result> {
            $call(self, options, &in_default(self, keys))
        }
        #[doc = concat!("[`Self::", stringify!($in_cf), "`] with options. If a handle is of")]
        /// another database nothing is read, and that error is the answer for each key.
        pub fn $in_cf_with<K: AsRef<[u8]>>(
            &self,
            options: &ReadOptions,
            keys: &[(&ColumnFamily, K)],
        ) -> Vec<$result> {
            $call(self, options, &as_slices(keys))
        }
    };
}
pub(crate) use forms_of_many;

/// The cursor of a handle.
type CursorOf<S> = <S as Store>::Cursor;

/// Keys without a family, in the default one.
pub(crate) fn in_default<'a, S: Store, K: AsRef<[u8]>>(
    store: &'a S,
    keys: &'a [K],
) -> Vec<(&'a ColumnFamily, &'a [u8])> {
    let default = store.default_column_family();
    keys.iter().map(|key| (default, key.as_ref())).collect()
}

/// Keys with their families, as slices.
pub(crate) fn as_slices<'a, K: AsRef<[u8]>>(
    keys: &'a [(&ColumnFamily, K)],
) -> Vec<(&'a ColumnFamily, &'a [u8])> {
    keys.iter().map(|(cf, key)| (*cf, key.as_ref())).collect()
}

/// Whether a key may exist.
pub(crate) fn key_may_exist<S: Store>(
    store: &S,
    options: &ReadOptions,
    cf: &ColumnFamily,
    key: &[u8],
) -> Result<bool> {
    Ok(key_may_exist_value(store, options, cf, key)?.0)
}

/// Whether a key may exist, and its value if that was found on the way.
pub(crate) fn key_may_exist_value<S: Store>(
    store: &S,
    options: &ReadOptions,
    cf: &ColumnFamily,
    key: &[u8],
) -> Result<(bool, Option<PinnedSlice>)> {
    let options = ReadOptions { cache_only: true, ..options.clone() };
    match store.get(&options, cf, key) {
        Ok(value) => Ok((value.is_some(), value)),
        Err(error) if error.kind() == ErrorKind::Incomplete => Ok((true, None)),
        Err(error) => Err(error),
    }
}

/// The entries of `cf`, within the bounds of the options if there are any.
pub(crate) fn entries<S: Store>(
    store: &S,
    options: &ReadOptions,
    cf: &ColumnFamily,
) -> Result<Entries<CursorOf<S>>> {
    Ok(Entries::new(store.cursor(options, cf)?, Limits::default()))
}

/// The entries of `cf` within `limits`.
pub(crate) fn limited<S: Store>(
    store: &S,
    options: &ReadOptions,
    cf: &ColumnFamily,
    limits: Limits,
) -> Result<Entries<CursorOf<S>>> {
    let options = limits.bound(options)?;
    Ok(Entries::new(store.cursor(&options, cf)?, limits))
}

/// The entries of `cf` whose keys begin with `prefix`.
pub(crate) fn with_prefix<S: Store>(
    store: &S,
    options: &ReadOptions,
    cf: &ColumnFamily,
    prefix: &[u8],
) -> Result<Entries<CursorOf<S>>> {
    limited(store, options, cf, Limits::of_prefix(cf.data.comparator(), prefix)?)
}
