//! Reads a database of the matrix in every way and compares with the model.

use std::ops::Bound;

use pumice_base::random::Rng;
use pumice_testkit::model::{Bytes, Map};
use pumice_testkit::store::{CursorSpec, Order, Step};
use pumice_testkit::{Engine, Entry, contents};

use super::content;
use super::variant::Variant;

fn walk(
    engine: &mut dyn Engine,
    order: Order,
    start: &Step,
    limit: usize,
) -> Result<Vec<Entry>, String> {
    engine.some(&CursorSpec { order, ..CursorSpec::default() }, start, limit)
}

/// Entries from `start` on and before `upper`: filters may be used if the two share a prefix.
fn within(engine: &mut dyn Engine, start: &[u8], upper: &[u8]) -> Result<Vec<Entry>, String> {
    let spec = CursorSpec { upper: Some(upper.to_vec()), ..CursorSpec::default() };
    engine.some(&spec, &Step::Seek(start.to_vec()), usize::MAX)
}

/// Compares all results of `engine` with `model`.
///
/// # Errors
/// The first difference.
pub fn check(variant: &Variant, engine: &mut dyn Engine, model: &Map) -> Result<(), String> {
    let mut rng = Rng::new(content::seed(variant) + 1);
    engine.verify().map_err(|e| format!("verify: {e}"))?;
    points(engine, model, &mut rng)?;
    scans(engine, model)?;
    group_edges(variant, engine, model)?;
    for target in targets(variant, model, &mut rng) {
        let name = String::from_utf8_lossy(&target).into_owned();
        total_order(engine, model, &target).map_err(|e| format!("total order, {name}: {e}"))?;
        within_prefix(variant, engine, model, &target)
            .map_err(|e| format!("within the prefix, {name}: {e}"))?;
    }
    Ok(())
}

fn points(engine: &mut dyn Engine, model: &Map, rng: &mut Rng) -> Result<(), String> {
    let mut keys: Vec<Vec<u8>> = model.keys().map(|key| key.to_vec()).collect();
    let mut asked = keys.len();
    keys.extend(content::absent_keys(rng));
    asked = keys.len() - asked;
    for key in &keys {
        let found = engine.get(0, key, None).map_err(|e| format!("get {}: {e}", show(key)))?;
        if found.as_deref() != model.get(&key[..]).map(|value| &value[..]) {
            return Err(format!("get {}: found {:?}", show(key), found.is_some()));
        }
    }
    // Deleted keys too: keys that never existed are not the only absent ones.
    if asked < 100 {
        return Err("too few absent keys".to_string());
    }
    let some: Vec<Vec<u8>> = keys.into_iter().step_by(7).collect();
    let found = engine.multi_get(0, &some, None)?;
    for (key, value) in some.iter().zip(found) {
        if value.as_deref() != model.get(&key[..]).map(|value| &value[..]) {
            return Err(format!("multi_get {}", show(key)));
        }
    }
    Ok(())
}

