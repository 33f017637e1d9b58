//! Settings that are read with every command or wait, as numbers.
//!
//! [`super::Shared::settings_changed`] parses them from the texts before CONFIG SET replies.
//!
//! Thread safety: atomics; each is exact by itself.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::config::Config;

/// See the module's head.
#[derive(Default)]
pub struct Hot {
    /// `appendfsync always`.
    pub syncs_always: AtomicBool,
    /// `timeout`; 0 for none.
    pub silence_seconds: AtomicU64,
    /// `request-timeout`; 0 for none.
    pub request_seconds: AtomicU64,
    /// `auth-timeout`.
    pub auth_seconds: AtomicU64,
    /// `proto-max-bulk-len`.
    pub bulk_bytes: AtomicUsize,
    /// `maxmemory-clients`; the largest number for none.
    pub clients_bytes: AtomicUsize,
}

impl Hot {
    /// Takes over all of them.
    pub fn take_over(&self, config: &Config) {
        let relaxed = Ordering::Relaxed;
        self.syncs_always.store(config.get("appendfsync") == "always", Ordering::Release);
        self.silence_seconds.store(config.number("timeout"), relaxed);
        self.request_seconds.store(config.number("request-timeout"), relaxed);
        self.auth_seconds.store(config.number("auth-timeout"), relaxed);
        self.bulk_bytes.store(config.number("proto-max-bulk-len") as usize, relaxed);
        let clients = match config.memory("maxmemory-clients") {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        self.clients_bytes.store(clients, relaxed);
    }
}
