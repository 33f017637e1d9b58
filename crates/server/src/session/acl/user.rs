//! A user: its passwords and permissions.
//!
//! Passwords are kept as their SHA-256, as Redis does, and compared in constant time.
//!
//! Thread safety: [`Rules`] are plain values; a [`User`] is shared.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pumice_port::sync::Mutex;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::catalog::Catalog;
use super::selector::{Asked, BadRule, Denied, Selector};

/// SHA-256 of a password.
pub type Hash = [u8; 32];

/// The hash of a stored password.
pub fn hash_of(password: &[u8]) -> Hash {
    Sha256::digest(password).into()
}

/// Bytes in lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_hash(digits: &[u8]) -> Result<Hash, BadRule> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(BadRule::BadHash),
    };
    let mut hash = [0; 32];
    if digits.len() != 2 * hash.len() {
        return Err(BadRule::BadHash);
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Ok(hash)
}

/// A user's rules at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The user may log in.
    pub is_on: bool,
    /// Any password will do.
    pub needs_no_password: bool,
    /// Kept only to be read back: there is nothing to sanitize here.
    sanitizes: Option<bool>,
    passwords: Vec<Hash>,
    root: Selector,
    selectors: Vec<Selector>,
}

impl Rules {
    /// The rules of a user that may do nothing, except listen to all channels if the flag is set.
    pub fn new(all_channels: bool) -> Rules {
        Rules {
            is_on: false,
            needs_no_password: false,
            sanitizes: None,
            passwords: Vec::new(),
            root: Selector::new(all_channels),
            selectors: Vec::new(),
        }
    }

    /// The rules of a user that may do everything, without a password.
    pub fn unlimited() -> Rules {
        let none = Rules::new(true);
        Rules { is_on: true, needs_no_password: true, root: Selector::unlimited(), ..none }
    }

    /// Makes the password the only one; an empty one means that none is needed.
    pub fn set_only_password(&mut self, password: &[u8]) {
        self.needs_no_password = password.is_empty();
        self.passwords.clear();
        self.passwords.extend((!password.is_empty()).then(|| hash_of(password)));
    }

    /// Applies a rule. `all_channels`: whether a new selector allows all channels.
    ///
    /// # Errors
    /// The error of the rule; nothing has changed.
    pub fn apply(
        &mut self,
        catalog: &Catalog,
        rule: &[u8],
        all_channels: bool,
    ) -> Result<(), BadRule> {
        match rule.to_ascii_lowercase().as_slice() {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"nopass" => (self.needs_no_password, self.passwords) = (true, Vec::new()),
            b"resetpass" => (self.needs_no_password, self.passwords) = (false, Vec::new()),
            b"sanitize-payload" => self.sanitizes = Some(true),
            b"skip-sanitize-payload" => self.sanitizes = Some(false),
            b"clearselectors" => self.selectors.clear(),
            b"reset" => *self = Rules { sanitizes: Some(true), ..Rules::new(all_channels) },
            [b'>', ..] => self.add_password(hash_of(&rule[1..])),
            [b'#', ..] => self.add_password(parse_hash(&rule[1..])?),
            [b'<', ..] => self.remove_password(hash_of(&rule[1..]))?,
            [b'!', ..] => self.remove_password(parse_hash(&rule[1..])?)?,
            [b'(', .., b')'] => {
                let mut selector = Selector::new(all_channels);
                let inside = &rule[1..rule.len() - 1];
                for rule in inside.split(u8::is_ascii_whitespace).filter(|rule| !rule.is_empty()) {
                    selector.apply(catalog, rule)?;
                }
                self.selectors.push(selector);
            }
            _ => self.root.apply(catalog, rule)?,
        }
        Ok(())
    }

    fn add_password(&mut self, hash: Hash) {
        self.needs_no_password = false;
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
    }

    fn remove_password(&mut self, hash: Hash) -> Result<(), BadRule> {
        let at = self.passwords.iter().position(|known| *known == hash);
        self.passwords.remove(at.ok_or(BadRule::NoSuchPassword)?);
        Ok(())
    }

    /// Whether a password has this hash. Takes constant time.
    pub fn accepts(&self, hash: &Hash) -> bool {
        let equal = |sum: Choice, known: &Hash| sum | known.ct_eq(hash);
        let is_known = self.passwords.iter().fold(Choice::from(0), equal);
        self.is_on && (self.needs_no_password | bool::from(is_known))
    }

    fn every(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// Whether one of its selectors allows a command; the closest miss if not.
    pub fn check(&self, asked: &Asked<'_>) -> Result<(), Denied> {
        let mut nearest = Denied::Command;
        for selector in self.every() {
            match selector.check(asked) {
                Ok(()) => return Ok(()),
                Err(denied) => nearest = nearest.max(denied),
            }
        }
        Err(nearest)
    }

    /// The user may listen there.
    pub fn allows_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        self.every().any(|selector| selector.allows_channel(name, is_pattern))
    }

    /// Whether one of its selectors allows the command, and reading any key.
    pub fn reads_all_keys(&self, asked: &Asked<'_>) -> bool {
        self.every().any(|selector| selector.reads_all_keys(asked))
    }

    /// Rules about the user itself.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        flags.extend(self.needs_no_password.then_some("nopass"));
        flags.extend(self.sanitizes.map(|yes| match yes {
            true => "sanitize-payload",
            false => "skip-sanitize-payload",
        }));
        flags
    }

    /// The hashes, in hexadecimal digits.
    pub fn passwords(&self) -> Vec<String> {
        self.passwords.iter().map(|hash| hex(hash)).collect()
    }

    /// The root selector, outside parentheses.
    pub fn root(&self) -> &Selector {
        &self.root
    }

    /// The selectors in parentheses.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// The line of an ACL file that defines the user.
    pub fn line(&self, catalog: &Catalog, name: &[u8]) -> Vec<u8> {
        let mut line = [b"user ", name].concat();
        for flag in self.flags() {
            line.extend([b" ", flag.as_bytes()].concat());
        }
        for hash in self.passwords() {
            line.extend([b" #", hash.as_bytes()].concat());
        }
        line.extend([b" ", &self.root.text(catalog)[..]].concat());
        for selector in &self.selectors {
            line.extend([b" (", &selector.text(catalog)[..], b")"].concat());
        }
        line
    }
}

/// A user as connections hold it: rules may change under them.
#[derive(Debug)]
pub struct User {
    /// Never changes.
    pub name: Vec<u8>,
    rules: Mutex<Arc<Rules>>,
    is_unlimited: AtomicBool,
    is_gone: AtomicBool,
}

impl User {
    /// A user with rules.
    pub fn new(name: &[u8], rules: Rules) -> User {
        let user = User {
            name: name.to_vec(),
            rules: Mutex::new(Arc::new(Rules::new(false))),
            is_unlimited: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
        };
        user.set_rules(rules);
        user
    }
    /// The user's rules now.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.lock())
    }
    /// Replaces its rules; they apply to the next command of every connection.
    pub fn set_rules(&self, rules: Rules) {
        let mut held = self.rules.lock();
        self.is_unlimited.store(rules.root.is_unlimited(), Ordering::Release);
        *held = Arc::new(rules);
    }
    /// The user may do everything, so nothing needs to be checked.
    #[inline]
    pub fn is_unlimited(&self) -> bool {
        self.is_unlimited.load(Ordering::Acquire)
    }
    /// The user was deleted, or replaced by one of the same name.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst)
    }
    /// From now on it is gone.
    pub fn leave(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
    }
}
