//! Memory that only grows: bump allocation in blocks that live as long as the arena.
//!
//! An arena has *lanes*: a bump pointer, and the counters that every insert changes. Lane 0 belongs
//! to the exclusive writer, which keeps its [`Bump`] under its own lock and allocates from blocks
//! of the full size. The others, with smaller blocks, serve concurrent writers; each picks one by
//! its stack address, so that they share neither a lock nor a counter.
//!
//! Once an arena holds 4 MiB, its blocks come from regions of huge pages, which are returned to the
//! kernel when the arena is dropped; smaller arenas use the allocator's memory.
//!
//! Invariants:
//! 1. Memory handed out is 8-aligned, within one block, disjoint from all other memory handed
//!    out, and valid until the arena is dropped.
//! 2. Blocks are never moved or freed before that.
//! 3. A lane's counters are changed only under its lock; readers may see stale values, never torn
//!    ones.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crossbeam_utils::CachePadded;
use pumice_base::key::{TRAILER_LEN, ValueType, unpack};
use pumice_port::os::HugeRegion;
use pumice_port::sync::Mutex;

use crate::write_buffer_manager::WriteBufferManager;

/// Alignment of everything handed out.
pub(crate) const ALIGN: usize = 8;
/// Alignment of blocks: a cache line.
const BLOCK_ALIGN: usize = 64;
/// The first block of the exclusive writer, as RocksDB's `Arena::kInlineSize`; each further one is
/// twice as large, up to the full size. So a memtable counts against a shared limit as about twice
/// its content; if all blocks but the first had the full size, as RocksDB's, forty families with an
/// entry each would hold 40 MB. The last that grows is larger by so much that all up to it have
/// the sum of a first and a full block: a memtable is full with as many bytes as RocksDB's.
const FIRST_BLOCK_BYTES: usize = 2048;
/// Lanes for concurrent writers; a power of two.
const SHARED_LANES: usize = 8;
/// Largest block of a shared lane (RocksDB's ConcurrentArena cuts its shards alike).
const SHARED_BLOCK_BYTES_MAX: usize = 128 << 10;
/// Arenas that hold this much get further blocks from regions of huge pages: at most a third of
/// their memory is then the unused part of the last page.
const HUGE_FROM_BYTES: usize = 4 << 20;
/// Size of a region; only address space until it is touched. Blocks above half of it do not come
/// from regions.
const REGION_BYTES: usize = 8 << 20;

/// Where a lane allocates next.
pub(crate) struct Bump {
    at: *mut u8,
    left: usize,
}

// SAFETY: a pointer to memory that nothing else uses (invariant 1); moving it is harmless.
unsafe impl Send for Bump {}

impl Bump {
    /// A bump pointer without a block.
    pub(crate) const fn new() -> Self {
        Bump { at: ptr::null_mut(), left: 0 }
    }
}

/// Counters of one lane's inserts. Changed only under the lock of the lane's `Bump`.
pub(crate) struct Lane {
    /// Bytes left in the current block.
    unused: AtomicUsize,
    /// Entries, range tombstones not counted.
    pub(crate) entries: AtomicU64,
    /// Entries that are point deletions.
    pub(crate) deletes: AtomicU64,
    /// Bytes of keys and values.
    pub(crate) data_bytes: AtomicU64,
    /// Smallest sequence; `u64::MAX`: none.
    pub(crate) first_seq: AtomicU64,
    /// Largest sequence.
    pub(crate) largest_seq: AtomicU64,
    /// Blocks have the full size.
    full_blocks: bool,
}

impl Lane {
    fn new(full_blocks: bool) -> Self {
        Lane {
            unused: AtomicUsize::new(0),
            entries: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            data_bytes: AtomicU64::new(0),
            first_seq: AtomicU64::new(u64::MAX),
            largest_seq: AtomicU64::new(0),
            full_blocks,
        }
    }

