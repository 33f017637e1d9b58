//! Pumice as a secondary of the C library of 10.10.1 that writes over its old logs
//! (`recycle_log_file_num`), in every `wal_recovery_mode` of the secondary.
//!
//! The primary's files are carried over to another directory, in place and under the same inodes,
//! and a log stops after any byte of a write. At each such moment a secondary that follows catches
//! up, and shows the database before or after that batch, never a part of it, and never goes back.
//! One that is opened then shows the same.

// The files of another engine, whose inodes count.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::common::Scratch;
use pumice::options::WalRecoveryMode;
use pumice::{ColumnFamily, ColumnFamilyDescriptor, Db, Options};
use pumice_base::random::Rng;
use pumice_peer::{Peer, ReadOptions, ReadSettings, WriteSettings};
use pumice_testkit::seed;

const SEEDS: u64 = 12;
const STEPS: u64 = 20;
const NAMES: [&str; 2] = ["default", "other"];

type Contents = [BTreeMap<Vec<u8>, Vec<u8>>; 2];

/// A file of the primary: its inode and bytes.
type Files = BTreeMap<String, (u64, Vec<u8>)>;

/// What a secondary needs, read until it did not change meanwhile.
fn files_of(dir: &Path) -> Files {
    let read = || -> std::io::Result<Files> {
        let mut files = Files::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name().into_string().unwrap();
            let needed = ["MANIFEST", "CURRENT", "IDENTITY"].iter().any(|n| name.starts_with(n));
            if needed || name.ends_with(".log") || name.ends_with(".sst") {
                files.insert(name, (entry.metadata()?.ino(), fs::read(entry.path())?));
            }
        }
        Ok(files)
    };
    loop {
        if let (Ok(one), Ok(two)) = (read(), read())
            && one == two
        {
            return one;
        }
    }
}

/// The directory that the secondaries read.
struct Mirror {
    dir: PathBuf,
    has: Files,
    recycled: u32,
}

impl Mirror {
    /// Writes over the file, whose inode stays.
    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.dir.join(name);
        let mut file =
            fs::OpenOptions::new().create(true).write(true).truncate(false).open(path).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(bytes).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
    }

    /// Takes over what the primary has done; `moment` runs after each action.
    fn follow(&mut self, now: &Files, rng: &mut Rng, moment: &mut dyn FnMut(&mut Rng)) {
        for (name, (inode, _)) in now.iter().filter(|(name, _)| name.ends_with(".log")) {
            let same = |(_, (other, _)): &(&String, &(u64, Vec<u8>))| other == inode;
            let Some(old) = self.has.iter().find(same).map(|(old, _)| old.clone()) else {
                continue;
            };
            if old != *name {
                fs::rename(self.dir.join(&old), self.dir.join(name)).unwrap();
                let file = self.has.remove(&old).unwrap();
                self.has.insert(name.clone(), file);
                self.recycled += 1;
                moment(rng);
            }
        }
        let late = |name: &str| (name.starts_with("CURRENT"), name.starts_with("MANIFEST"));
        let mut names: Vec<&String> = now.keys().collect();
        names.sort_by_key(|name| (late(name), !name.ends_with(".log")));
        for name in names {
            let (inode, bytes) = &now[name];
            let before = self.has.get(name).map_or(&[][..], |(_, bytes)| bytes);
            if self.has.contains_key(name) && before == bytes {
                continue;
            }
            if name.ends_with(".log") {
                let before = before.to_vec();
                self.tear(name, &before, bytes, rng, moment);
            }
            if name == "CURRENT" {
                self.write("CURRENT.new", bytes);
                fs::rename(self.dir.join("CURRENT.new"), self.dir.join(name)).unwrap();
            } else {
                self.write(name, bytes);
            }
            self.has.insert(name.clone(), (*inode, bytes.clone()));
            moment(rng);
        }
        let gone: Vec<String> =
            self.has.keys().filter(|name| !now.contains_key(*name)).cloned().collect();
        for name in gone {
            fs::remove_file(self.dir.join(&name)).unwrap();
            self.has.remove(&name);
            moment(rng);
        }
    }

    /// Stops at some bytes of a write to a log.
    fn tear(
        &self,
        name: &str,
        before: &[u8],
        now: &[u8],
        rng: &mut Rng,
        moment: &mut dyn FnMut(&mut Rng),
    ) {
        let from = before.iter().zip(now).take_while(|(a, b)| a == b).count();
        let same = before.iter().rev().zip(now.iter().rev()).take_while(|(a, b)| a == b).count();
        let end = if before.len() == now.len() { now.len() - same } else { now.len() };
        let len = end.saturating_sub(from) as u64;
        let mut cuts: Vec<usize> = (0..4).map(|_| from + rng.uniform(len + 1) as usize).collect();
        cuts.extend([from + (len as usize).min(4), from + (len as usize).min(11)]);
        cuts.sort();
        for cut in cuts {
            let mut bytes = now[..cut].to_vec();
            bytes.extend(before.iter().skip(cut));
            self.write(name, &bytes);
            moment(rng);
        }
    }
}

