//! Nested marks.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use super::*;
use pumice_base::Result;
use pumice_env::{
    FileSystem, FileSystemWrapper, MemFs, RandomAccessFile, RandomAccessFileWrapper,
    ReadFileOptions, ReadRequest, write_file,
};

#[pumice_test_macros::test]
fn marks_of_several_databases() {
    let (one, other) = (Mark::new(), Mark::new());
    assert!(!one.is_inside());
    let job = one.enter_job();
    assert!(one.is_inside() && !one.is_locked() && !other.is_inside());
    let locked = other.enter_locked();
    assert!(one.is_inside() && !one.is_locked() && other.is_inside() && other.is_locked());
    assert!(one.check_may_lock().is_ok() && one.check_may_wait().is_err());
    drop(locked);
    drop(job);
    assert!(!one.is_inside() && !other.is_inside());
}

#[pumice_test_macros::test]
fn too_many_inside_each_other_count_as_all() {
    let (one, other) = (Mark::new(), Mark::new());
    let mut entered: Vec<_> = (0..DEPTH_MAX).map(|_| one.enter_job()).collect();
    assert!(!other.is_inside());
    entered.push(one.enter_job());
    assert!(other.is_locked());
    entered.clear();
    assert!(!one.is_inside() && !other.is_locked());
}

/// A user's file system whose files are prefetched.
struct OfAUser(Arc<dyn FileSystem>);

impl FileSystemWrapper for OfAUser {
    fn wrapped(&self) -> &dyn FileSystem {
        &*self.0
    }
    fn is_own(&self) -> bool {
        false
    }
    fn open_random_with(
        &self,
        path: &Path,
        options: &ReadFileOptions,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        Ok(Arc::new(Prefetched(self.0.open_random_with(path, options)?)))
    }
    fn device(&self, _path: &Path) -> Option<u64> {
        Some(7)
    }
}

struct Prefetched(Arc<dyn RandomAccessFile>);

impl RandomAccessFileWrapper for Prefetched {
    fn wrapped(&self) -> &dyn RandomAccessFile {
        &*self.0
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.0.read_at(offset, buf)
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        self.0.read_batch(requests);
    }
    fn needs_little_stack(&self) -> bool {
        false
    }
    fn prefetches(&self) -> bool {
        true
    }
    fn read_unit(&self) -> usize {
        512
    }
}

#[pumice_test_macros::test]
fn files_of_a_users_file_system_are_read_as_they_say() {
    let memory = MemFs::new(1).shared();
    let path = Path::new("/file");
    write_file(&*memory, path, b"bytes", false).unwrap();
    let fs: Arc<dyn FileSystem> = Arc::new(OfAUser(memory));
    let marked = mark_files(Mark::new(), &fs);
    assert!(!Arc::ptr_eq(&marked, &fs) && !marked.is_own());
    let of = |fs: &dyn FileSystem| {
        let file = fs.open_random(path).unwrap();
        (file.len(), file.read_unit(), file.prefetches(), file.needs_little_stack())
    };
    assert_eq!((of(&*marked), of(&*fs)), ((5, 512, true, false), (5, 512, true, false)));
    assert_eq!((marked.device(path), marked.num_file_links(path).unwrap()), (Some(7), 1));
}
