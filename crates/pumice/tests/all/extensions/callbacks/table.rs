//! Each kind of user code with each behaviour: it calls back, waits, drops the last handle, panics.
//! The database has no write callbacks, so there is no such row.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pumice::{Db, ReadOptions};
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::thread;

use super::life::{Acked, check, live, options};
use super::operations::{OPERATIONS, Operation, disturbs};
use super::{expect_panics, simulate};
use crate::code::{Code, KINDS, Kind};
use crate::common::{DIR, key};

/// Calls of the life at which the code acts.
const PLACES: u64 = 1;
/// Operations that one call of the code makes, of those that do not disturb others.
const TOGETHER: usize = 6;

/// `PUMICE_CALLBACKS=N`: N times as many places.
fn places() -> u64 {
    let times = std::env::var("PUMICE_CALLBACKS").ok().and_then(|text| text.parse().ok());
    PLACES * times.unwrap_or(1)
}

fn new_code() -> Arc<Code> {
    let code = Code::new();
    code.plain.store(false, std::sync::atomic::Ordering::SeqCst);
    code
}

/// Calls of each kind in a life.
fn calls(kind: Kind) -> u64 {
    let counted = Arc::new(Mutex::new(0));
    let count = Arc::clone(&counted);
    simulate(1, "counting", move || {
        let code = new_code();
        let options = options(&code);
        let db = Db::open(&options, DIR).unwrap();
        code.tell_hook(kind, u64::MAX, Arc::new(|| ()));
        let acked = Mutex::new(Acked::default());
        live(&db, &options, &acked);
        *count.lock() = code.calm();
        assert!(acked.lock().failed.is_empty(), "{:?}", acked.lock().failed);
        db.close().unwrap();
    });
    let calls = *counted.lock();
    assert!(calls > 0, "{kind:?} is not called");
    calls
}

/// How a call from the code went.
fn outcome(db: &Db, options: &pumice::Options, operation: Operation) -> String {
    match catch_unwind(AssertUnwindSafe(|| operation(db, options))) {
        Ok(Ok(())) => "answered".to_string(),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => {
            let text = thread::panic_message(panic.as_ref()).to_string();
            assert!(text.contains("called from code"), "{text}");
            text
        }
    }
}

/// One after the other, in one call of the code.
type Calls = &'static [(&'static str, Operation)];

type Outcomes = Mutex<BTreeMap<String, usize>>;

