//! Checkpoints to one target at the same time.

use pumice::{Db, MemFs};
use pumice_port::thread;

use crate::common::{DIR, contents, fill, flush, names, options};
use crate::simulate;

const SEEDS: u64 = 150;
const COPY: &str = "/copies/copy";

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn of_two_checkpoints_to_one_target_one_is_there_and_whole() {
    let others = [DIR, "/other"];
    for seed in 0..SEEDS {
        simulate(seed, "two checkpoints", move || {
            let fs = MemFs::new(seed).shared();
            fs.create_dir_all("/copies".as_ref()).unwrap();
            let options = options(&fs);
            // Of one database, or of one each.
            let second = others[(seed % 2) as usize];
            let dbs: Vec<Db> = [DIR, second][..1 + (seed % 2) as usize]
                .iter()
                .map(|dir| Db::open(&options, dir).unwrap())
                .collect();
            for (n, db) in dbs.iter().enumerate() {
                fill(db, 0..50, &format!("of {n}"));
                flush(db);
                fill(db, 50..80, &format!("of {n}"));
            }
            let made: Vec<bool> = thread::scope(|scope| {
                let tasks: Vec<_> = (0..2)
                    .map(|n| {
                        let db = &dbs[n % dbs.len()];
                        scope.spawn(move || match db.checkpoint(COPY) {
                            Ok(()) => true,
                            Err(error) => {
                                assert!(error.to_string().contains("Directory exists"), "{error}");
                                false
                            }
                        })
                    })
                    .collect();
                tasks.into_iter().map(|task| task.join().unwrap()).collect()
            });
            let winner = made.iter().position(|made| *made).expect("one is made");
            assert!(!(made[0] && made[1]), "one target, two checkpoints");
            let copy = Db::open(&options, COPY).unwrap();
            assert_eq!(contents(&copy), contents(&dbs[winner % dbs.len()]));
            copy.close().unwrap();
            assert_eq!(names(&fs, "/copies"), ["copy"], "nothing else is left");
            dbs.iter().for_each(|db| db.close().unwrap());
        });
    }
}

/// A checkpoint that a crash ended leaves nothing for good.
#[pumice_test_macros::test]
fn what_a_crash_left_goes_with_the_next_checkpoint() {
    let fs = MemFs::new(1);
    let shared = fs.shared();
    let options = options(&shared);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..50, "v");
    flush(&db);
    shared.create_dir_all("/copies/copy.tmp.dead".as_ref()).unwrap();
    for dir in ["/copies/copy.tmp.dead/000001.sst", "/copies/copy.tmp.dead.lock"] {
        pumice_env::file_system::write_file(&*shared, dir.as_ref(), b"left", true).unwrap();
    }
    // Of a checkpoint that is being made, to this and another target.
    shared.create_dir_all("/copies/copy.tmp.alive".as_ref()).unwrap();
    let alive = shared.lock("/copies/copy.tmp.alive.lock".as_ref()).unwrap();
    shared.create_dir_all("/copies/copy2.tmp.dead".as_ref()).unwrap();
    db.checkpoint(COPY).unwrap();
    let left = ["copy", "copy.tmp.alive", "copy.tmp.alive.lock", "copy2.tmp.dead"];
    assert_eq!(names(&shared, "/copies"), left);
    drop(alive);
    drop(db);
}
