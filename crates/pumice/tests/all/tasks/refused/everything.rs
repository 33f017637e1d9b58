//! A small program with everything in it, refused one resource after the other at every point.
//!
//! Whatever is refused, failures are errors, nothing panics, nothing waits forever, and
//! acknowledged data is there when the resource is back and the database reopened.
//!
//! A first run counts the requests; then each request is refused alone, and from each one on all
//! that follow. Without `PUMICE_REFUSED=full` some of the points are drawn, by seed.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::common::test_name;
use pumice::{
    CompactRangeOptions, Db, FlushOptions, Options, ReadOptions, Result, Runtime, WriteBatch,
    WriteOptions,
};
use pumice_base::random::Rng;
use pumice_port::machine::{self, Resource};
use pumice_port::testing::{block_on, close_idle_loops};

/// Points of each kind that are tried when not all are.
const SHARE: u64 = 5;
/// A run takes a fraction of a second; one that takes this long hangs.
const HANGS: Duration = Duration::from_secs(60);

static PANICS: AtomicUsize = AtomicUsize::new(0);

fn key(n: usize) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

fn value(n: usize) -> Vec<u8> {
    vec![n as u8; 300 + n]
}

fn batch(n: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(&key(n), &value(n));
    batch
}

fn sync() -> WriteOptions {
    WriteOptions { sync: true, ..WriteOptions::default() }
}

/// What a run did.
#[derive(Default)]
struct Done {
    acked: BTreeSet<usize>,
    errors: Vec<String>,
}

impl Done {
    fn note<T>(&mut self, what: &str, result: std::result::Result<T, impl ToString>) -> Option<T> {
        result.map_err(|e| self.errors.push(format!("{what}: {}", e.to_string()))).ok()
    }
    fn wrote(&mut self, n: usize, result: Result<()>) {
        if self.note("write", result).is_some() {
            self.acked.insert(n);
        }
    }
    fn read(&mut self, n: usize, found: Result<Option<impl AsRef<[u8]>>>) {
        if let Some(found) = self.note("read", found) {
            match found {
                Some(found) => assert_eq!(found.as_ref(), value(n), "key {n}"),
                None => assert!(!self.acked.contains(&n), "key {n} was acknowledged"),
            }
        }
    }
}

/// The program. Everything in it may fail.
fn program(folder: &Path) -> Done {
    let mut done = Done::default();
    let built = Runtime::builder().loops(2).build();
    let runtime = done.note("runtime", built).map(Arc::new);
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.use_direct_reads = true;
    options.db.runtime = runtime.clone();
    options.cf.table_factory.block_size = 512;
    options.cf.table_factory.no_block_cache = true;
    if let Some(db) = done.note("open", Db::open(&options, folder)) {
        work(&db, runtime.as_deref(), &mut done);
        done.note("close", db.close());
    }
    done
}

