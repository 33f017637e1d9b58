//! The write-ahead log of a database, in every recovery mode.

use pumice_base::random::Rng;
use pumice_wal::WalRecoveryMode;

use crate::database::{Files, exam, honest, named};
use crate::{Outcome, Target, batch, frames, mutate};

pub struct Log {
    files: Files,
    name: String,
}

impl Log {
    pub fn new() -> Self {
        let files = honest();
        let name = named(&files, ".log");
        Log { files, name }
    }

    /// Changes a record; most of the time its count and sequence are plausible afterwards.
    fn record(&self, record: &mut Vec<u8>, donors: &[Vec<u8>], rng: &mut Rng) {
        let sequence = record.get(..8).map(<[u8]>::to_vec);
        mutate::some(record, donors, rng);
        if let (Some(sequence), Some(to)) = (sequence, record.get_mut(..8))
            && !rng.one_in(4)
        {
            to.copy_from_slice(&sequence);
        }
        if !rng.one_in(4) {
            batch::recount(record);
        }
    }
}

impl Target for Log {
    fn honest(&self) -> Vec<Vec<u8>> {
        let own = self.files[&self.name].clone();
        let mut records = frames::records(&own);
        let next = records.iter().map(|r| u64::from_le_bytes(*r.first_chunk().unwrap())).max();
        let mut full = batch::full().data().to_vec();
        full[..8].copy_from_slice(&(next.unwrap() + 100).to_le_bytes());
        records.push(full);
        vec![own, frames::log(&records)]
    }

    /// Sequence numbers that cannot be continued.
    fn crafted(&self) -> Vec<Vec<u8>> {
        let record = |sequence: u64| {
            let mut record = batch::full().data().to_vec();
            record[..8].copy_from_slice(&sequence.to_le_bytes());
            frames::log(&[record])
        };
        [(1 << 56) - 2, (1 << 56) - 1, 1 << 56, u64::MAX].map(record).into()
    }

    fn change(&self, bytes: Vec<u8>, corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
        frames::change(bytes, corpus, rng, |record, donors, rng| self.record(record, donors, rng))
    }

    fn enter(&self, bytes: &[u8], rng: &mut Rng) -> Outcome {
        let mut files = self.files.clone();
        files.insert(self.name.clone(), bytes.to_vec());
        let mode = WalRecoveryMode::from_u8(rng.uniform(4) as u8).unwrap();
        exam(&files, |options| options.db.wal_recovery_mode = mode)
    }
}
