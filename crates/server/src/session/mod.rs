//! The state of a connection between its commands, and what all connections share. No sockets.
//!
//! | file | what |
//! |---|---|
//! | `config`, `hot` | the settings; those that are read often |
//! | `clients` | the connected clients |
//! | `acl` | users and their permissions |
//! | `watch` | keys whose change makes a transaction fail |
//! | `pubsub` | channels and their subscribers |
//! | `waiters`, `action` | which clients wait for a key, and for what |
//! | `stats` | counters for INFO |
//! | `calls`, `latencies` | how often commands were called, and how long they took |
//! | `slowlog` | commands that took long |
//!
//! Thread safety: a [`Session`] belongs to its connection's task; [`Shared`] is shared by all.

pub mod acl;
pub mod action;
pub mod calls;
pub mod clients;
pub mod config;
pub mod hot;
pub mod latencies;
pub mod pubsub;
pub mod slowlog;
pub mod stats;
pub mod waiters;
pub mod watch;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::keyspace::txn::Event;
use crate::keyspace::{Keyspace, Written};
use acl::Acl;
use acl::user::User;
use clients::{Client, Clients};
use config::Config;

/// Commands that a transaction may queue, and bytes of them.
pub const QUEUE_BYTES: usize = 256 << 20;

/// A transaction that is being queued.
#[derive(Debug, Default)]
pub struct Multi {
    /// Commands with their arguments.
    pub queue: Vec<Vec<Vec<u8>>>,
    /// Bytes of all arguments.
    pub bytes: usize,
    /// A command could not be queued: EXEC will refuse.
    pub is_broken: bool,
}

/// A connection between its commands.
pub struct Session {
    /// What others see of it.
    pub client: Arc<Client>,
    /// The database of its keys.
    pub db: u8,
    /// The client may talk to the database.
    pub is_authenticated: bool,
    /// Who it is.
    user: Arc<User>,
    /// The transaction it queues.
    pub multi: Option<Multi>,
    /// Keys it watches.
    pub watched: watch::Watched,
    /// Channels it listens to.
    pub channels: BTreeSet<Vec<u8>>,
    /// Patterns of channels it listens to.
    pub patterns: BTreeSet<Vec<u8>>,
    /// The outbox for all its output, once it has subscribed to a channel.
    pub outbox: Option<Arc<pubsub::Outbox>>,
    /// Bytes of the names of channels and patterns.
    pub listened_bytes: usize,
    /// What the last executed command has to wait for.
    pub wish: Option<waiters::Wish>,
    /// The client waits.
    pub waiter: Option<Arc<waiters::Waiter>>,
    /// To be closed after its replies are sent.
    pub closes: bool,
    /// The command is the last one received: its writes may be grouped with those of others.
    pub is_last: bool,
    /// Commands, with the next one, whose keys have been prefetched.
    pub seen_ahead: usize,
    /// What the command has written, if it was grouped.
    pub written: Option<Written>,
    random: u64,
}

impl Session {
    /// A new connection.
    pub fn new(client: Arc<Client>, acl: &Acl) -> Session {
        let user = Arc::clone(acl.default_user());
        client.set_user(&user);
        Session {
            user,
            random: client.id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            client,
            db: 0,
            is_authenticated: acl.is_open(),
            multi: None,
            watched: watch::Watched::default(),
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            outbox: None,
            listened_bytes: 0,
            wish: None,
            waiter: None,
            closes: false,
            is_last: false,
            seen_ahead: 0,
            written: None,
        }
    }

    /// Who it is.
    #[inline]
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// From now on it is that user; false if that user is gone already.
    pub fn set_user(&mut self, user: Arc<User>) -> bool {
        let is_there = self.client.set_user(&user);
        self.user = user;
        is_there
    }

    /// Channels and patterns it listens to.
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Bytes it keeps for later: queued commands, watched keys, subscriptions and awaited keys.
    pub fn bytes(&self) -> usize {
        let queued = self.multi.as_ref().map_or(0, |multi| multi.bytes);
        let waited = self.waiter.as_ref().map_or(0, |waiter| waiter.bytes());
        queued + self.watched.bytes + self.listened_bytes + waited
    }

