//! Databases of RocksDB's with transactions that were prepared and perhaps neither committed nor
//! rolled back, drawn from seeds: a plain open for writing, a repair and `ldb` refuse them and
//! change no byte of what they hold, whatever OPTIONS say, and all readers show what is committed.

use std::collections::BTreeMap;
use std::path::Path;

use pumice_base::random::Rng;
use pumice_peer::{
    Options as PeerOptions, Peer, Transaction, TransactionDb, WriteOptions, WriteSettings,
};

use crate::run::{Directory, Files, read_files};

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a life left behind.
struct Left {
    committed: Contents,
    /// Transactions without an end.
    prepared: usize,
}

fn options(peer: &Peer) -> PeerOptions {
    let mut options = PeerOptions::new(peer);
    options.set_many("create_if_missing=true;disable_auto_compactions=true").unwrap();
    options
}

/// Puts, transactions that begin, are prepared and end in any order, and flushes.
fn live(peer: &Peer, path: &Path, rng: &mut Rng) -> Left {
    let options = options(peer);
    let wo = WriteOptions::new(peer, &WriteSettings::default());
    let db = TransactionDb::open(&options, path).unwrap();
    let mut committed = Contents::new();
    let mut open: Vec<(Transaction<'_>, Contents)> = Vec::new();
    for step in 0..10 + rng.uniform(20) {
        let value = format!("value {step}").into_bytes();
        match rng.uniform(8) {
            0 | 1 => {
                let key = format!("k{}", rng.uniform(20)).into_bytes();
                db.put(&wo, &key, &value).unwrap();
                committed.insert(key, value);
            }
            2 | 3 => {
                let transaction = db.begin(&wo, &format!("transaction {step}")).unwrap();
                let mut own = Contents::new();
                for n in 0..1 + rng.uniform(3) {
                    // Other transactions have their own keys: nobody waits for a lock.
                    let key = format!("t{step}-{n}").into_bytes();
                    transaction.put(&key, &value).unwrap();
                    own.insert(key, value.clone());
                }
                transaction.prepare().unwrap();
                open.push((transaction, own));
            }
            4 | 5 if !open.is_empty() => {
                let (transaction, own) = open.remove(rng.uniform(open.len() as u64) as usize);
                if rng.one_in(3) {
                    transaction.rollback().unwrap();
                } else {
                    transaction.commit().unwrap();
                    committed.extend(own);
                }
            }
            6 => db.flush().unwrap(),
            _ => {}
        }
    }
    if rng.one_in(2) {
        // Then what is prepared is below the logs of all families.
        db.flush().unwrap();
    }
    let prepared = open.len();
    assert_eq!(db.prepared(), prepared);
    Left { committed, prepared }
}

fn contents(db: &pumice::Db) -> Contents {
    db.iter().unwrap().map(|entry| entry.unwrap()).collect()
}

/// All files but those that an open replaces, LOG and its like.
fn kept(files: &Files) -> Files {
    let is_log = |name: &Path| name.to_string_lossy().starts_with("LO");
    files.iter().filter(|(name, _)| !is_log(name)).map(|(n, b)| (n.clone(), b.clone())).collect()
}

fn readers_show(path: &Path, left: &Left, what: &str) {
    let options = pumice::Options::default();
    let family = pumice::ColumnFamilyDescriptor::new("default", options.cf.clone());
    let families = [family];
    let (db, _) = pumice::Db::open_read_only(&options.db, path, &families, false).unwrap();
    assert_eq!(contents(&db), left.committed, "{what}: read-only");
    drop(db);
    let beside = path.with_file_name("beside");
    let (db, _) = pumice::Db::open_as_secondary(&options.db, path, &beside, &families).unwrap();
    assert_eq!(contents(&db), left.committed, "{what}: secondary");
    db.try_catch_up_with_primary().unwrap();
    assert_eq!(contents(&db), left.committed, "{what}: secondary again");
}

fn ldb(path: &Path, words: &[&str]) -> (bool, String) {
    let mut ldb = std::process::Command::new(env!("CARGO_BIN_EXE_pumice"));
    let out = ldb.arg("ldb").arg(format!("--db={}", path.display())).args(words).output().unwrap();
    (out.status.success(), String::from_utf8_lossy(&out.stderr).into_owned())
}

/// Each way of writing is refused if something is prepared, and then nothing is lost.
fn writers_are_refused(peer: &Peer, path: &Path, left: &Left, rng: &mut Rng, what: &str) {
    let before = kept(&read_files(path));
    let refused = match rng.uniform(4) {
        0 => pumice::Db::open(&pumice::Options::default(), path).err().map(|e| e.to_string()),
        1 => pumice::repair(&pumice::Options::default(), path).err().map(|e| e.to_string()),
        2 => {
            let (worked, text) = ldb(path, &["--try_load_options=false", "put", "n", "new"]);
            (!worked).then_some(text)
        }
        _ => {
            let (worked, text) = ldb(path, &["compact"]);
            (!worked).then_some(text)
        }
    };
    if left.prepared == 0 && refused.is_none() {
        return;
    }
    let refused = refused.unwrap_or_else(|| panic!("{what}: it was not refused"));
    assert!(refused.contains("TransactionDB") || refused.contains("allow_2pc"), "{refused}");
    assert!(kept(&read_files(path)) == before, "{what}: files have changed");
    let db = TransactionDb::open(&options(peer), path).unwrap();
    assert_eq!(db.prepared(), left.prepared, "{what}");
}

/// `PUMICE_PREPARED=N` lives; `PUMICE_SEED=N` is one of them.
// Plain #[test]: RocksDB runs on threads of its own.
#[test]
fn what_is_prepared_is_neither_shown_nor_lost() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = &Peer::load(library).unwrap();
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (lives, wanted) = (number("PUMICE_PREPARED").unwrap_or(40), number("PUMICE_SEED"));
    let (mut outstanding, mut below) = (0, 0);
    for seed in wanted.map_or(0..lives, |seed| seed..seed + 1) {
        let directory = &Directory::new(&format!("prepared-{seed}"));
        let (path, rng) = (directory.database(), &mut Rng::new(seed));
        let left = live(peer, &path, rng);
        let what = format!("PUMICE_SEED={seed}");
        outstanding += usize::from(left.prepared > 0);
        let files = read_files(&path);
        let logs = files.keys().filter(|name| name.extension().is_some_and(|kind| kind == "log"));
        below += usize::from(left.prepared > 0 && logs.count() > 1);
        readers_show(&path, &left, &what);
        assert!(read_files(&path) == files, "{what}: readers change nothing");
        writers_are_refused(peer, &path, &left, rng, &what);
    }
    eprintln!("{outstanding} lives with something prepared, {below} with several logs");
    assert!(wanted.is_some() || outstanding > 0 && below > 0);
}

