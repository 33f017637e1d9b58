//! Operations that move files without a write: compactions of chosen files, changes of level,
//! ingestion that replaces a range, and a tailing iterator that lives through them.

use pumice::{
    CompactFilesOptions, CompactRangeOptions, Error, ErrorKind, FlushOptions,
    IngestExternalFileArg, IngestExternalFileOptions, RangeOpt, ReadOptions, SstFileWriter,
};
use pumice_base::UserKey;

use super::Test;

/// A move that the tree does not allow is refused; nothing else may fail.
fn refused(error: &Error) {
    let kinds = [ErrorKind::InvalidArgument, ErrorKind::Aborted, ErrorKind::NotSupported];
    assert!(kinds.contains(&error.kind()), "{error}");
}

impl Test {
    /// Everything in a range, or everywhere, makes way for a file.
    pub(super) fn replace_range(&mut self) {
        self.snapshots.clear();
        let before = self.now.clone();
        let order = self.comparator.clone();
        let everywhere = self.rng.one_in(2);
        let (mut start, mut limit) = (self.key(), self.key());
        if order.compare(UserKey::new(&start), UserKey::new(&limit)).is_gt() {
            std::mem::swap(&mut start, &mut limit);
        }
        if start == limit {
            return;
        }
        let inside = |key: &[u8]| {
            everywhere
                || (order.compare(UserKey::new(key), UserKey::new(&start)).is_ge()
                    && order.compare(UserKey::new(key), UserKey::new(&limit)).is_lt())
        };
        self.now.retain(|key, _| !inside(key));
        let mut keys: Vec<Vec<u8>> = (0..30).map(|_| self.key()).filter(|k| inside(k)).collect();
        keys.push(start.clone());
        keys.sort_by(|a, b| order.compare(UserKey::new(a), UserKey::new(b)));
        keys.dedup();
        let mut writer = SstFileWriter::new(&self.options).unwrap();
        writer.open("/in/replacing.sst").unwrap();
        for key in keys {
            let value = self.value();
            writer.put(&key, &value).unwrap();
            self.now.insert(key, value);
        }
        writer.finish().unwrap();
        let options = IngestExternalFileOptions {
            snapshot_consistency: false,
            ..IngestExternalFileOptions::default()
        };
        let family = self.db.default_column_family();
        let mut arg =
            IngestExternalFileArg::new(family, vec!["/in/replacing.sst".into()], &options);
        arg.atomic_replace_range = Some(match everywhere {
            true => RangeOpt::default(),
            false => RangeOpt { start: Some(start), limit: Some(limit) },
        });
        match self.db.ingest_external_files(&[arg]) {
            Ok(()) => self.persisted(),
            // A file that is cut by the range cannot be replaced.
            Err(error) => {
                assert!(error.to_string().contains("overlap"), "{error}");
                self.now = before;
            }
        }
    }

    /// Every other file of a level, into any level.
    pub(super) fn compact_some_files(&mut self) {
        let files = self.db.live_files_metadata();
        if files.is_empty() {
            return;
        }
        let level = files[self.rng.uniform(files.len() as u64) as usize].level;
        let is_chosen = |number: u64| number % 2 == self.counter % 2;
        let chosen = files.iter().filter(|f| f.level == level && is_chosen(f.file_number));
        let names: Vec<&str> = chosen.map(|file| &file.name[..]).collect();
        let to = self.rng.uniform(self.options.cf.num_levels as u64) as i32;
        let options = CompactFilesOptions {
            max_subcompactions: self.rng.uniform(4) as u32,
            output_file_size_limit: 1 + self.rng.uniform(8000),
            ..CompactFilesOptions::default()
        };
        let done = self.db.compact_files(&options, &names, to);
        done.err().iter().for_each(refused);
    }

    /// Moves files while the database stays open.
    pub(super) fn move_files(&mut self) {
        match self.rng.uniform(5) {
            0 => self.db.flush_opt(&FlushOptions::default()).unwrap(),
            1 => self.compact_some_files(),
            2 => self.ingest(),
            3 => self.replace_range(),
            _ => {
                let levels = self.options.cf.num_levels as u64;
                let options = CompactRangeOptions {
                    change_level: self.rng.one_in(2),
                    target_level: self.rng.uniform(levels + 1) as i32 - 1,
                    max_subcompactions: self.rng.uniform(4) as u32,
                    ..CompactRangeOptions::default()
                };
                let done = self.db.compact_range(&options, None, None);
                done.err().iter().for_each(refused);
            }
        }
    }

    /// A tailing iterator sees what is there at each of its seeks.
    pub(super) fn tail(&mut self) {
        let options = ReadOptions { tailing: true, ..ReadOptions::default() };
        let mut cursor = self.db.cursor_opt(&options).unwrap();
        for _ in 0..12 {
            match self.rng.uniform(12) {
                0..3 => self.write(),
                3 => self.move_files(),
                _ => {}
            }
            let order = self.comparator.clone();
            let mut rows: Vec<_> = self.now.clone().into_iter().collect();
            rows.sort_by(|a, b| order.compare(UserKey::new(&a.0), UserKey::new(&b.0)));
            let target = self.key();
            let mut at = if self.rng.one_in(2) {
                cursor.seek(&target);
                let at = rows.partition_point(|row| {
                    order.compare(UserKey::new(&row.0), UserKey::new(&target)).is_lt()
                });
                (at < rows.len()).then_some(at)
            } else {
                cursor.seek_for_prev(&target);
                rows.partition_point(|row| {
                    order.compare(UserKey::new(&row.0), UserKey::new(&target)).is_le()
                })
                .checked_sub(1)
            };
            for _ in 0..6 {
                cursor.status().unwrap();
                let seen = cursor.valid().then(|| (cursor.key().unwrap(), cursor.value().unwrap()));
                let wanted = at.map(|at| (&rows[at].0[..], &rows[at].1[..]));
                assert_eq!(seen, wanted, "seed {} tailing {target:?}", self.seed);
                let Some(row) = at else { break };
                if self.rng.one_in(2) {
                    cursor.next();
                    at = (row + 1 < rows.len()).then_some(row + 1);
                } else {
                    cursor.prev();
                    at = row.checked_sub(1);
                }
            }
        }
    }
}
