//! Calls that return futures, for programs built on an executor.
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

use crate::commit::batch::WriteBatch;
use crate::db::api::Db;
use crate::options::requests::{GetMergeOperandsAsyncOptions, ReadOptions, WriteOptions};
use crate::read::columns::PinnedColumns;
use crate::read::pinned::PinnedSlice;
use crate::version::family::ColumnFamily;

/// The answer of a call under way. Dropping it does not stop the call.
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

/// The answer of a read of one key.
type Found = Result<Option<PinnedSlice>>;
/// The same for an entity.
type FoundEntity = Result<Option<PinnedColumns>>;
/// The same for operands.
type FoundOperands = Result<Vec<PinnedSlice>>;

/// The same error for each of `count` keys.
fn refused_keys<T>(count: usize) -> impl FnOnce(Error) -> Vec<Result<Option<T>>> {
    move |error| (0..count).map(|_| Err(error.clone())).collect()
}

/// Reads.
impl Db {
    /// [`Db::get`] as a future.
    pub fn get_async(&self, key: impl Into<Vec<u8>>) -> DbFuture<Found> {
        self.get_opt_async(&ReadOptions::DEFAULT, key)
    }
    /// [`Db::get_cf`] as a future.
    pub fn get_cf_async(&self, cf: &ColumnFamily, key: impl Into<Vec<u8>>) -> DbFuture<Found> {
        self.get_cf_opt_async(&ReadOptions::DEFAULT, cf, key)
    }
    /// [`Db::get_opt`] as a future.
    pub fn get_opt_async(&self, options: &ReadOptions, key: impl Into<Vec<u8>>) -> DbFuture<Found> {
        self.get_cf_opt_async(options, self.default_column_family(), key)
    }
    /// [`Db::get_cf_opt`] as a future.
    pub fn get_cf_opt_async(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl Into<Vec<u8>>,
    ) -> DbFuture<Found> {
        let (options, cf, key) = (options.clone(), cf.clone(), key.into());
        self.call_async(move |db| db.get_cf_opt(&options, &cf, &key))
    }

    /// [`Db::multi_get`] as a future.
    pub fn multi_get_async(
        &self,
        keys: impl IntoIterator<Item: Into<Vec<u8>>>,
    ) -> DbFuture<Vec<Found>> {
        self.multi_get_opt_async(&ReadOptions::DEFAULT, keys)
    }
    /// [`Db::multi_get_cf`] as a future.
    pub fn multi_get_cf_async<K: Into<Vec<u8>>>(
        &self,
        keys: impl IntoIterator<Item = (ColumnFamily, K)>,
    ) -> DbFuture<Vec<Found>> {
        self.multi_get_cf_opt_async(&ReadOptions::DEFAULT, keys)
    }
    /// [`Db::multi_get_opt`] as a future.
    pub fn multi_get_opt_async(
        &self,
        options: &ReadOptions,
        keys: impl IntoIterator<Item: Into<Vec<u8>>>,
    ) -> DbFuture<Vec<Found>> {
        let options = options.clone();
        let keys: Vec<Vec<u8>> = keys.into_iter().map(Into::into).collect();
        let refused = refused_keys(keys.len());
        self.start(move |db| db.multi_get_opt(&options, &keys), refused)
    }
    /// [`Db::multi_get_cf_opt`] as a future.
    pub fn multi_get_cf_opt_async<K: Into<Vec<u8>>>(
        &self,
        options: &ReadOptions,
        keys: impl IntoIterator<Item = (ColumnFamily, K)>,
    ) -> DbFuture<Vec<Found>> {
        let options = options.clone();
        let keys: Vec<(_, Vec<u8>)> = keys.into_iter().map(|(cf, key)| (cf, key.into())).collect();
        let refused = refused_keys(keys.len());
        let call = move |db: &Db| {
            let keys: Vec<_> = keys.iter().map(|(cf, key)| (cf, &key[..])).collect();
            db.multi_get_cf_opt(&options, &keys)
        };
        self.start(call, refused)
    }