    /// A random number from the connection's own sequence.
    pub fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// See [`Shared::tls_changed`]; the error if they are invalid.
pub type TlsChanged = Box<dyn Fn(&Config) -> Result<(), String> + Send + Sync>;

/// What all connections share.
pub struct Shared {
    /// The data.
    pub keyspace: Keyspace,
    /// The settings.
    pub config: Config,
    /// Settings that are read often.
    pub hot: hot::Hot,
    /// The connected clients.
    pub clients: Arc<Clients>,
    /// Users and their permissions.
    pub acl: Acl,
    /// Watched keys and their watchers.
    pub watches: watch::Watches,
    /// The clients that wait for a key.
    pub waiters: waiters::Waiters,
    /// Channels and their subscribers.
    pub channels: pubsub::Channels,
    /// Counters.
    pub stats: stats::Stats,
    /// How often each command was called, and how long that took.
    pub calls: calls::Calls,
    /// Commands that took long.
    pub slow: slowlog::Slow,
    /// The allocator of the program, which the program says.
    pub allocator: OnceLock<&'static str>,
    /// 40 random hexadecimal digits of this run.
    pub run_id: String,
    /// Seconds since 1970 when an attack was last reported.
    attacked_seconds: AtomicU64,
    /// A client has requested shutdown.
    pub wants_end: AtomicBool,
    /// Applies changed TLS settings, if there are TLS connections.
    pub tls_changed: OnceLock<TlsChanged>,
    /// Classes of events that are published.
    notified: pumice_port::sync::Mutex<Arc<str>>,
    notifies: AtomicBool,
}

fn run_id() -> String {
    let mut bytes = [0; 20];
    pumice_port::os::read_random_bytes(&mut bytes);
    acl::user::hex(&bytes)
}

impl Shared {
    /// The state of a starting server.
    pub fn new(keyspace: Keyspace, config: Config) -> Shared {
        let shared = Shared {
            keyspace,
            config,
            hot: hot::Hot::default(),
            clients: Arc::default(),
            acl: Acl::default(),
            watches: watch::Watches::default(),
            waiters: waiters::Waiters::default(),
            channels: pubsub::Channels::default(),
            stats: stats::Stats::default(),
            calls: calls::Calls::default(),
            slow: slowlog::Slow::default(),
            allocator: OnceLock::new(),
            run_id: run_id(),
            attacked_seconds: AtomicU64::new(0),
            wants_end: AtomicBool::new(false),
            tls_changed: OnceLock::new(),
            notified: pumice_port::sync::Mutex::new(Arc::from("")),
            notifies: AtomicBool::new(false),
        };
        shared.settings_changed();
        shared.acl.set_default_password(shared.config.get("requirepass").as_bytes());
        shared
    }

    /// An attack at this time; true when it is to be reported, once a minute.
    pub fn attacked(&self, seconds: u64) -> bool {
        const QUIET_SECONDS: u64 = 60;
        let last = self.attacked_seconds.load(Ordering::Relaxed);
        let (new, relaxed) = (seconds, Ordering::Relaxed);
        seconds.saturating_sub(last) >= QUIET_SECONDS
            && self.attacked_seconds.compare_exchange(last, new, relaxed, relaxed).is_ok()
    }

    /// Refreshes the settings that are read often.
    pub fn settings_changed(&self) {
        self.hot.take_over(&self.config);
        self.slow.take_over(&self.config);
        self.acl.take_over(&self.config);
        let room = self.hot.clients_bytes.load(Ordering::Relaxed);
        self.keyspace.set_room(room);
        self.clients.memory.set_max(room as u64);
        let mut classes = self.config.get("notify-keyspace-events");
        if classes.contains('A') {
            classes.push_str("g$lshzx");
        }
        let any = classes.contains(['K', 'E']);
        *self.notified.lock() = Arc::from(classes.as_str());
        self.notifies.store(any, Ordering::Release);
    }

    /// TLS settings have changed: new connections use them. Their files are reloaded. Suspends.
    ///
    /// # Errors
    /// An error text about them; then nothing changes for connections.
    pub fn take_over_tls(&self) -> Result<(), String> {
        self.tls_changed.get().map_or(Ok(()), |take_over| take_over(&self.config))
    }

    /// The connection no longer listens to anything.
    pub fn unsubscribe_all(&self, session: &mut Session) {
        let Some(outbox) = &session.outbox else { return };
        for (names, is_pattern) in [(&mut session.channels, false), (&mut session.patterns, true)] {
            for name in std::mem::take(names) {
                self.channels.unsubscribe(&name, is_pattern, outbox, b"");
            }
        }
        session.listened_bytes = 0;
        session.client.channels.store(0, Ordering::Relaxed);
        session.client.patterns.store(0, Ordering::Relaxed);
    }

    /// Keys have been changed: notifies watchers and subscribers.
    pub fn notify(&self, events: &[Event]) {
        for event in events {
            self.watches.touched(event.db, &event.key, event.name == "expired");
        }
        self.publish_events(events);
        self.clients.enforce();
    }

    /// A client watches a key or subscribes to what happens to keys.
    pub fn wants_events(&self) -> bool {
        self.watches.is_any() || self.notifies.load(Ordering::Acquire)
    }

    fn publish_events(&self, events: &[Event]) {
        if !self.notifies.load(Ordering::Acquire) {
            return;
        }
        let classes = Arc::clone(&self.notified.lock());
        for event in events {
            if !classes.contains(char::from(event.class)) {
                continue;
            }
            let channel = |what: &str| format!("__{what}@{}__:", event.db).into_bytes();
            if classes.contains('K') {
                let name = [&channel("keyspace")[..], &event.key].concat();
                self.channels.publish(&name, event.name.as_bytes());
            }
            if classes.contains('E') {
                let name = [&channel("keyevent")[..], event.name.as_bytes()].concat();
                self.channels.publish(&name, &event.key);
            }
        }
    }
}
