//! Logged and unlogged writes of the same keys, in two families, flushes of one or both, and power
//! cuts: no key goes back behind what a sync or a flush that returned had made durable.

use std::collections::BTreeMap;

use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, Db, FlushOptions, MemFs, Options, WriteOptions,
};
use pumice_base::random::Rng;
use pumice_env::mem::CrashMode;
use pumice_testkit::seed;

use crate::common::{DIR, options};

const KEYS: u64 = 4;
const STEPS: u64 = 60;
const LIVES: u64 = 3;

struct Life {
    rng: Rng,
    fs: MemFs,
    /// By family and key: the newest write, and the newest that is durable.
    newest: BTreeMap<(usize, u64), u64>,
    durable: BTreeMap<(usize, u64), u64>,
    /// Entries of `newest` that are in the log, since the last sync.
    logged: BTreeMap<(usize, u64), u64>,
    count: u64,
}

impl Life {
    fn open(&mut self, atomic_flush: bool) -> (Options, Db, Vec<ColumnFamily>) {
        let mut options = options(&self.fs.shared());
        options.db.create_missing_column_families = true;
        options.db.atomic_flush = atomic_flush;
        options.db.avoid_flush_during_recovery = self.rng.one_in(2);
        let all = ["default", "other"].map(|n| ColumnFamilyDescriptor::new(n, options.cf.clone()));
        let (db, families) = Db::open_cf(&options.db, DIR, &all).unwrap();
        (options, db, families)
    }

    fn write(&mut self, db: &Db, families: &[ColumnFamily]) {
        let (family, key) = (self.rng.uniform(2) as usize, self.rng.uniform(KEYS));
        let disable_wal = self.rng.one_in(2);
        let sync = !disable_wal && self.rng.one_in(4);
        let options = WriteOptions { disable_wal, sync, ..WriteOptions::default() };
        self.count += 1;
        let value = self.count.to_string();
        db.put_cf_opt(&options, &families[family], key.to_string(), value).unwrap();
        self.newest.insert((family, key), self.count);
        if !disable_wal {
            self.logged.insert((family, key), self.count);
        }
        if sync {
            self.synced();
        }
    }

    fn synced(&mut self) {
        for (at, count) in std::mem::take(&mut self.logged) {
            let durable = self.durable.entry(at).or_default();
            *durable = count.max(*durable);
        }
    }

    fn flush(&mut self, db: &Db, families: &[ColumnFamily], atomic: bool) {
        let one = self.rng.uniform(2) as usize;
        db.flush_cf_opt(&FlushOptions::default(), &families[one]).unwrap();
        for (at, count) in self.newest.iter().filter(|((family, _), _)| atomic || *family == one) {
            self.durable.insert(*at, *count);
        }
    }

    fn check(&mut self, db: &Db, families: &[ColumnFamily], what: &str) {
        for (family, handle) in families.iter().enumerate() {
            for key in 0..KEYS {
                let found = db.get_cf(handle, key.to_string()).unwrap();
                let found = found.map(|v| String::from_utf8(v.to_vec()).unwrap().parse().unwrap());
                let durable = self.durable.get(&(family, key)).copied();
                assert!(found >= durable, "{what}: {family} {key}: {found:?} before {durable:?}");
                // What one recovery has shown stays.
                match found {
                    Some(found) => _ = self.newest.insert((family, key), found),
                    None => _ = self.newest.remove(&(family, key)),
                }
            }
        }
        self.durable = self.newest.clone();
        self.logged.clear();
    }

    fn live(&mut self, atomic: bool, mode: CrashMode, what: &str) {
        for life in 0..LIVES {
            let (_, db, families) = self.open(atomic);
            self.check(&db, &families, what);
            for _ in 0..self.rng.uniform(STEPS) {
                match self.rng.uniform(12) {
                    0 => self.flush(&db, &families, atomic),
                    1 => {
                        db.sync_wal().unwrap();
                        self.synced();
                    }
                    _ => self.write(&db, &families),
                }
            }
            // The old process ends on the old disk: its close must not write to the new one.
            let left = self.fs.crashed_copy(life, mode);
            drop(families);
            db.close().unwrap();
            self.fs = left;
        }
        let (_, db, families) = self.open(atomic);
        self.check(&db, &families, what);
        drop(families);
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn nothing_durable_goes_back() {
    let seeds = seed::wanted().map_or(0..seed::share(60), |seed| seed..seed + 1);
    for seed in seeds {
        for mode in [CrashMode::UNSYNCED, CrashMode::MIXED, CrashMode::PROCESS] {
            for atomic in [false, true] {
                let what = format!("{mode:?}, atomic {atomic}: {}", {
                    seed::replay_hint("nothing_durable_goes_back", seed)
                });
                let (newest, durable, logged) = Default::default();
                let (rng, fs) = (Rng::new(seed), MemFs::new(seed));
                let mut life = Life { rng, fs, newest, durable, logged, count: 0 };
                life.live(atomic, mode, &what);
            }
        }
    }
}
