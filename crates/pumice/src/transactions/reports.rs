//! Who holds, waits and has waited in vain, as text: properties of a database whose transactions
//! lock keys.
//!
//! | name | a line |
//! |---|---|
//! | `pumice.held-locks` | a locked key: its column family, the key in hex, how, by whom |
//! | `pumice.waiting-transactions` | a wait: who, for which key, how, for whom |
//! | `pumice.deadlocks` | a wait of a deadlock; an empty line before each further deadlock |
//!
//! Only waits that search for deadlocks are known. Thread safety: from any task; the texts are of
//! no single moment.

use std::fmt::Write;

use crate::locks::{HeldLock, Wait};
use crate::transactions::pessimistic::TransactionDb;

impl TransactionDb {
    /// A property: `pumice.held-locks`, `pumice.waiting-transactions` and `pumice.deadlocks` are
    /// texts, a line for each; every other is that of [`Db::property`](crate::Db::property).
    pub fn property(&self, name: &str) -> Option<String> {
        match name {
            "pumice.held-locks" => Some(self.held_locks().iter().map(held).collect()),
            "pumice.waiting-transactions" => Some(self.waiting().iter().map(wait).collect()),
            "pumice.deadlocks" => {
                let path = |path: crate::DeadlockPath| match path.limit_exceeded {
                    true => format!("time={} limit exceeded\n", path.time_seconds),
                    false => path
                        .waits
                        .iter()
                        .map(|one| format!("time={} {}", path.time_seconds, wait(one)))
                        .collect(),
                };
                let paths: Vec<String> = self.deadlocks().into_iter().map(path).collect();
                Some(paths.join("\n"))
            }
            name => self.db().property(name),
        }
    }
}

fn held(lock: &HeldLock) -> String {
    let keys = (&lock.key[..], lock.end.as_deref());
    line(lock.column_family, keys, lock.exclusive, "holders", &lock.holders)
}

fn wait(wait: &Wait) -> String {
    let keys = (&wait.key[..], wait.end.as_deref());
    let for_whom = line(wait.column_family, keys, wait.exclusive, "waits_for", &wait.holders);
    format!("transaction={} {for_whom}", wait.id)
}

fn line(
    family: u32,
    (key, end): (&[u8], Option<&[u8]>),
    exclusive: bool,
    whose: &str,
    ids: &[u64],
) -> String {
    let how = if exclusive { "exclusive" } else { "shared" };
    let mut text = format!("column_family={family} key={}", hex(key));
    if let Some(end) = end {
        text += &format!(" end={}", hex(end));
    }
    let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
    text + &format!(" {how} {whose}={}\n", ids.join(","))
}

fn hex(key: &[u8]) -> String {
    let mut text = String::new();
    for byte in key {
        let written = write!(text, "{byte:02x}");
        debug_assert!(written.is_ok(), "a string takes all");
    }
    text
}
