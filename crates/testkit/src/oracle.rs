//! The states that a crash may leave: checks the promises of docs/testing.md.
//!
//! One writer's batches form a log; P(k) is the state after the first k of them. The judge is told
//! of every batch, every answer, and everything that makes writes durable; after a crash it judges
//! whether the recovered state is allowed:
//!
//! 1. with a WAL: some P(k), k between what was promised and what was issued; no hole, no torn
//!    batch, nothing acknowledged lost beyond what the write options allow;
//! 2. without a WAL: per column family some P(k), k at least the family's last finished flush;
//! 3. what one recovery showed stays: a crash right after it must show the same.
//!
//! A batch that was issued and not acknowledged (it failed, or the crash came first) may be there
//! or not, but only completely.

use crate::model::Bytes;
use crate::{Model, Op};

/// What kind of crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Crash {
    /// The process crashed; what it gave to the operating system is kept.
    Process,
    /// Power was lost; unsynced data may be gone.
    Power,
}

/// How the writes of a run are logged; one way per run, since a mix has no simple promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logging {
    /// Each write goes to the operating system before it returns.
    Wal,
    /// Writes wait in memory until the WAL is flushed or synced.
    ManualFlush,
    /// No WAL.
    Off,
    /// No WAL, and `atomic_flush`: all families advance together.
    AtomicFlush,
}

impl Logging {
    /// Writes go to a WAL.
    pub fn has_wal(self) -> bool {
        matches!(self, Logging::Wal | Logging::ManualFlush)
    }
}

/// Follows one writer and judges recovered states.
#[derive(Clone, Debug)]
pub struct CrashOracle {
    logging: Logging,
    /// P(0): what the last recovery showed.
    base: Model,
    log: Vec<Vec<Op>>,
    /// Numbers of batches, from the beginning of `log`.
    acked: usize,
    in_system: usize,
    synced: usize,
    /// Per column family, the batches that its finished flushes cover.
    flushed: Vec<usize>,
    /// The worst crash since the last recovery.
    crashed: Option<Crash>,
}

impl CrashOracle {
    /// A judge of an empty database.
    pub fn new(families: usize, logging: Logging) -> Self {
        CrashOracle {
            logging,
            base: Model::new(families),
            log: Vec::new(),
            acked: 0,
            in_system: 0,
            synced: 0,
            flushed: vec![0; families],
            crashed: None,
        }
    }

    /// A batch is about to be written.
    pub fn issue(&mut self, batch: &[Op]) {
        self.log.push(batch.to_vec());
    }

    /// The write of the last issued batch returned Ok.
    pub fn acknowledge(&mut self, sync: bool) {
        self.acked = self.log.len();
        if self.logging == Logging::Wal || sync {
            self.in_system = self.acked;
        }
        if sync {
            self.synced = self.acked;
        }
    }

    /// `flush_wal(sync)` or `sync_wal` returned Ok.
    pub fn wal_flushed(&mut self, sync: bool) {
        self.in_system = self.acked;
        if sync {
            self.synced = self.acked;
        }
    }

    /// A flush of a column family returned Ok. With a WAL it makes every earlier write durable,
    /// of all families, if it had anything to flush.
    pub fn flushed(&mut self, cf: usize) {
        let touches = |op: &Op| op.family() == cf;
        let since = self.flushed[cf].min(self.acked);
        let had_work = self.log[since..self.acked].iter().flatten().any(touches);
        self.flushed[cf] = self.acked;
        if had_work && self.logging != Logging::Off {
            self.in_system = self.acked;
            self.synced = self.acked;
        }
    }

    /// The database crashed, or crashed again while it recovered.
    pub fn crash(&mut self, crash: Crash) {
        self.crashed = self.crashed.max(Some(crash));
    }

    /// Judges what a recovery found, and continues from there. Without a crash before it, the
    /// database was closed and opened: no acknowledged write may be missing.
    ///
    /// # Errors
    /// Why no allowed state is like `found`.
    pub fn recovered(&mut self, found: &Model) -> Result<(), String> {
        let lowest = match self.crashed {
            None => self.acked,
            Some(Crash::Process) if self.logging == Logging::Off => 0,
            Some(Crash::Process) => self.in_system,
            Some(Crash::Power) => self.synced,
        };
        match (self.logging, self.crashed) {
            (Logging::Off, Some(_)) => {
                for cf in 0..found.families() {
                    let same = |model: &Model| model.family(cf) == found.family(cf);
                    self.find_state(self.flushed[cf], same)
                        .map_err(|e| format!("family {cf}: {e}{}", self.difference(0, found)))?;
                }
            }
            _ => self
                .find_state(lowest, |model| model == found)
                .map_err(|e| format!("{e}{}", self.difference(lowest, found)))?,
        }
        let families = found.families();
        *self = CrashOracle { base: found.clone(), ..CrashOracle::new(families, self.logging) };
        Ok(())
    }