    /// [`Db::get_entity`] as a future.
    pub fn get_entity_async(&self, key: impl Into<Vec<u8>>) -> DbFuture<FoundEntity> {
        self.get_entity_opt_async(&ReadOptions::DEFAULT, key)
    }
    /// [`Db::get_entity_cf`] as a future.
    pub fn get_entity_cf_async(
        &self,
        cf: &ColumnFamily,
        key: impl Into<Vec<u8>>,
    ) -> DbFuture<FoundEntity> {
        self.get_entity_cf_opt_async(&ReadOptions::DEFAULT, cf, key)
    }
    /// [`Db::get_entity_opt`] as a future.
    pub fn get_entity_opt_async(
        &self,
        options: &ReadOptions,
        key: impl Into<Vec<u8>>,
    ) -> DbFuture<FoundEntity> {
        self.get_entity_cf_opt_async(options, self.default_column_family(), key)
    }
    /// [`Db::get_entity_cf_opt`] as a future.
    pub fn get_entity_cf_opt_async(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl Into<Vec<u8>>,
    ) -> DbFuture<FoundEntity> {
        let (options, cf, key) = (options.clone(), cf.clone(), key.into());
        self.call_async(move |db| db.get_entity_cf_opt(&options, &cf, &key))
    }

    /// [`Db::multi_get_entity`] as a future.
    pub fn multi_get_entity_async(
        &self,
        keys: impl IntoIterator<Item: Into<Vec<u8>>>,
    ) -> DbFuture<Vec<FoundEntity>> {
        self.multi_get_entity_opt_async(&ReadOptions::DEFAULT, keys)
    }
    /// [`Db::multi_get_entity_cf`] as a future.
    pub fn multi_get_entity_cf_async<K: Into<Vec<u8>>>(
        &self,
        keys: impl IntoIterator<Item = (ColumnFamily, K)>,
    ) -> DbFuture<Vec<FoundEntity>> {
        self.multi_get_entity_cf_opt_async(&ReadOptions::DEFAULT, keys)
    }
    /// [`Db::multi_get_entity_opt`] as a future.
    pub fn multi_get_entity_opt_async(
        &self,
        options: &ReadOptions,
        keys: impl IntoIterator<Item: Into<Vec<u8>>>,
    ) -> DbFuture<Vec<FoundEntity>> {
        let options = options.clone();
        let keys: Vec<Vec<u8>> = keys.into_iter().map(Into::into).collect();
        let refused = refused_keys(keys.len());
        self.start(move |db| db.multi_get_entity_opt(&options, &keys), refused)
    }
    /// [`Db::multi_get_entity_cf_opt`] as a future.
    pub fn multi_get_entity_cf_opt_async<K: Into<Vec<u8>>>(
        &self,
        options: &ReadOptions,
        keys: impl IntoIterator<Item = (ColumnFamily, K)>,
    ) -> DbFuture<Vec<FoundEntity>> {
        let options = options.clone();
        let keys: Vec<(_, Vec<u8>)> = keys.into_iter().map(|(cf, key)| (cf, key.into())).collect();
        let refused = refused_keys(keys.len());
        let call = move |db: &Db| {
            let keys: Vec<_> = keys.iter().map(|(cf, key)| (cf, &key[..])).collect();
            db.multi_get_entity_cf_opt(&options, &keys)
        };
        self.start(call, refused)
    }
}

