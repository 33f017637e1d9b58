//! Memory straight from the kernel: in ordinary pages, or in huge ones where it gives them.
//!
//! An ordinary page costs nothing until it is touched, whereas memory that an allocator has used
//! before is cleared as a whole. A huge page takes one TLB entry and one page fault where small
//! pages take 512; all of it is cleared and resident from its first touch. So huge pages are for
//! memory that will be used whole and is read at random (docs/decisions/0041).
//!
//! Thread safety: a region is plain memory with one owner.
//!
//! Invariants cited by unsafe blocks:
//! 1. `start` is a private anonymous mapping of `bytes` bytes, readable and writable, that only
//!    these [`Pages`] know and unmap; a region is such pages.
//!
//! A region is not divided here.

use std::ptr::{self, NonNull};

/// Size of the huge pages of x86-64 and, with base pages of 4 KiB, of AArch64.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

const READ_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
const UNUSED: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

/// `bytes` bytes of zeroed memory that nothing has touched; `None` where the kernel has no mapping
/// left.
fn map(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: a new mapping touches nothing that exists.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, READ_WRITE, UNUSED, -1, 0) };
    if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) }
}

/// Zeroed memory of ordinary pages, resident where it has been touched.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: invariant 1: plain memory with one owner.
unsafe impl Send for Pages {}
// SAFETY: as above; shared access only reads the address.
unsafe impl Sync for Pages {}

impl Pages {
    /// At least `bytes` bytes; `None` where the kernel has no mapping left. One system call.
    pub fn new(bytes: usize) -> Option<Self> {
        let bytes = bytes.max(1);
        map(bytes).map(|start| Pages { start, bytes })
    }

    /// Where they start: at a page.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        unmap(self.start.as_ptr(), self.bytes);
    }
}

/// Zeroed memory of whole huge pages, resident where it has been touched.
#[derive(Debug)]
pub struct HugeRegion {
    pages: Pages,
}

impl HugeRegion {
    /// At least `bytes` bytes, rounded up to whole huge pages; `None` where the kernel has no
    /// mapping left. The kernel decides whether the pages become huge ones
    /// (`/sys/kernel/mm/transparent_hugepage`); the memory is usable either way. Up to four system
    /// calls.
    pub fn new(bytes: usize) -> Option<Self> {
        let bytes = bytes.max(1).checked_next_multiple_of(HUGE_PAGE_BYTES)?;
        let mapped = bytes.checked_add(HUGE_PAGE_BYTES)?;
        let low = map(mapped)?.as_ptr();
        let before = low.align_offset(HUGE_PAGE_BYTES);
        // SAFETY: `before` is less than a huge page, so the region and what is cut off at both
        // ends lie within the mapping.
        let (start, end) = unsafe { (low.add(before), low.add(before + bytes)) };
        unmap(low, before);
        unmap(end, mapped - before - bytes);
        // A kernel without huge pages refuses; small ones will do. SAFETY: the mapping is ours; the
        // advice changes no content.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
        NonNull::new(start).map(|start| HugeRegion { pages: Pages { start, bytes } })
    }

    /// Where it starts: a multiple of [`HUGE_PAGE_BYTES`].
    pub fn start(&self) -> NonNull<u8> {
        self.pages.start
    }

    /// Gives the memory of huge page `number` of it back to the kernel: the page is zeroed when it
    /// is touched next. One system call.
    ///
    /// # Safety
    /// Nothing refers to that page's content.
    pub unsafe fn discard(&self, number: usize) {
        let inside = (number + 1) * HUGE_PAGE_BYTES <= self.bytes();
        assert!(inside, "page {number} of a region of {} bytes", self.bytes());
        // SAFETY: invariant 1, and the caller's word.
        let code = unsafe {
            let page = self.start().add(number * HUGE_PAGE_BYTES);
            libc::madvise(page.as_ptr().cast(), HUGE_PAGE_BYTES, libc::MADV_DONTNEED)
        };
        debug_assert_eq!(code, 0, "madvise");
    }

    /// Bytes of it.
    pub fn bytes(&self) -> usize {
        self.pages.bytes
    }
}

/// Unmaps the pages of `bytes` bytes from `start` on: those of a mapping that are not in use.
fn unmap(start: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: invariant 1, or the ends of a mapping that no region has yet.
        let code = unsafe { libc::munmap(start.cast(), bytes) };
        debug_assert_eq!(code, 0, "munmap");
    }
}
