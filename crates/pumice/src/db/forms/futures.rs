//! The forms that return futures, for programs built on an executor.
//!
//! Each call starts a fiber on the database's runtime (`DbOptions::runtime`) that does what the
//! ordinary call does. The future is woken when the fiber has ended, and works with any executor.
//! Keys, values and batches are owned, because the fiber continues when the future is dropped: a
//! dropped `write_async` is written anyway.
//!
//! The fiber holds a handle: if the last other handle is dropped while calls are under way, the
//! database closes after the last of them. After `Db::close` reads answer from the last state and
//! writes fail with ShutdownInProgress, as in the ordinary calls. A call for which there is no
//! memory to start a fiber is not made; its answer, for each key if there are several, is Aborted
//! with subcode MemoryLimit.
//!
//! Where the operating system refuses what the shared runtime needs (threads, descriptors), the
//! answer is that error, and nothing was done; the next call tries to start it again.
//!
//! Thread safety: everything from anywhere. Starting a call and polling never suspend, except that
//! the first call without a runtime of the database's own waits until the shared one has started.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pumice_base::{Error, Result};
use pumice_port::fiber::Runtime;
use pumice_port::future::{self, Task};

use crate::db::store::Store;
use crate::version::family::ColumnFamily;

/// The answer of a call under way. Dropping it does not stop the call.
///
/// ```
/// # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
/// # fn block_on<T>(future: impl Future<Output = T>) -> T {
/// #     let mut future = pin!(future);
/// #     loop {
/// #         let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
/// #         if let Poll::Ready(value) = polled {
/// #             return value;
/// #         }
/// #         std::thread::yield_now();
/// #     }
/// # }
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-call-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// # block_on(async {
/// db.put_async("apple", "green").await?;
/// let keys = db
///     .call_async(|db| {
///         db.flush()?;
///         db.iter()?.map(|entry| Ok(entry?.0)).collect::<Result<Vec<_>, _>>()
///     })
///     .await?;
/// assert_eq!(keys, ["apple".as_bytes()]);
/// # Ok::<(), pumice::Error>(())
/// # })?;
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)
/// # }
/// ```
///
/// # Panics
/// Polling does when the call has panicked (a user's merge operator or comparator did), and when
/// it is polled after it was ready.
#[must_use = "without waiting there is no telling how the call went"]
pub struct DbFuture<T>(State<T>);

enum State<T> {
    Started(Task<T>),
    /// No fiber could be started: the answer, until it is polled.
    Refused(Option<Box<T>>),
}

impl<T> Future for DbFuture<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            State::Started(task) => Pin::new(task).poll(context),
            State::Refused(answer) => Poll::Ready(*answer.take().expect("polled until ready")),
        }
    }
}

impl<T> std::fmt::Debug for DbFuture<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbFuture").finish_non_exhaustive()
    }
}

/// The same error for each of `count` keys.
pub(crate) fn refused_keys<T>(count: usize) -> impl FnOnce(Error) -> Vec<Result<Option<T>>> {
    move |error| (0..count).map(|_| Err(error.clone())).collect()
}

/// Keys that a fiber owns, with their families.
pub(crate) fn owned_keys<K: Into<Vec<u8>>>(
    keys: impl IntoIterator<Item = (ColumnFamily, K)>,
) -> Vec<(ColumnFamily, Vec<u8>)> {
    keys.into_iter().map(|(cf, key)| (cf, key.into())).collect()
}

/// Such keys, as slices.
pub(crate) fn borrowed(keys: &[(ColumnFamily, Vec<u8>)]) -> Vec<(&ColumnFamily, &[u8])> {
    keys.iter().map(|(cf, key)| (cf, &key[..])).collect()
}

/// The columns of an entity that is to be put, owned.
pub(crate) fn owned_columns<N: Into<Vec<u8>>, V: Into<Vec<u8>>>(
    columns: impl IntoIterator<Item = (N, V)>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    columns.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Makes `call` on a fiber; where there is no memory for one the answer is that of `refused`.
pub(crate) fn start<S: Store, T: Send + 'static>(
    store: &S,
    call: impl FnOnce(&S) -> T + Send + 'static,
    refused: impl FnOnce(Error) -> T + Send + 'static,
) -> DbFuture<T> {
    let store = store.clone();
    let options = store.options();
    let body = move || call(&store);
    let runtime = match options.runtime.as_deref() {
        Some(own) => Ok(own),
        None => Runtime::try_shared(),
    };
    DbFuture(match runtime {
        Ok(runtime) => State::Started(future::spawn(runtime, "db_async", body, refused)),
        Err(e) => State::Refused(Some(Box::new(refused(Error::io_message(format!(
            "While starting the loops of the shared runtime: {e}"
        )))))),
    })
}