    /// Counts an entry with that trailer. The caller holds the lock of the lane's `Bump`.
    #[inline]
    pub(crate) fn count(&self, trailer: u64, bytes: usize) {
        let (seq, tag) = unpack(trailer);
        shift(&self.entries, 1);
        shift(&self.data_bytes, (bytes + TRAILER_LEN) as u64);
        shift(&self.deletes, u64::from(is_deletion(tag)));
        if seq > self.largest_seq.load(Relaxed) {
            self.largest_seq.store(seq, Relaxed);
        }
        if seq < self.first_seq.load(Relaxed) {
            self.first_seq.store(seq, Relaxed);
        }
    }
    /// Undoes `count`, except for the sequences, which the existing entry has too.
    pub(crate) fn uncount(&self, trailer: u64, bytes: usize) {
        shift(&self.entries, 1u64.wrapping_neg());
        shift(&self.data_bytes, ((bytes + TRAILER_LEN) as u64).wrapping_neg());
        shift(&self.deletes, u64::from(is_deletion(unpack(trailer).1)).wrapping_neg());
    }
}

/// Adds, modulo 2^64, to a counter that one thread changes at a time.
#[inline]
fn shift(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

/// The tag is of a point deletion (those that RocksDB's `num_deletes` counts).
#[inline]
fn is_deletion(tag: u8) -> bool {
    tag == ValueType::Deletion as u8
        || tag == ValueType::SingleDeletion as u8
        || tag == ValueType::DeletionWithTimestamp as u8
}

/// A lane for concurrent writers.
pub(crate) struct SharedLane {
    pub(crate) lane: Lane,
    pub(crate) bump: Mutex<Bump>,
}

struct Block {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: owns plain memory.
unsafe impl Send for Block {}

/// The memory of an arena.
#[derive(Default)]
struct Held {
    /// Blocks from the allocator.
    blocks: Vec<Block>,
    /// Number of blocks from the allocator and from regions.
    block_count: usize,
    regions: Vec<HugeRegion>,
    /// Bytes at the end of the last region that no block uses yet.
    uncut: usize,
}

impl Held {
    /// A block of `bytes` bytes from the allocator.
    fn allocate(&mut self, bytes: usize) -> NonNull<u8> {
        let layout = Layout::from_size_align(bytes, BLOCK_ALIGN).expect("entries are below 9 GiB");
        // SAFETY: `bytes` is not zero: an entry has a header, a block at least 2048 bytes.
        let Some(at) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        self.blocks.push(Block { at, layout });
        at
    }

    /// A block of `bytes` bytes from the regions; `None` where the kernel has no more.
    fn cut(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let bytes = bytes.next_multiple_of(BLOCK_ALIGN);
        if self.uncut < bytes {
            let region = HugeRegion::new(REGION_BYTES)?;
            self.uncut = region.bytes();
            self.regions.push(region);
        }
        let region = self.regions.last()?;
        let offset = region.bytes() - self.uncut;
        self.uncut -= bytes;
        // SAFETY: the last `uncut` bytes of the region are not in use (invariant 1).
        Some(unsafe { region.start().add(offset) })
    }
}

/// See the head.
pub(crate) struct Arena {
    exclusive: CachePadded<Lane>,
    shared: Box<[CachePadded<SharedLane>]>,
    held: Mutex<Held>,
    block_bytes: usize,
    allocated: AtomicUsize,
    manager: Option<Arc<WriteBufferManager>>,
}

impl Arena {
    /// An arena without blocks, which reports every block to `manager`.
    pub(crate) fn new(block_bytes: usize, manager: Option<Arc<WriteBufferManager>>) -> Self {
        Arena {
            exclusive: CachePadded::new(Lane::new(true)),
            shared: (0..SHARED_LANES)
                .map(|_| SharedLane {
                    lane: Lane::new(false),
                    bump: Mutex::foreground(Bump::new()),
                })
                .map(CachePadded::new)
                .collect(),
            held: Mutex::foreground(Held::default()),
            block_bytes: block_bytes.max(4096),
            allocated: AtomicUsize::new(0),
            manager,
        }
    }

    /// The lane of the exclusive writer.
    #[inline]
    pub(crate) fn exclusive_lane(&self) -> &Lane {
        &self.exclusive
    }

    /// A lane for a concurrent writer. Threads and fibers have stacks of their own, so the address
    /// of a local variable tells them apart; that is a hint, not an identity.
    #[inline]
    pub(crate) fn shared_lane(&self) -> &SharedLane {
        let local = 0u8;
        let stack = (&raw const local) as u64 >> 16;
        let spread = stack.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.shared[spread as usize & (SHARED_LANES - 1)]
    }

    /// `bytes` of fresh memory from `bump`, the bump pointer of `lane`.
    #[inline]
    pub(crate) fn allocate(&self, lane: &Lane, bump: &mut Bump, bytes: usize) -> *mut u8 {
        let bytes = bytes.next_multiple_of(ALIGN);
        if bytes > bump.left {
            return self.allocate_slow(lane, bump, bytes);
        }
        let at = bump.at;
        // SAFETY: `left` bytes from `at` are ours (invariant 1).
        bump.at = unsafe { at.add(bytes) };
        bump.left -= bytes;
        lane.unused.store(bump.left, Relaxed);
        at
    }

    #[cold]
    #[inline(never)]
    fn allocate_slow(&self, lane: &Lane, bump: &mut Bump, bytes: usize) -> *mut u8 {
        let block_bytes = if lane.full_blocks {
            growing_block_bytes(self.held.lock().block_count, self.block_bytes)
        } else {
            (self.block_bytes / 8).clamp(4096, SHARED_BLOCK_BYTES_MAX)
        };
        // A large entry gets its own block; the rest of the current one stays in use.
        if bytes > block_bytes / 4 {
            return self.new_block(bytes).as_ptr();
        }
        let at = self.new_block(block_bytes).as_ptr();
        // SAFETY: `bytes` is at most a quarter of the block.
        bump.at = unsafe { at.add(bytes) };
        bump.left = block_bytes - bytes;
        lane.unused.store(bump.left, Relaxed);
        at
    }

    fn new_block(&self, bytes: usize) -> NonNull<u8> {
        let is_huge = self.allocated() >= HUGE_FROM_BYTES && bytes <= REGION_BYTES / 2;
        let mut held = self.held.lock();
        held.block_count += 1;
        let cut = is_huge.then(|| held.cut(bytes)).flatten();
        let at = cut.unwrap_or_else(|| held.allocate(bytes));
        drop(held);
        self.charge(bytes);
        at
    }

    /// Counts `bytes` held for this memtable, in blocks or elsewhere.
    pub(crate) fn charge(&self, bytes: usize) {
        self.allocated.fetch_add(bytes, Relaxed);
        if let Some(manager) = &self.manager {
            manager.reserve(bytes);
        }
    }

    /// Bytes held.
    #[inline]
    pub(crate) fn allocated(&self) -> usize {
        self.allocated.load(Relaxed)
    }
    /// Bytes of blocks not handed out yet.
    pub(crate) fn unused(&self) -> usize {
        self.lanes().map(|lane| lane.unused.load(Relaxed)).sum()
    }
    /// All lanes.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        std::iter::once(&*self.exclusive).chain(self.shared.iter().map(|shared| &shared.lane))
    }
    /// Size of the exclusive lane's blocks.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes
    }
}

