//! Calls that return futures, for programs built on an executor.
//!
//! Each call starts a fiber on the database's runtime (`DbOptions::runtime`) that does what the
//! ordinary call does. The future is woken when the fiber has ended; it needs no executor of ours
//! and knows none. Keys, values and batches are owned, because the fiber goes on when the future is
//! dropped: a dropped `write_async` is written all the same.
//!
//! The fiber holds a handle: a database whose last handle goes while calls are under way closes
//! after the last of them. After `Db::close` reads answer from the last state and writes fail with
//! ShutdownInProgress, as in the ordinary calls. A call for which there is no memory to start a
//! fiber is not made; its answer, that of each key, is Aborted with subcode MemoryLimit.
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
use crate::options::requests::{ReadOptions, WriteOptions};
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
    /// There is nothing to start a fiber on: the answer, until it was polled.
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

impl Db {
    /// [`Db::get`] as a future.
    pub fn get_async(
        &self,
        options: &ReadOptions,
        key: impl Into<Vec<u8>>,
    ) -> DbFuture<Result<Option<PinnedSlice>>> {
        self.get_cf_async(options, self.default_column_family(), key)
    }

    /// [`Db::get_cf`] as a future.
    pub fn get_cf_async(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl Into<Vec<u8>>,
    ) -> DbFuture<Result<Option<PinnedSlice>>> {
        let (options, cf, key) = (options.clone(), cf.clone(), key.into());
        self.start("get_async", move |db| db.get_cf_opt(&options, &cf, &key), Err)
    }

    /// [`Db::multi_get`] as a future.
    pub fn multi_get_async(
        &self,
        options: &ReadOptions,
        keys: Vec<Vec<u8>>,
    ) -> DbFuture<Vec<Result<Option<PinnedSlice>>>> {
        let (options, count) = (options.clone(), keys.len());
        let refused = move |error: Error| (0..count).map(|_| Err(error.clone())).collect();
        self.start("multi_get_async", move |db| db.multi_get_opt(&options, &keys), refused)
    }

    /// [`Db::multi_get_cf`] as a future.
    pub fn multi_get_cf_async(
        &self,
        options: &ReadOptions,
        keys: Vec<(ColumnFamily, Vec<u8>)>,
    ) -> DbFuture<Vec<Result<Option<PinnedSlice>>>> {
        let (options, count) = (options.clone(), keys.len());
        let refused = move |error: Error| (0..count).map(|_| Err(error.clone())).collect();
        let call = move |db: &Db| {
            let keys: Vec<_> = keys.iter().map(|(cf, key)| (cf, &key[..])).collect();
            db.multi_get_cf_opt(&options, &keys)
        };
        self.start("multi_get_async", call, refused)
    }

    /// [`Db::write`] as a future. Writes started one after the other are not ordered: wait for
    /// the first if it matters.
    pub fn write_async(
        &self,
        options: &WriteOptions,
        mut updates: WriteBatch,
    ) -> DbFuture<Result<()>> {
        let options = *options;
        self.start("write_async", move |db| db.write_opt(&options, &mut updates), Err)
    }

    /// Makes `call` on a fiber; where there is no memory for one the answer is what `refused` says.
    fn start<T: Send + 'static>(
        &self,
        name: &'static str,
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
            Ok(runtime) => State::Started(future::spawn(runtime, name, body, refused)),
            Err(e) => State::Refused(Some(Box::new(refused(Error::io_message(format!(
                "While starting the loops of the shared runtime: {e}"
            )))))),
        })
    }
}
