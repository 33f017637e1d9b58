//! What a connection is between its commands, and what all connections share. No sockets.
//!
//! | file | what |
//! |---|---|
//! | `config`, `hot` | the settings; those that are looked at often |
//! | `clients` | who is connected |
//! | `acl` | users and what they may |
//! | `watch` | keys whose change makes a transaction fail |
//! | `pubsub` | channels and who listens |
//! | `waiters` | who waits for a key |
//! | `stats` | counters for INFO |
//! | `slowlog` | commands that took long |
//!
//! Thread safety: a [`Session`] belongs to its connection's task; [`Shared`] is everybody's.

pub mod acl;
pub mod clients;
pub mod config;
pub mod hot;
pub mod pubsub;
pub mod slowlog;
pub mod stats;
pub mod waiters;
pub mod watch;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// It may talk to the database.
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
    /// The way of everything it is told, once it has listened to a channel.
    pub outbox: Option<Arc<pubsub::Outbox>>,
    /// Bytes of the names of channels and patterns.
    pub listened_bytes: usize,
    /// What the command that was carried out last wants to wait for.
    pub wish: Option<waiters::Wish>,
    /// It waits.
    pub waiter: Option<Arc<waiters::Waiter>>,
    /// To be closed after its replies are sent.
    pub closes: bool,
    /// The command is the last that has come: what it writes may be written with others' writes.
    pub is_last: bool,
    /// What the command has written, if it was.
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

    /// Bytes that it keeps for later: what is queued, watched, listened to and waited for.
    pub fn bytes(&self) -> usize {
        let queued = self.multi.as_ref().map_or(0, |multi| multi.bytes);
        let waited = self.waiter.as_ref().map_or(0, |waiter| waiter.bytes());
        queued + self.watched.bytes + self.listened_bytes + waited
    }

    /// A number by chance, of the connection's own sequence.
    pub fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// See [`Shared::tls_changed`]; why they are no good.
pub type TlsChanged = Box<dyn Fn(&Config) -> Result<(), String> + Send + Sync>;

/// What all connections share.
pub struct Shared {
    /// The data.
    pub keyspace: Keyspace,
    /// The settings.
    pub config: Config,
    /// Those that are looked at often.
    pub hot: hot::Hot,
    /// Who is connected.
    pub clients: Arc<Clients>,
    /// Who may do what.
    pub acl: Acl,
    /// Who watches what.
    pub watches: watch::Watches,
    /// Who waits for a key.
    pub waiters: waiters::Waiters,
    /// Who listens to what.
    pub channels: pubsub::Channels,
    /// Counters.
    pub stats: stats::Stats,
    /// Commands that took long.
    pub slow: slowlog::Slow,
    /// A client has asked the server to end.
    pub wants_end: AtomicBool,
    /// Takes settings of TLS over that have changed, if connections speak it.
    pub tls_changed: OnceLock<TlsChanged>,
    /// Classes of events that are published.
    notified: pumice_port::sync::Mutex<Arc<str>>,
    notifies: AtomicBool,
}

impl Shared {
    /// Of a server that begins.
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
            slow: slowlog::Slow::default(),
            wants_end: AtomicBool::new(false),
            tls_changed: OnceLock::new(),
            notified: pumice_port::sync::Mutex::new(Arc::from("")),
            notifies: AtomicBool::new(false),
        };
        shared.settings_changed();
        shared.acl.set_default_password(shared.config.get("requirepass").as_bytes());
        shared
    }

    /// Settings that are looked at often are taken over.
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

    /// Settings of TLS have changed: connections from now on are made with them. Their files are
    /// read anew. Suspends.
    ///
    /// # Errors
    /// What is wrong with them, in words; then nothing changes for connections.
    pub fn take_over_tls(&self) -> Result<(), String> {
        self.tls_changed.get().map_or(Ok(()), |take_over| take_over(&self.config))
    }

    /// The connection listens to nothing any more.
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

    /// Keys have been changed: tells watchers and those who listen.
    pub fn tell(&self, events: &[Event]) {
        for event in events {
            self.watches.touched(event.db, &event.key, event.name == "expired");
        }
        self.publish_events(events);
        self.clients.enforce();
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
