//! The judge of several writers: what it accepts, and what it reports.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::Model;

fn put(cf: usize, key: &str, value: &str) -> Op {
    Op::Put { cf, key: key.into(), value: value.into() }
}

fn contents(model: &Model) -> Vec<Vec<Entry>> {
    (0..model.families()).map(|cf| model.entries(cf)).collect()
}

/// A history and the contents of a correct database.
struct Rig {
    history: History,
    model: Model,
}

impl Rig {
    fn new(logging: Logging) -> Self {
        Rig { history: History::new(2, logging, 0), model: Model::new(2) }
    }
    fn write(&mut self, ops: Vec<Op>, sync: bool) {
        let (id, written) = self.history.issue(ops);
        self.model.apply(&written);
        self.history.acknowledge(id, sync);
    }
    fn order(&self) -> Option<Vec<u8>> {
        self.model.family(0).get(ORDER_KEY).map(|value| value.to_vec())
    }
    fn breach(&self, crash: Option<Crash>, found: &Model) -> Option<Breach> {
        let mut history = self.history.fork();
        if let Some(crash) = crash {
            history.crash(crash);
        }
        history.recovered(&contents(found)).err().map(|broken| broken.breach)
    }
}

#[test]
fn a_crash_may_take_what_no_sync_covered() {
    let mut rig = Rig::new(Logging::Wal);
    let empty = rig.model.clone();
    rig.write(vec![put(0, "a", "1"), put(1, "a", "1")], true);
    let synced = rig.model.clone();
    rig.write(vec![put(1, "b", "2")], false);
    let all = rig.model.clone();
    assert_eq!(rig.breach(Some(Crash::Power), &empty), Some(Breach::Lost));
    assert_eq!(rig.breach(Some(Crash::Power), &synced), None);
    assert_eq!(rig.breach(Some(Crash::Process), &synced), Some(Breach::Lost));
    assert_eq!(rig.breach(Some(Crash::Process), &all), None);
    assert_eq!(rig.breach(None, &synced), Some(Breach::Lost));
}

#[test]
fn a_torn_batch_and_a_hole_are_noticed() {
    let mut rig = Rig::new(Logging::Wal);
    rig.write(vec![put(0, "a", "1")], false);
    let mut torn = rig.model.clone();
    let (_, written) = rig.history.issue(vec![put(0, "b", "2"), put(1, "b", "2")]);
    torn.apply(&written[1..]);
    assert_eq!(rig.breach(Some(Crash::Power), &torn), Some(Breach::Torn));

    let mut rig = Rig::new(Logging::Wal);
    let mut hole = rig.model.clone();
    rig.write(vec![put(0, "a", "1")], false);
    let (_, written) = rig.history.issue(vec![put(0, "b", "2")]);
    hole.apply(&written);
    assert_eq!(rig.breach(Some(Crash::Power), &hole), Some(Breach::Hole));
}

#[test]
fn what_a_recovery_showed_stays_and_what_it_dropped_is_gone() {
    let mut rig = Rig::new(Logging::Wal);
    let empty = rig.model.clone();
    rig.write(vec![put(0, "a", "1")], false);
    let one = rig.model.clone();
    let mut history = rig.history.fork();
    history.crash(Crash::Power);
    history.recovered(&contents(&one)).unwrap();
    history.crash(Crash::Power);
    let lost = history.fork().recovered(&contents(&empty)).unwrap_err();
    assert_eq!(lost.breach, Breach::Lost);

    let mut history = rig.history.fork();
    history.crash(Crash::Power);
    history.recovered(&contents(&empty)).unwrap();
    history.crash(Crash::Power);
    let back = history.recovered(&contents(&one)).unwrap_err();
    assert!(back.text.contains("is back"), "{back}");
}

#[test]
fn a_read_shows_a_state_between_its_start_and_its_end() {
    let mut rig = Rig::new(Logging::Wal);
    rig.write(vec![put(0, "a", "1")], false);
    let early = rig.order();
    rig.write(vec![put(0, "a", "2")], false);
    let late = rig.order();
    let history = &mut rig.history;
    let begun = history.now();
    let stale = history.saw_order(0, early.as_deref(), begun, begun).unwrap_err();
    assert_eq!(stale.breach, Breach::Wrong);
    let view = history.saw_order(0, late.as_deref(), begun, begun).unwrap();
    history.check_get(view, 0, b"a", Some(b"2")).unwrap();
    assert!(history.check_get(view, 0, b"a", Some(b"1")).is_err());
    assert!(history.check_get(view, 0, b"a", None).is_err());
    let entries = [(b"a".to_vec(), b"2".to_vec())];
    history.check_range(view, 0, (None, Some(b"b")), &entries).unwrap();
    assert!(history.check_range(view, 0, (None, Some(b"b")), &[]).is_err());
    let twice = [entries[0].clone(), entries[0].clone()];
    assert!(history.check_range(view, 0, (None, Some(b"b")), &twice).is_err());

    history.saw_value(0, b"a", Some(b"1".to_vec()), begun);
    assert_eq!(rig.breach(None, &rig.model), None, "a fork leaves point reads behind");
    let wrong = rig.history.recovered(&contents(&rig.model)).unwrap_err();
    assert_eq!(wrong.breach, Breach::Wrong);
}

