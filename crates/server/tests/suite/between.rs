//! What another client does at the moment before a write reaches the engine: a watch that begins
//! then sees what the write has changed.

use std::path::Path;
use std::sync::{Arc, Mutex};

use pumice::{FileSystem, MemFs, Options, Result};
use pumice_env::{FileOptions, FileSystemWrapper, WritableFile, WritableFileWrapper};
use pumice_server::Config;
use pumice_server::keyspace::Keyspace;
use pumice_server::session::Shared;

use super::{Client, Quiet, text};

type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A file system that calls a hook before a log grows: its record is then not readable yet.
struct Hooked {
    inner: Arc<dyn FileSystem>,
    hook: Hook,
}

impl FileSystemWrapper for Hooked {
    fn wrapped(&self) -> &dyn FileSystem {
        &*self.inner
    }
    /// The hook runs on the writer's task.
    fn is_own(&self) -> bool {
        true
    }
    fn create(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        let file = self.inner.create(path, options)?;
        match path.extension() {
            Some(name) if name == "log" => {
                Ok(Box::new(HookedLog { file, hook: Arc::clone(&self.hook) }))
            }
            _ => Ok(file),
        }
    }
}

struct HookedLog {
    file: Box<dyn WritableFile>,
    hook: Hook,
}

impl WritableFileWrapper for HookedLog {
    fn wrapped(&self) -> &dyn WritableFile {
        &*self.file
    }
    fn wrapped_mut(&mut self) -> &mut dyn WritableFile {
        &mut *self.file
    }
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let hook = self.hook.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
        self.file.append(data)
    }
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
        let hook = Hook::default();
        let hooked = Hooked { inner: MemFs::new(1).shared(), hook: Arc::clone(&hook) };
        options.db.file_system = Arc::new(hooked);
        let keyspace = Keyspace::open(options, Path::new("/db")).unwrap();
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
