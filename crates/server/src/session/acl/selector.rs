//! One set of permissions: commands, keys and channels that go together.
//!
//! The rules about commands are also kept as text, in order and without those that no longer have
//! an effect, so that they read back as they were written.
//!
//! Invariant: replaying the rules on the empty or the full set gives the commands.
//!
//! Thread safety: plain values.

use std::collections::BTreeMap;

use super::catalog::{Bits, CATEGORIES, Catalog};
use crate::keyspace::glob;

/// Reading a key.
pub const READ: u8 = 1;
/// Changing a key.
pub const WRITE: u8 = 2;
/// Both.
pub const BOTH: u8 = READ | WRITE;

/// What is wrong with a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRule {
    /// No such command or category.
    Unknown,
    /// The word is not a rule.
    Syntax,
    /// A pattern after `allkeys`.
    KeysAfterAll,
    /// A pattern after `allchannels`.
    ChannelsAfterAll,
    /// The password to be removed is not there.
    NoSuchPassword,
    /// No hash.
    BadHash,
    /// A first argument of a subcommand.
    FirstOfSubcommand,
}

impl BadRule {
    /// In Redis's words.
    pub fn text(self) -> &'static str {
        match self {
            BadRule::Unknown => "Unknown command or category name in ACL",
            BadRule::Syntax => "Syntax error",
            BadRule::KeysAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and \
                 does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            BadRule::ChannelsAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and \
                 does not have any effect. Try 'resetchannels' to start with an empty list of \
                 channels"
            }
            BadRule::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            BadRule::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase \
                 hexadecimal characters"
            }
            BadRule::FirstOfSubcommand => "Allowing first-arg of a subcommand is not supported",
        }
    }
}

/// What a rule about commands names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Category(&'static str),
    Command(u16),
}

/// A rule about commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    allows: bool,
    named: Named,
}

/// Why a selector does not allow a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    /// The command itself.
    Command,
    /// The key of this index.
    Key(usize),
    /// The channel of this index.
    Channel(usize),
}

/// The permissions that a command needs.
#[derive(Clone, Debug, Default)]
pub struct Asked<'a> {
    /// The command's number.
    pub id: u16,
    /// Every user may run it.
    pub is_free: bool,
    /// The command's first argument.
    pub first: Option<&'a [u8]>,
    /// The command's keys, and what it does with them.
    pub keys: Vec<(&'a [u8], u8)>,
    /// The command's channels.
    pub channels: Vec<&'a [u8]>,
    /// The channels are patterns.
    pub are_patterns: bool,
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    may: Bits,
    /// The rules begin with the full set.
    from_all: bool,
    words: Vec<Word>,
    /// Commands that are allowed with these first arguments only, in lower case.
    firsts: BTreeMap<u16, Vec<Vec<u8>>>,
    all_keys: bool,
    keys: Vec<(Vec<u8>, u8)>,
    all_channels: bool,
    channels: Vec<Vec<u8>>,
}

fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|b| b.is_ascii_whitespace() || *b == 0 || *b == 0x0b)
}

impl Selector {
    /// Allows nothing, or only all channels if the flag is set.
    pub fn new(all_channels: bool) -> Selector {
        Selector {
            may: Bits::NONE,
            from_all: false,
            words: Vec::new(),
            firsts: BTreeMap::new(),
            all_keys: false,
            keys: Vec::new(),
            all_channels,
            channels: Vec::new(),
        }
    }

    /// Everything is allowed.
    pub fn unlimited() -> Selector {
        let none = Selector::new(true);
        Selector { may: Bits::ALL, from_all: true, all_keys: true, ..none }
    }

    /// Nothing is refused.
    pub fn is_unlimited(&self) -> bool {
        self.may == Bits::ALL && self.all_keys && self.all_channels
    }