fn contents_of_ours(db: &Db, cfs: &[ColumnFamily]) -> Contents {
    [0, 1].map(|cf| db.iter_cf(&cfs[cf]).unwrap().map(|entry| entry.unwrap()).collect())
}

fn contents_of_theirs(
    peer: &Peer,
    db: &pumice_peer::Db,
    cfs: &[pumice_peer::ColumnFamily],
) -> Contents {
    let read = ReadOptions::new(peer, &ReadSettings::default());
    [0, 1].map(|cf| {
        let mut cursor = db.iter(&read, &cfs[cf]);
        cursor.seek_to_first();
        let mut all = BTreeMap::new();
        while cursor.valid() {
            all.insert(cursor.key().to_vec(), cursor.value().to_vec());
            cursor.next();
        }
        cursor.status().unwrap();
        all
    })
}

fn secondary(
    dir: &Path,
    beside: &Path,
    mode: WalRecoveryMode,
) -> pumice::Result<(Db, Vec<ColumnFamily>)> {
    let mut options = Options::default();
    options.db.wal_recovery_mode = mode;
    let families = NAMES.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    Db::open_as_secondary(&options.db, dir, beside, &families)
}

/// One step of the primary: a batch over both families, which may be large, or a flush.
fn step(
    peer: &Peer,
    db: &pumice_peer::Db,
    cfs: &[pumice_peer::ColumnFamily],
    rng: &mut Rng,
    n: u64,
) {
    match rng.uniform(6) {
        0 => cfs.iter().for_each(|cf| db.flush(cf).unwrap()),
        1 => db.flush(&cfs[rng.uniform(2) as usize]).unwrap(),
        _ => {
            let write = pumice_peer::WriteOptions::new(peer, &WriteSettings::default());
            let mut batch = pumice_peer::WriteBatch::new(peer);
            for cf in cfs {
                for _ in 0..1 + rng.uniform(4) {
                    let key = format!("key{:02}", rng.uniform(30));
                    let value = format!("{n:04}").repeat(rng.skewed(13) as usize);
                    batch.put(cf, key.as_bytes(), value.as_bytes());
                }
                batch.put(cf, b"step", n.to_string().as_bytes());
            }
            db.write(&write, &batch).unwrap();
        }
    }
}

/// What went otherwise than to a success, by kind.
#[derive(Debug, Default)]
struct Tally {
    moments: u32,
    late: u32,
    refused: Vec<String>,
    not_opened: Vec<String>,
    recycled: u32,
}

