//! Slots that come into use: entries while they move, against a model and under threads.

use super::*;

/// A table takes slots into use as entries need them. Entries stay findable while they move, those
/// that pins hold in place, too; afterwards no count is left behind.
#[pumice_test_macros::test]
fn slots_come_into_use_with_entries() {
    let entries = if cfg!(miri) { 1_500 } else { 40_000u64 };
    let cache = new_cache::<u64>(1 << 20, 1);
    let mut pins = Vec::new();
    for n in 0..entries {
        let handle = cache.insert(key(n), n, 1, Priority::Low).unwrap();
        assert!(!handle.is_standalone());
        if n % 100 == 0 {
            pins.push((n, handle));
        }
        let (slots, needed) = (cache.table_len() as u64, (n + 1) * 10 / 7);
        assert!(slots == 1024 || (needed..=2 * needed + 32).contains(&slots), "{n}: {slots}");
        let earlier = n / 2;
        assert_eq!(cache.lookup(&key(earlier)).as_deref(), Some(&earlier));
    }
    for n in 0..entries {
        assert_eq!(cache.lookup(&key(n)).as_deref(), Some(&n));
    }
    assert!(pins.iter().all(|(n, pin)| **pin == *n));
    assert_eq!(cache.table().growth.counted() as u64, entries);
    drop(pins);
    for n in 0..entries {
        assert!(cache.erase(&key(n)) && cache.lookup(&key(n)).is_none(), "{n}");
    }
    assert_eq!((cache.usage(), cache.occupancy(), cache.displacements()), (0, 0, 0));
}

/// As a map, in one thread, through several doublings, with pins that hold entries in place.
#[pumice_test_macros::test]
fn is_a_map_while_it_grows() {
    for seed in 0..if cfg!(miri) { 1 } else { 10 } {
        let mut rng = Rng::new(seed);
        let cache = new_cache::<u64>(100_000, 1);
        let mut model: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        let mut pins: Vec<(Handle<u64>, u64)> = Vec::new();
        let keys = if cfg!(miri) { 2_000 } else { 12_000 };
        for step in 0..3 * keys {
            let n = rng.uniform(keys);
            match rng.uniform(16) {
                0..9 => {
                    let charge = 1 + rng.uniform(3) as usize;
                    let handle = cache.insert(key(n), step, charge, Priority::Low).unwrap();
                    assert!(!handle.is_standalone() && handle.charge() == charge);
                    model.insert(n, (step, charge));
                    if rng.one_in(10) && pins.len() < 1_000 {
                        pins.push((handle, step));
                    }
                }
                9 => assert_eq!(cache.erase(&key(n)), model.remove(&n).is_some(), "seed {seed}"),
                10 if !pins.is_empty() => {
                    let (handle, value) = pins.swap_remove(rng.uniform(pins.len() as u64) as usize);
                    assert_eq!(*handle, value, "seed {seed}");
                }
                11 if rng.one_in(5_000) => {
                    cache.erase_all();
                    model.clear();
                }
                _ => {
                    let found = cache.lookup(&key(n)).map(|value| *value);
                    assert_eq!(found, model.get(&n).map(|entry| entry.0), "seed {seed}");
                }
            }
        }
        assert!(cache.table_len() > 1_024, "{}", cache.table_len());
        pins.clear();
        let charge: usize = model.values().map(|entry| entry.1).sum();
        assert_eq!((cache.usage(), cache.occupancy()), (charge, model.len()));
        assert_eq!(cache.table().growth.counted(), model.len());
        let mut met = 0;
        cache.for_each(|_, _, _| met += 1);
        assert_eq!(met, model.len());
        cache.erase_all();
        assert_eq!((cache.usage(), cache.occupancy(), cache.displacements()), (0, 0, 0));
    }
}