/// The four forms of a call as futures. `$call` is the last of its blocking forms; the arguments
/// are owned as `=>` says and passed as `;` says, and one that is always the same may follow.
macro_rules! futures {
    (
        $name:ident $in_cf:ident $with:ident $in_cf_with:ident:
        $blocking:ident $call:ident, $options:ty = $default:ident
        $(, <$($generic:ident: $bound:path),*>)?;
        ($($arg:ident: $type:ty => $owned:expr; $passed:expr),*) -> $result:ty $(; $last:expr)?
    ) => {
        #[doc = concat!("[`Self::", stringify!($blocking), "`] as a future.")]
        pub fn $name$(<$($generic: $bound),*>)?(&self, $($arg: $type),*) -> DbFuture<$result> {
            self.$in_cf_with(&$default, Store::default_column_family(self), $($arg),*)
        }
        #[doc = concat!("[`Self::", stringify!($blocking), "`] in `cf`, as a future.")]
        pub fn $in_cf$(<$($generic: $bound),*>)?(
            &self,
            cf: &ColumnFamily,
            $($arg: $type),*
        ) -> DbFuture<$result> {
            self.$in_cf_with(&$default, cf, $($arg),*)
        }
        #[doc = concat!("[`Self::", stringify!($blocking), "`] with options, as a future.")]
        pub fn $with$(<$($generic: $bound),*>)?(
            &self,
            options: &$options,
            $($arg: $type),*
        ) -> DbFuture<$result> {
            self.$in_cf_with(options, Store::default_column_family(self), $($arg),*)
        }
        #[doc = concat!("[`Self::", stringify!($call), "`] as a future.")]
        pub fn $in_cf_with$(<$($generic: $bound),*>)?(
            &self,
            options: &$options,
            cf: &ColumnFamily,
            $($arg: $type),*
        ) -> DbFuture<$result> {
            let (options, cf) = (options.clone(), cf.clone());
            $(let $arg = $owned;)*
            self.call_async(move |store| store.$call(&options, &cf, $($passed),* $(, $last)?))
        }
    };
}
pub(crate) use futures;

/// The four forms of a read of several keys as futures.
macro_rules! futures_of_many {
    (
        $name:ident $in_cf:ident $with:ident $in_cf_with:ident: $blocking:ident, $call:path;
        -> $result:ty
    ) => {
        #[doc = concat!("[`Self::", stringify!($blocking), "`] as a future.")]
        pub fn $name(
            &self,
            keys: impl IntoIterator<Item: Into<Vec<u8>>>,
        ) -> DbFuture<Vec<$result>> {
            self.$with(&READ_DEFAULT, keys)
        }
        #[doc = concat!("[`Self::", stringify!($blocking), "`] over families, as a future.")]
        pub fn $in_cf<K: Into<Vec<u8>>>(
            &self,
            keys: impl IntoIterator<Item = (ColumnFamily, K)>,
        ) -> DbFuture<Vec<$result>> {
            self.$in_cf_with(&READ_DEFAULT, keys)
        }
        #[doc = concat!("[`Self::", stringify!($blocking), "`] with options, as a future.")]
        pub fn $with(
            &self,
            options: &ReadOptions,
            keys: impl IntoIterator<Item: Into<Vec<u8>>>,
        ) -> DbFuture<Vec<$result>> {
            let default = Store::default_column_family(self);
            self.$in_cf_with(options, keys.into_iter().map(|key| (default.clone(), key)))
        }
        #[doc = concat!("[`Self::", stringify!($blocking), "`] over families with options, as a")]
        /// future.
        pub fn $in_cf_with<K: Into<Vec<u8>>>(
            &self,
            options: &ReadOptions,
            keys: impl IntoIterator<Item = (ColumnFamily, K)>,
        ) -> DbFuture<Vec<$result>> {
            let (options, keys) = (options.clone(), $crate::db::forms::futures::owned_keys(keys));
            let refused = $crate::db::forms::futures::refused_keys(keys.len());
            let call = move |store: &Self| {
                $call(store, &options, &$crate::db::forms::futures::borrowed(&keys))
            };
            $crate::db::forms::futures::start(self, call, refused)
        }
    };
}
pub(crate) use futures_of_many;

