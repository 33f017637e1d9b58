//! All user code that a database calls, in one object. In the calls of one kind it can use much
//! stack, panic, or run a hook at one call.
#![allow(dead_code)]

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

use pumice::options::InfoLogLevel;
use pumice::stats::listener::{
    BackgroundErrorReason, CompactionJobInfo, ExternalFileIngestionInfo, FlushJobInfo,
    MemTableInfo, TableFileCreationInfo, TableFileDeletionInfo, WriteStallInfo,
};
use pumice::{
    CompactionFilter, Comparator, CustomComparator, Error, EventListener, FileChecksumGenerator,
    FileSystem, FilterDecision, Logger, MemFs, MergeOperator, Options, Result, SliceTransform,
};
use pumice_env::{
    FileLock, FileOptions, FileSyncer, RandomAccessFile, RandomAccessFileWrapper, ReadFileOptions,
    ReadRequest, SequentialFile, WritableFile, read_one_by_one,
};
use pumice_port::lane::at_normal_priority;
use pumice_port::sync::Mutex;

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    Comparator,
    Separator,
    Operator,
    Filter,
    FilterOperand,
    Prefix,
    Listener,
    Logger,
    Files,
    Checksum,
}

pub const KINDS: [Kind; 10] = [
    Kind::Comparator,
    Kind::Separator,
    Kind::Operator,
    Kind::Filter,
    Kind::FilterOperand,
    Kind::Prefix,
    Kind::Listener,
    Kind::Logger,
    Kind::Files,
    Kind::Checksum,
];

/// What the calls do.
#[derive(Clone, Copy)]
pub enum Act {
    /// Use this many bytes of stack.
    Dig(usize),
    Panic,
}

const NOTHING: usize = usize::MAX;
const PANIC: usize = usize::MAX - 1;
const HOOK: usize = usize::MAX - 2;

/// What one call does.
pub type Hook = Arc<dyn Fn() + Send + Sync>;

/// See the head of this file.
pub struct Code {
    fs: MemFs,
    /// The kind of calls that act, and what they do.
    kind: AtomicUsize,
    act: AtomicUsize,
    /// Calls that acted since `tell`.
    acted: AtomicU64,
    /// Lines go to the logger whatever locks are held.
    pub plain: AtomicBool,
    hook: Mutex<Option<(u64, Hook)>>,
}

/// Uses `bytes` of stack below `top`.
#[inline(never)]
fn dig(top: usize, bytes: usize) -> u64 {
    let mut frame = [0u8; 2048];
    let frame = std::hint::black_box(&mut frame);
    if top.abs_diff(frame.as_ptr().addr()) >= bytes {
        return u64::from(frame[0]);
    }
    dig(top, bytes) + u64::from(frame[2047])
}

impl Code {
    pub fn new() -> Arc<Code> {
        Self::on(MemFs::new(3))
    }

    /// With files on `fs`.
    pub fn on(fs: MemFs) -> Arc<Code> {
        Arc::new(Code {
            fs,
            kind: AtomicUsize::new(NOTHING),
            act: AtomicUsize::new(0),
            acted: AtomicU64::new(0),
            plain: AtomicBool::new(true),
            hook: Mutex::new(None),
        })
    }

    /// From now on the call `at` of `kind`, counted from 0, does this.
    pub fn tell_hook(&self, kind: Kind, at: u64, hook: Hook) {
        *self.hook.lock() = Some((at, hook));
        self.acted.store(0, SeqCst);
        self.act.store(HOOK, SeqCst);
        self.kind.store(kind as usize, SeqCst);
    }

    /// Drops the hook and what it holds.
    pub fn forget(&self) {
        *self.hook.lock() = None;
    }

    /// What is in the files.
    pub fn files(&self) -> MemFs {
        self.fs.clone()
    }

    /// From now on calls of `kind` do this.
    pub fn tell(&self, kind: Kind, act: Act) {
        self.acted.store(0, SeqCst);
        self.act.store(if let Act::Dig(bytes) = act { bytes } else { PANIC }, SeqCst);
        self.kind.store(kind as usize, SeqCst);
    }

    /// From now on calls do nothing; how many have acted.
    pub fn calm(&self) -> u64 {
        self.kind.store(NOTHING, SeqCst);
        self.acted.load(SeqCst)
    }