/// Reads of merge operands. The number of operands is the length of the answer; if the answer is
/// Incomplete, the number is not reported.
impl Db {
    /// [`Db::get_merge_operands`] as a future.
    pub fn get_merge_operands_async(
        &self,
        key: impl Into<Vec<u8>>,
        how: GetMergeOperandsAsyncOptions,
    ) -> DbFuture<FoundOperands> {
        self.get_merge_operands_opt_async(&ReadOptions::DEFAULT, key, how)
    }
    /// [`Db::get_merge_operands_cf`] as a future.
    pub fn get_merge_operands_cf_async(
        &self,
        cf: &ColumnFamily,
        key: impl Into<Vec<u8>>,
        how: GetMergeOperandsAsyncOptions,
    ) -> DbFuture<FoundOperands> {
        self.get_merge_operands_cf_opt_async(&ReadOptions::DEFAULT, cf, key, how)
    }
    /// [`Db::get_merge_operands_opt`] as a future.
    pub fn get_merge_operands_opt_async(
        &self,
        options: &ReadOptions,
        key: impl Into<Vec<u8>>,
        how: GetMergeOperandsAsyncOptions,
    ) -> DbFuture<FoundOperands> {
        self.get_merge_operands_cf_opt_async(options, self.default_column_family(), key, how)
    }
    /// [`Db::get_merge_operands_cf_opt`] as a future.
    pub fn get_merge_operands_cf_opt_async(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl Into<Vec<u8>>,
        how: GetMergeOperandsAsyncOptions,
    ) -> DbFuture<FoundOperands> {
        let (options, cf, key) = (options.clone(), cf.clone(), key.into());
        self.call_async(move |db| {
            db.get_merge_operands_cf_opt(&options, &cf, &key, &how.borrowed(), &mut 0)
        })
    }
}