macro_rules! async_forms {
    () => {
        $crate::db::forms::futures::futures! {
            get_async get_cf_async get_opt_async get_cf_opt_async:
            get get_cf_opt, ReadOptions = READ_DEFAULT;
            (key: impl Into<Vec<u8>> => key.into(); key) -> Result<Option<PinnedSlice>>
        }
        $crate::db::forms::futures::futures_of_many! {
            multi_get_async multi_get_cf_async multi_get_opt_async multi_get_cf_opt_async:
            multi_get, Store::multi_get;
            -> Result<Option<PinnedSlice>>
        }
        $crate::db::forms::futures::futures! {
            get_entity_async get_entity_cf_async get_entity_opt_async get_entity_cf_opt_async:
            get_entity get_entity_cf_opt, ReadOptions = READ_DEFAULT;
            (key: impl Into<Vec<u8>> => key.into(); key) -> Result<Option<PinnedColumns>>
        }
        $crate::db::forms::futures::futures_of_many! {
            multi_get_entity_async multi_get_entity_cf_async multi_get_entity_opt_async
            multi_get_entity_cf_opt_async:
            multi_get_entity, Store::multi_get_entity;
            -> Result<Option<PinnedColumns>>
        }
        // The number of operands is the length of the answer.
        $crate::db::forms::futures::futures! {
            get_merge_operands_async get_merge_operands_cf_async get_merge_operands_opt_async
            get_merge_operands_cf_opt_async:
            get_merge_operands get_merge_operands_cf_opt, ReadOptions = READ_DEFAULT;
            (
                key: impl Into<Vec<u8>> => key.into(); key,
                how: GetMergeOperandsAsyncOptions => how; &how.borrowed()
            ) -> Result<Vec<PinnedSlice>>; &mut 0
        }
        $crate::db::forms::futures::futures! {
            put_async put_cf_async put_opt_async put_cf_opt_async:
            put put_cf_opt, WriteOptions = WRITE_DEFAULT;
            (
                key: impl Into<Vec<u8>> => key.into(); key,
                value: impl Into<Vec<u8>> => value.into(); value
            ) -> Result<()>
        }
        $crate::db::forms::futures::futures! {
            put_entity_async put_entity_cf_async put_entity_opt_async put_entity_cf_opt_async:
            put_entity put_entity_cf_opt, WriteOptions = WRITE_DEFAULT,
            <N: Into<Vec<u8>>, V: Into<Vec<u8>>>;
            (
                key: impl Into<Vec<u8>> => key.into(); key,
                columns: impl IntoIterator<Item = (N, V)>
                    => $crate::db::forms::futures::owned_columns(columns); columns
            ) -> Result<()>
        }
        $crate::db::forms::futures::futures! {
            delete_async delete_cf_async delete_opt_async delete_cf_opt_async:
            delete delete_cf_opt, WriteOptions = WRITE_DEFAULT;
            (key: impl Into<Vec<u8>> => key.into(); key) -> Result<()>
        }
        $crate::db::forms::futures::futures! {
            merge_async merge_cf_async merge_opt_async merge_cf_opt_async:
            merge merge_cf_opt, WriteOptions = WRITE_DEFAULT;
            (
                key: impl Into<Vec<u8>> => key.into(); key,
                operand: impl Into<Vec<u8>> => operand.into(); operand
            ) -> Result<()>
        }
        /// [`Self::write`] as a future.
        pub fn write_async(&self, updates: WriteBatch) -> DbFuture<Result<()>> {
            self.write_opt_async(&WRITE_DEFAULT, updates)
        }
        /// [`Self::write_opt`] as a future.
        pub fn write_opt_async(
            &self,
            options: &WriteOptions,
            mut updates: WriteBatch,
        ) -> DbFuture<Result<()>> {
            let options = *options;
            self.call_async(move |store| store.write_opt(&options, &mut updates))
        }
        /// Runs `call` with the handle, as a future: a flush, a compaction, a scan, or several
        /// calls in their order. It runs on one fiber, where calls of the database suspend only
        /// that fiber; other waits should use [`crate::fiber`]. See [`DbFuture`] for an example.
        ///
        /// # Errors
        /// The errors of `call`; Aborted with subcode MemoryLimit, and IoError, where the call is
        /// not made because there is no memory or no shared runtime.
        pub fn call_async<T: Send + 'static>(
            &self,
            call: impl FnOnce(&Self) -> Result<T> + Send + 'static,
        ) -> DbFuture<Result<T>> {
            $crate::db::forms::futures::start(self, call, Err)
        }
    };
}
pub(crate) use async_forms;