    /// Takes a rule.
    ///
    /// # Errors
    /// The error of the rule; nothing has changed.
    pub fn apply(&mut self, catalog: &Catalog, rule: &[u8]) -> Result<(), BadRule> {
        let lower = rule.to_ascii_lowercase();
        match lower.as_slice() {
            b"" => {}
            b"allkeys" | b"~*" => (self.all_keys, self.keys) = (true, Vec::new()),
            b"resetkeys" => (self.all_keys, self.keys) = (false, Vec::new()),
            b"allchannels" | b"&*" => (self.all_channels, self.channels) = (true, Vec::new()),
            b"resetchannels" => (self.all_channels, self.channels) = (false, Vec::new()),
            b"allcommands" | b"+@all" => self.begin(true),
            b"nocommands" | b"-@all" => self.begin(false),
            [b'~' | b'%', ..] => return self.add_keys(rule),
            [b'&', name @ ..] => {
                if self.all_channels {
                    return Err(BadRule::ChannelsAfterAll);
                }
                let name = &rule[rule.len() - name.len()..];
                if has_spaces(name) {
                    return Err(BadRule::Syntax);
                }
                if !self.channels.iter().any(|known| known == name) {
                    self.channels.push(name.to_vec());
                }
            }
            [sign @ (b'+' | b'-'), b'@', name @ ..] => {
                let category = CATEGORIES.iter().find(|known| known.as_bytes() == name);
                let named = Named::Category(category.ok_or(BadRule::Unknown)?);
                self.add_word(catalog, Word { allows: *sign == b'+', named });
            }
            [sign @ (b'+' | b'-'), name @ ..] => match catalog.id(name) {
                Some(id) => {
                    self.add_word(
                        catalog,
                        Word { allows: *sign == b'+', named: Named::Command(id) },
                    );
                }
                None if *sign == b'+' => return self.add_first(catalog, name),
                None => return Err(BadRule::Unknown),
            },
            _ => return Err(BadRule::Syntax),
        }
        Ok(())
    }

    fn begin(&mut self, with_all: bool) {
        self.may = if with_all { Bits::ALL } else { Bits::NONE };
        self.from_all = with_all;
        self.words.clear();
        self.firsts.clear();
    }

    /// `~pattern`, `%R~pattern`, `%W~pattern`, `%RW~pattern`.
    fn add_keys(&mut self, rule: &[u8]) -> Result<(), BadRule> {
        if self.all_keys {
            return Err(BadRule::KeysAfterAll);
        }
        let tilde = rule.iter().position(|&b| b == b'~').ok_or(BadRule::Syntax)?;
        let mut rights = 0;
        for letter in &rule[usize::from(rule[0] == b'%')..tilde] {
            let right = match letter.to_ascii_uppercase() {
                b'R' => READ,
                b'W' => WRITE,
                _ => return Err(BadRule::Syntax),
            };
            if rights & right != 0 {
                return Err(BadRule::Syntax);
            }
            rights |= right;
        }
        if rule[0] == b'~' {
            rights = BOTH;
        }
        let pattern = &rule[tilde + 1..];
        if rights == 0 || has_spaces(pattern) {
            return Err(BadRule::Syntax);
        }
        match self.keys.iter_mut().find(|(known, _)| known == pattern) {
            Some((_, known)) => *known |= rights,
            None => self.keys.push((pattern.to_vec(), rights)),
        }
        Ok(())
    }

    /// `+command|argument`, for a command without subcommands.
    fn add_first(&mut self, catalog: &Catalog, name: &[u8]) -> Result<(), BadRule> {
        let bar = name.iter().rposition(|&b| b == b'|').ok_or(BadRule::Unknown)?;
        let (command, argument) = (&name[..bar], &name[bar + 1..]);
        let id = catalog.id(command).ok_or(BadRule::Unknown)?;
        if catalog.entry(id).parent.is_some() {
            return Err(BadRule::FirstOfSubcommand);
        }
        if argument.is_empty() || has_spaces(argument) {
            return Err(BadRule::Syntax);
        }
        if catalog.has_subcommands(id) {
            return Err(BadRule::Unknown);
        }
        if !self.may.has(id) {
            let known = self.firsts.entry(id).or_default();
            if !known.iter().any(|known| known == argument) {
                known.push(argument.to_vec());
            }
        }
        Ok(())
    }

    /// The commands that a rule concerns.
    fn commands_of(catalog: &Catalog, named: Named) -> Vec<u16> {
        match named {
            Named::Category(name) => catalog.category(name).collect(),
            Named::Command(id) => catalog.family(id).collect(),
        }
    }

