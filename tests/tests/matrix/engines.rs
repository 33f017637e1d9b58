//! The two engines as readers of the matrix.

use pumice::{DbIterator, ReadOptions};
use pumice_peer::{ReadOptions as PeerReadOptions, ReadSettings};
use pumice_testkit::store::Step;
use pumice_testkit::{Entry, Store};

use super::check::{Order, Reader};
use crate::stores::pumice::Pumice;
use crate::stores::rocksdb::RocksDb;

/// Moves `$iterator` to `$start` and collects up to `$limit` entries. Both engines' iterators have
/// the same methods and no common trait.
macro_rules! walk {
    ($iterator:expr, $start:expr, $limit:expr) => {{
        let iterator = $iterator;
        let mut backward = false;
        match $start {
            Step::First => iterator.seek_to_first(),
            Step::Last => {
                backward = true;
                iterator.seek_to_last();
            }
            Step::Seek(key) => iterator.seek(key),
            Step::SeekForPrev(key) => {
                backward = true;
                iterator.seek_for_prev(key);
            }
            Step::Next | Step::Prev => return Err("a walk starts somewhere".to_string()),
        }
        let mut found: Vec<Entry> = Vec::new();
        while found.len() < $limit && iterator.valid() {
            found.push((
                Option::<&[u8]>::from(iterator.key()).unwrap().to_vec(),
                Option::<&[u8]>::from(iterator.value()).unwrap().to_vec(),
            ));
            match backward {
                true => iterator.prev(),
                false => iterator.next(),
            }
        }
        iterator.status().map_err(|e| e.to_string())?;
        Ok(found)
    }};
}

impl Reader for Pumice {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        Store::get(self, 0, key, None)
    }

    fn multi_get(&mut self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, String> {
        Store::multi_get(self, 0, keys, None)
    }

    fn walk(&mut self, order: Order, start: &Step, limit: usize) -> Result<Vec<Entry>, String> {
        let reads = ReadOptions {
            total_order_seek: order == Order::Total,
            prefix_same_as_start: order == Order::SamePrefix,
            ..ReadOptions::default()
        };
        let mut iterator: DbIterator =
            self.db().cursor_cf_opt(&reads, &self.families()[0]).map_err(|e| e.to_string())?;
        walk!(&mut iterator, start, limit)
    }

    fn within(&mut self, start: &[u8], upper: &[u8]) -> Result<Vec<Entry>, String> {
        let upper = Some(upper.to_vec());
        let reads = ReadOptions { iterate_upper_bound: upper, ..ReadOptions::default() };
        let mut iterator: DbIterator =
            self.db().cursor_cf_opt(&reads, &self.families()[0]).map_err(|e| e.to_string())?;
        walk!(&mut iterator, &Step::Seek(start.to_vec()), usize::MAX)
    }

    fn verify(&mut self) -> Result<(), String> {
        self.db().verify_checksum().map_err(|e| e.to_string())
    }
}

impl Reader for RocksDb {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        Store::get(self, 0, key, None)
    }

    fn multi_get(&mut self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, String> {
        Store::multi_get(self, 0, keys, None)
    }

    fn walk(&mut self, order: Order, start: &Step, limit: usize) -> Result<Vec<Entry>, String> {
        let settings = ReadSettings {
            total_order_seek: order == Order::Total,
            prefix_same_as_start: order == Order::SamePrefix,
            ..ReadSettings::default()
        };
        let reads = PeerReadOptions::new(self.peer(), &settings);
        let mut iterator = self.db().iter(&reads, &self.families()[0]);
        walk!(&mut iterator, start, limit)
    }

    fn within(&mut self, start: &[u8], upper: &[u8]) -> Result<Vec<Entry>, String> {
        let upper = Some(upper.to_vec());
        let settings = ReadSettings { iterate_upper_bound: upper, ..ReadSettings::default() };
        let reads = PeerReadOptions::new(self.peer(), &settings);
        let mut iterator = self.db().iter(&reads, &self.families()[0]);
        walk!(&mut iterator, &Step::Seek(start.to_vec()), usize::MAX)
    }

    /// RocksDB's C library has no call for it. Its scans verify every data block, its compaction
    /// (which the child job runs) counts entries, and `sst_dump` verifies format 5.
    fn verify(&mut self) -> Result<(), String> {
        Ok(())
    }
}