#[test]
fn a_read_from_the_future_or_out_of_order_is_wrong() {
    let mut rig = Rig::new(Logging::Wal);
    let begun = rig.history.now();
    rig.write(vec![put(0, "a", "1")], false);
    let order = rig.order();
    let future = rig.history.saw_order(0, order.as_deref(), begun, begun).unwrap_err();
    assert_eq!(future.breach, Breach::Wrong);

    let mut rig = Rig::new(Logging::Wal);
    rig.write(vec![put(0, "a", "1")], false);
    rig.write(vec![put(0, "a", "2")], false);
    let now = rig.history.now();
    let swapped = rig.history.saw_order(0, Some(b"1,0"), now, now).unwrap_err();
    assert_eq!(swapped.breach, Breach::Wrong, "{swapped}");
}

#[test]
fn without_a_wal_each_family_has_its_own_line() {
    let mut rig = Rig::new(Logging::Off);
    rig.write(vec![put(0, "a", "1"), put(1, "a", "1")], false);
    let one = rig.model.clone();
    rig.write(vec![put(1, "b", "1")], false);
    let begun = rig.history.now();
    rig.history.flushed(1, begun);
    assert_eq!(rig.breach(Some(Crash::Process), &one), Some(Breach::Lost));
    let mut found = Model::new(2);
    found = Model::from_entries(vec![contents(&found).remove(0), contents(&rig.model).remove(1)]);
    assert_eq!(rig.breach(Some(Crash::Power), &found), None);
    assert_eq!(rig.breach(None, &found), Some(Breach::Lost));
}

#[test]
fn a_failed_batch_may_come_or_not_but_whole() {
    let mut rig = Rig::new(Logging::Wal);
    rig.write(vec![put(0, "a", "1")], false);
    let without = rig.model.clone();
    let (_, written) = rig.history.issue(vec![put(0, "x", "1"), put(1, "x", "1")]);
    let mut with = without.clone();
    with.apply(&written);
    assert_eq!(rig.breach(Some(Crash::Process), &without), None);
    assert_eq!(rig.breach(Some(Crash::Process), &with), None);
    // Later batches continue without it.
    rig.write(vec![put(1, "b", "1")], true);
    assert_eq!(rig.breach(Some(Crash::Power), &rig.model), None);
}

#[test]
fn an_ingestion_is_durable_with_all_before_it() {
    let mut rig = Rig::new(Logging::Wal);
    rig.write(vec![put(0, "a", "1")], false);
    let before = rig.model.clone();
    let (id, written) = rig.history.issue(vec![put(1, "a", "x"), put(1, "b", "x")]);
    let mut torn = before.clone();
    torn.apply(&[written[0].clone(), written[2].clone()]);
    assert_eq!(rig.breach(Some(Crash::Power), &torn), Some(Breach::Torn));
    assert_eq!(rig.breach(Some(Crash::Power), &before), None);
    rig.model.apply(&written);
    rig.history.ingested(id);
    assert_eq!(rig.breach(Some(Crash::Power), &rig.model), None);
    assert_eq!(rig.breach(Some(Crash::Power), &before), Some(Breach::Lost));
    let mut hole = Model::new(2);
    hole.apply(&written);
    assert_eq!(rig.breach(Some(Crash::Power), &hole), Some(Breach::Hole));
}

#[test]
fn what_was_refused_is_never_there() {
    let mut rig = Rig::new(Logging::Wal);
    let (id, written) = rig.history.issue(vec![put(1, "a", "x")]);
    let empty = rig.model.clone();
    rig.model.apply(&written);
    assert_eq!(rig.breach(None, &rig.model), None);
    rig.history.refused(id);
    assert_eq!(rig.breach(None, &rig.model), Some(Breach::Torn));
    assert_eq!(rig.breach(None, &empty), None);
}

#[test]
fn without_a_wal_an_ingestion_makes_its_own_lines_durable() {
    let mut rig = Rig::new(Logging::Off);
    rig.write(vec![put(0, "a", "1")], false);
    rig.write(vec![put(1, "a", "1")], false);
    let before = rig.model.clone();
    let (id, written) = rig.history.issue(vec![put(1, "b", "x")]);
    rig.model.apply(&written);
    rig.history.ingested(id);
    let lost = Model::from_entries(vec![Vec::new(), contents(&rig.model).remove(1)]);
    assert_eq!(rig.breach(Some(Crash::Power), &lost), None, "family 0 was not touched");
    assert_eq!(rig.breach(Some(Crash::Power), &before), Some(Breach::Lost));
}
