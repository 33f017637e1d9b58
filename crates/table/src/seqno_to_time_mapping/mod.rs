//! When entries were written: samples of (sequence number, time), as tables keep them in the
//! property `rocksdb.seqno.time.map`.
//!
//! ```text
//! property: count varint64 | count x (sequence varint64 | seconds varint64)
//! ```
//!
//! Each pair is stored as the difference to the pair before it, the first as it is; a mapping
//! without samples is stored as nothing. A sample (10, 500) says that the entry with sequence
//! number 10 was written at second 500 of unix time or before, and the one with 11 then or later.
//!
//! Thread safety: plain data. Invariants: (1) samples ascend in both numbers, strictly, if they
//! were sampled, merged or decoded here. What it does not do: read a clock, or decide when to
//! sample.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pumice_base::coding::{get_varint64, put_varint64};
use pumice_base::{Error, Result, SequenceNumber};

/// Samples that a table has at most, as in RocksDB.
pub(crate) const SAMPLES_PER_TABLE_MAX: usize = 100;

/// The newest entry that is known to have been written at a time or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sample {
    sequence: SequenceNumber,
    /// Of unix time.
    seconds: u64,
}

/// See the module head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeqnoToTimeMapping {
    samples: Vec<Sample>,
}

impl SeqnoToTimeMapping {
    /// Samples of all sequence numbers from 1 to `last`, spread evenly over the time from `since`
    /// to `now`: those of a new database, where nothing has them.
    pub fn spread(last: SequenceNumber, since: u64, now: u64) -> Self {
        let span = u128::from(now.saturating_sub(since));
        let steps = u128::from(last.saturating_sub(1).max(1));
        let mut mapping = SeqnoToTimeMapping::default();
        for sequence in 1..=last {
            let passed = span * u128::from(sequence - 1) / steps;
            // Not more than `span`, which has 64 bits.
            mapping.sample(sequence, since + u64::try_from(passed).unwrap_or(0));
        }
        mapping
    }

    /// The samples of a property.
    ///
    /// # Errors
    /// Corruption.
    pub fn decode(mut bytes: &[u8]) -> Result<Self> {
        let mut samples = Vec::new();
        if bytes.is_empty() {
            return Ok(SeqnoToTimeMapping { samples });
        }
        let mut number = |what| {
            let (number, len) = get_varint64(bytes).ok_or_else(|| Error::corruption(what))?;
            bytes = &bytes[len..];
            Ok(number)
        };
        let mut last = Sample { sequence: 0, seconds: 0 };
        for _ in 0..number("Invalid sequence number time size")? {
            // RocksDB's differences wrap where its clock has gone back.
            last = Sample {
                sequence: last.sequence.wrapping_add(number("Invalid sequence number")?),
                seconds: last.seconds.wrapping_add(number("Invalid time")?),
            };
            samples.push(last);
        }
        if !bytes.is_empty() {
            let what = "Extra bytes at end of sequence number time mapping";
            return Err(Error::corruption(what));
        }
        Ok(SeqnoToTimeMapping::of(samples))
    }

