//! The connected clients: what CLIENT LIST shows, ending a connection from outside, and the limit
//! of their memory.
//!
//! Bytes are charged by those who take them: a connection for its buffers and what it keeps, an
//! outbox for what lies in it. When the sum exceeds its limit, the clients that use most are ended,
//! one after another.
//!
//! Thread safety: everything may be shared.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use pumice_port::sync::Mutex;

use super::acl::user::User;
use super::waiters::Waiter;
use crate::protocol::Meter;

/// Ends a connection, whatever it waits for.
pub type Hangup = Box<dyn Fn() + Send + Sync>;

/// What a connection's buffers hold, in bytes, since it last received or sent.
#[derive(Default)]
pub struct Buffers {
    /// Received and not executed; an incomplete command, or those that are being executed.
    pub input: AtomicU64,
    /// Room for more of it.
    pub input_free: AtomicU64,
    /// Replies that wait to be sent, and room for them.
    pub replies: AtomicU64,
    /// See `replies`.
    pub replies_room: AtomicU64,
    /// The most replies that it had at once.
    pub replies_most: AtomicU64,
    /// Commands of its queued transaction.
    pub queued: AtomicU64,
    /// Messages that wait to be sent.
    pub messages: AtomicU64,
    /// Times that it received and sent.
    pub receives: AtomicU64,
    /// See `receives`.
    pub sends: AtomicU64,
}

impl Buffers {
    /// One more. Only the connection's own task counts there.
    #[inline]
    pub fn count(counter: &AtomicU64) {
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The input's bytes and capacity, the replies' bytes and capacity.
    pub fn note(&self, input: (usize, usize), replies: (usize, usize)) {
        self.input.store(input.0 as u64, Ordering::Relaxed);
        self.input_free.store((input.1 - input.0) as u64, Ordering::Relaxed);
        self.replies.store(replies.0 as u64, Ordering::Relaxed);
        self.replies_room.store(replies.1 as u64, Ordering::Relaxed);
        if replies.0 as u64 > self.replies_most.load(Ordering::Relaxed) {
            self.replies_most.store(replies.0 as u64, Ordering::Relaxed);
        }
    }
}

/// A connection as others see it.
pub struct Client {
    /// Never used twice.
    pub id: u64,
    /// Its descriptor; -1 for none.
    descriptor: i32,
    /// What its buffers hold.
    pub buffers: Buffers,
    /// Where it comes from, and where it arrived.
    pub address: String,
    /// See `address`.
    pub local_address: String,
    /// The client's name, set by CLIENT SETNAME.
    pub name: Mutex<Vec<u8>>,
    /// The client's database.
    pub db: AtomicU8,
    /// It speaks RESP3.
    pub resp3: AtomicBool,
    /// Number of channels and patterns it listens to.
    pub channels: AtomicU64,
    /// See `channels`.
    pub patterns: AtomicU64,
    /// Milliseconds since 1970 of its beginning and of its last command.
    pub created_millis: u64,
    /// See `created_millis`.
    pub active_millis: AtomicU64,
    /// The client's last command.
    pub command: Mutex<&'static str>,
    /// Number of commands in its queued transaction; `u64::MAX` for none.
    pub queued: AtomicU64,
    /// The user, once the client is authenticated.
    user: Mutex<Option<Arc<User>>>,
    /// What it waits for.
    pub waiter: Mutex<Option<Arc<Waiter>>>,
    /// Bytes it is charged for.
    bytes: AtomicU64,
    /// The client was ended because it used too much memory.
    is_evicted: AtomicBool,
    hangup: Hangup,
    gently: Hangup,
}

/// A connection's address and the means to reach it.
pub struct Peer {
    /// The socket's descriptor; -1 for none.
    pub descriptor: i32,
    /// Where it comes from.
    pub address: String,
    /// Where it arrived.
    pub local_address: String,
    /// Ends it.
    pub hangup: Hangup,
    /// Ends it after executing what it has received.
    pub gently: Hangup,
}

impl Client {
    /// A line of CLIENT LIST, without its end.
    pub fn line(&self, now_millis: u64) -> String {
        let relaxed = Ordering::Relaxed;
        let queued = self.queued.load(relaxed);
        let in_multi = queued != u64::MAX;
        let subscribed = self.channels.load(relaxed) + self.patterns.load(relaxed) > 0;
        let mut flags = String::new();
        let waits = self.waiter.lock().as_ref().is_some_and(|waiter| waiter.is_waiting());
        for (is, letter) in [(waits, 'b'), (in_multi, 'x'), (subscribed, 'P')] {
            flags.extend(is.then_some(letter));
        }
        if flags.is_empty() {
            flags.push('N');
        }
        let seconds = |since: u64| now_millis.saturating_sub(since) / 1000;
        let held = &self.buffers;
        let messages = held.messages.load(relaxed);
        let (name, command) = (self.name.lock().clone(), *self.command.lock());
        let (age, idle) = (seconds(self.created_millis), seconds(self.active_millis.load(relaxed)));
        let fields: [(&str, &dyn Display); 28] = [
            ("id", &self.id),
            ("addr", &self.address),
            ("laddr", &self.local_address),
            ("fd", &self.descriptor),
            ("name", &String::from_utf8_lossy(&name)),
            ("age", &age),
            ("idle", &idle),
            ("flags", &flags),
            ("db", &self.db.load(relaxed)),
            ("sub", &self.channels.load(relaxed)),
            ("psub", &self.patterns.load(relaxed)),
            // There are no channels of shards.
            ("ssub", &0),
            ("multi", &if in_multi { queued as i64 } else { -1 }),
            ("qbuf", &held.input.load(relaxed)),
            ("qbuf-free", &held.input_free.load(relaxed)),
            // Arguments lie in the input.
            ("argv-mem", &0),
            ("multi-mem", &if in_multi { held.queued.load(relaxed) } else { 0 }),
            ("rbs", &held.replies_room.load(relaxed)),
            ("rbp", &held.replies_most.load(relaxed)),
            ("obl", &held.replies.load(relaxed)),
            ("oll", &u64::from(messages > 0)),
            ("omem", &messages),
            ("tot-mem", &self.bytes.load(relaxed)),
            ("events", &if messages > 0 { "rw" } else { "r" }),
            ("cmd", &command),
            ("user", &self.user_name()),
            // Keys are not tracked for clients.
            ("redir", &-1),
            ("resp", &if self.resp3.load(relaxed) { 3 } else { 2 }),
        ];
        fields.map(|(name, value)| format!("{name}={value}")).join(" ")
    }

