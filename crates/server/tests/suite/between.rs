//! What another client does at the moment before a write reaches the engine: a watch that begins
//! then sees what the write has changed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pumice::{Db, DbIterator, MemFs, Options, ReadOptions, Result, WriteBatch, WriteOptions};
use pumice_server::Config;
use pumice_server::keyspace::Keyspace;
use pumice_server::keyspace::engine::{Foreign, ForeignCursor, Reader};
use pumice_server::session::Shared;

use super::{Client, Quiet, text};

type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// An engine that calls a hook before it writes.
struct Hooked {
    db: Arc<Db>,
    hook: Hook,
}

struct Moment(Arc<Db>, ReadOptions);

struct Walk(DbIterator);

impl Reader for Moment {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get_opt(&self.1, key)?.map(|value| value.to_vec()))
    }
    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.get(key)).collect()
    }
    fn cursor(&self, first: Option<&[u8]>, end: Option<&[u8]>) -> Result<Box<dyn ForeignCursor>> {
        let options = ReadOptions {
            iterate_lower_bound: first.map(<[u8]>::to_vec),
            iterate_upper_bound: end.map(<[u8]>::to_vec),
            ..self.1.clone()
        };
        Ok(Box::new(Walk(self.0.cursor_opt(&options)?)))
    }
}

impl ForeignCursor for Walk {
    fn valid(&self) -> bool {
        self.0.valid()
    }
    fn seek_to_first(&mut self) {
        self.0.seek_to_first();
    }
    fn seek_to_last(&mut self) {
        self.0.seek_to_last();
    }
    fn seek(&mut self, key: &[u8]) {
        self.0.seek(key);
    }
    fn next(&mut self) {
        self.0.next();
    }
    fn prev(&mut self) {
        self.0.prev();
    }
    fn key(&self) -> &[u8] {
        self.0.key().unwrap_or_default()
    }
    fn value(&self) -> &[u8] {
        self.0.value().unwrap_or_default()
    }
    fn status(&self) -> Result<()> {
        self.0.status()
    }
}

impl Hooked {
    fn now(&self) -> Moment {
        Moment(Arc::clone(&self.db), ReadOptions::default())
    }
}

impl Reader for Hooked {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.now().get(key)
    }
    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        self.now().multi_get(keys)
    }
    fn cursor(&self, first: Option<&[u8]>, end: Option<&[u8]>) -> Result<Box<dyn ForeignCursor>> {
        self.now().cursor(first, end)
    }
}

impl Foreign for Hooked {
    fn name(&self) -> String {
        "hooked".to_string()
    }
    fn snapshot(&self) -> Box<dyn Reader> {
        let snapshot = Some(self.db.snapshot());
        Box::new(Moment(Arc::clone(&self.db), ReadOptions { snapshot, ..ReadOptions::default() }))
    }
    fn write(&self, batch: &[u8], sync: bool) -> Result<()> {
        let hook = self.hook.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
        let options = WriteOptions { sync, ..WriteOptions::default() };
        self.db.write_opt(&options, &mut WriteBatch::from_data(batch)?)
    }
    fn latest_sequence_number(&self) -> u64 {
        self.db.latest_sequence_number()
    }
    fn sync_wal(&self) -> Result<()> {
        self.db.sync_wal()
    }
    fn property(&self, name: &str) -> Option<String> {
        self.db.property(name)
    }
    fn path(&self) -> PathBuf {
        self.db.path().to_path_buf()
    }
    fn checkpoint(&self, path: &Path) -> Result<()> {
        self.db.checkpoint(path)
    }
    fn close(&self) {}
}

/// Writes that change, or remove, what is at `k`. `;` separates commands.
const CHANGES: &[&str] = &[
    "FLUSHALL",
    "FLUSHDB",
    "SWAPDB 0 1",
    "SWAPDB 1 0",
    "MULTI;FLUSHALL;EXEC",
    "MULTI;FLUSHDB;EXEC",
    "MULTI;SWAPDB 0 1;EXEC",
    "MULTI;SET a 1;FLUSHALL;SET b 2;EXEC",
    "MULTI;SELECT 1;FLUSHDB;SELECT 0;FLUSHDB;EXEC",
    "MULTI;SELECT 1;FLUSHALL;EXEC;SELECT 0",
    "SET k 2",
    "DEL k",
    "GETDEL k",
    "APPEND k 1",
    "PEXPIRE k -1",
    "RENAME k other",
    "MOVE k 1",
    "COPY other k REPLACE",
    "MULTI;SET a 1;SET k 2;DEL k;EXEC",
];

#[pumice_test_macros::test]
fn a_watch_that_begins_before_a_write_is_readable_sees_it() {
    for change in CHANGES {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = MemFs::new(1).shared();
        let hook = Hook::default();
        let db = Arc::new(Db::open(&options, "/db").unwrap());
        let engine = Hooked { db, hook: Arc::clone(&hook) };
        let keyspace = Keyspace::open_foreign(Box::new(engine)).unwrap();
        let shared = Shared::new(keyspace, Config::new());
        let server = Arc::new(Quiet { shared, now: 1_700_000_000_000 });
        let owner: Arc<Mutex<Client>> = Arc::new(Mutex::new(server.client()));
        let other = &mut server.client();
        server.talk(other, &[("SET k 1", "+OK"), ("SET other 3", "+OK")]);
        let (own_server, own) = (Arc::clone(&server), Arc::clone(&owner));
        *hook.lock().unwrap() = Some(Box::new(move || {
            let own = &mut own.lock().unwrap();
            own_server.talk(own, &[("WATCH k", "+OK"), ("GET k", "$1|1")]);
        }));
        for line in change.split(';') {
            let reply = text(&server.ask(other, &line.split(' ').collect::<Vec<_>>()));
            assert!(!reply.starts_with('-'), "{change}: {reply}");
        }
        assert!(hook.lock().unwrap().is_none(), "{change} has written");
        let own = &mut owner.lock().unwrap();
        server.talk(own, &[("MULTI", "+OK"), ("SET k 2", "+QUEUED")]);
        assert_eq!(server.say(own, "EXEC"), "*-1", "{change}");
    }
}