/// Threads insert, look up, erase and pin while the table doubles again and again. Each has keys of
/// its own, so it knows that what it erased must be gone, and what it did not must be there to be
/// erased. Nothing is lost, found twice or charged twice.
#[pumice_test_macros::test]
fn threads_share_a_table_that_grows() {
    const THREADS: u64 = 3;
    let (rounds, keys) = if cfg!(miri) { (1, 400) } else { (8, 8_000) };
    for round in 0..rounds {
        let live = Arc::new(AtomicI64::new(0));
        let cache = new_cache::<Canary>(1 << 17, 1);
        let threads: Vec<_> = (0..THREADS)
            .map(|t| {
                let (cache, live) = (Arc::clone(&cache), Arc::clone(&live));
                thread::spawn("stress", move || {
                    let mut rng = Rng::new(round * THREADS + t);
                    let mut pins = Vec::new();
                    let mut there = Vec::new();
                    for n in 0..keys {
                        let new = key(n * THREADS + t);
                        let handle =
                            cache.insert(new, Canary::new(new, &live), 1, Priority::Low).unwrap();
                        handle.check(new);
                        assert!(!handle.is_standalone());
                        there.push(new);
                        if rng.one_in(50) {
                            pins.push((new, handle));
                        }
                        let any = key(rng.uniform((n + 1) * THREADS));
                        if let Some(value) = cache.lookup(&any) {
                            value.check(any);
                        }
                        if rng.one_in(3) {
                            let old = there.swap_remove(rng.uniform(there.len() as u64) as usize);
                            assert!(cache.erase(&old), "{old:?} was there");
                            assert!(cache.lookup(&old).is_none(), "{old:?} was erased");
                        }
                    }
                    (pins, there)
                })
            })
            .collect();
        let mut pins = Vec::new();
        let mut there = Vec::new();
        for thread in threads {
            let (its_pins, its_keys) = thread.join().unwrap();
            pins.extend(its_pins);
            there.extend(its_keys);
        }
        for key in &there {
            cache.lookup(key).unwrap().check(*key);
        }
        let counts = (live.load(Relaxed), cache.usage() as i64, cache.occupancy() as i64);
        assert!(counts.0 == counts.1 && counts.0 == counts.2, "{counts:?}");
        pins.iter().for_each(|(key, pin)| pin.check(*key));
        cache.erase_all();
        assert_eq!(cache.usage(), cache.pinned_usage());
        pins.truncate(20);
        assert_eq!((cache.usage(), live.load(Relaxed)), (pins.len(), pins.len() as i64));
        if round % 2 == 0 {
            pins.clear();
            assert_eq!((cache.usage(), cache.occupancy(), cache.displacements()), (0, 0, 0));
        }
        drop(cache);
        pins.iter().for_each(|(key, pin)| pin.check(*key));
        drop(pins);
        assert_eq!(live.load(Relaxed), 0, "every value was dropped once");
    }
}

/// What was inserted before an erasure of all entries is gone after it, though other threads'
/// inserts move entries meanwhile.
#[pumice_test_macros::test]
fn an_erasure_of_all_misses_no_entry_that_moves() {
    let keys = if cfg!(miri) { 1_000 } else { 60_000u64 };
    for round in 0..if cfg!(miri) { 1 } else { 20 } {
        let cache = new_cache::<u64>(1 << 17, 1);
        let inserted = Arc::new(AtomicU64::new(0));
        let inserter = {
            let (cache, inserted) = (Arc::clone(&cache), Arc::clone(&inserted));
            thread::spawn("inserter", move || {
                for n in 0..keys {
                    drop(cache.insert(key(n), n, 1, Priority::Low).unwrap());
                    inserted.store(n + 1, Release);
                }
            })
        };
        let mut checked = 0;
        loop {
            let before = inserted.load(Acquire);
            // Ever more, so that the table keeps growing.
            if before < keys && before < 2 * checked + 720 + 40 * round {
                thread::yield_now();
                continue;
            }
            cache.erase_all();
            for n in checked..before {
                assert!(cache.lookup(&key(n)).is_none(), "{n} of {before}");
            }
            checked = before;
            if before == keys {
                break;
            }
        }
        inserter.join().unwrap();
        assert_eq!((cache.usage(), cache.occupancy(), cache.displacements()), (0, 0, 0));
    }
}

