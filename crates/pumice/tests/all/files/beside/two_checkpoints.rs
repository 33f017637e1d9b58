//! Checkpoints to one target at the same time.

use pumice::{Db, MemFs};
use pumice_port::thread;

use super::simulate;
use crate::common::{DIR, contents, fill, flush, names, options};

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
    let write = |name: &str| {
        let path = format!("/copies/{name}");
        pumice_env::file_system::write_file(&*shared, path.as_ref(), b"left", true).unwrap();
    };
    let make = |name: &str| {
        shared.create_dir_all(format!("/copies/{name}").as_ref()).unwrap();
        write(&format!("{name}/000001.sst"));
    };
    make("copy.tmp.000000000000000DEAD0");
    write("copy.tmp.000000000000000DEAD0.lock");
    // Of a checkpoint that is being made, of another target, and the user's own.
    make("copy.tmp.00000000000000ALIVE0");
    let alive = shared.lock("/copies/copy.tmp.00000000000000ALIVE0.lock".as_ref()).unwrap();
    make("copy2.tmp.000000000000000DEAD0");
    write("copy2.tmp.000000000000000DEAD0.lock");
    make("copy.tmp.000000000000000OWNED");
    make("copy.tmp.old");
    write("copy.tmp.old.lock");
    db.checkpoint(COPY).unwrap();
    let left = [
        "copy",
        "copy.tmp.000000000000000OWNED",
        "copy.tmp.00000000000000ALIVE0",
        "copy.tmp.00000000000000ALIVE0.lock",
        "copy.tmp.old",
        "copy.tmp.old.lock",
        "copy2.tmp.000000000000000DEAD0",
        "copy2.tmp.000000000000000DEAD0.lock",
    ];
    assert_eq!(names(&shared, "/copies"), left);
    drop(alive);
    drop(db);
}
