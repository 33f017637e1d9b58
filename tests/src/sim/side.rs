//! Column families that come and go while the database runs, and what is known of each.
//!
//! They are outside the history's order: each of their keys is written once, so it has the right
//! value or is missing. A family exists when its creation was acknowledged, is gone when its drop
//! was, and may be either while the result of a call is unknown.

use std::collections::BTreeMap;

use pumice::{ColumnFamily, WriteBatch};
use pumice_base::random::Rng;
use pumice_testkit::Entry;

use super::session::{Session, Stop};
use super::verdict::{Count, Failure, Kind};

/// What a family was seen to hold: key and value.
pub type Found = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug, Default)]
struct Side {
    created: bool,
    dropping: bool,
    dropped: bool,
    issued: Found,
    acked: Found,
    durable: Found,
    /// Durably deleted: key and last value.
    deleted: Found,
    /// The largest key that was deleted, or may have been: no other one has its number.
    used: Vec<u8>,
    /// The largest key of files that were, or may have been, ingested behind all others.
    behind: Vec<u8>,
    /// A file was ingested, or may have been, in front.
    in_front: bool,
}

/// See the module head.
#[derive(Clone, Debug, Default)]
pub struct SideFamilies {
    next: u64,
    known: BTreeMap<String, Side>,
    crashed: bool,
}

impl SideFamilies {
    /// A family is about to be created; its name.
    pub fn create(&mut self) -> String {
        self.next += 1;
        let name = format!("side{}", self.next);
        self.known.insert(name.clone(), Side::default());
        name
    }
    /// The family's creation returned Ok.
    pub fn created(&mut self, name: &str) {
        self.side(name).created = true;
    }
    /// The family is about to be dropped.
    pub fn drop_it(&mut self, name: &str) {
        self.side(name).dropping = true;
    }
    /// The family's drop returned Ok.
    pub fn dropped(&mut self, name: &str) {
        self.side(name).dropped = true;
    }
    /// A new key of it is about to be written: key and value.
    pub fn issue(&mut self, name: &str) -> (Vec<u8>, Vec<u8>) {
        let side = self.side(name);
        // Some before the last may be gone, so their number proves nothing.
        let last =
            side.issued.keys().chain(side.deleted.keys()).chain([&side.behind, &side.used]).max();
        let last = last.filter(|key| !key.is_empty()).map(|key| String::from_utf8_lossy(key));
        let n = last.map_or(0, |key| key.parse::<u64>().map_or(0, |n| n + 1));
        let entry = (format!("{n:05}").into_bytes(), format!("{name}-{n}").into_bytes());
        side.issued.insert(entry.0.clone(), entry.1.clone());
        entry
    }
    /// The write of a key returned Ok.
    pub fn acknowledge(&mut self, name: &str, key: &[u8], durable: bool) {
        let side = self.side(name);
        let Some(value) = side.issued.get(key).cloned() else { return };
        side.acked.insert(key.to_vec(), value);
        if durable {
            side.durable = side.acked.clone();
        }
    }
    /// A file with these keys was ingested: they are durable, and with a log all before them.
    pub fn ingested(&mut self, name: &str, entries: &[(Vec<u8>, Vec<u8>)], logged: bool) {
        let side = self.side(name);
        side.acked.extend(entries.iter().cloned());
        if logged {
            side.durable = side.acked.clone();
        }
        side.durable.extend(entries.iter().cloned());
    }
    /// A file is about to be ingested in front of all there is.
    pub fn ingests_in_front(&mut self, name: &str) {
        self.side(name).in_front = true;
    }
    /// Whether one was.
    pub fn has_front(&mut self, name: &str) -> bool {
        self.side(name).in_front
    }
    /// Picks an existing key beyond the files ingested behind, which is about to be deleted: its
    /// name.
    pub fn delete(&mut self, name: &str) -> Option<Vec<u8>> {
        let side = self.side(name);
        let (key, _) = side.acked.last_key_value().filter(|(key, _)| **key > side.behind)?;
        let key = key.clone();
        side.acked.remove(&key);
        side.durable.remove(&key);
        // Of two whose deletion is not known to be durable a crash may keep the earlier.
        side.used = side.used.clone().max(key.clone());
        Some(key)
    }
    /// The key's deletion is durable.
    pub fn deleted(&mut self, name: &str, key: &[u8]) {
        let side = self.side(name);
        let value = side.issued.remove(key).unwrap_or_default();
        side.deleted.insert(key.to_vec(), value);
    }
    /// A file is about to be ingested behind. It gets existing keys with any value, since the
    /// family's own values win, and `new` keys of its own with their values. With `logged` all that
    /// was acknowledged stays if the file does, otherwise what is durable does.
    pub fn ingests_behind(
        &mut self,
        name: &str,
        new: usize,
        logged: bool,
    ) -> (Vec<Vec<u8>>, Vec<Entry>) {
        let side = self.side(name);
        let staying = if logged { &side.acked } else { &side.durable };
        let known = staying.keys().chain(side.deleted.keys());
        let old = known.filter(|key| **key > side.behind).cloned().collect();
        let new: Vec<_> = (0..new).map(|_| self.issue(name)).collect();
        if let Some((last, _)) = new.last() {
            self.side(name).behind.clone_from(last);
        }
        (old, new)
    }
    /// The files of a call did not become part of the family.
    pub fn refused(&mut self, name: &str, entries: &[(Vec<u8>, Vec<u8>)]) {
        let side = self.side(name);
        entries.iter().for_each(|(key, _)| drop(side.issued.remove(key)));
    }
    /// The database crashed.
    pub fn crash(&mut self) {
        self.crashed = true;
    }