    /// The bytes of the property; none without samples.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.samples.is_empty() {
            return bytes;
        }
        put_varint64(&mut bytes, self.samples.len() as u64);
        let mut last = Sample { sequence: 0, seconds: 0 };
        for sample in &self.samples {
            put_varint64(&mut bytes, sample.sequence - last.sequence);
            put_varint64(&mut bytes, sample.seconds - last.seconds);
            last = *sample;
        }
        bytes
    }

    /// As tools print it: `10->500,20->600,`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for Sample { sequence, seconds } in &self.samples {
            text.push_str(&sequence.to_string());
            text.push_str("->");
            text.push_str(&seconds.to_string());
            text.push(',');
        }
        text
    }

    /// The samples of all `mappings`.
    pub fn merged<'a>(mappings: impl Iterator<Item = &'a SeqnoToTimeMapping>) -> Self {
        SeqnoToTimeMapping::of(mappings.flat_map(|mapping| &mapping.samples).copied().collect())
    }

    fn of(mut samples: Vec<Sample>) -> Self {
        samples.sort_unstable();
        let mut mapping = SeqnoToTimeMapping::default();
        samples.into_iter().for_each(|sample| mapping.sample(sample.sequence, sample.seconds));
        mapping
    }

    /// `sequence`, not below that of the last sample, is the newest at `seconds`. A clock that has
    /// gone back is believed, and not what it said before: the earlier time is the safer one.
    pub fn sample(&mut self, mut sequence: SequenceNumber, mut seconds: u64) {
        if sequence == 0 {
            return; // Of no entry in particular.
        }
        while let Some(last) = self.samples.last()
            && (last.sequence >= sequence || last.seconds >= seconds)
        {
            if last.sequence >= sequence {
                (sequence, seconds) = (last.sequence, seconds.min(last.seconds));
            }
            self.samples.pop();
        }
        self.samples.push(Sample { sequence, seconds });
    }

    /// Samples.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// It has no sample.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The time of the last sample; 0 without any.
    pub fn last_seconds(&self) -> u64 {
        self.samples.last().map_or(0, |last| last.seconds)
    }

    /// Forgets what is only known of times before `seconds`.
    pub fn forget_before(&mut self, seconds: u64) {
        let old = self.samples.partition_point(|sample| sample.seconds <= seconds);
        self.samples.drain(..old.saturating_sub(1));
    }

    /// Leaves at most `most` samples, at least two: those go first without which the least time
    /// between their neighbours is unknown, and of several such the oldest. The ends stay.
    pub fn thin_out(&mut self, most: usize) {
        let (count, most) = (self.samples.len(), most.max(2));
        if count <= most {
            return;
        }
        let (mut before, mut after): (Vec<usize>, Vec<usize>) =
            (0..count).map(|at| (at.saturating_sub(1), at + 1)).unzip();
        let gap = |samples: &[Sample], before: &[usize], after: &[usize], at: usize| {
            samples[after[at]].seconds.saturating_sub(samples[before[at]].seconds)
        };
        let samples = &mut self.samples;
        let mut next: BinaryHeap<_> =
            (1..count - 1).map(|at| Reverse((gap(samples, &before, &after, at), at))).collect();
        let mut surplus = count - most;
        while surplus > 0
            && let Some(Reverse((known, at))) = next.pop()
        {
            // What it leaves has grown if a neighbour has gone since.
            let now = gap(samples, &before, &after, at);
            if now != known {
                next.push(Reverse((now, at)));
                continue;
            }
            (before[after[at]], after[before[at]]) = (before[at], after[at]);
            after[at] = at; // Gone.
            surplus -= 1;
        }
        let mut at = 0;
        samples.retain(|_| {
            at += 1;
            after[at - 1] != at - 1
        });
    }

    /// What a table with entries from `smallest` to `largest` keeps.
    pub fn of_table(&self, smallest: SequenceNumber, largest: SequenceNumber) -> Self {
        let first = self.samples.partition_point(|sample| sample.sequence < smallest);
        let end = self.samples.partition_point(|sample| sample.sequence <= largest);
        let first = first.saturating_sub(1).min(end);
        let mut kept = SeqnoToTimeMapping { samples: self.samples[first..end].to_vec() };
        kept.thin_out(SAMPLES_PER_TABLE_MAX);
        kept
    }

    /// The latest time that is known to be no later than when entry `sequence` was written; 0 if
    /// none is.
    pub fn time_before(&self, sequence: SequenceNumber) -> u64 {
        let after = self.samples.partition_point(|sample| sample.sequence < sequence);
        after.checked_sub(1).map_or(0, |at| self.samples[at].seconds)
    }

    /// The earliest time at which entry `sequence` is known to be written; None if none is.
    pub fn time_after(&self, sequence: SequenceNumber) -> Option<u64> {
        let at = self.samples.partition_point(|sample| sample.sequence < sequence);
        self.samples.get(at).map(|sample| sample.seconds)
    }

    /// The newest entry that is known to have been written at `seconds` or before; 0 if none is.
    pub fn newest_at(&self, seconds: u64) -> SequenceNumber {
        let after = self.samples.partition_point(|sample| sample.seconds <= seconds);
        after.checked_sub(1).map_or(0, |at| self.samples[at].sequence)
    }
}

#[cfg(test)]
mod tests;
