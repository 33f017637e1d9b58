//! Access control: users, their permissions, refusals.
//!
//! | file | what |
//! |---|---|
//! | `catalog` | commands and categories as rules see them |
//! | `selector` | commands, keys and channels that are allowed together |
//! | `user` | a user: passwords and selectors |
//! | `log` | refused commands and logins |
//! | `failures` | limits on failed authentications by address |
//!
//! There is always a user `default`: a connection's user before it authenticates. A connection
//! holds its user; changed rules apply to its next command, which costs one load for a user that
//! may do everything.
//!
//! Thread safety: [`Acl`] may be shared. Invariant: a user removed from the list is marked as gone
//! before its connections are searched for, and a connection checks whether its user is gone after
//! taking it: no connection keeps a deleted user.

pub mod catalog;
pub mod failures;
pub mod log;
pub mod selector;
pub mod user;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pumice_port::sync::Mutex;

use super::config::Config;
use user::{Rules, User};

/// The user of a connection that has not authenticated.
pub const DEFAULT: &[u8] = b"default";

/// See the module's head.
pub struct Acl {
    users: Mutex<BTreeMap<Vec<u8>, Arc<User>>>,
    default: Arc<User>,
    /// What was refused.
    pub log: log::Log,
    /// A client that failed to authenticate.
    pub failures: failures::Failures,
    /// New users may listen to all channels.
    all_channels: AtomicBool,
}

impl Default for Acl {
    fn default() -> Acl {
        let default = Arc::new(User::new(DEFAULT, Rules::unlimited()));
        let users = BTreeMap::from([(DEFAULT.to_vec(), Arc::clone(&default))]);
        Acl {
            users: Mutex::new(users),
            default,
            log: log::Log::default(),
            failures: failures::Failures::default(),
            all_channels: AtomicBool::new(false),
        }
    }
}

impl Acl {
    /// Applies the settings, except the password.
    pub fn take_over(&self, config: &Config) {
        self.log.set_most(config.number("acllog-max-len"));
        self.failures.set_per_minute(config.number("auth-failures"));
        let all = config.get("acl-pubsub-default") == "allchannels";
        self.all_channels.store(all, Ordering::Relaxed);
    }

    /// What a new user may do with channels.
    pub fn all_channels(&self) -> bool {
        self.all_channels.load(Ordering::Relaxed)
    }

    /// `requirepass`: the only password of `default`.
    pub fn set_default_password(&self, password: &[u8]) {
        let _one_after_the_other = self.users.lock();
        let mut rules = Rules::clone(&self.default.rules());
        rules.set_only_password(password);
        self.default.set_rules(rules);
    }

    /// The user of a connection that has not authenticated.
    pub fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    /// New connections are `default` without authenticating.
    pub fn is_open(&self) -> bool {
        let rules = self.default.rules();
        rules.is_on && rules.needs_no_password
    }

    /// A user by its name.
    pub fn find(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users.lock().get(name).cloned()
    }

    /// The user with this name and password. Takes as long whether or not there is such a user.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let hash = user::hash_of(password);
        self.find(name).filter(|user| user.rules().accepts(&hash))
    }

    /// All users, by their names.
    pub fn users(&self) -> Vec<Arc<User>> {
        self.users.lock().values().cloned().collect()
    }

    /// Creates or changes a user: `change` derives its new rules from the old ones.
    ///
    /// # Errors
    /// The errors of `change`; then nothing has changed.
    pub fn set_user<E>(
        &self,
        name: &[u8],
        change: impl FnOnce(&mut Rules) -> Result<(), E>,
    ) -> Result<Arc<User>, E> {
        let mut users = self.users.lock();
        let known = users.get(name).cloned();
        let mut rules = match &known {
            Some(user) => Rules::clone(&user.rules()),
            None => Rules::new(self.all_channels()),
        };
        change(&mut rules)?;
        Ok(match known {
            Some(user) => {
                user.set_rules(rules);
                user
            }
            None => {
                let user = Arc::new(User::new(name, rules));
                users.insert(name.to_vec(), Arc::clone(&user));
                user
            }
        })
    }

    /// Deletes a user other than `default`; returns it.
    pub fn delete_user(&self, name: &[u8]) -> Option<Arc<User>> {
        debug_assert!(name != DEFAULT, "the default user cannot be deleted");
        let user = self.users.lock().remove(name)?;
        user.leave();
        Some(user)
    }

    /// Replaces all users; returns those that are gone or have other rules now. `default` stays,
    /// with other rules if it is named.
    pub fn replace(&self, mut all: BTreeMap<Vec<u8>, Rules>) -> Vec<Arc<User>> {
        let mut users = self.users.lock();
        if let Some(rules) = all.remove(DEFAULT) {
            self.default.set_rules(rules);
        }
        let (mut kept, mut gone) = (BTreeMap::new(), Vec::new());
        for (name, user) in std::mem::take(&mut *users) {
            let is_same = all.get(&name).is_some_and(|rules| *rules == *user.rules());
            if is_same || name == DEFAULT {
                all.remove(&name);
                kept.insert(name, user);
            } else {
                user.leave();
                gone.push(user);
            }
        }
        for (name, rules) in all {
            let user = Arc::new(User::new(&name, rules));
            kept.insert(name, user);
        }
        *users = kept;
        gone
    }
}
