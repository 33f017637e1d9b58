//! Channels: subscriptions, and delivery of messages.
//!
//! A listener is an [`Outbox`] that its connection empties. A message is put into each outbox under
//! the lock of the registry, so that all listeners see the same order, and a connection gets the
//! confirmation of its own subscription before the first message.
//!
//! Thread safety: everything may be shared.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pumice_port::sync::{Condvar, Mutex};

use super::clients::{Client, Memory};
use crate::keyspace::glob;
use crate::protocol::Reply;

/// Bytes of undelivered messages at which a listener is disconnected.
pub const OUTBOX_BYTES: usize = 32 << 20;

/// Messages on their way to a connection.
pub struct Outbox {
    /// The connection.
    client: Arc<Client>,
    memory: Arc<Memory>,
    held: Mutex<Lying>,
    /// It speaks RESP3.
    pub resp3: AtomicBool,
    changed: Condvar,
    /// Too much has piled up: the connection must be ended.
    pub overflowed: AtomicBool,
    ended: AtomicBool,
}

#[derive(Default)]
struct Lying {
    bytes: Vec<u8>,
    /// Bytes that were taken and are being sent.
    leaving: usize,
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let held = self.held.lock();
        self.memory.release(&self.client, (held.bytes.len() + held.leaving) as u64);
    }
}

impl Outbox {
    /// An empty one; what lies in it is charged to the connection.
    pub fn new(client: &Arc<Client>, memory: &Arc<Memory>) -> Arc<Outbox> {
        Arc::new(Outbox {
            client: Arc::clone(client),
            memory: Arc::clone(memory),
            held: Mutex::default(),
            resp3: AtomicBool::new(false),
            changed: Condvar::new(),
            overflowed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        })
    }

    /// Puts bytes at the end.
    pub fn put(&self, bytes: &[u8]) {
        let mut held = self.held.lock();
        if held.bytes.len() + held.leaving + bytes.len() > OUTBOX_BYTES {
            self.overflowed.store(true, Ordering::Release);
        } else {
            held.bytes.extend_from_slice(bytes);
            self.memory.add(&self.client, bytes.len() as u64);
            self.client.buffers.messages.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        drop(held);
        self.changed.notify_all();
    }

    /// Takes its content, to be sent.
    pub fn take(&self) -> Vec<u8> {
        let mut held = self.held.lock();
        held.leaving += held.bytes.len();
        std::mem::take(&mut held.bytes)
    }

    /// This many of the taken bytes have been sent.
    pub fn sent(&self, bytes: usize) {
        self.held.lock().leaving -= bytes;
        self.memory.release(&self.client, bytes as u64);
        self.client.buffers.messages.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Waits until something lies in it; false when it is empty and the connection has ended.
    /// Suspends.
    pub fn wait(&self) -> bool {
        let mut held = self.held.lock();
        loop {
            if !held.bytes.is_empty() || self.overflowed.load(Ordering::Acquire) {
                return true;
            }
            if self.ended.load(Ordering::Acquire) {
                return false;
            }
            held = self.changed.wait(held);
        }
    }

    /// The connection has ended.
    pub fn end(&self) {
        let held = self.held.lock();
        self.ended.store(true, Ordering::Release);
        drop(held);
        self.changed.notify_all();
    }

    fn message(&self, parts: &[&[u8]]) {
        let mut reply = Reply::new();
        reply.resp3 = self.resp3.load(Ordering::Relaxed);
        reply.push(parts.len());
        parts.iter().for_each(|part| reply.bulk(part));
        self.put(reply.bytes());
    }
}

type Listeners = BTreeMap<u64, Arc<Outbox>>;

#[derive(Default)]
struct Registry {
    channels: BTreeMap<Vec<u8>, Listeners>,
    patterns: BTreeMap<Vec<u8>, Listeners>,
}

/// Channels and patterns with their subscribers.
#[derive(Default)]
pub struct Channels {
    registry: Mutex<Registry>,
    /// Names and patterns with listeners.
    listened: AtomicUsize,
}

impl Channels {
    fn with<R>(&self, f: impl FnOnce(&mut Registry) -> R) -> R {
        let mut registry = self.registry.lock();
        let result = f(&mut registry);
        self.listened.store(registry.channels.len() + registry.patterns.len(), Ordering::SeqCst);
        result
    }

    /// Subscribes `outbox` to a channel, or to all that match a pattern. `confirmation` is put into
    /// it before any message can be.
    pub fn subscribe(
        &self,
        name: &[u8],
        is_pattern: bool,
        outbox: &Arc<Outbox>,
        confirmation: &[u8],
    ) {
        self.with(|registry| {
            outbox.put(confirmation);
            let map = if is_pattern { &mut registry.patterns } else { &mut registry.channels };
            map.entry(name.to_vec()).or_default().insert(outbox.client.id, Arc::clone(outbox));
        });
    }

    /// Unsubscribes the connection `id`. `confirmation` goes into `outbox`.
    pub fn unsubscribe(&self, name: &[u8], is_pattern: bool, outbox: &Outbox, confirmation: &[u8]) {
        self.with(|registry| {
            outbox.put(confirmation);
            let map = if is_pattern { &mut registry.patterns } else { &mut registry.channels };
            if let Some(listeners) = map.get_mut(name) {
                listeners.remove(&outbox.client.id);
                if listeners.is_empty() {
                    map.remove(name);
                }
            }
        });
    }

    /// Sends a message; returns how many got it.
    pub fn publish(&self, channel: &[u8], message: &[u8]) -> usize {
        if self.listened.load(Ordering::SeqCst) == 0 {
            return 0;
        }
        let registry = self.registry.lock();
        let mut reached = 0;
        for outbox in registry.channels.get(channel).into_iter().flat_map(BTreeMap::values) {
            outbox.message(&[b"message", channel, message]);
            reached += 1;
        }
        for (pattern, listeners) in &registry.patterns {
            if glob::matches(pattern, channel) {
                for outbox in listeners.values() {
                    outbox.message(&[b"pmessage", pattern, channel, message]);
                    reached += 1;
                }
            }
        }
        reached
    }

    /// Channels with listeners that match the pattern.
    pub fn names(&self, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
        let registry = self.registry.lock();
        let fits = |name: &&Vec<u8>| pattern.is_none_or(|pattern| glob::matches(pattern, name));
        registry.channels.keys().filter(fits).cloned().collect()
    }

    /// Listeners of a channel, patterns not counted.
    pub fn listeners(&self, channel: &[u8]) -> usize {
        self.registry.lock().channels.get(channel).map_or(0, BTreeMap::len)
    }

    /// Visits each name, whether it is a pattern, and its listeners. Does not suspend for long.
    pub fn for_each(&self, mut visit: impl FnMut(&[u8], bool, &Client)) {
        let registry = self.registry.lock();
        for (map, is_pattern) in [(&registry.channels, false), (&registry.patterns, true)] {
            for (name, listeners) in map {
                listeners.values().for_each(|outbox| visit(name, is_pattern, &outbox.client));
            }
        }
    }

    /// Channels with listeners.
    pub fn count(&self) -> usize {
        self.registry.lock().channels.len()
    }

    /// Patterns with listeners.
    pub fn patterns(&self) -> usize {
        self.registry.lock().patterns.len()
    }
}
