//! Allocators that record their requests: number and largest, or also how much was live.
//!
//! The corruption suite installs it to show that no damaged length makes the engine allocate more
//! than 64 MiB, the tests of the table builder to show that entries allocate nothing. It measures
//! requests, not use: memory that is never touched counts.
//!
//! [`LiveAllocator`] counts every byte that is not freed yet, for binaries in which one thing
//! happens at a time: its atomic additions are shared by all threads.
//!
//! Invariants: (1) every call is handed to the system allocator unchanged; the counters are
//! separate.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system allocator with a high-water mark of single requests and their number.
pub struct WatchingAllocator {
    largest: AtomicUsize,
    requests: AtomicUsize,
    also: fn(),
}

impl WatchingAllocator {
    /// An allocator that has seen no request.
    #[allow(clippy::new_without_default)] // A static needs a const constructor.
    pub const fn new() -> Self {
        Self::telling(|| {})
    }

    /// The same, which calls `also` at each request, on the thread that makes it. `also` must make
    /// none.
    pub const fn telling(also: fn()) -> Self {
        WatchingAllocator { largest: AtomicUsize::new(0), requests: AtomicUsize::new(0), also }
    }

    /// Bytes of the largest request since the last call.
    pub fn take_largest(&self) -> usize {
        self.largest.swap(0, Ordering::Relaxed)
    }

    /// Requests so far, including reallocations.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    fn note(&self, bytes: usize) {
        (self.also)();
        self.requests.fetch_add(1, Ordering::Relaxed);
        if bytes > self.largest.load(Ordering::Relaxed) {
            self.largest.fetch_max(bytes, Ordering::Relaxed);
        }
    }
}

// SAFETY: invariant 1; `System` keeps the contract of `GlobalAlloc`.
unsafe impl GlobalAlloc for WatchingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.note(layout.size());
        // SAFETY: invariant 1: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.note(layout.size());
        // SAFETY: invariant 1.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.note(bytes);
        // SAFETY: invariant 1.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: invariant 1.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The system allocator with a count of live bytes, its peak, and the largest request.
pub struct LiveAllocator {
    largest: AtomicUsize,
    live: AtomicUsize,
    peak: AtomicUsize,
}

impl LiveAllocator {
    /// An allocator that has seen no request.
    #[allow(clippy::new_without_default)] // A static needs a const constructor.
    pub const fn new() -> Self {
        LiveAllocator {
            largest: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }
    }

    /// Forgets the largest request and the peak; returns the bytes that are live.
    pub fn begin(&self) -> usize {
        let live = self.live.load(Ordering::Relaxed);
        self.largest.store(0, Ordering::Relaxed);
        self.peak.store(live, Ordering::Relaxed);
        live
    }

    /// Bytes of the largest request since `begin`.
    pub fn largest(&self) -> usize {
        self.largest.load(Ordering::Relaxed)
    }

    /// The most bytes that were live since `begin`.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    fn note(&self, bytes: usize) {
        let live = self.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(live, Ordering::Relaxed);
        self.largest.fetch_max(bytes, Ordering::Relaxed);
    }
}

// SAFETY: invariant 1; `System` keeps the contract of `GlobalAlloc`.
unsafe impl GlobalAlloc for LiveAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.note(layout.size());
        // SAFETY: invariant 1: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.note(layout.size());
        // SAFETY: invariant 1.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.note(bytes);
        self.live.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: invariant 1.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.live.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: invariant 1.
        unsafe { System.dealloc(pointer, layout) }
    }
}
