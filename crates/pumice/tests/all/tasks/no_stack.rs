//! No memory for the stack of a fiber: calls that can run without one continue, the others fail
//! with an error, and nothing waits for a task that never began.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::common::{self, key};
use pumice::{
    Db, Error, ErrorKind, FlushOptions, Options, ReadOptions, Runtime, SubCode, WriteBatch,
    WriteOptions,
};
use pumice_port::sync::Event;
use pumice_port::testing::{block_on, limit_address_space, refuse_stacks};
use pumice_port::thread::JoinHandle;

const KEYS: usize = 2000;

fn value(n: usize) -> Vec<u8> {
    format!("value of {n} ").repeat(8).into_bytes()
}

/// `KEYS` keys in tables without a block cache, and a runtime of one loop.
fn database(options: &mut Options, dir: &Path) -> (Arc<Runtime>, Db) {
    options.cf.table_factory.no_block_cache = true;
    let runtime = Arc::new(Runtime::builder().loops(1).build().unwrap());
    options.db.runtime = Some(Arc::clone(&runtime));
    let db = Db::open(options, dir).unwrap();
    for n in 0..KEYS {
        db.put_opt(&WriteOptions::default(), &key(n), &value(n)).unwrap();
    }
    db.flush_opt(&FlushOptions::default()).unwrap();
    (runtime, db)
}

fn in_memory() -> (Options, Arc<Runtime>, Db) {
    let (_, fs) = common::memory();
    let mut options = common::options(&fs);
    let (runtime, db) = database(&mut options, Path::new(common::DIR));
    (options, runtime, db)
}

fn wanted() -> Vec<usize> {
    (0..100).map(|n| n * 19).collect()
}

fn check(found: Vec<pumice::Result<Option<pumice::PinnedSlice>>>) {
    assert_eq!(found.len(), wanted().len());
    for (n, found) in wanted().into_iter().zip(found) {
        assert_eq!(found.unwrap().as_deref(), Some(&value(n)[..]), "key {n}");
    }
}

fn no_memory(error: &Error) -> bool {
    (error.kind(), error.subcode()) == (ErrorKind::Aborted, SubCode::MemoryLimit)
}

/// Whichever of its fibers gets no stack, the caller reads the rest.
#[pumice_test_macros::test]
fn multi_get_reads_by_itself() {
    let (_, _, db) = in_memory();
    let keys: Vec<_> = wanted().into_iter().map(key).collect();
    for fill_cache in [true, false] {
        let read = ReadOptions { fill_cache, ..ReadOptions::default() };
        for after in [0, 1, 2, 30] {
            for count in [1, 1000] {
                refuse_stacks(after, count);
                check(db.multi_get_opt(&read, &keys));
                let left = refuse_stacks(0, 0);
                assert!(left < count, "{after} {count}: nothing was refused");
            }
        }
    }
    db.close().unwrap();
}

/// From now on the loop gives `after` stacks and then refuses `count`.
fn refuse(runtime: &Runtime, after: u32, count: u32) {
    // What is left of the last refusals may meet this one, too.
    while runtime.spawn("refuse", move || refuse_stacks(after, count)).join().is_err() {}
}

/// One call of each kind; how many of them ended with an error.
fn futures(db: &Db) -> usize {
    let read = ReadOptions::default();
    let cf = db.default_column_family();
    let keys: Vec<_> = wanted().into_iter().map(key).collect();
    let in_cf: Vec<_> = keys.iter().map(|key| (cf.clone(), key.clone())).collect();
    let mut batch = WriteBatch::new();
    batch.put(b"written", b"yes");
    let calls = (
        db.get_opt_async(&read, key(7)),
        db.multi_get_opt_async(&read, keys),
        db.multi_get_cf_opt_async(&read, in_cf),
        db.write_opt_async(&WriteOptions::default(), batch),
    );
    let mut refused = 0;
    let mut is_refused = |error: Error| {
        assert!(no_memory(&error), "{error}");
        refused += 1;
    };
    match block_on(calls.0) {
        Ok(found) => assert_eq!(found.as_deref(), Some(&value(7)[..])),
        Err(error) => is_refused(error),
    }
    let found = block_on(calls.1);
    match found[0].clone_error() {
        None => check(found),
        Some(error) => {
            assert!(found.iter().all(|key| key.as_ref().is_err_and(no_memory)));
            is_refused(error);
        }
    }
    let found = block_on(calls.2);
    match found[0].clone_error() {
        None => check(found),
        Some(error) => is_refused(error),
    }
    if let Err(error) = block_on(calls.3) {
        is_refused(error);
    }
    refused
}

/// The error of an answer, if it is one.
trait CloneError {
    fn clone_error(&self) -> Option<Error>;
}

impl<T> CloneError for pumice::Result<T> {
    fn clone_error(&self) -> Option<Error> {
        self.as_ref().err().cloned()
    }
}

#[pumice_test_macros::test]
fn futures_resolve_to_errors() {
    let (_, runtime, db) = in_memory();
    // The second call of all begins when the first has ended or waits, so its children come when
    // they like: at some places a call is refused, at others a child.
    let mut most = 0;
    for after in 0..12 {
        refuse(&runtime, after, 4);
        most = most.max(futures(&db));
        refuse(&runtime, 0, 0);
        assert_eq!(futures(&db), 0);
    }
    refuse(&runtime, 0, 4);
    assert_eq!(futures(&db), 4);
    assert_eq!(most, 4);
    db.close().unwrap();
}