fn show(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

fn owned((key, value): (&Bytes, &Bytes)) -> Entry {
    (key.to_vec(), value.to_vec())
}

fn scans(engine: &mut dyn Engine, model: &Map) -> Result<(), String> {
    let all: Vec<Entry> = model.iter().map(owned).collect();
    let forward = walk(engine, Order::Total, &Step::First, usize::MAX)?;
    contents::same(&all, &forward).map_err(|e| format!("forward: {e}"))?;
    let mut backward = walk(engine, Order::Total, &Step::Last, usize::MAX)?;
    backward.reverse();
    contents::same(&all, &backward).map_err(|e| format!("backward: {e}"))
}

/// Every group by a prefix seek to its start, with and without a bound, and backward from after its
/// end: where filters and index blocks end, a seek lands next to its match.
fn group_edges(variant: &Variant, engine: &mut dyn Engine, model: &Map) -> Result<(), String> {
    for number in 0..content::GROUP_NUMBERS {
        let start = content::group(number);
        let end = [&start[..], b"~"].concat();
        let mut upper = start.clone();
        *upper.last_mut().expect("not empty") += 1;
        let bounds = (Bound::Included(&start[..]), Bound::Excluded(&upper[..]));
        let group: Vec<Entry> = model.range::<[u8], _>(bounds).map(owned).collect();
        if !variant.has_prefix() || variant.prefix(&end) == Some(&start[..]) {
            contents::same(&group, &within(engine, &start, &upper)?)
                .map_err(|e| format!("within {}: {e}", show(&start)))?;
        }
        for (target, back) in [(&start, false), (&end, true)] {
            if back && variant.is_hash_index() || variant.prefix(&end) != Some(&start[..]) {
                continue;
            }
            let mut expected = group.clone();
            let at = target.clone();
            let step = if back { Step::SeekForPrev(at) } else { Step::Seek(at) };
            if back {
                expected.reverse();
            }
            let mut found = walk(engine, Order::Prefix, &step, expected.len() + 1)?;
            found.truncate(found.iter().take_while(|(key, _)| key.starts_with(&start)).count());
            contents::same(&expected, &found)
                .map_err(|e| format!("prefix seek, {}, back {back}: {e}", show(target)))?;
        }
    }
    Ok(())
}

/// Where to seek: keys that are, that were deleted, starts of groups that are and are not.
fn targets(variant: &Variant, model: &Map, rng: &mut Rng) -> Vec<Vec<u8>> {
    let keys: Vec<&Bytes> = model.keys().collect();
    let mut targets: Vec<Vec<u8>> =
        (0..60).map(|_| keys[rng.uniform(keys.len() as u64) as usize].to_vec()).collect();
    targets.extend((0..30).map(|_| content::group(rng.uniform(content::GROUP_NUMBERS + 20))));
    let absent = content::absent_keys(rng);
    targets.extend(absent.into_iter().step_by(4));
    // RocksDB's hash index does not support lookups of keys outside the extractor's domain.
    targets.retain(|key| variant.takes_short_keys() || key.len() >= 8);
    targets
}

fn total_order(engine: &mut dyn Engine, model: &Map, target: &[u8]) -> Result<(), String> {
    const SOME: usize = 4;
    let at = target.to_vec();
    let found = walk(engine, Order::Total, &Step::Seek(at.clone()), SOME)?;
    let after = model.range::<[u8], _>((Bound::Included(target), Bound::Unbounded));
    let expected: Vec<Entry> = after.take(SOME).map(owned).collect();
    contents::same(&expected, &found).map_err(|e| format!("seek: {e}"))?;
    let found = walk(engine, Order::Total, &Step::SeekForPrev(at), SOME)?;
    let before = model.range::<[u8], _>((Bound::Unbounded, Bound::Included(target))).rev();
    let expected: Vec<Entry> = before.take(SOME).map(owned).collect();
    contents::same(&expected, &found).map_err(|e| format!("seek_for_prev: {e}"))
}

fn within_prefix(
    variant: &Variant,
    engine: &mut dyn Engine,
    model: &Map,
    target: &[u8],
) -> Result<(), String> {
    let Some(prefix) = variant.prefix(target) else { return Ok(()) };
    let same = |key: &[u8]| variant.prefix(key) == Some(prefix);
    let after = model.range::<[u8], _>((Bound::Included(target), Bound::Unbounded));
    let expected: Vec<Entry> = after.take_while(|(key, _)| same(key)).map(owned).collect();
    let seek = Step::Seek(target.to_vec());
    let found = walk(engine, Order::SamePrefix, &seek, usize::MAX)?;
    contents::same(&expected, &found).map_err(|e| format!("same prefix as start: {e}"))?;
    let mut found = walk(engine, Order::Prefix, &seek, expected.len() + 1)?;
    found.truncate(found.iter().take_while(|(key, _)| same(key)).count());
    contents::same(&expected, &found).map_err(|e| format!("prefix seek: {e}"))?;
    if variant.is_hash_index() {
        return Ok(());
    }
    let before = model.range::<[u8], _>((Bound::Unbounded, Bound::Included(target))).rev();
    let expected: Vec<Entry> = before.take_while(|(key, _)| same(key)).map(owned).collect();
    let back = Step::SeekForPrev(target.to_vec());
    let mut found = walk(engine, Order::Prefix, &back, expected.len() + 1)?;
    found.truncate(found.iter().take_while(|(key, _)| same(key)).count());
    contents::same(&expected, &found).map_err(|e| format!("prefix seek_for_prev: {e}"))
}