/// Size of the exclusive lane's block after `count` others, where full blocks have `full` bytes.
fn growing_block_bytes(count: usize, full: usize) -> usize {
    let doubled = FIRST_BLOCK_BYTES << count.min(20);
    let is_last = doubled < full && full <= 2 * doubled && count > 0;
    if is_last { full + 2 * FIRST_BLOCK_BYTES - doubled } else { doubled.min(full) }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for block in self.held.lock().blocks.drain(..) {
            // SAFETY: from `alloc` with this layout; nothing borrows the arena any more.
            unsafe { dealloc(block.at.as_ptr(), block.layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST_BLOCK_BYTES, growing_block_bytes};

    #[pumice_test_macros::test]
    fn blocks_grow_to_the_sum_of_a_first_and_full_ones() {
        for full in [4096, 8192, 12_288, 16_384, 65_536, 1 << 20, 3 << 20] {
            let sizes: Vec<usize> = (0..24).map(|count| growing_block_bytes(count, full)).collect();
            assert_eq!(sizes[0], FIRST_BLOCK_BYTES);
            assert!(sizes.is_sorted() && sizes.iter().all(|bytes| *bytes <= full), "{sizes:?}");
            let growing: usize = sizes.iter().take_while(|bytes| **bytes < full).sum();
            let is_sum = growing % full == FIRST_BLOCK_BYTES || growing == FIRST_BLOCK_BYTES;
            assert!(is_sum, "{full}: {sizes:?}");
        }
    }
}