fn work(db: &Db, runtime: Option<&Runtime>, done: &mut Done) {
    let (synced, write, read) = (sync(), WriteOptions::default(), ReadOptions::default());
    for n in 0..20 {
        done.wrote(n, db.write_opt(if n % 5 == 0 { &synced } else { &write }, &mut batch(n)));
    }
    if let Some(runtime) = runtime {
        let clients: Vec<_> = (20..26)
            .map(|n| {
                let db = db.clone();
                let client = move || {
                    let wrote = db.write_opt(&sync(), &mut batch(n));
                    (wrote, db.get_opt(&ReadOptions::default(), &key(n)))
                };
                (n, runtime.spawn("client", client))
            })
            .collect();
        for (n, client) in clients {
            if let Some((wrote, found)) = done.note("fiber", client.join()) {
                done.wrote(n, wrote);
                done.read(n, found);
            }
        }
        let writes: Vec<_> = (26..30).map(|n| (n, db.write_opt_async(&sync(), batch(n)))).collect();
        for (n, future) in writes {
            done.wrote(n, block_on(future));
        }
    }
    done.note("flush", db.flush_opt(&FlushOptions::default()));
    let keys: Vec<_> = (0..40).map(key).collect();
    // On plain threads, which borrow loops.
    let answers: Vec<_> = std::thread::scope(|scope| {
        let call = || scope.spawn(|| db.multi_get_opt(&read, &keys));
        let calls: Vec<_> = (0..2).map(|_| call()).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    answers.into_iter().for_each(|found| read_all(done, found));
    if runtime.is_some() {
        let gets: Vec<_> = (0..8).map(|n| (n, db.get_opt_async(&read, key(n)))).collect();
        for (n, future) in gets {
            done.read(n, block_on(future));
        }
        read_all(done, block_on(db.multi_get_opt_async(&read, keys)));
    }
    done.note("compact", db.compact_range(&CompactRangeOptions::default(), None, None));
    for n in 40..44 {
        done.wrote(n, db.write_opt(&sync(), &mut batch(n)));
    }
}

fn read_all(done: &mut Done, found: Vec<Result<Option<impl AsRef<[u8]>>>>) {
    for (n, found) in found.into_iter().enumerate() {
        done.read(n, found);
    }
}

/// Runs `f` on a separate thread; if it hangs, the process ends with `what`.
fn guarded<T: Send + 'static>(what: &str, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || sender.send(f()).unwrap());
    match receiver.recv_timeout(HANGS) {
        Ok(value) => {
            thread.join().unwrap();
            value
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{what}: panicked"),
        Err(mpsc::RecvTimeoutError::Timeout) => {
            eprintln!("{what}: a task waits forever");
            std::process::abort();
        }
    }
}

/// One run with requests `from..to` refused, then all is granted again.
fn run_refused(resource: Resource, from: u64, to: u64) -> u64 {
    let folder = super::folder(&format!("{resource:?}"));
    let what = format!("{resource:?} refused from request {from} to {to}");
    close_idle_loops();
    let own = folder.clone();
    machine::refuse(resource, resource.usual_errno(), from, to);
    let done = guarded(&what, move || program(&own));
    let (_, refused) = machine::asked(resource);
    machine::refuse(resource, 0, 0, 0);
    assert!(refused > 0 || done.errors.is_empty(), "{what}: {:?}", done.errors);
    let own = folder.clone();
    let acked = done.acked;
    let again = guarded(&what, move || {
        let mut again = Done { acked, ..Done::default() };
        let db = Db::open(&Options::default(), &own);
        // The first run may not have got as far as making one.
        if let Ok(db) = db.inspect_err(|e| assert!(again.acked.is_empty(), "{e}")) {
            let keys: Vec<_> = (0..44).map(key).collect();
            read_all(&mut again, db.multi_get_opt(&ReadOptions::default(), &keys));
            db.close().unwrap();
        }
        let errors = again.errors;
        let whole = program(&own);
        (errors, whole.errors, whole.acked.len())
    });
    let nothing = Vec::<String>::new();
    assert_eq!(again, (nothing.clone(), nothing, 44 - 10), "{what}: it is back");
    assert_eq!(PANICS.load(Ordering::SeqCst), 0, "{what}: something panicked");
    std::fs::remove_dir_all(&folder).unwrap();
    refused
}

/// The number of requests of a run in which none is refused.
fn count_points(resource: Resource) -> u64 {
    let folder = super::folder("count");
    close_idle_loops();
    machine::refuse(resource, 0, 0, 0);
    let errors = program(&folder).errors;
    assert!(errors.is_empty(), "{errors:?}");
    std::fs::remove_dir_all(&folder).unwrap();
    machine::asked(resource).0
}

fn count_panics() {
    std::panic::set_hook(Box::new(|panic| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        eprintln!("{panic}");
    }));
}

/// Calls `run` for each point to try, with the end of the refused range; it returns how many
/// requests were refused.
fn try_points(resource: Resource, points: u64, mut run: impl FnMut(u64, u64) -> u64) {
    let seed = std::env::var("PUMICE_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut rng = Rng::new(seed);
    let full = std::env::var("PUMICE_REFUSED").is_ok_and(|value| value == "full");
    let (mut runs, mut refused) = (0, 0);
    for point in 0..points {
        // The first ones always: everything else is made from them.
        for to in [point + 1, u64::MAX] {
            if full || point < 3 || rng.uniform(points) < SHARE {
                runs += 1;
                refused += u64::from(run(point, to) > 0);
            }
        }
    }
    println!("REFUSED {resource:?} seed={seed} points={points} runs={runs} refused={refused}");
    assert!(refused > runs / 2, "{resource:?}: {refused} of {runs} runs were refused anything");
}

fn refuse_everywhere(resource: Resource, test: &str) {
    if super::is_child(&test_name(module_path!(), test)) {
        count_panics();
        // With nothing made before: all of it is refused.
        assert!(run_refused(resource, 0, u64::MAX) > 0);
        run_refused(resource, 0, 0);
        let points = count_points(resource);
        try_points(resource, points, |from, to| run_refused(resource, from, to));
    }
}

/// As `refuse_everywhere`, each run in its own process, for requests that a process makes once.
fn refuse_in_fresh_processes(resource: Resource, io: &str, test: &str) {
    let test = &test_name(module_path!(), test);
    let number = |text: &str| {
        let line = text.lines().find_map(|line| line.split_once("RESULT "));
        line.unwrap().1.trim().parse::<u64>().unwrap()
    };
    let Ok(run) = std::env::var("PUMICE_REFUSED_RUN") else {
        let points = number(&super::child(test, io, "count"));
        try_points(resource, points, |from, to| {
            number(&super::child(test, io, &format!("{from} {to}")))
        });
        return;
    };
    count_panics();
    let result = match run.split_once(' ') {
        None => count_points(resource),
        Some((from, to)) => run_refused(resource, from.parse().unwrap(), to.parse().unwrap()),
    };
    println!("\nRESULT {result}");
}

macro_rules! refused {
    ($($name:ident: $how:ident($resource:ident $(, $io:literal)?);)*) => {$(
        // Plain #[test]: fibers of the test would need the refused resource.
        #[test]
        fn $name() {
            $how(Resource::$resource, $($io,)? stringify!($name));
        }
    )*};
}

refused! {
    descriptors: refuse_everywhere(Descriptor);
    threads: refuse_in_fresh_processes(Thread, "auto");
    threads_that_stand_for_rings: refuse_in_fresh_processes(Thread, "threads");
    address_space: refuse_everywhere(AddressSpace);
    setup: refuse_everywhere(RingSetup);
    enter: refuse_everywhere(RingEnter);
    register: refuse_everywhere(RingRegister);
}