    fn step(&self, kind: Kind) {
        if self.kind.load(SeqCst) != kind as usize {
            return;
        }
        let before = self.acted.fetch_add(1, SeqCst);
        match self.act.load(SeqCst) {
            PANIC => panic!("boom of {kind:?}"),
            HOOK => {
                let hook = self.hook.lock().clone();
                if let Some((_, hook)) = hook.filter(|(at, _)| *at == before) {
                    // Also on a lane it may take any lock.
                    at_normal_priority(|| hook());
                }
            }
            // All of them would take minutes, so only the first ones and some of the others.
            bytes if before < 10 || before.is_multiple_of(50) => {
                let top = 0u8;
                assert_eq!(dig(std::ptr::from_ref(&top).addr(), bytes), 0);
            }
            _ => {}
        }
    }

    /// Options with all of it.
    pub fn options(self: &Arc<Self>) -> Options {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = Arc::new(Files(Arc::clone(self)));
        options.db.info_log = Some(Arc::clone(self) as Arc<dyn Logger>);
        options.db.listeners.push(Arc::clone(self) as Arc<dyn EventListener>);
        let code = Arc::clone(self);
        options.db.set_file_checksum_gen_factory("user code", move |_| {
            code.step(Kind::Checksum);
            Some(Box::new(Length(0, Arc::clone(&code))))
        });
        options.cf.comparator = Comparator::Custom(Arc::clone(self) as Arc<dyn CustomComparator>);
        options.cf.merge_operator = Some(Arc::clone(self) as Arc<dyn MergeOperator>);
        options.cf.compaction_filter = Some(Arc::clone(self) as Arc<dyn CompactionFilter>);
        options.cf.prefix_extractor = Some(Arc::clone(self) as Arc<dyn SliceTransform>);
        options
    }
}

impl CustomComparator for Code {
    fn name(&self) -> &str {
        "user code"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        self.step(Kind::Comparator);
        a.cmp(b)
    }
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }
    fn find_shortest_separator(&self, _start: &mut Vec<u8>, _limit: &[u8]) {
        self.step(Kind::Separator);
    }
    fn find_short_successor(&self, _key: &mut Vec<u8>) {
        self.step(Kind::Separator);
    }
}

impl MergeOperator for Code {
    fn name(&self) -> &str {
        "user code"
    }
    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, all: &[&[u8]]) -> Option<Vec<u8>> {
        self.step(Kind::Operator);
        Some([existing.unwrap_or_default(), &all.concat()].concat())
    }
}

impl CompactionFilter for Code {
    fn name(&self) -> &str {
        "user code"
    }
    fn filter(&self, _level: i32, _key: &[u8], _value: &[u8]) -> FilterDecision {
        self.step(Kind::Filter);
        FilterDecision::Keep
    }
    fn filter_merge_operand(&self, _level: i32, _key: &[u8], _operand: &[u8]) -> bool {
        self.step(Kind::FilterOperand);
        false
    }
}

impl SliceTransform for Code {
    fn name(&self) -> String {
        "user code".to_string()
    }
    fn in_domain(&self, key: &[u8]) -> bool {
        key.len() >= 4
    }
    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        self.step(Kind::Prefix);
        &key[..4]
    }
}

/// The length of a file.
struct Length(u64, Arc<Code>);

impl FileChecksumGenerator for Length {
    fn name(&self) -> &str {
        "user code"
    }
    fn update(&mut self, data: &[u8]) {
        self.1.step(Kind::Checksum);
        self.0 += data.len() as u64;
    }
    fn finalize(&mut self) -> Vec<u8> {
        self.1.step(Kind::Checksum);
        self.0.to_be_bytes().to_vec()
    }
}

impl Logger for Code {
    fn log(&self, _level: InfoLogLevel, _message: fmt::Arguments<'_>) {
        self.step(Kind::Logger);
    }
    fn level(&self) -> InfoLogLevel {
        InfoLogLevel::Debug
    }
    fn is_plain(&self) -> bool {
        self.plain.load(SeqCst)
    }
}