    fn side(&mut self, name: &str) -> &mut Side {
        self.known.entry(name.to_string()).or_default()
    }

    /// Judges what an opened database holds, and continues from there.
    ///
    /// # Errors
    /// What is wrong.
    pub fn recovered(&mut self, found: &BTreeMap<String, Found>) -> Result<(), Failure> {
        if let Some(name) = found.keys().find(|name| !self.known.contains_key(*name)) {
            return Err(Failure::new(Kind::Wrong, format!("family {name} was never created")));
        }
        for (name, side) in &self.known {
            match found.get(name) {
                None if side.created && !side.dropping => {
                    return Err(Failure::new(Kind::Lost, format!("family {name} is gone")));
                }
                Some(_) if side.dropped => {
                    return Err(Failure::new(Kind::Wrong, format!("family {name} is back")));
                }
                Some(held) => side.check(held, self.crashed).map_err(|f| f.before(name))?,
                None => {}
            }
        }
        let before = std::mem::take(&mut self.known);
        for (name, held) in found {
            let (issued, acked, durable) = (held.clone(), held.clone(), held.clone());
            let old = before.get(name).cloned().unwrap_or_default();
            let side = Side { created: true, issued, acked, durable, ..old };
            let side = Side { dropping: false, dropped: false, ..side };
            self.known.insert(name.clone(), side);
        }
        self.crashed = false;
        Ok(())
    }
}

impl Side {
    fn check(&self, found: &Found, crashed: bool) -> Result<(), Failure> {
        let promised = if crashed { &self.durable } else { &self.acked };
        if let Some(key) = promised.keys().find(|key| !found.contains_key(*key)) {
            let text = format!("key {} is gone", String::from_utf8_lossy(key));
            return Err(Failure::new(Kind::Lost, text));
        }
        for (key, value) in found {
            if self.issued.get(key) != Some(value) {
                let key = String::from_utf8_lossy(key);
                let value = String::from_utf8_lossy(value);
                let text = format!("key {key} was never written so: {value}");
                return Err(Failure::new(Kind::Torn, text));
            }
        }
        Ok(())
    }
}