/// The columns of an entity that is to be put, owned.
fn owned<N: Into<Vec<u8>>, V: Into<Vec<u8>>>(
    columns: impl IntoIterator<Item = (N, V)>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    columns.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Writes. Those that are started one after the other are not ordered: wait for the first if it
/// matters.
impl Db {
    /// [`Db::put`] as a future.
    pub fn put_async(
        &self,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
    ) -> DbFuture<Result<()>> {
        self.put_opt_async(&WriteOptions::default(), key, value)
    }
    /// [`Db::put_cf`] as a future.
    pub fn put_cf_async(
        &self,
        cf: &ColumnFamily,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
    ) -> DbFuture<Result<()>> {
        self.put_cf_opt_async(&WriteOptions::default(), cf, key, value)
    }
    /// [`Db::put_opt`] as a future.
    pub fn put_opt_async(
        &self,
        options: &WriteOptions,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
    ) -> DbFuture<Result<()>> {
        self.put_cf_opt_async(options, self.default_column_family(), key, value)
    }
    /// [`Db::put_cf_opt`] as a future.
    pub fn put_cf_opt_async(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
    ) -> DbFuture<Result<()>> {
        let (options, cf, key, value) = (*options, cf.clone(), key.into(), value.into());
        self.call_async(move |db| db.put_cf_opt(&options, &cf, key, value))
    }

    /// [`Db::put_entity`] as a future.
    pub fn put_entity_async<N: Into<Vec<u8>>, V: Into<Vec<u8>>>(
        &self,
        key: impl Into<Vec<u8>>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> DbFuture<Result<()>> {
        self.put_entity_opt_async(&WriteOptions::default(), key, columns)
    }
    /// [`Db::put_entity_cf`] as a future.
    pub fn put_entity_cf_async<N: Into<Vec<u8>>, V: Into<Vec<u8>>>(
        &self,
        cf: &ColumnFamily,
        key: impl Into<Vec<u8>>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> DbFuture<Result<()>> {
        self.put_entity_cf_opt_async(&WriteOptions::default(), cf, key, columns)
    }
    /// [`Db::put_entity_opt`] as a future.
    pub fn put_entity_opt_async<N: Into<Vec<u8>>, V: Into<Vec<u8>>>(
        &self,
        options: &WriteOptions,
        key: impl Into<Vec<u8>>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> DbFuture<Result<()>> {
        self.put_entity_cf_opt_async(options, self.default_column_family(), key, columns)
    }
    /// [`Db::put_entity_cf_opt`] as a future.
    pub fn put_entity_cf_opt_async<N: Into<Vec<u8>>, V: Into<Vec<u8>>>(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl Into<Vec<u8>>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> DbFuture<Result<()>> {
        let (options, cf, key, columns) = (*options, cf.clone(), key.into(), owned(columns));
        self.call_async(move |db| db.put_entity_cf_opt(&options, &cf, key, columns))
    }

    /// [`Db::delete`] as a future.
    pub fn delete_async(&self, key: impl Into<Vec<u8>>) -> DbFuture<Result<()>> {
        self.delete_opt_async(&WriteOptions::default(), key)
    }
    /// [`Db::delete_cf`] as a future.
    pub fn delete_cf_async(
        &self,
        cf: &ColumnFamily,
        key: impl Into<Vec<u8>>,
    ) -> DbFuture<Result<()>> {
        self.delete_cf_opt_async(&WriteOptions::default(), cf, key)
    }
    /// [`Db::delete_opt`] as a future.
    pub fn delete_opt_async(
        &self,
        options: &WriteOptions,
        key: impl Into<Vec<u8>>,
    ) -> DbFuture<Result<()>> {
        self.delete_cf_opt_async(options, self.default_column_family(), key)
    }
    /// [`Db::delete_cf_opt`] as a future.
    pub fn delete_cf_opt_async(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl Into<Vec<u8>>,
    ) -> DbFuture<Result<()>> {
        let (options, cf, key) = (*options, cf.clone(), key.into());
        self.call_async(move |db| db.delete_cf_opt(&options, &cf, key))
    }

    /// [`Db::merge`] as a future.
    pub fn merge_async(
        &self,
        key: impl Into<Vec<u8>>,
        operand: impl Into<Vec<u8>>,
    ) -> DbFuture<Result<()>> {
        self.merge_opt_async(&WriteOptions::default(), key, operand)
    }
    /// [`Db::merge_cf`] as a future.
    pub fn merge_cf_async(
        &self,
        cf: &ColumnFamily,
        key: impl Into<Vec<u8>>,
        operand: impl Into<Vec<u8>>,
    ) -> DbFuture<Result<()>> {
        self.merge_cf_opt_async(&WriteOptions::default(), cf, key, operand)
    }
    /// [`Db::merge_opt`] as a future.
    pub fn merge_opt_async(
        &self,
        options: &WriteOptions,
        key: impl Into<Vec<u8>>,
        operand: impl Into<Vec<u8>>,
    ) -> DbFuture<Result<()>> {
        self.merge_cf_opt_async(options, self.default_column_family(), key, operand)
    }
    /// [`Db::merge_cf_opt`] as a future.
    pub fn merge_cf_opt_async(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl Into<Vec<u8>>,
        operand: impl Into<Vec<u8>>,
    ) -> DbFuture<Result<()>> {
        let (options, cf, key, operand) = (*options, cf.clone(), key.into(), operand.into());
        self.call_async(move |db| db.merge_cf_opt(&options, &cf, key, operand))
    }

    /// [`Db::write`] as a future.
    pub fn write_async(&self, updates: WriteBatch) -> DbFuture<Result<()>> {
        self.write_opt_async(&WriteOptions::default(), updates)
    }
    /// [`Db::write_opt`] as a future.
    pub fn write_opt_async(
        &self,
        options: &WriteOptions,
        mut updates: WriteBatch,
    ) -> DbFuture<Result<()>> {
        let options = *options;
        self.call_async(move |db| db.write_opt(&options, &mut updates))
    }
}

/// Everything else.
impl Db {
    /// Runs `call` with the database, as a future: a flush, a compaction, a scan, or several calls
    /// in their order. It runs on one fiber, where calls of the database suspend only that fiber;
    /// other waits should use [`crate::fiber`].
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
    /// # Errors
    /// Those of `call`; Aborted with subcode MemoryLimit, and IoError, where the call is not made
    /// because there is no memory or no shared runtime.
    pub fn call_async<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Db) -> Result<T> + Send + 'static,
    ) -> DbFuture<Result<T>> {
        self.start(call, Err)
    }

    /// Makes `call` on a fiber; where there is no memory for one the answer is that of `refused`.
    fn start<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Db) -> T + Send + 'static,
        refused: impl FnOnce(Error) -> T + Send + 'static,
    ) -> DbFuture<T> {
        let db = self.clone();
        let body = move || call(&db);
        let options = self.options();
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
}
