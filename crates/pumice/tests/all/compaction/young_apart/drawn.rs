//! Drawn writes, deletions, snapshots, compactions, changes of the option and opens, against maps;
//! and where the entries of each table of the last level may be.

use std::collections::BTreeSet;

use pumice::ReadOptions;
use pumice_base::random::Rng;

use super::*;

type Map = BTreeMap<String, String>;

/// What a compaction put into the last level.
struct Done {
    files: Vec<u64>,
    /// Until when it may have looked at the clock.
    at: u64,
    /// Newest entry of its inputs in the last level.
    kept_through: u64,
}

/// The compactions into the last level, but those of files that were named.
#[derive(Default)]
struct Seen(Mutex<Vec<Done>>);

impl EventListener for Seen {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        let last = LAST as i32;
        if info.error.is_some() || info.output_level != last {
            return;
        }
        let inputs = info.input_files.iter().filter(|(level, _)| *level == last);
        let newest = inputs.flat_map(|(_, files)| files).map(|number| {
            info.tables.get(number).map_or(u64::MAX, |table| table.properties.key_largest_seqno)
        });
        self.0.lock().push(Done {
            files: info.output_files.clone(),
            at: wall_seconds(),
            kept_through: newest.max().unwrap_or(0),
        });
    }
}

struct Model {
    db: Option<Db>,
    options: Options,
    seen: Arc<Seen>,
    rng: Rng,
    map: Map,
    snapshots: Vec<(Snapshot, Map)>,
    /// Keys that were written once since they were single-deleted.
    single: BTreeSet<String>,
    /// The newest entry at each moment of a write.
    written: Vec<(u64, u64)>,
    young: u64,
    /// Tables of the last level that had to be free of young entries.
    checked: u64,
    apart: u64,
}

impl Model {
    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn note(&mut self) {
        let newest = self.db().latest_sequence_number();
        self.written.push((newest, wall_seconds()));
    }

    fn key(&mut self) -> String {
        format!("{:02}", self.rng.uniform(60))
    }

    fn write(&mut self) {
        let key = self.key();
        match self.rng.uniform(10) {
            0..5 => {
                let value = format!("{}{}", self.rng.uniform(1000), "v".repeat(self.size()));
                self.db().put(&key, &value).unwrap();
                self.map.insert(key, value);
            }
            5..7 => {
                let operand = format!("{}", self.rng.uniform(100));
                self.db().merge(&key, &operand).unwrap();
                let value = self.map.get(&key).map(|old| format!("{old},{operand}"));
                self.map.insert(key, value.unwrap_or(operand));
            }
            7 => {
                self.db().delete(&key).unwrap();
                self.map.remove(&key);
            }
            8 => {
                let (first, second) = (key, self.key());
                let (begin, end) = (first.clone().min(second.clone()), first.max(second));
                if begin < end {
                    self.db().delete_range(&begin, &end).unwrap();
                    self.map.retain(|key, _| *key < begin || *key >= end);
                }
            }
            _ => {
                let key = format!("s{key}");
                if self.single.remove(&key) {
                    self.db().single_delete(&key).unwrap();
                    self.map.remove(&key);
                } else {
                    self.db().put(&key, "single").unwrap();
                    self.map.insert(key.clone(), "single".into());
                    self.single.insert(key);
                }
            }
        }
        self.note();
    }

    fn size(&mut self) -> usize {
        self.rng.uniform(120) as usize
    }

    fn compact(&mut self) {
        let range = [self.key(), self.key()];
        let (begin, end) = (range.iter().min().unwrap(), range.iter().max().unwrap());
        let all = self.rng.one_in(2);
        let [begin, end] = [begin, end].map(|key| (!all).then_some(key.as_bytes()));
        let how = CompactRangeOptions {
            bottommost_level_compaction: match self.rng.one_in(2) {
                true => BottommostLevelCompaction::Force,
                false => BottommostLevelCompaction::Skip,
            },
            ..CompactRangeOptions::default()
        };
        self.db().compact_range(&how, begin, end).unwrap();
    }

    /// Some files with what has to be included, into a level that may be the last.
    fn compact_files(&mut self) {
        self.check_placement();
        self.db().wait_for_compact(&Default::default()).unwrap();
        self.check_placement();
        let files = self.db().live_files_metadata();
        let chance = 1 + self.rng.uniform(3);
        let named: Vec<_> = files.iter().filter(|_| self.rng.one_in(chance)).collect();
        let Some(deepest) = named.iter().map(|file| file.level).max() else { return };
        let to = LAST.max(deepest) as i32;
        let names: Vec<&str> = named.iter().map(|f| f.name.trim_start_matches('/')).collect();
        // Files go when an automatic compaction takes them.
        drop(self.db().compact_files(&CompactFilesOptions::default(), &names, to));
        // Files in its way may keep all of it in the last level.
        self.db().wait_for_compact(&Default::default()).unwrap();
        self.seen.0.lock().clear();
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        self.check_placement();
        self.db.take().unwrap().close().unwrap();
        // What compactions did while the database was closing is not looked at.
        self.seen.0.lock().clear();
        self.options.cf.preclude_last_level_data_seconds = self.young;
        self.db = Some(Db::open(&self.options, DIR).unwrap());
    }

