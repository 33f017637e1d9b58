//! What the suites share: a server without sockets, a server with them, a client.

mod about;
mod acl;
mod between;
mod blocking;
mod chains;
mod connections;
mod counts;
mod durable;
mod expiry;
mod groups;
mod isolation;
mod limits;
mod metrics;
mod model;
mod page;
mod peer;
mod peer_acl;
mod peer_blocking;
mod peer_docs;
mod peer_fields;
mod peer_joins;
mod peer_numbers;
mod pipelines;
mod pubsub;
mod queues;
mod recoveries;
mod refusals;
mod scans;
mod slow;
mod status;
mod strings;
mod sync_failures;
mod templates;
#[cfg(feature = "tls")]
mod tls;
mod transactions;
mod workers;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use pumice::Options;
use pumice_server::Config;
use pumice_server::keyspace::Keyspace;
use pumice_server::protocol::Reply;
use pumice_server::serve::executor::execute;
use pumice_server::session::clients::Peer;
use pumice_server::session::{Session, Shared};

/// A directory that is removed with the value.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pumice-server-{}-{number}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Left behind by a process with the same id.
        std::fs::remove_dir_all(&path).ok();
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let removed = std::fs::remove_dir_all(&self.0);
        // After a failure another task may still write there: only the first failure matters.
        assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
    }
}

/// Numbers by seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

/// A server without sockets, whose clock only moves when it is advanced.
pub struct Quiet {
    pub shared: Shared,
    /// Milliseconds since 1970.
    pub now: u64,
}

/// A client of it.
pub struct Client {
    pub session: Session,
    pub out: Reply,
}

impl Quiet {
    pub fn open(dir: &Path) -> Quiet {
        Quiet::with(dir, Options::default())
    }
    /// With the engine's options.
    pub fn with(dir: &Path, options: Options) -> Quiet {
        let keyspace = Keyspace::open(options, &dir.join("db")).unwrap();
        Quiet { shared: Shared::new(keyspace, Config::new()), now: 1_700_000_000_000 }
    }
    pub fn client(&self) -> Client {
        let peer = Peer {
            descriptor: -1,
            address: "127.0.0.1:1".to_string(),
            local_address: "127.0.0.1:2".to_string(),
            hangup: Box::new(|| ()),
            gently: Box::new(|| ()),
        };
        let client = self.shared.clients.add(peer, self.now);
        let session = Session::new(client, &self.shared.acl);
        Client { session, out: Reply::new() }
    }
    /// The reply to a command.
    pub fn ask<A: AsRef<[u8]>>(&self, client: &mut Client, args: &[A]) -> Vec<u8> {
        let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
        client.session.is_last = true;
        execute(&self.shared, &mut client.session, &mut client.out, &args, self.now);
        let reply = client.out.bytes().to_vec();
        client.out.clear();
        reply
    }
    /// The reply to a command given as words separated by blanks, as text with `|` for line ends.
    pub fn say(&self, client: &mut Client, line: &str) -> String {
        let args: Vec<_> = line.split_whitespace().collect();
        text(&self.ask(client, &args))
    }
    /// Asserts a conversation: lines `command => reply`.
    pub fn talk(&self, client: &mut Client, lines: &[(&str, &str)]) {
        for (line, reply) in lines {
            assert_eq!(self.say(client, line), *reply, "{line}");
        }
    }
}

/// A reply with `|` for line ends.
pub fn text(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).replace("\r\n", "|").trim_end_matches('|').to_string()
}