    fn add_word(&mut self, catalog: &Catalog, word: Word) {
        for id in Self::commands_of(catalog, word.named) {
            self.may.set(id, word.allows);
            self.firsts.remove(&id);
        }
        let is_superseded = |old: Named| match (old, word.named) {
            (Named::Command(old), Named::Command(id)) => {
                old == id || catalog.entry(old).parent == Some(id)
            }
            (old, new) => old == new,
        };
        self.words.retain(|old| !is_superseded(old.named));
        if self.replayed(catalog) != self.may {
            self.words.push(word);
        }
    }

    fn replayed(&self, catalog: &Catalog) -> Bits {
        let mut may = if self.from_all { Bits::ALL } else { Bits::NONE };
        for word in &self.words {
            for id in Self::commands_of(catalog, word.named) {
                may.set(id, word.allows);
            }
        }
        may
    }

    /// Whether it allows a command; the reason if not.
    pub fn check(&self, asked: &Asked<'_>) -> Result<(), Denied> {
        let is_first = || {
            let firsts = self.firsts.get(&asked.id);
            let fits = |known: &Vec<u8>| asked.first.is_some_and(|a| a.eq_ignore_ascii_case(known));
            firsts.is_some_and(|firsts| firsts.iter().any(fits))
        };
        if !asked.is_free && !self.may.has(asked.id) && !is_first() {
            return Err(Denied::Command);
        }
        let denied = asked.keys.iter().position(|(key, rights)| !self.allows_key(key, *rights));
        if let Some(at) = denied {
            return Err(Denied::Key(at));
        }
        let is_denied = |name: &&[u8]| !self.allows_channel(name, asked.are_patterns);
        asked.channels.iter().position(is_denied).map_or(Ok(()), |at| Err(Denied::Channel(at)))
    }

    fn allows_key(&self, key: &[u8], rights: u8) -> bool {
        let fits =
            |(pattern, has): &(Vec<u8>, u8)| has & rights == rights && glob::matches(pattern, key);
        self.all_keys || self.keys.iter().any(fits)
    }

    /// Subscribing to a pattern requires that very pattern.
    pub fn allows_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        let fits = |pattern: &Vec<u8>| match is_pattern {
            true => pattern == name,
            false => glob::matches(pattern, name),
        };
        self.all_channels || self.channels.iter().any(fits)
    }

    /// Whether it allows the command, and reading any key.
    pub fn reads_all_keys(&self, asked: &Asked<'_>) -> bool {
        let all = |(pattern, rights): &(Vec<u8>, u8)| pattern == b"*" && rights & READ != 0;
        self.check(asked).is_ok() && (self.all_keys || self.keys.iter().any(all))
    }

    /// The rules about commands.
    pub fn commands_text(&self, catalog: &Catalog) -> Vec<u8> {
        let mut text = if self.from_all { b"+@all".to_vec() } else { b"-@all".to_vec() };
        for word in &self.words {
            text.extend(if word.allows { b" +" } else { b" -" });
            match word.named {
                Named::Category(name) => text.extend([b"@", name.as_bytes()].concat()),
                Named::Command(id) => text.extend(catalog.entry(id).name.bytes()),
            }
        }
        for (id, firsts) in &self.firsts {
            for first in firsts {
                let name = catalog.entry(*id).name.as_bytes();
                text.extend([b" +", name, b"|", first].concat());
            }
        }
        text
    }

    /// The rules about keys.
    pub fn keys_text(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let prefix = |rights: u8| match rights {
            BOTH => &b"~"[..],
            READ => b"%R~",
            _ => b"%W~",
        };
        let each = self.keys.iter().map(|(pattern, rights)| [prefix(*rights), pattern].concat());
        each.collect::<Vec<_>>().join(&b' ')
    }

    /// The rules about channels.
    pub fn channels_text(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let each = self.channels.iter().map(|name| [b"&", &name[..]].concat());
        each.collect::<Vec<_>>().join(&b' ')
    }

    /// All rules, as they are given.
    pub fn text(&self, catalog: &Catalog) -> Vec<u8> {
        let reset = if self.all_channels { &b""[..] } else { b"resetchannels" };
        let commands = self.commands_text(catalog);
        let parts = [&self.keys_text()[..], reset, &self.channels_text(), &commands];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(&b' ')
    }
}
