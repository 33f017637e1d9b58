//! Values, entities and iterators that are held while what they come from goes away: entries are
//! overwritten, flushed and compacted, blocks leave a tiny cache, tables are closed
//! (`max_open_files`), column families are dropped with their last handle, the database is closed
//! and dropped. What is held stays as it was read; files and blocks go when nothing needs them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, DIR, let_files_go, memory, names};
use pumice::{
    BlockCache, CacheOptions, ColumnFamily, Db, DbIterator, Entries, FileSystem, Options,
    PinnedColumns, PinnedSlice, WideColumn,
};
use pumice_base::random::Rng;
use pumice_port::thread;
use pumice_testkit::seed;

const SEEDS: u64 = 60;
const STEPS: usize = 60;
/// How often files that are to be deleted are looked for, at least a millisecond apart.
const LOOKS_MAX: u32 = 20_000;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Contents = Vec<(Vec<u8>, Vec<u8>)>;

/// Something that was read, with what it has to show.
enum Held {
    Value(PinnedSlice, Vec<u8>),
    Entity(PinnedColumns, Vec<u8>),
    /// At an entry of the contents.
    Cursor(DbIterator, Contents, usize),
    /// The rest.
    Entries(Entries, std::vec::IntoIter<(Vec<u8>, Vec<u8>)>),
    /// An iterator that has failed.
    Nothing,
}

/// What a read gave.
enum Read {
    Value(PinnedSlice),
    Entity(PinnedColumns),
    Cursor(DbIterator),
    Entries(Entries),
}

impl Held {
    fn needs_files(&self) -> bool {
        matches!(self, Held::Cursor(..) | Held::Entries(..))
    }

    /// Compares, and goes on a little; what cannot go on says so, once the database is closed, and
    /// is not asked again.
    fn check(&mut self, closed: bool, rng: &mut Rng) {
        match self {
            Held::Nothing => {}
            Held::Value(value, expected) => assert!(**value == expected[..]),
            Held::Entity(columns, expected) => {
                let shown: Vec<_> = columns.iter().collect();
                assert_eq!(shown, [WideColumn::of_plain(expected), column(expected)]);
            }
            Held::Cursor(iter, contents, at) => {
                for _ in 0..rng.uniform(4) {
                    let (key, value) = &contents[*at];
                    assert_eq!(iter.key(), Some(&key[..]));
                    assert!(iter.value() == Some(&value[..]));
                    let forward = rng.one_in(2);
                    if (forward && *at + 1 == contents.len()) || (!forward && *at == 0) {
                        continue;
                    }
                    if forward {
                        iter.next()
                    } else {
                        iter.prev()
                    }
                    if !iter.valid() {
                        let error = iter.status().expect_err("there is more");
                        assert!(closed, "{error}");
                        *self = Held::Nothing;
                        return;
                    }
                    *at = if forward { *at + 1 } else { *at - 1 };
                }
            }
            Held::Entries(entries, expected) => {
                for _ in 0..rng.uniform(3) {
                    match entries.next() {
                        Some(Err(error)) => {
                            assert!(closed, "{error}");
                            *self = Held::Nothing;
                            return;
                        }
                        entry => assert!(entry.map(|entry| entry.unwrap()) == expected.next()),
                    }
                }
            }
        }
    }
}

fn column(value: &[u8]) -> WideColumn<'_> {
    WideColumn { name: b"col", value: &value[..value.len() / 2] }
}

struct World {
    fs: Arc<dyn FileSystem>,
    cache: Arc<BlockCache>,
    db: Db,
    /// None once its handle is gone.
    families: Vec<(Option<ColumnFamily>, Model, bool)>,
    held: Vec<Held>,
    rng: Rng,
}

fn options(fs: &Arc<dyn FileSystem>, rng: &mut Rng) -> (Options, Arc<BlockCache>) {
    let mut options = common::options(fs);
    options.db.create_missing_column_families = true;
    options.db.max_open_files = [20, 20, -1][rng.uniform(3) as usize];
    options.db.avoid_flush_during_shutdown = rng.one_in(2);
    options.cf.disable_auto_compactions = true;
    options.cf.uncache_aggressiveness = [0, 1, 300][rng.uniform(3) as usize];
    let capacity = [1 << 10, 8 << 10, 1 << 20][rng.uniform(3) as usize];
    let cache = BlockCache::new(CacheOptions::new(capacity));
    let table = &mut options.cf.table_factory;
    table.block_cache = Some(Arc::clone(&cache));
    table.cache_index_and_filter_blocks = rng.one_in(2);
    table.block_size = 300;
    (options, cache)
}

impl World {
    fn key(&mut self) -> Vec<u8> {
        common::key(self.rng.uniform(40) as usize)
    }

    fn write(&mut self, at: usize) {
        let key = self.key();
        let value = vec![self.rng.next_u64() as u8; self.rng.uniform(300) as usize];
        let (Some(cf), model, false) = &mut self.families[at] else { return };
        match key.last().unwrap() % 3 {
            // A third of the keys has entities.
            0 => {
                let more = column(&value);
                let columns = [(&b""[..], &value[..]), (more.name, more.value)];
                self.db.put_entity_cf(cf, &key, columns)
            }
            _ => self.db.put_cf(cf, &key, &value),
        }
        .unwrap();
        model.insert(key, value);
    }