/// Creates a family, writes to it; or drops one that is there.
///
/// # Errors
/// See [`Stop`].
pub fn come_and_go(session: &Session, rng: &mut Rng) -> Result<(), Stop> {
    session.tally.add(Count::Ops, 1);
    let handles = &session.side_handles;
    let old = handles.lock().first_key_value().map(|(n, cf)| (n.clone(), cf.clone()));
    if let Some((name, family)) = old.filter(|_| rng.one_in(2)) {
        if handles.lock().remove(&name).is_none() {
            // A task has taken it to work on.
            return Ok(());
        }
        session.side.lock().drop_it(&name);
        session.db.drop_column_family(&family)?;
        session.side.lock().dropped(&name);
        session.tally.add(Count::Ddl, 1);
        return Ok(());
    }
    let name = session.side.lock().create();
    let family = session.db.create_column_family(&session.side_options, &name)?;
    session.side.lock().created(&name);
    session.tally.add(Count::Ddl, 1);
    for _ in 0..rng.uniform(4) {
        let (key, value) = session.side.lock().issue(&name);
        let options = session.write_options(rng.one_in(2));
        session.db.put_cf_opt(&options, &family, &key, &value)?;
        session.side.lock().acknowledge(&name, &key, options.sync);
    }
    // From a copy, so that it does not change what else is drawn.
    let mut rare = rng.clone().fork();
    if session.plan.logging.has_wal() && rare.one_in(3) {
        write_partly_logged(session, &name, &family, &mut rare)?;
    }
    handles.lock().insert(name, family);
    Ok(())
}

/// Writes a batch that is logged up to a point. What is behind the point is there until a crash or
/// a close, and perhaps afterwards.
fn write_partly_logged(
    session: &Session,
    name: &str,
    family: &ColumnFamily,
    rng: &mut Rng,
) -> Result<(), Stop> {
    let options = session.write_options(rng.one_in(2));
    let issue = |count: u64| -> Vec<Entry> {
        (0..count).map(|_| session.side.lock().issue(name)).collect()
    };
    let (logged, unlogged) = (issue(rng.uniform(3)), issue(1 + rng.uniform(2)));
    let mut batch = WriteBatch::new();
    logged.iter().for_each(|(key, value)| batch.put_cf(family, key, value));
    batch.mark_wal_termination_point();
    unlogged.iter().for_each(|(key, value)| batch.put_cf(family, key, value));
    session.db.write_opt(&options, &mut batch)?;
    for (key, _) in &logged {
        session.side.lock().acknowledge(name, key, options.sync);
    }
    for (key, value) in &unlogged {
        let found = session.db.get_cf(family, key)?;
        if found.as_deref() != Some(value) {
            let text = format!("{name}: a key behind the point is not there");
            return Err(Failure::new(Kind::Wrong, text).into());
        }
    }
    session.tally.add(Count::PartlyLogged, 1);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_ingested_file_is_durable() {
        let mut sides = SideFamilies::default();
        let name = sides.create();
        sides.created(&name);
        let put = sides.issue(&name);
        sides.acknowledge(&name, &put.0, false);
        let ingested = sides.issue(&name);
        sides.ingested(&name, std::slice::from_ref(&ingested), false);
        sides.crash();
        let held = |found: Found| BTreeMap::from([(name.clone(), found)]);
        let lost = held(Found::from([put]));
        assert_eq!(sides.clone().recovered(&lost).unwrap_err().kind, Kind::Lost);
        sides.recovered(&held(Found::from([ingested]))).unwrap();
    }

    #[test]
    fn a_family_lost_or_back_is_noticed() {
        let mut sides = SideFamilies::default();
        let name = sides.create();
        sides.created(&name);
        let (key, value) = sides.issue(&name);
        sides.acknowledge(&name, &key, true);
        sides.crash();
        let held = BTreeMap::from([(name.clone(), Found::from([(key, value)]))]);
        assert_eq!(sides.clone().recovered(&BTreeMap::new()).unwrap_err().kind, Kind::Lost);
        let empty = BTreeMap::from([(name.clone(), Found::new())]);
        assert_eq!(sides.clone().recovered(&empty).unwrap_err().kind, Kind::Lost);
        sides.recovered(&held).unwrap();
        sides.drop_it(&name);
        sides.clone().recovered(&held).unwrap();
        sides.dropped(&name);
        assert_eq!(sides.clone().recovered(&held).unwrap_err().kind, Kind::Wrong);
        sides.recovered(&BTreeMap::new()).unwrap();
    }
}