fn life(peer: &Peer, seed: u64, mode: WalRecoveryMode, more: &str, tally: &mut Tally) {
    let mut rng = Rng::new(seed);
    let (theirs, mirror) = (Scratch::new("theirs"), Scratch::new("mirror"));
    let (beside, fresh) = (Scratch::new("beside"), Scratch::new("fresh"));
    fs::create_dir_all(&mirror.0).unwrap();
    let mut options = pumice_peer::Options::new(peer);
    let text = "create_if_missing=true;create_missing_column_families=true;max_open_files=-1;\
                disable_auto_compactions=true;recycle_log_file_num=2;";
    options.set_many(&(text.to_string() + more)).unwrap();
    let families = NAMES.map(|name| (name, &options));
    let (primary, cfs) = pumice_peer::Db::open_cf(&options, &theirs.0, &families, false).unwrap();
    let mut mirrored = Mirror { dir: mirror.0.clone(), has: Files::new(), recycled: 0 };
    mirrored.follow(&files_of(&theirs.0), &mut rng, &mut |_| {});
    let (db, ours) = secondary(&mirror.0, &beside.0, mode).unwrap();
    let mut before = contents_of_theirs(peer, &primary, &cfs);
    let mut shown = contents_of_ours(&db, &ours);
    for n in 0..STEPS {
        step(peer, &primary, &cfs, &mut rng, n);
        let after = contents_of_theirs(peer, &primary, &cfs);
        let lags = rng.one_in(5);
        mirrored.follow(&files_of(&theirs.0), &mut rng, &mut |rng| {
            if lags {
                return;
            }
            tally.moments += 1;
            let caught_up = db.try_catch_up_with_primary();
            let seen = contents_of_ours(&db, &ours);
            match caught_up {
                Ok(()) => {
                    let right = seen == after || seen == before && shown != after;
                    assert!(right, "{mode:?} step {n}: a state that was not the primary's");
                    tally.late += u32::from(seen != after);
                }
                Err(error) => {
                    assert!(seen == shown, "{mode:?} step {n}: a failure changed answers");
                    tally.refused.push(error.to_string());
                }
            }
            shown = seen;
            if rng.one_in(6) {
                match secondary(&mirror.0, &fresh.0, mode) {
                    Ok((db, cfs)) => {
                        let seen = contents_of_ours(&db, &cfs);
                        assert!(seen == after || seen == before, "{mode:?} step {n}: opened");
                    }
                    Err(error) => tally.not_opened.push(error.to_string()),
                }
            }
        });
        if !lags {
            db.try_catch_up_with_primary().unwrap();
            shown = contents_of_ours(&db, &ours);
            assert!(shown == after, "{mode:?} step {n}: not what the primary has");
            let (db, cfs) = secondary(&mirror.0, &fresh.0, mode).unwrap();
            assert!(contents_of_ours(&db, &cfs) == after, "{mode:?} step {n}: opened at the end");
        }
        before = after;
    }
    tally.recycled += mirrored.recycled;
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_secondary_of_recycled_logs_shows_whole_batches() {
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = Peer::load(library).unwrap();
    let modes = [
        WalRecoveryMode::TolerateCorruptedTail,
        WalRecoveryMode::AbsoluteConsistency,
        WalRecoveryMode::PointInTime,
        WalRecoveryMode::SkipAnyCorrupted,
    ];
    let mut tally = Tally::default();
    for seed in seed::range(SEEDS) {
        println!("seed {seed}");
        let more = ["", "wal_recovery_mode=kSkipAnyCorruptedRecords;", "wal_compression=kZSTD;"];
        let more = more[(seed / 4) as usize % more.len()];
        life(&peer, seed, modes[seed as usize % 4], more, &mut tally);
    }
    println!("{tally:?}");
    // A write that is not finished is no error.
    assert!(tally.refused.is_empty() && tally.not_opened.is_empty(), "{tally:?}");
    if seed::wanted().is_none() {
        assert!(tally.recycled > 0 && tally.late > 0, "{tally:?}");
    }
}