/// Stacks as large as the address space: where one has room each call is made or refused, and its
/// measure does not take the memory that the stack itself does not.
#[pumice_test_macros::test]
fn calls_end_whatever_the_size_of_stacks() {
    let (_, fs) = common::memory();
    let mut options = common::options(&fs);
    drop(database(&mut options, Path::new(common::DIR)));
    for bits in [20, 32, 40, 44, 45, 46] {
        let runtime = Runtime::builder().loops(1).stack_bytes(1 << bits).build();
        let Ok(runtime) = runtime else { continue };
        options.db.runtime = Some(Arc::new(runtime));
        let db = Db::open(&options, common::DIR).unwrap();
        for _ in 0..3 {
            assert!(futures(&db) == 0 || bits > 40, "{bits}");
        }
        db.close().unwrap();
    }
}

/// The last handle is in a call that gets no stack: the database flushes unlogged writes and
/// closes, before the future reports that the call was not made.
#[pumice_test_macros::test]
fn a_database_closes_behind_a_refused_call() {
    let (options, runtime, db) = in_memory();
    let unlogged = WriteOptions { disable_wal: true, ..WriteOptions::default() };
    db.put_opt(&unlogged, b"unlogged", b"saved").unwrap();
    let go = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&go);
    refuse(&runtime, 1, 1);
    let holds_the_loop = runtime.spawn("holds the loop", move || {
        while !own.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    });
    let call = db.get_opt_async(&ReadOptions::default(), key(1));
    drop(db);
    go.store(true, Ordering::Release);
    holds_the_loop.join().unwrap();
    assert!(no_memory(&block_on(call).unwrap_err()));
    let db = Db::open(&options, common::DIR).unwrap();
    assert_eq!(common::get(&db, b"unlogged").as_deref(), Some(&b"saved"[..]));
    assert_eq!(futures(&db), 0);
    db.close().unwrap();
}

/// Set in a child process, to the folder it uses.
const CHILD: &str = "PUMICE_TEST_ADDRESS_SPACE";

/// The real thing: a process at the limit of its address space.
// Plain #[test]: the limit is the process's own, so it runs in a child; its caller is a thread.
#[test]
fn a_process_at_its_address_space_limit() {
    const NAME: &str = "a_process_at_its_address_space_limit";
    if let Some(dir) = std::env::var_os(CHILD) {
        return at_the_limit(&PathBuf::from(dir));
    }
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = dir.join(format!("pumice-address-space-{}", std::process::id()));
    let mut command = Command::new("timeout");
    command.arg("60").arg(std::env::current_exe().unwrap());
    let name = common::test_name(module_path!(), NAME);
    command.args([&*name, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, &dir);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", output.status);
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("running 1 test\n"),
        "{NAME} is there"
    );
}

/// Takes every stack that the loop has or can get, one by one, until `release` is up.
fn hold_all_stacks(runtime: &Runtime, release: &Arc<Event>) -> Vec<JoinHandle<()>> {
    let mut holders = Vec::new();
    loop {
        let (tell, begun) = mpsc::channel();
        let release = Arc::clone(release);
        let holder = runtime.spawn("holds a stack", move || {
            // Sending to a channel without a bound does not wait.
            tell.send(()).unwrap();
            release.wait();
        });
        if begun.recv().is_err() {
            assert!(holder.join().is_err(), "it never began");
            return holders;
        }
        holders.push(holder);
    }
}

/// Waits until all threads have started and sleep: the standard library aborts the process when a
/// thread that has just started gets no memory.
fn wait_for_threads() {
    let sleeps = |task: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // After the name in parentheses, which may contain anything.
        stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('S'))
    };
    let awake = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        tasks.filter(|task| task.as_ref().is_ok_and(|task| !sleeps(task))).count()
    };
    let mut looks = 0;
    while looks < 5 {
        std::thread::sleep(Duration::from_millis(2));
        // The caller itself is awake.
        looks = if awake() <= 1 { looks + 1 } else { 0 };
    }
}

fn at_the_limit(dir: &Path) {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.use_direct_reads = true;
    let (runtime, db) = database(&mut options, dir);
    let keys: Vec<_> = wanted().into_iter().map(key).collect();
    let read = ReadOptions::default();
    let mut refused = 0;
    // From nothing at all to room for some stacks of 288 KiB, but not for all. The loop keeps the
    // stacks of fibers that have ended, and calls that do not overlap need but one: so calls are
    // made among some free stacks first and then where there is none.
    for bytes in [0, 100 << 10, 300 << 10, 1 << 20, 3 << 20, 6 << 20] {
        wait_for_threads();
        limit_address_space(Some(bytes));
        check(db.multi_get_opt(&read, &keys));
        futures(&db);
        let release = Arc::new(Event::new());
        let holders = hold_all_stacks(&runtime, &release);
        check(db.multi_get_opt(&read, &keys));
        refused += futures(&db);
        db.put_opt(&WriteOptions::default(), b"at the limit", b"x").unwrap();
        limit_address_space(None);
        release.set();
        holders.into_iter().for_each(|holder| holder.join().unwrap());
        check(db.multi_get_opt(&read, &keys));
        assert_eq!(futures(&db), 0);
    }
    assert!(refused > 0, "a stack was refused");
    wait_for_threads();
    limit_address_space(Some(0));
    db.close().unwrap();
    drop(db);
    limit_address_space(None);
    drop(runtime);
    let db = Db::open(&options, dir).unwrap();
    check(db.multi_get_opt(&read, &keys));
    db.close().unwrap();
    Db::destroy(&options, dir).unwrap();
}