    /// The difference between `found` and the most similar allowed state, and the batches that
    /// touched the first key that differs.
    fn difference(&self, lowest: usize, found: &Model) -> String {
        let mut model = self.base.clone();
        let mut nearest: Option<(usize, usize, usize, Vec<u8>)> = None;
        for k in 0..=self.log.len() {
            if k > 0 {
                model.apply(&self.log[k - 1]);
            }
            let differing = differing_keys(&model, found);
            let better = nearest.as_ref().is_none_or(|(count, ..)| differing.len() < *count);
            if let (true, true, Some((cf, key))) = (k >= lowest, better, differing.first()) {
                nearest = Some((differing.len(), k, *cf, key.clone()));
            }
        }
        let Some((count, k, cf, key)) = nearest else { return String::new() };
        let mut model = self.base.clone();
        self.log[..k].iter().for_each(|batch| model.apply(batch));
        let touches = |op: &&Op| op.family() == cf && op.touches(&key);
        let history = self.log.iter().enumerate().flat_map(|(n, batch)| {
            batch.iter().filter(touches).map(move |op| format!("  {}: {op:?}", n + 1))
        });
        let show = |value: Option<&Bytes>| {
            value.map(|v| String::from_utf8_lossy(&v[..v.len().min(20)]).into_owned())
        };
        format!(
            "\n{count} keys differ from P({k}); the first, in family {cf}: {} is {:?}, not {:?}; \
             its batches:\n{}",
            String::from_utf8_lossy(&key),
            show(found.family(cf).get(&key[..])),
            show(model.family(cf).get(&key[..])),
            history.collect::<Vec<_>>().join("\n")
        )
    }

    /// Some P(k) with k from `lowest` on satisfies `same`.
    fn find_state(&self, lowest: usize, same: impl Fn(&Model) -> bool) -> Result<(), String> {
        let mut model = self.base.clone();
        let mut too_early = None;
        for k in 0..=self.log.len() {
            if k > 0 {
                model.apply(&self.log[k - 1]);
            }
            if same(&model) {
                if k >= lowest {
                    return Ok(());
                }
                too_early = Some(k);
            }
        }
        let what = match too_early {
            Some(k) => format!("the state is P({k}): acknowledged writes are lost"),
            None => "the state is not a P(k): a hole or a torn batch".to_string(),
        };
        Err(format!(
            "{what} (allowed k: {lowest} to {}; acked {}, in system {}, synced {}; {:?}, {:?})",
            self.log.len(),
            self.acked,
            self.in_system,
            self.synced,
            self.logging,
            self.crashed
        ))
    }
}

fn differing_keys(a: &Model, b: &Model) -> Vec<(usize, Vec<u8>)> {
    let mut keys = Vec::new();
    for cf in 0..a.families() {
        let (a, b) = (a.family(cf), b.family(cf));
        let only_b = b.keys().filter(|key| !a.contains_key(*key));
        let differing = a.keys().filter(|key| a.get(*key) != b.get(*key)).chain(only_b);
        keys.extend(differing.map(|key| (cf, key.to_vec())));
    }
    keys
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn batch(n: u8) -> Vec<Op> {
        let put = |cf| Op::Put { cf, key: vec![n], value: vec![n] };
        vec![put(0), put(1)]
    }

    fn state(batches: &[u8]) -> Model {
        let mut model = Model::new(2);
        batches.iter().for_each(|n| model.apply(&batch(*n)));
        model
    }

    fn run(logging: Logging, syncs: &[bool]) -> CrashOracle {
        let mut oracle = CrashOracle::new(2, logging);
        for (n, sync) in syncs.iter().enumerate() {
            oracle.issue(&batch(n as u8));
            oracle.acknowledge(*sync);
        }
        oracle
    }

    #[test]
    fn a_process_crash_keeps_what_was_acknowledged() {
        let mut oracle = run(Logging::Wal, &[false, false]);
        oracle.issue(&batch(2)); // Never answered.
        oracle.crash(Crash::Process);
        assert!(oracle.clone().recovered(&state(&[0])).is_err());
        assert!(oracle.clone().recovered(&state(&[0, 1])).is_ok());
        assert!(oracle.clone().recovered(&state(&[0, 1, 2])).is_ok());
        assert!(oracle.clone().recovered(&state(&[0, 2])).is_err());
        let mut torn = state(&[0, 1]);
        torn.apply(&batch(2)[..1]);
        assert!(oracle.recovered(&torn).is_err());
    }

    #[test]
    fn a_power_loss_keeps_what_was_synced() {
        let mut oracle = run(Logging::Wal, &[false, true, false]);
        oracle.crash(Crash::Process);
        oracle.crash(Crash::Power);
        assert!(oracle.clone().recovered(&state(&[0])).is_err());
        assert!(oracle.clone().recovered(&state(&[0, 1])).is_ok());
        oracle.recovered(&state(&[0, 1, 2])).unwrap();
        oracle.crash(Crash::Power);
        assert!(oracle.clone().recovered(&state(&[0, 1])).is_err(), "what was seen must stay");
        assert!(oracle.recovered(&state(&[0, 1, 2])).is_ok());
    }

    #[test]
    fn a_flush_with_work_is_a_sync_point() {
        let mut oracle = run(Logging::ManualFlush, &[false]);
        oracle.flushed(0);
        oracle.crash(Crash::Power);
        assert!(oracle.clone().recovered(&state(&[])).is_err());
        let mut oracle = CrashOracle::new(2, Logging::Wal);
        oracle.issue(&batch(0)[..1]);
        oracle.acknowledge(false);
        oracle.flushed(1);
        oracle.crash(Crash::Power);
        assert!(oracle.recovered(&state(&[])).is_ok(), "nothing to flush, nothing promised");
    }

    #[test]
    fn without_a_wal_each_family_has_its_own_prefix() {
        let mut oracle = run(Logging::Off, &[false, false]);
        oracle.flushed(1);
        oracle.crash(Crash::Power);
        let mut found = state(&[0]);
        assert!(oracle.clone().recovered(&found).is_err(), "family 1 was flushed");
        found.apply(&batch(1)[1..]);
        assert!(oracle.recovered(&found).is_ok());
    }

    #[test]
    fn a_clean_close_loses_nothing() {
        let mut oracle = run(Logging::Off, &[false, false]);
        assert!(oracle.clone().recovered(&state(&[0])).is_err());
        assert!(oracle.recovered(&state(&[0, 1])).is_ok());
    }
}
