//! Entries as a stream, for programs built on an executor.
//!
//! Entries are read ahead on a fiber of the database's runtime, one first and then twice as many
//! each time, up to 256. Thread safety: one owner at a time; polling never suspends. A dropped
//! stream stops after the read that is under way. An error is the last item.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pumice_base::Result;

use crate::db::api::Db;
use crate::db::forms::futures::DbFuture;
use crate::read::entries::Entries;

/// Entries read at once, at most.
const AHEAD_MAX: usize = 256;

/// A key and its value.
type Entry = (Vec<u8>, Vec<u8>);
/// Entries that were read, and the iterator to read more of.
type Batch = (VecDeque<Result<Entry>>, Option<Entries>);

/// Entries as a stream, made by [`Db::stream`].
///
/// [`EntryStream::poll_next`] has the shape of the trait `Stream` of the crates `futures` and
/// `tokio-stream`, whose `poll_fn(move |context| stream.poll_next(context))` makes one of it.
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
/// # let dir = std::env::temp_dir().join(format!("pumice-stream-{}", std::process::id()));
/// let db = pumice::Db::builder(&dir).create(true).open()?;
/// for key in ["a", "b", "c"] {
///     db.put(key, "v")?;
/// }
/// # block_on(async {
/// let mut entries = db.stream(db.range("b"..)?);
/// let mut keys = Vec::new();
/// while let Some(entry) = entries.next().await {
///     keys.push(entry?.0);
/// }
/// assert_eq!(keys, [b"b", b"c"]);
/// # Ok::<(), pumice::Error>(())
/// # })?;
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a stream reads nothing before it is polled"]
pub struct EntryStream {
    db: Db,
    ready: VecDeque<Result<Entry>>,
    /// None while a read is under way, and at the end.
    entries: Option<Entries>,
    reading: Option<DbFuture<Result<Batch>>>,
    ahead: usize,
}

impl Db {
    /// The entries as a stream, which suspends no thread. Does not suspend.
    pub fn stream(&self, entries: Entries) -> EntryStream {
        let (ready, entries) = (VecDeque::new(), Some(entries));
        EntryStream { db: self.clone(), ready, entries, reading: None, ahead: 1 }
    }
}

impl EntryStream {
    /// The next entry; None after the last one.
    ///
    /// # Errors
    /// Those of [`Db::iter`]'s items and of [`Db::call_async`].
    pub async fn next(&mut self) -> Option<Result<Entry>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// [`EntryStream::next`] for a stream that is polled.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Entry>>> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Poll::Ready(Some(entry));
            }
            if let Some(reading) = &mut self.reading {
                let read = ready!(Pin::new(reading).poll(context));
                self.reading = None;
                match read {
                    Ok((ready, entries)) => (self.ready, self.entries) = (ready, entries),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
                continue;
            }
            let Some(entries) = self.entries.take() else { return Poll::Ready(None) };
            let count = self.ahead;
            self.ahead = (count * 2).min(AHEAD_MAX);
            self.reading = Some(self.db.call_async(move |_| Ok(read(entries, count))));
        }
    }
}

/// Takes up to `count` entries.
fn read(mut entries: Entries, count: usize) -> Batch {
    let ready: VecDeque<_> = entries.by_ref().take(count).collect();
    let goes_on = ready.len() == count;
    (ready, goes_on.then_some(entries))
}