/// The call `at` of `kind` in a life calls the database.
fn calls_back(kind: Kind, at: u64, operations: Calls, all: &Outcomes) {
    let names: Vec<_> = operations.iter().map(|(name, _)| *name).collect();
    let disturbed = names.iter().any(|name| disturbs(name));
    let what = format!("{names:?} in {kind:?}, call {at}");
    let code = new_code();
    let options = Arc::new(options(&code));
    let db = Db::open(&options, DIR).unwrap();
    let answers = Arc::new(Mutex::new(Vec::new()));
    let (handle, given, collected) = (db.clone(), Arc::clone(&options), Arc::clone(&answers));
    let hook = move || {
        for (_, operation) in operations {
            let answer = outcome(&handle, &given, *operation);
            collected.lock().push(answer);
        }
    };
    code.tell_hook(kind, at, Arc::new(hook));
    let acked = Mutex::new(Acked::default());
    live(&db, &options, &acked);
    let acked = acked.into_inner();
    assert!(acked.failed.is_empty() || disturbed, "{what}: {:?}", acked.failed);
    code.calm();
    let closed = db.close();
    assert!(closed.is_ok() || disturbed, "{what}: {closed:?}");
    code.forget();
    drop(db);
    check(&code, &acked, &what);
    for answer in answers.lock().drain(..) {
        *all.lock().entry(answer).or_default() += 1;
    }
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn code_calls_back() {
    expect_panics();
    for kind in KINDS {
        let calls = calls(kind);
        let outcomes: Arc<Outcomes> = Arc::default();
        let mut happened = 0;
        let calm = |name: &str| !disturbs(name);
        let together = OPERATIONS.chunk_by(|a, b| calm(a.0) && calm(b.0));
        let together = together.flat_map(|calls| calls.chunks(TOGETHER));
        for (index, operations) in together.enumerate() {
            let first = operations[0].0;
            let before = outcomes.lock().values().sum::<usize>();
            for place in 0..places() {
                // Other calls for each operation, all over the life.
                let step = (calls / places()).max(1);
                let at = (place * step + index as u64 % step) % calls;
                let all = Arc::clone(&outcomes);
                simulate(at, &format!("{first} in {kind:?}, call {at}"), move || {
                    calls_back(kind, at, operations, &all);
                });
            }
            let ran = outcomes.lock().values().sum::<usize>() - before;
            assert!(ran >= operations.len(), "{first} in {kind:?} has not run");
            happened += ran;
        }
        let answered = outcomes.lock().get("answered").copied().unwrap_or(0);
        println!(
            "{kind:?}: {happened} calls of {} operations, {answered} answered",
            OPERATIONS.len()
        );
        for (text, times) in &*outcomes.lock() {
            println!("    {times} {text}");
        }
    }
}

/// Where the code waits until it is released.
#[derive(Default)]
struct Gate {
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    /// The code is here.
    fn wait(&self) {
        let mut state = self.state.lock();
        state.0 = true;
        self.changed.notify_all();
        while !state.1 {
            state = self.changed.wait(state);
        }
    }
    fn open(&self) {
        self.state.lock().1 = true;
        self.changed.notify_all();
    }
    /// Waits for the code, or until `open`; whether the code is there.
    fn is_reached(&self) -> bool {
        let mut state = self.state.lock();
        while !state.0 && !state.1 {
            state = self.changed.wait(state);
        }
        state.0
    }
}

/// The call `at` of `kind` in a life waits; work that does not need it continues.
fn blocks(kind: Kind, at: u64, waited: &Mutex<u64>) {
    let what = format!("{kind:?} waits at call {at}");
    let code = new_code();
    let options = Arc::new(options(&code));
    let db = Db::open(&options, DIR).unwrap();
    db.put_opt(&crate::common::SYNC, &key(3), b"kept").unwrap();
    let gate = Arc::new(Gate::default());
    let hooked = Arc::clone(&gate);
    code.tell_hook(kind, at, Arc::new(move || hooked.wait()));
    let acked = Mutex::new(Acked::default());
    thread::scope(|scope| {
        let (db, options, acked, ends) = (&db, &options, &acked, &gate);
        scope.spawn(move || {
            live(db, options, acked);
            ends.open();
        });
        if gate.is_reached() {
            *waited.lock() += 1;
            if matches!(kind, Kind::Logger | Kind::Listener | Kind::Filter | Kind::FilterOperand) {
                // Called under no lock, so nothing else is held up.
                let found = db.get_opt(&ReadOptions::default(), &key(3)).unwrap();
                assert_eq!(found.as_deref(), Some(&b"kept"[..]), "{what}");
                assert!(db.property("rocksdb.stats").is_some(), "{what}");
                db.put_opt(&crate::common::SYNC, b"meanwhile", b"kept").unwrap();
            }
            gate.open();
        }
    });
    let acked = acked.into_inner();
    assert!(acked.failed.is_empty(), "{what}: {:?}", acked.failed);
    code.calm();
    db.close().unwrap();
    drop(db);
    check(&code, &acked, &what);
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn code_waits() {
    for kind in KINDS {
        let calls = calls(kind);
        let waited = Arc::new(Mutex::new(0));
        let tries = 5 * places();
        for place in 0..tries {
            let (at, all) = (place * calls / tries, Arc::clone(&waited));
            simulate(at, &format!("{kind:?} waits at {at}"), move || blocks(kind, at, &all));
        }
        println!("{kind:?}: waited {} times", *waited.lock());
        assert!(*waited.lock() > 0, "{kind:?}");
    }
}

/// Background jobs run while the code has the last handle.
fn has_the_last(kind: Kind, at: u64, dropped: &Mutex<u64>) {
    let what = format!("{kind:?} drops the last handle at call {at}");
    let code = new_code();
    let options = Arc::new(options(&code));
    let db = Db::open(&options, DIR).unwrap();
    let acked = Mutex::new(Acked::default());
    live(&db, &options, &acked);
    let unlogged = pumice::WriteOptions { disable_wal: true, ..Default::default() };
    for _ in 0..3 {
        db.put_opt(&unlogged, b"key unlogged", b"kept").unwrap();
        db.merge_opt(&unlogged, b"merged", b"+").unwrap();
        let unwaited = pumice::FlushOptions {
            wait: false,
            allow_write_stall: true,
            ..pumice::FlushOptions::default()
        };
        db.flush_opt(&unwaited).unwrap();
    }
    db.put_opt(&unlogged, b"key unlogged", b"kept").unwrap();
    acked.lock().add(b"key unlogged");
    let last = Arc::new(Mutex::new(Some(db)));
    let held = Arc::clone(&last);
    let happened = Arc::new(Mutex::new(false));
    let noted = Arc::clone(&happened);
    let hook = move || {
        let db = held.lock().take();
        *noted.lock() |= db.is_some();
        drop(db);
    };
    code.tell_hook(kind, at, Arc::new(hook));
    // Jobs have this time; then it is dropped here.
    thread::sleep(std::time::Duration::from_millis(200));
    let db = last.lock().take();
    drop(db);
    code.calm();
    code.forget();
    *dropped.lock() += u64::from(*happened.lock());
    let acked = acked.into_inner();
    assert!(acked.failed.is_empty(), "{what}: {:?}", acked.failed);
    wait_for_lock(&options);
    check(&code, &acked, &what);
}

/// Waits until no database has the directory open.
fn wait_for_lock(options: &pumice::Options) {
    loop {
        match options.db.file_system.lock(&std::path::Path::new(DIR).join("LOCK")) {
            Ok(lock) => return drop(lock),
            Err(_) => thread::sleep(std::time::Duration::from_millis(10)),
        }
    }
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn code_has_the_last_handle() {
    for kind in KINDS {
        let dropped = Arc::new(Mutex::new(0));
        for at in 0..8 * places() {
            let all = Arc::clone(&dropped);
            // Some code is called but once: half of the lives end at the first call.
            let call = if at % 2 == 0 { 0 } else { at / 2 };
            simulate(at, &format!("{kind:?} drops at {call}"), move || {
                has_the_last(kind, call, &all);
            });
        }
        println!("{kind:?}: dropped the last handle {} times", *dropped.lock());
        assert!(*dropped.lock() > 0, "{kind:?}");
    }
}

/// In a life the call `at` of `kind` panics.
fn panics(kind: Kind, at: u64) {
    let what = format!("{kind:?} panics at call {at}");
    let code = new_code();
    let options = options(&code);
    let db = Db::open(&options, DIR).unwrap();
    code.tell_hook(kind, at, Arc::new(|| panic!("boom")));
    let acked = Mutex::new(Acked::default());
    let lived = catch_unwind(AssertUnwindSafe(|| live(&db, &options, &acked)));
    code.calm();
    drop(lived);
    drop(db.close());
    drop(db);
    check(&code, &acked.into_inner(), &what);
}

/// Not in simulations, which let panics through, but on the environment's runtime.
// Plain #[test]: it counts in simulations, each a runtime of its own.
#[test]
fn code_panics() {
    expect_panics();
    let counted = KINDS.map(|kind| (kind, calls(kind)));
    pumice_port::testing::run(move || {
        for (kind, calls) in counted {
            let tries = 5 * places();
            (0..tries).for_each(|place| panics(kind, place * calls / tries));
            println!("{kind:?}: {tries} of {calls} calls panicked");
        }
    });
}