    fn change(&mut self) {
        self.db().wait_for_compact(&Default::default()).unwrap();
        self.check_placement();
        self.young = if self.rng.one_in(4) { 0 } else { 100 + self.rng.uniform(3000) };
        let value = self.young.to_string();
        self.db().set_options(&[("preclude_last_level_data_seconds", &value)]).unwrap();
    }

    fn check(&mut self) {
        let all = contents(self.db());
        let all: Map = all.into_iter().map(|(k, v)| (text(&k), text(&v))).collect();
        assert_eq!(all, self.map);
        for (key, value) in &self.map {
            assert_eq!(get(self.db(), key.as_bytes()).as_deref(), Some(value.as_bytes()), "{key}");
        }
        let absent = (0..60).map(|n| format!("{n:02}")).filter(|key| !self.map.contains_key(key));
        absent.for_each(|key| assert_eq!(get(self.db(), key.as_bytes()), None, "{key}"));
        for (snapshot, map) in &self.snapshots {
            let snapshot = Some(snapshot.clone());
            let read = ReadOptions { snapshot, ..ReadOptions::default() };
            let mut cursor = self.db().cursor_opt(&read).unwrap();
            cursor.seek_to_last();
            let mut found = Map::new();
            while cursor.valid() {
                found.insert(text(cursor.key().unwrap()), text(cursor.value().unwrap()));
                cursor.prev();
            }
            cursor.status().unwrap();
            assert_eq!(found, *map);
        }
    }

    /// The files of each level are apart, and those of the last one have no young entries where
    /// their compaction could leave these above.
    fn check_placement(&mut self) {
        let done = std::mem::take(&mut *self.seen.0.lock());
        for at in 1..=LAST {
            for pair in level(self.db(), at).windows(2) {
                assert!(pair[0].largest_key <= pair[1].smallest_key, "{pair:?}");
            }
        }
        let last = level(self.db(), LAST);
        self.apart += level(self.db(), LAST - 1).len() as u64;
        if self.young == 0 {
            return;
        }
        for Done { files, at, kept_through } in done {
            for file in last.iter().filter(|file| files.contains(&file.file_number)) {
                let newest = file.largest_seq;
                let after = self.written.partition_point(|(sequence, _)| *sequence < newest);
                let written = if newest == 0 { 0 } else { self.written[after].1 };
                let is_old = written + self.young <= at;
                assert!(is_old || newest <= kept_through, "{file:?} of {written} at {at}");
                self.checked += 1;
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn live(seed: u64) -> (u64, u64) {
    let mut rng = Rng::new(seed);
    let (_, fs) = memory();
    let seen = Arc::new(Seen::default());
    let mut options = apart(&fs, STYLES[rng.uniform(2) as usize]);
    options.cf.preclude_last_level_data_seconds = YOUNG;
    options.cf.max_bytes_for_level_base = 1000 << rng.uniform(4);
    options.cf.target_file_size_base = 300 << rng.uniform(4);
    options.cf.level0_file_num_compaction_trigger = 1 + rng.uniform(4) as i32;
    options.cf.level_compaction_dynamic_level_bytes = rng.one_in(2);
    options.cf.disable_auto_compactions = rng.one_in(4);
    options.cf.enable_blob_files = rng.one_in(3);
    options.cf.min_blob_size = 60;
    options.cf.enable_blob_garbage_collection = rng.one_in(2);
    options.cf.compaction_options_universal.incremental = rng.one_in(2);
    options.db.max_subcompactions = 1 + rng.uniform(3) as u32;
    options.db.max_background_jobs = 4;
    options.db.listeners = vec![Arc::clone(&seen) as Arc<dyn EventListener>];
    let db = Some(Db::open(&options, DIR).unwrap());
    let (map, snapshots) = (Map::new(), Vec::new());
    let written = vec![(100, wall_seconds())];
    let mut model = Model {
        db,
        options,
        seen,
        rng,
        map,
        snapshots,
        single: BTreeSet::new(),
        written,
        young: YOUNG,
        checked: 0,
        apart: 0,
    };
    for _ in 0..300 {
        match model.rng.uniform(24) {
            0..14 => model.write(),
            14..17 => flush(model.db()),
            17 => model.compact(),
            18 if model.rng.one_in(2) => model.compact_files(),
            19 => {
                let snapshot = (model.db().snapshot(), model.map.clone());
                model.snapshots.push(snapshot);
            }
            20 if !model.snapshots.is_empty() => {
                let at = model.rng.uniform(model.snapshots.len() as u64) as usize;
                model.snapshots.remove(at);
            }
            21 if model.rng.one_in(6) => model.reopen(),
            22 if model.rng.one_in(6) => model.change(),
            _ => pass(model.rng.uniform(300)),
        }
        model.check_placement();
        if model.rng.one_in(4) {
            model.check();
        }
    }
    model.check();
    model.snapshots.clear();
    model.db.take().unwrap().close().unwrap();
    (model.checked, model.apart)
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn drawn_entries_are_found_wherever_they_are() {
    let sums = Arc::new(Mutex::new((0, 0)));
    let counted = Arc::clone(&sums);
    simulate(0..40, move |seed| {
        let (checked, apart) = live(seed);
        let mut sums = counted.lock();
        *sums = (sums.0 + checked, sums.1 + apart);
    });
    let (checked, apart) = *sums.lock();
    println!("{checked} files of the last level, {apart} above");
    assert!(checked > 100 && apart > 1000, "{checked} {apart}");
}
