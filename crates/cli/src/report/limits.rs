//! The distance to the limit: the cost in a row that no engine can avoid, and its share of the
//! measured time.
//!
//! Thread safety: pure functions.

use super::data::Data;
use super::plan::{BASELINE_TABLE, BASELINES, Clock, Engine, Limit, Plan};
use std::collections::BTreeMap;

/// A row with its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Distance {
    /// The row.
    pub row: String,
    /// Which time.
    pub clock: Clock,
    /// What cannot be avoided, in words.
    pub costs: String,
    /// Microseconds of it.
    pub floor: f64,
    /// Microseconds that an operation took, by the order of [`Engine::BOTH`].
    pub took: [Option<f64>; 2],
}

impl Distance {
    /// The share of Pumice's time that no engine can avoid.
    pub fn share(&self) -> Option<f64> {
        self.shares()[1]
    }

    /// As [`Distance::share`], of both engines.
    pub fn shares(&self) -> [Option<f64>; 2] {
        self.took.map(|took| Some(self.floor / took.filter(|took| *took > 0.0)?))
    }
}

/// All rows that were measured on a machine whose baselines were measured too.
pub fn of(plan: &Plan, data: &Data) -> Vec<Distance> {
    let baselines = measured(plan, data);
    let one = |limit: &Limit| {
        let micros: Option<Vec<f64>> =
            limit.costs.iter().map(|cost| cost.micros(&baselines)).collect();
        let words: Vec<String> = limit.costs.iter().map(|cost| cost.words()).collect();
        let took = Engine::BOTH.map(|engine| took(data, limit, engine));
        took.iter().any(Option::is_some).then_some(())?;
        Some(Distance {
            row: limit.row.clone(),
            clock: limit.clock,
            costs: words.join(", "),
            floor: micros?.iter().sum(),
            took,
        })
    };
    plan.limits.iter().filter_map(one).collect()
}

/// The medians of the baselines.
fn measured(plan: &Plan, data: &Data) -> BTreeMap<String, f64> {
    let tables = plan.tables.iter().filter(|table| table.name == BASELINE_TABLE);
    let ids = tables.flat_map(|table| {
        table.rows.iter().flat_map(|row| row.arms.iter().map(|arm| table.id(row, arm)))
    });
    let of = |id: String, value: &str| Some((value.to_string(), data.summary(&id, value)?.median));
    let all = ids.flat_map(|id| BASELINES.map(|column| of(id.clone(), column.value)));
    all.flatten().collect()
}

fn took(data: &Data, limit: &Limit, engine: Engine) -> Option<f64> {
    let id = format!("core/{}/{}/{}", limit.table, limit.row, engine.name());
    match limit.clock {
        Clock::Cpu => Some(data.summary(&id, "cpu_us_per_op")?.median),
        Clock::Wall => Some(1e6 / data.summary(&id, "ops_per_sec")?.median),
    }
}

/// Which rows are farthest from their limits.
pub fn sentence(all: &[Distance]) -> Option<String> {
    let mut shares: Vec<(f64, &str)> =
        all.iter().filter_map(|one| Some((one.share()?, one.row.as_str()))).collect();
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    let named: Vec<String> =
        shares.iter().take(3).map(|(share, row)| format!("{row} ({})", percent(*share))).collect();
    (!named.is_empty())
        .then(|| format!("Pumice is farthest from the limit in {}.", named.join("; ")))
}

/// `4.2 %`; what is below the limit was measured too roughly.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p < 10.0 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::data::Run;
    use crate::report::machine::{Machine, Peer};
    use crate::report::plan::TimeLimit;
    use std::collections::BTreeSet;

    fn plan() -> Plan {
        let machine = Machine {
            cpus: 2,
            memory_bytes: 24 << 30,
            memory_free: 20 << 30,
            disk_free: 80 << 30,
            peer: Some(Peer::default()),
            ..Machine::default()
        };
        Plan::new(TimeLimit::Seconds(600), &machine)
    }

    // Plain #[test]: nothing in these tests can wait.
    #[test]
    fn every_core_row_has_its_limit() {
        let plan = plan();
        let tables = plan.tables.iter().filter(|table| table.section.name() == "core");
        let rows = tables
            .filter(|table| table.name != BASELINE_TABLE)
            .flat_map(|table| table.rows.iter().map(move |row| (table.name, row.name.as_str())));
        let limits = plan.limits.iter().map(|limit| (limit.table, limit.row.as_str()));
        assert_eq!(rows.collect::<BTreeSet<_>>(), limits.clone().collect::<BTreeSet<_>>());
        assert_eq!(limits.count(), plan.limits.len());
    }

    // Plain #[test]: see above.
    #[test]
    fn shares_are_of_the_time_that_a_row_took() {
        let plan = plan();
        let mut data = Data::default();
        let values = |pairs: &[(&str, f64)]| -> BTreeMap<String, f64> {
            pairs.iter().map(|(name, value)| (name.to_string(), *value)).collect()
        };
        let mut add = |id: &str, pairs: &[(&str, f64)]| {
            data.add(Run { id: id.into(), values: values(pairs), ..Run::default() });
        };
        add("core/writes/fillsync, disk/Pumice", &[("ops_per_sec", 1000.0)]);
        add("core/reads/seekrandom/Pumice", &[("cpu_us_per_op", 2.0), ("ops_per_sec", 1.0)]);
        add("core/reads/seekrandom/RocksDB", &[("cpu_us_per_op", 4.0)]);
        // Without baselines there is nothing to compare with.
        assert_eq!(of(&plan, &data), []);
        let mut add = |id: &str, pairs: &[(&str, f64)]| {
            data.add(Run { id: id.into(), values: values(pairs), ..Run::default() });
        };
        let known = [("miss_us", 0.1), ("device_sync_us", 500.0)];
        add(&format!("core/{BASELINE_TABLE}/this machine/without an engine"), &known);
        let all = of(&plan, &data);
        let rows: Vec<&str> = all.iter().map(|one| one.row.as_str()).collect();
        assert_eq!(rows, ["fillsync, disk", "seekrandom"]);
        assert_eq!((all[0].share(), all[0].shares()[0]), (Some(0.5), None));
        assert_eq!(all[1].shares(), [Some(0.025), Some(0.05)]);
        let text = sentence(&all).unwrap();
        assert!(text.ends_with("in seekrandom (5.0 %); fillsync, disk (50 %)."), "{text}");
        assert_eq!(sentence(&[]), None);
    }
}