    /// From now on it is that user; false if that user is gone already.
    pub fn set_user(&self, user: &Arc<User>) -> bool {
        *self.user.lock() = Some(Arc::clone(user));
        !user.is_gone()
    }

    /// The client is that user.
    pub fn is_of(&self, user: &Arc<User>) -> bool {
        self.user.lock().as_ref().is_some_and(|own| Arc::ptr_eq(own, user))
    }

    fn user_name(&self) -> String {
        let user = self.user.lock();
        let name = user.as_ref().map_or(&b"default"[..], |user| &user.name);
        String::from_utf8_lossy(name).into_owned()
    }

    /// The client was ended because it used too many bytes.
    pub fn is_evicted(&self) -> bool {
        self.is_evicted.load(Ordering::Relaxed)
    }

    /// Ends the connection. Does not suspend.
    pub fn hang_up(&self) {
        (self.hangup)();
    }

    /// Ends the connection once it has replied to what it has received. Does not suspend.
    pub fn hang_up_gently(&self) {
        (self.gently)();
    }
}

/// The memory of all clients.
pub struct Memory {
    used: AtomicU64,
    max: AtomicU64,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { used: AtomicU64::new(0), max: AtomicU64::new(u64::MAX) }
    }
}

impl Memory {
    /// Sets the limit in bytes.
    pub fn set_max(&self, bytes: u64) {
        self.max.store(bytes, Ordering::Relaxed);
    }
    /// Bytes that are charged.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
    /// More than there may be.
    pub fn is_over(&self) -> bool {
        self.used() > self.max.load(Ordering::Relaxed)
    }
    /// Charges `client` for more bytes.
    pub fn add(&self, client: &Client, bytes: u64) {
        client.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }
    /// Refunds bytes to `client`.
    pub fn release(&self, client: &Client, bytes: u64) {
        // In this order: if the client's share were reduced before the sum, one client too many
        // could be ended.
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        client.bytes.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// Memory of a client's growing replies, until their connection charges for them.
pub struct Growth {
    clients: Arc<Clients>,
    client: Arc<Client>,
    bytes: AtomicU64,
}

impl Growth {
    /// Nothing yet.
    pub fn new(clients: &Arc<Clients>, client: &Arc<Client>) -> Growth {
        let (clients, client) = (Arc::clone(clients), Arc::clone(client));
        Growth { clients, client, bytes: AtomicU64::new(0) }
    }
    /// Bytes charged, which the connection accounts for from now on.
    pub fn take(&self) -> u64 {
        self.bytes.swap(0, Ordering::Relaxed)
    }
}

impl Meter for Growth {
    /// False once the client was ended, for this or earlier.
    fn grow(&self, bytes: usize) -> bool {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.clients.memory.add(&self.client, bytes as u64);
        self.clients.enforce();
        !self.client.is_evicted()
    }
}

/// All connections.
#[derive(Default)]
pub struct Clients {
    /// What they cost.
    pub memory: Arc<Memory>,
    /// Connections ended because they used too many bytes.
    pub evicted: AtomicU64,
    next: AtomicU64,
    all: Mutex<BTreeMap<u64, Arc<Client>>>,
}

impl Clients {
    /// A new connection.
    pub fn add(&self, peer: Peer, now_millis: u64) -> Arc<Client> {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client {
            id,
            descriptor: peer.descriptor,
            buffers: Buffers::default(),
            address: peer.address,
            local_address: peer.local_address,
            name: Mutex::new(Vec::new()),
            db: AtomicU8::new(0),
            resp3: AtomicBool::new(false),
            channels: AtomicU64::new(0),
            patterns: AtomicU64::new(0),
            created_millis: now_millis,
            active_millis: AtomicU64::new(now_millis),
            command: Mutex::new("NULL"),
            queued: AtomicU64::new(u64::MAX),
            user: Mutex::new(None),
            waiter: Mutex::new(None),
            bytes: AtomicU64::new(0),
            is_evicted: AtomicBool::new(false),
            hangup: peer.hangup,
            gently: peer.gently,
        });
        self.all.lock().insert(id, Arc::clone(&client));
        client
    }
    /// Ends the largest clients while the sum exceeds the limit. Does not suspend for long.
    pub fn enforce(&self) {
        if !self.memory.is_over() {
            return;
        }
        let bytes = |client: &Arc<Client>| client.bytes.load(Ordering::Relaxed);
        let (gone, mut there): (Vec<_>, Vec<_>) =
            self.list().into_iter().partition(|client| client.is_evicted());
        there.sort_by_cached_key(|client| std::cmp::Reverse(bytes(client)));
        let max = self.memory.max.load(Ordering::Relaxed);
        // Clients that are ending refund theirs by themselves.
        let mut used = self.memory.used().saturating_sub(gone.iter().map(bytes).sum());
        for client in there {
            if used <= max {
                break;
            }
            used = used.saturating_sub(bytes(&client));
            if !client.is_evicted.swap(true, Ordering::Relaxed) {
                self.evicted.fetch_add(1, Ordering::Relaxed);
                client.hang_up();
            }
        }
    }
    /// The client has ended.
    pub fn remove(&self, id: u64) {
        self.all.lock().remove(&id);
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.lock().len()
    }
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// All of them, the oldest first.
    pub fn list(&self) -> Vec<Arc<Client>> {
        self.all.lock().values().cloned().collect()
    }
}