/// The updates of a transaction that was found, all of them puts.
fn updates(transaction: &pumice::Transaction) -> Contents {
    use pumice::{BatchRecord, BatchView};
    transaction.shared_batch().with(|batch| {
        let entry = |record| match record {
            BatchRecord::Entry { key, value, .. } => Some((key.to_vec(), value.to_vec())),
            _ => None,
        };
        batch.write_batch().iter().filter_map(|record| entry(record.unwrap())).collect()
    })
}

/// Ours finds what RocksDB prepared, ends some of it, and prepares more; returns what is left.
fn take_over(path: &Path, left: Left, rng: &mut Rng, (what, round): (&str, u32)) -> Left {
    let Left { mut committed, mut prepared } = left;
    let db = pumice::TransactionDb::builder(path).open().unwrap();
    let found = db.prepared_transactions();
    assert_eq!(found.len(), prepared, "{what}");
    assert_eq!(contents(db.db()), committed, "{what}");
    for transaction in found {
        match rng.uniform(3) {
            0 => {
                committed.extend(updates(&transaction));
                transaction.commit().unwrap();
                prepared -= 1;
            }
            1 => {
                transaction.rollback().unwrap();
                prepared -= 1;
            }
            _ => {}
        }
    }
    for n in 0..rng.uniform(5) {
        let transaction = db.transaction();
        transaction.set_name(format!("ours {round} {n}")).unwrap();
        transaction.put(format!("o{n}"), "ours").unwrap();
        transaction.prepare().unwrap();
        if rng.one_in(2) {
            committed.extend(updates(&transaction));
            transaction.commit().unwrap();
        } else {
            prepared += 1;
        }
        if rng.one_in(3) {
            db.put("plain", format!("{n}")).unwrap();
            committed.insert(b"plain".to_vec(), format!("{n}").into_bytes());
            db.db().flush().unwrap();
        }
    }
    assert_eq!(contents(db.db()), committed, "{what}");
    db.db().close().unwrap();
    Left { committed, prepared }
}

/// What one engine has prepared the other one finds, and may end.
// Plain #[test]: RocksDB runs on threads of its own.
#[test]
fn both_engines_keep_what_is_prepared() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = &Peer::load(library).unwrap();
    for seed in 0..30 {
        let directory = &Directory::new(&format!("taken-over-{seed}"));
        let (path, rng) = (directory.database(), &mut Rng::new(seed));
        let what = format!("seed {seed}");
        let left = live(peer, &path, rng);
        let left = take_over(&path, left, rng, (&what, 1));
        {
            let db = TransactionDb::open(&options(peer), &path).unwrap();
            assert_eq!(db.prepared(), left.prepared, "{what}: RocksDB after ours");
        }
        readers_show(&path, &left, &what);
        take_over(&path, left, rng, (&what, 2));
    }
}
