//! The operating system, as safe functions: files, directories, locks, identity, priorities.
//!
//! Calls are repeated on EINTR. Errors are `std::io::Error` with the errno; the `env` crate gives
//! them the texts that users know. File calls may block; on fibers they suspend.
//!
//! Thread safety: free functions may be called from anywhere; [`File`] is `Sync` because every
//! method that takes a position is one positioned system call.

mod aligned;
#[cfg(feature = "mimalloc")]
pub mod allocator;
pub mod c_memory;
mod file;
mod lock;
mod numa;
mod pages;
mod process;
mod read;
mod signal;

pub use aligned::{AlignedBuffer, DIRECT_ALIGNMENT, PooledBuffer};
pub use file::{
    Advice, File, FileStat, OpenFlags, copy_mode, create_dir, create_dir_all, free_space, link,
    read_dir, read_file, remove_dir, rename, stat, sync_dir, truncate, unlink,
};
pub use lock::{FileLock, LockFailure};
pub use numa::{MemoryNode, memory_nodes};
pub use pages::{HUGE_PAGE_BYTES, HugeRegion, Pages};
pub use process::{
    CpuPriority, HugePages, IoPriority, ThreadPriority, current_cpu, descriptor_limit,
    end_with_parent, hostname, is_forked, nice_of, pid, read_random_bytes, set_thread_cpu_priority,
    set_thread_io_priority, thread_id, thread_priority, thread_priority_of, total_memory_bytes,
    use_huge_pages, watch_forks,
};
pub(crate) use process::{
    SIM_CPUS, restore_cpu_priority, restore_io_priority, set_cpu_priority_of, set_io_priority_of,
    thread_cpu_nanos_of,
};

pub use read::{BatchRead, read_batch};
pub use signal::{Signal, Signals};

#[cfg(test)]
mod tests;
