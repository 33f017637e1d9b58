//! Comparing the whole database with the expected state.

use super::expected::{Counter, Expected, FAMILIES, Place, Record};
use super::store::Store;
use super::values::{id_of, key};
use pumice::{ReadOptions, Result};
use std::io;

/// What was found wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Acknowledged writes that are missing.
    pub lost: u64,
    /// Values that were never written, torn batches, iterators that disagree with gets.
    pub wrong: u64,
}

/// What a key's found id means, given its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    /// As acknowledged, and nothing was under way.
    Settled,
    /// The operation under way took effect.
    New,
    /// The operation under way did not take effect.
    Old,
    /// Neither the acknowledged nor the pending value.
    Bad,
}

fn judge(record: Record, found: u64) -> Finding {
    match (record.pending == record.committed, found) {
        (true, id) if id == record.committed => Finding::Settled,
        (false, id) if id == record.pending => Finding::New,
        (false, id) if id == record.committed => Finding::Old,
        _ => Finding::Bad,
    }
}

/// Checks every key, by iteration in both directions and by gets, and settles what was under way.
///
/// # Errors
/// Reading failed: of the database in the inner result, of the expected state in the outer.
pub fn verify(store: &Store, expected: &Expected) -> io::Result<Result<Verdict>> {
    let mut verdict = Verdict::default();
    for thread in 0..expected.threads {
        let (mut new, mut old) = (0u64, 0u64);
        let mut settled = Vec::new();
        for family in 0..FAMILIES {
            let found = match found_ids(store, family, thread, expected.keys) {
                Ok(Ok(found)) => found,
                Ok(Err(complaint)) => {
                    eprintln!("WRONG: family {family}, thread {thread}: {complaint}");
                    verdict.wrong += 1;
                    continue;
                }
                Err(error) => return Ok(Err(error)),
            };
            let records = expected.records(family, thread)?;
            for (index, (record, id)) in records.into_iter().zip(found).enumerate() {
                let place = Place { family, thread, key: index as u64 };
                match judge(record, id) {
                    Finding::Settled => continue,
                    Finding::New => new += 1,
                    Finding::Old => old += 1,
                    Finding::Bad => {
                        eprintln!("BAD VALUE: {place:?}: expected {record:?}, found id {id}");
                        // Ids grow, so a smaller one (or none) is an older state of the key, and
                        // so is any value of a key that was deleted.
                        let older = id < record.committed || record.committed == 0;
                        verdict.lost += u64::from(older);
                        verdict.wrong += u64::from(!older);
                    }
                }
                settled.push((place, id));
            }
        }
        if new > 0 && old > 0 {
            eprintln!("TORN BATCH: thread {thread}: {new} keys have it, {old} have not");
            verdict.wrong += 1;
        }
        for (place, id) in settled {
            expected.commit(place, id)?;
            expected.begin(place, id)?;
        }
    }
    expected.add(Counter::Verified, 1)?;
    Ok(Ok(verdict))
}

/// The ids of a thread's keys in one family; the inner error is a wrong answer of the database.
fn found_ids(
    store: &Store,
    family: usize,
    thread: usize,
    keys: u64,
) -> Result<std::result::Result<Vec<u64>, String>> {
    let handle = &store.families[family];
    let bound = |key_index| key(Place { family, thread, key: key_index }).to_vec();
    let options = ReadOptions {
        iterate_lower_bound: Some(bound(0)),
        iterate_upper_bound: Some(bound(keys)),
        // A thread's keys have many prefixes.
        total_order_seek: true,
        ..ReadOptions::default()
    };
    let mut forward = Vec::new();
    let mut cursor = store.db.cursor_cf_opt(&options, handle)?;
    cursor.seek_to_first();
    while cursor.valid() {
        forward.push((
            cursor.key().unwrap_or_default().to_vec(),
            cursor.value().unwrap_or_default().to_vec(),
        ));
        cursor.next();
    }
    cursor.status()?;
    let mut remaining = forward.len();
    cursor.seek_to_last();
    while cursor.valid() {
        let same = remaining > 0
            && forward[remaining - 1].0 == cursor.key().unwrap_or_default()
            && forward[remaining - 1].1 == cursor.value().unwrap_or_default();
        if !same {
            return Ok(Err(format!(
                "backward iteration differs at key {:02x?}",
                cursor.key().unwrap_or_default()
            )));
        }
        remaining -= 1;
        cursor.prev();
    }
    cursor.status()?;
    if remaining > 0 {
        return Ok(Err(format!("backward iteration misses {remaining} keys")));
    }
    let mut ids = Vec::with_capacity(keys as usize);
    let mut scratch = Vec::new();
    let mut entries = forward.iter().peekable();
    for index in 0..keys {
        let wanted = key(Place { family, thread, key: index });
        let entry = entries.next_if(|(found, _)| found.as_slice() == wanted);
        let iterated = entry.map(|(_, value)| value.as_slice());
        let got = store.db.get_cf_opt(&ReadOptions::default(), handle, &wanted)?;
        if got.as_deref() != iterated {
            return Ok(Err(format!("get and iteration differ at key {index}")));
        }
        match id_of(family, iterated, &mut scratch) {
            Ok(id) => ids.push(id),
            Err(complaint) => return Ok(Err(format!("key {index}: {complaint}"))),
        }
    }
    match entries.next() {
        Some((extra, _)) => Ok(Err(format!("key {extra:02x?} was never written"))),
        None => Ok(Ok(ids)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn findings() {
        let record = |pending, committed| Record { pending, committed };
        assert_eq!(judge(record(5, 5), 5), Finding::Settled);
        assert_eq!(judge(record(0, 0), 0), Finding::Settled);
        assert_eq!(judge(record(6, 5), 6), Finding::New);
        assert_eq!(judge(record(0, 5), 0), Finding::New);
        assert_eq!(judge(record(6, 5), 5), Finding::Old);
        assert_eq!(judge(record(6, 5), 4), Finding::Bad);
        assert_eq!(judge(record(5, 5), 0), Finding::Bad);
    }
}
