//! Tasks that may borrow from the task that starts them.
//!
//! As std's scoped threads, but the children are of the kind that `thread::spawn` would start.
//! Invariant cited by unsafe blocks: 1. `scope` does not return before the bodies of all children
//! have ended and been dropped, so what they borrow outlives them.
//!
//! Thread safety: a `Scope` is `Sync`; children may start more children.

use super::packet::{Packet, Work};
use super::{Place, Started, erase, launch};
use crate::task::{self, TaskRef, WaitReason};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static SCOPE: WaitReason = WaitReason("end of scope");

/// Children that have not ended, and whether one has panicked.
pub(crate) struct Children {
    running: AtomicUsize,
    panicked: AtomicBool,
    parent: TaskRef,
}

impl Children {
    /// No children yet; the calling task will wait for them.
    pub(crate) fn new() -> Self {
        Children {
            running: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            parent: task::current(),
        }
    }
    /// The body of a new child that runs `f`, and the receiver of its result. The child counts as
    /// ended when the body has run or been dropped.
    pub(crate) fn child<'a, T: 'a>(
        &'a self,
        f: impl FnOnce() -> T + 'a,
    ) -> (Arc<Packet<T>>, impl FnOnce() + 'a) {
        let (packet, promise) = Packet::new();
        let own = Some(Arc::clone(&packet));
        self.running.fetch_add(1, Ordering::Relaxed);
        let child = Child { work: promise.work(f), end: ChildEnd { own, children: self } };
        let body = move || {
            let Child { work, end } = child;
            work.run();
            drop(end);
        };
        (packet, body)
    }
    pub(crate) fn note_panic(&self) {
        self.panicked.store(true, Ordering::Relaxed);
    }
    /// The caller touches nothing of the scope afterwards.
    fn end(&self, panicked: bool) {
        if panicked {
            self.note_panic();
        }
        let parent = self.parent;
        if self.running.fetch_sub(1, Ordering::Release) == 1 {
            parent.unpark();
        }
    }
    /// Whether all have ended.
    pub(crate) fn ended(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }
    /// Waits until all have ended. Suspends.
    pub(crate) fn wait(&self) {
        while !self.ended() {
            task::park(&SCOPE);
        }
    }
    pub(crate) fn any_panicked(&self) -> bool {
        self.panicked.load(Ordering::Relaxed)
    }
}

/// A child that has not run. Its borrows end before it counts as ended.
struct Child<'a, T, F> {
    work: Work<T, F>,
    end: ChildEnd<'a, T>,
}

/// Dropped at the end of a child, whether it has run or not.
struct ChildEnd<'a, T> {
    /// Until it is dropped.
    own: Option<Arc<Packet<T>>>,
    children: &'a Children,
}

impl<T> Drop for ChildEnd<'_, T> {
    fn drop(&mut self) {
        // Either the handle has the result now or it is dropped here, before the end.
        let panicked = self.own.take().is_some_and(Packet::abandon);
        self.children.end(panicked);
    }
}

/// Starts children that borrow from `'env`. See [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    children: Children,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `f`, which may start tasks that borrow from the caller; they have ended on return.
/// Suspends.
///
/// # Panics
/// With the panic of `f`; or when a child that was not joined panicked or got no stack.
pub fn scope<'env, T>(f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let scope = Scope { children: Children::new(), scope: PhantomData, env: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    scope.children.wait();
    match result {
        Err(panic) => resume_unwind(panic),
        Ok(_) if scope.children.any_panicked() => panic!("a scoped task panicked or did not start"),
        Ok(value) => value,
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a child.
    ///
    /// # Panics
    /// When the operating system refuses a thread.
    pub fn spawn<T: Send + 'scope>(
        &'scope self,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        let (packet, body) = self.children.child(f);
        // SAFETY: invariant 1.
        let body = unsafe { erase(Box::new(body)) };
        match launch("scoped", Place::by_caller(), body) {
            Ok(started) => {
                ScopedJoinHandle { inner: Some((packet, started)), children: &self.children }
            }
            Err(e) => panic!("the operating system starts a thread: {e}"),
        }
    }
}

/// Waits for a child of a [`scope`] and takes its result.
pub struct ScopedJoinHandle<'scope, T> {
    /// Until it is joined.
    inner: Option<(Arc<Packet<T>>, Started)>,
    children: &'scope Children,
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        if let Some((packet, _)) = self.inner.take()
            && Packet::abandon(packet)
        {
            self.children.note_panic();
        }
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the end of the child. Suspends.
    ///
    /// # Errors
    /// What the child panicked with; [`NotStarted`](super::NotStarted) if it never ran.
    pub fn join(mut self) -> std::thread::Result<T> {
        let (packet, started) = self.inner.take().expect("joined once");
        packet.wait();
        started.finish();
        packet.take()
    }
    /// Whether the child has ended, so that `join` would not wait.
    pub fn is_finished(&self) -> bool {
        self.inner.as_ref().is_none_or(|(packet, _)| packet.is_done())
    }
    /// The child, for waking it.
    pub fn task(&self) -> TaskRef {
        self.inner.as_ref().expect("not joined yet").1.task
    }
}
