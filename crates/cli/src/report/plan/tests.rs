//! The plan: what it holds for which machine and time.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use super::super::machine::Peer;
use super::*;

fn machine() -> Machine {
    Machine {
        cpus: 2,
        memory_bytes: 24 << 30,
        memory_free: 20 << 30,
        disk_free: 80 << 30,
        peer: Some(Peer::default()),
        redis: Some("7.0".into()),
        other_engines: true,
        ..Machine::default()
    }
}

// Plain #[test]: nothing in this file can wait.
#[test]
fn the_same_machine_and_time_give_the_same_plan() {
    let time = TimeLimit::parse("10m").unwrap();
    assert_eq!(Plan::new(time, &machine()), Plan::new(time, &machine()));
}

// Plain #[test]: see above.
#[test]
fn ids_are_unique_and_peers_exist() {
    let plan = Plan::new(TimeLimit::Full, &machine());
    let mut ids = BTreeSet::new();
    for table in &plan.tables {
        for row in &table.rows {
            assert!(!row.arms.is_empty());
            for arm in &row.arms {
                assert!(ids.insert(table.id(row, arm)), "{}", table.id(row, arm));
                if let Some(peer) = &arm.peer {
                    assert!(row.arms.iter().any(|other| other.name == *peer), "{peer}");
                }
            }
        }
    }
    let sections: BTreeSet<Section> = plan.tables.iter().map(|table| table.section).collect();
    assert_eq!(sections.len(), Section::ALL.len());
}

/// A column of percentiles is empty without the times of operations.
// Plain #[test]: see above.
#[test]
fn tables_with_percentiles_time_operations() {
    let plan = Plan::new(TimeLimit::Full, &machine());
    let shows = |table: &&Table| table.columns.iter().any(|column| column.value == "p99_us");
    let mut names = BTreeSet::new();
    for table in plan.tables.iter().filter(shows) {
        names.insert(table.name);
        for arm in table.rows.iter().flat_map(|row| &row.arms) {
            // The server's client has percentiles of its own.
            let Work::Bench(bench) = &arm.work else { continue };
            let timed = bench.flags.iter().any(|flag| flag == "--histogram=1");
            // A step of a scan takes less time than the clock.
            let scans = ["readseq", "readreverse"].iter().any(|s| bench.benchmarks.starts_with(s));
            assert!(timed != scans, "{}: {}", table.name, arm.name);
        }
    }
    assert!(names.contains("writes") && names.contains("reads"), "{names:?}");
}

// Plain #[test]: see above.
#[test]
fn databases_are_made_before_they_are_read() {
    for table in &Plan::new(TimeLimit::Seconds(600), &machine()).tables {
        let mut there: BTreeSet<&str> = table.prepare.iter().map(|b| b.db.as_str()).collect();
        for arm in table.rows.iter().flat_map(|row| &row.arms) {
            let Work::Bench(bench) = &arm.work else { continue };
            let opens = bench.flags.iter().any(|flag| flag == "--use_existing_db=1");
            let base = bench.copy_of.as_ref().unwrap_or(&bench.db);
            assert!(!opens || there.contains(base.as_str()), "{}: {base}", table.name);
            if bench.keep && table.chained {
                there.insert(&bench.db);
            }
        }
    }
}

// Plain #[test]: see above.
#[test]
fn what_is_missing_here_is_left_out_and_said() {
    let poor = Machine { peer: None, redis: None, other_engines: false, ..machine() };
    let plan = Plan::new(TimeLimit::Seconds(600), &poor);
    let engines = plan.tables.iter().flat_map(|table| &table.rows).flat_map(|row| &row.arms);
    assert!(engines.map(|arm| arm.work.engine()).all(|engine| engine == Engine::Pumice));
    for what in ["RocksDB: ", "redis-server: ", "fjall and redb: "] {
        assert!(plan.left_out.iter().any(|printed| printed.starts_with(what)), "{what}");
    }
    let full = Machine { disk_free: 10 << 30, memory_free: 1 << 30, ..machine() };
    let plan = Plan::new(TimeLimit::Full, &full);
    assert_eq!(plan.scale.growth, [1, 4]);
    assert!(plan.scaled.iter().any(|printed| printed.contains("16 M, 64 M")), "{:?}", plan.scaled);
    assert!(plan.scale.size < 1.0);
}

// Plain #[test]: see above.
#[test]
fn times_scale() {
    let of = |text: &str| Scale::of(TimeLimit::parse(text).unwrap(), &machine()).0;
    let short = of("10m");
    assert_eq!((short.rounds, short.growth.as_slice()), (1, &[1, 2, 4][..]));
    assert_eq!((short.size, short.sine_time), (1.0, 0.05));
    assert_eq!((of("1h").rounds, of("1h").size), (3, 2.0));
    assert!(of("1s").count(1_000_000) < 2000);
    for bad in ["", "10", "m", "0m", "-1m", "1d", "99999999h", "é"] {
        assert!(TimeLimit::parse(bad).is_err(), "{bad}");
    }
    let longer = Plan::new(TimeLimit::parse("1h").unwrap(), &machine());
    let shorter = Plan::new(TimeLimit::parse("10m").unwrap(), &machine());
    assert!(longer.seconds(None) > 3.0 * shorter.seconds(None));
    assert!(shorter.seconds(Some(Section::Core)) < shorter.seconds(None));
    // The time it takes matches the time.
    assert!((300.0..600.0).contains(&shorter.seconds(None)), "{}", shorter.seconds(None));
}

// Plain #[test]: see above.
#[test]
fn the_sine_goes_from_its_trough_to_its_crest_and_back() {
    let at = |seconds: f64| commanded(seconds, 0.05) / 1e6;
    assert!(
        (at(0.0) - 20.0).abs() < 0.1
            && (at(8.9) - 80.0).abs() < 1.0
            && (at(17.5) - 20.0).abs() < 1.0
    );
    // A stair lasts half a second then.
    assert_eq!(at(4.0), at(4.49));
    assert!(at(4.5) > at(4.49));
}