/// A cache whose slots have just doubled, and an entry of the level before.
fn just_grown() -> (Arc<Cache<u64>>, CacheKey) {
    let cache = new_cache::<u64>(1 << 17, 1);
    for n in 0..720 {
        drop(cache.insert(key(n), n, 1, Priority::Low).unwrap());
    }
    assert_eq!(cache.table_len(), 2048);
    let slots = cache.table().slots[..1024].iter();
    let mut old = slots.filter(|slot| slot.pinned_charge() == 0 && slot.is_erasable(None));
    let found = old.find(|slot| slot.len_placed_for() == 1024).unwrap().key();
    (cache, found)
}

/// Moves the entry under `moved` in three steps, with `between` after the first.
fn move_with(cache: &Cache<u64>, moved: CacheKey, between: impl FnOnce()) {
    let table = cache.table();
    let mut slots = table.slots[..1024].iter();
    let slot = slots.find(|slot| slot.is_erasable(Some(moved))).unwrap();
    let erasures = table.growth.erasures();
    assert!(slot.begin_move());
    assert!(cache.lookup(&moved).is_none(), "in motion");
    between();
    table.move_to(slot, 2048, erasures);
}

fn is_clean(cache: &Cache<u64>) {
    assert_eq!(cache.table().growth.counted(), cache.occupancy());
    cache.erase_all();
    assert_eq!((cache.usage(), cache.occupancy(), cache.displacements()), (0, 0, 0));
    assert_eq!(cache.table().growth.counted(), 0);
}

#[pumice_test_macros::test]
fn an_entry_that_moved_is_as_before() {
    let (cache, moved) = just_grown();
    move_with(&cache, moved, || {});
    assert!(cache.lookup(&moved).is_some());
    assert_eq!(cache.occupancy(), 720);
    is_clean(&cache);
}

#[pumice_test_macros::test]
fn an_entry_that_is_erased_in_motion_stays_away() {
    let (cache, moved) = just_grown();
    move_with(&cache, moved, || assert!(cache.erase(&moved)));
    assert!(cache.lookup(&moved).is_none());
    assert_eq!(cache.occupancy(), 719);
    is_clean(&cache);
}

/// The walk met neither the old place, where the entry was in motion, nor the new one, where it was
/// not yet.
#[pumice_test_macros::test]
fn an_erasure_of_all_takes_an_entry_in_motion_that_it_did_not_meet() {
    let (cache, moved) = just_grown();
    move_with(&cache, moved, || cache.table().growth.erasing_all(|| {}));
    assert!(cache.lookup(&moved).is_none());
    assert_eq!(cache.occupancy(), 719);
    is_clean(&cache);
}

#[pumice_test_macros::test]
fn nothing_begins_to_move_while_all_is_erased() {
    let (cache, _) = just_grown();
    let old = || {
        let slots = cache.table().slots[..1024].iter();
        slots.filter(|slot| slot.is_erasable(None) && slot.len_placed_for() == 1024).count()
    };
    let before = old();
    let insert = |n| drop(cache.insert(key(n), n, 1, Priority::Low).unwrap());
    cache.table().growth.erasing_all(|| (1000..1050).for_each(insert));
    assert_eq!(old(), before);
    (2000..2050).for_each(insert);
    assert!(old() < before);
    is_clean(&cache);
}

/// At its new place, before it is visible there.
#[pumice_test_macros::test]
fn an_entry_that_is_erased_on_arrival_is_not_made_visible() {
    for is_erased in [false, true] {
        let cache = new_cache::<u64>(1 << 17, 1);
        let [from, to] = [&cache.table().slots[0], &cache.table().slots[1]];
        assert!(from.try_claim());
        from.publish(key(5), 1, Priority::Low, 55);
        assert!(!from.unpin_borrowed());
        assert!(from.begin_move() && to.try_claim());
        assert!(!to.take_over(from), "nobody erased it");
        if is_erased {
            assert!(!from.erase_moving(Some(key(5))) && to.erase_moving(Some(key(5))));
        }
        assert_eq!(to.end_move(), !is_erased);
        let mut owned = false;
        assert_eq!(to.try_pin(key(5), &mut owned), !is_erased);
        assert!(from.try_claim(), "given up");
    }
}