/// Events, each with its argument.
macro_rules! events {
    ($($event:ident($info:ty)),* $(,)?) => {
        impl EventListener for Code {
            $(fn $event(&self, _info: &$info) {
                self.step(Kind::Listener);
            })*
            fn on_background_error(&self, _reason: BackgroundErrorReason, _error: &Error) {
                self.step(Kind::Listener);
            }
        }
    };
}

events! {
    on_flush_begin(FlushJobInfo),
    on_flush_completed(FlushJobInfo),
    on_compaction_begin(CompactionJobInfo),
    on_compaction_completed(CompactionJobInfo),
    on_table_file_created(TableFileCreationInfo),
    on_table_file_deleted(TableFileDeletionInfo),
    on_memtable_sealed(MemTableInfo),
    on_stall_conditions_changed(WriteStallInfo),
    on_external_file_ingested(ExternalFileIngestionInfo),
    on_error_recovery_completed(Error),
    on_column_family_handle_deletion_started(str),
}

/// A user's file system, with files in memory.
struct Files(Arc<Code>);

/// Methods that step and then call the in-memory file system's.
macro_rules! delegate {
    ($($method:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $method(&self, $($arg: $type),*) -> Result<$result> {
            self.0.step(Kind::Files);
            self.0.fs.$method($($arg),*)
        }
    )*};
}

impl FileSystem for Files {
    fn open_random_with(
        &self,
        path: &Path,
        options: &ReadFileOptions,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        self.0.step(Kind::Files);
        let file = self.0.fs.open_random_with(path, options)?;
        Ok(Arc::new(OpenFile { file, code: Arc::clone(&self.0) }))
    }
    fn create(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        self.0.step(Kind::Files);
        let file = self.0.fs.create(path, options)?;
        Ok(Box::new(Written { file, code: Arc::clone(&self.0) }))
    }
    delegate! {
        open_sequential(path: &Path) -> Box<dyn SequentialFile>;
        reopen_append(path: &Path) -> Box<dyn WritableFile>;
        reuse(old: &Path, new: &Path) -> Box<dyn WritableFile>;
        read_file(path: &Path) -> Vec<u8>;
        exists(path: &Path) -> bool;
        file_size(path: &Path) -> u64;
        modified_time(path: &Path) -> u64;
        rename(from: &Path, to: &Path) -> ();
        link(from: &Path, to: &Path) -> ();
        remove(path: &Path) -> ();
        truncate(path: &Path, bytes: u64) -> ();
        create_dir_all(path: &Path) -> ();
        remove_dir(path: &Path) -> ();
        list(path: &Path) -> Vec<String>;
        sync_dir(path: &Path) -> ();
        lock(path: &Path) -> Box<dyn FileLock>;
        free_space(path: &Path) -> u64;
        num_file_links(path: &Path) -> u64;
    }
    fn device(&self, path: &Path) -> Option<u64> {
        self.0.step(Kind::Files);
        self.0.fs.device(path)
    }
    fn is_own(&self) -> bool {
        false
    }
}

struct OpenFile {
    file: Arc<dyn RandomAccessFile>,
    code: Arc<Code>,
}

impl RandomAccessFileWrapper for OpenFile {
    fn wrapped(&self) -> &dyn RandomAccessFile {
        &*self.file
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.code.step(Kind::Files);
        self.file.read_at(offset, buf)
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        read_one_by_one(self, requests);
    }
    fn needs_little_stack(&self) -> bool {
        false
    }
}

struct Written {
    file: Box<dyn WritableFile>,
    code: Arc<Code>,
}

/// Methods of a file that step and then call the in-memory file's.
macro_rules! delegate_changes {
    ($($method:ident($($arg:ident: $type:ty),*);)*) => {$(
        fn $method(&mut self, $($arg: $type),*) -> Result<()> {
            self.code.step(Kind::Files);
            self.file.$method($($arg),*)
        }
    )*};
}

impl WritableFile for Written {
    delegate_changes! {
        append(data: &[u8]);
        overwrite(ahead: u64, data: &[u8], step: u64);
        flush();
        sync();
        fsync();
        range_sync(offset: u64, bytes: u64, wait_for_earlier: bool);
        preallocate(end: u64);
        truncate(bytes: u64);
        close();
    }
    fn syncer(&self) -> Result<Arc<dyn FileSyncer>> {
        self.file.syncer()
    }
    fn len(&self) -> u64 {
        self.file.len()
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
}