    fn read(&mut self, at: usize) {
        let key = self.key();
        let (Some(cf), model, _) = &self.families[at] else { return };
        let contents: Contents = model.clone().into_iter().collect();
        let expected = model.get(&key).cloned();
        let read = match self.rng.uniform(5) {
            0 => self.db.get_cf(cf, &key).map(|value| value.map(Read::Value)),
            1 => {
                let value = self.db.multi_get_cf(&[(cf, &key)]).pop().unwrap();
                value.map(|value| value.map(Read::Value))
            }
            2 if key.last().unwrap().is_multiple_of(3) => {
                self.db.get_entity_cf(cf, &key).map(|columns| columns.map(Read::Entity))
            }
            3 => {
                let sought = |mut iter: DbIterator| {
                    iter.seek(&key);
                    iter.status().map(|()| iter.valid().then_some(Read::Cursor(iter)))
                };
                self.db.cursor_cf(cf).and_then(sought)
            }
            _ => self.db.iter_cf(cf).map(|entries| Some(Read::Entries(entries))),
        };
        let at = contents.iter().position(|(k, _)| *k >= key);
        self.held.push(match read.unwrap() {
            Some(Read::Value(value)) => Held::Value(value, expected.unwrap()),
            Some(Read::Entity(columns)) => Held::Entity(columns, expected.unwrap()),
            Some(Read::Cursor(iter)) => Held::Cursor(iter, contents, at.unwrap()),
            Some(Read::Entries(entries)) => Held::Entries(entries, contents.into_iter()),
            // No such key, or a cursor at the end.
            None => return assert!(expected.is_none()),
        });
    }

    fn change(&mut self, at: usize) {
        let (cf, _, dropped) = &mut self.families[at];
        let Some(family) = &cf else { return };
        match self.rng.uniform(24) {
            0 if at > 0 && !*dropped => {
                self.db.drop_column_family(family).unwrap();
                *dropped = true;
            }
            1 if *dropped => *cf = None,
            2 if !*dropped => {
                self.db.compact_range_cf(&Default::default(), family, None, None).unwrap();
            }
            3..14 if !*dropped => self.db.flush_cf(family).unwrap(),
            14 => self.cache.erase_all(),
            15 => self.cache.set_capacity(self.rng.uniform(4096) as usize),
            16 => let_files_go(&self.db),
            17 if !self.held.is_empty() => {
                let at = self.rng.uniform(self.held.len() as u64) as usize;
                drop(self.held.swap_remove(at));
            }
            _ => {}
        }
    }

    fn check(&mut self, closed: bool) {
        let rng = &mut self.rng;
        self.held.iter_mut().for_each(|held| held.check(closed, rng));
    }

    /// The tables in the directory are those of the families that are left.
    fn check_files(&mut self) {
        let gone: Vec<_> = self.held.extract_if(.., |held| held.needs_files()).collect();
        drop(gone);
        self.families.iter_mut().filter(|(_, _, dropped)| *dropped).for_each(|f| f.0 = None);
        let_files_go(&self.db);
        let live = self.db.live_files_metadata();
        let mut live: Vec<_> =
            live.iter().map(|file| format!("{:06}.sst", file.file_number)).collect();
        live.sort();
        let tables = || {
            let mut found = names(&self.fs, DIR);
            found.retain(|name| name.ends_with(".sst"));
            found
        };
        // Jobs delete files after they have reported.
        let mut looks = 0;
        while tables() != live && looks < LOOKS_MAX {
            thread::sleep(Duration::from_millis(1));
            looks += 1;
        }
        assert_eq!(tables(), live);
    }
}

fn life(seed: u64) {
    let mut rng = Rng::new(seed);
    let (_, fs) = memory();
    let (options, cache) = options(&fs, &mut rng);
    let families = ["default", "a", "b", "c"]
        .map(|name| pumice::ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let (db, cfs) = Db::open_cf(&options.db, DIR, &families).unwrap();
    drop((options, families));
    let families = cfs.into_iter().map(|cf| (Some(cf), Model::new(), false)).collect();
    let mut world = World { fs, cache, db, families, held: Vec::new(), rng };
    for _ in 0..STEPS {
        let at = world.rng.uniform(4) as usize;
        for _ in 0..world.rng.uniform(6) {
            world.write(at);
        }
        for _ in 0..world.rng.uniform(3) {
            world.read(at);
        }
        world.change(at);
        world.check(false);
    }
    if world.rng.one_in(2) {
        world.check_files();
        world.check(false);
    }
    if world.rng.one_in(2) {
        world.db.close().unwrap();
        world.check(true);
    }
    let World { cache, db, families, mut held, mut rng, .. } = world;
    if rng.one_in(2) {
        drop((db, families));
    } else {
        drop((families, db));
    }
    held.iter_mut().for_each(|held| held.check(true, &mut rng));
    cache.erase_all();
    held.iter_mut().for_each(|held| held.check(true, &mut rng));
    drop(held);
    // A thread of a pool may be about to release the database. With a leak this never ends.
    while Arc::strong_count(&cache) > 1 {
        thread::yield_now();
    }
    assert_eq!(cache.pinned_usage(), 0, "pins that nothing holds");
    cache.erase_all();
    assert_eq!((cache.usage(), cache.occupancy()), (0, 0));
}

#[pumice_test_macros::test]
fn what_is_held_stays_as_it_was_read() {
    for seed in seed::range(SEEDS) {
        println!("seed {seed}");
        life(seed);
    }
}
