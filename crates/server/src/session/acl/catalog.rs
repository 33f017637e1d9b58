//! The commands as rules see them: names, numbers, categories; and sets of commands.
//!
//! Thread safety: constant data and plain values.

/// Machine words of a command set: room for 512 commands.
const WORDS: usize = 8;

/// Categories that rules may name, in Redis's order. Some have no command here.
pub const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// A set of commands, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits([u64; WORDS]);

impl Bits {
    /// No command.
    pub const NONE: Bits = Bits([0; WORDS]);
    /// Every command.
    pub const ALL: Bits = Bits([u64::MAX; WORDS]);
    /// Commands that there may be.
    pub const MOST: usize = WORDS * 64;

    /// Whether command `id` is in it; ids beyond its room never are.
    pub fn has(&self, id: u16) -> bool {
        self.0.get(usize::from(id) / 64).is_some_and(|word| word >> (id % 64) & 1 == 1)
    }
    /// Adds or removes command `id`.
    pub fn set(&mut self, id: u16, is_in: bool) {
        let Some(word) = self.0.get_mut(usize::from(id) / 64) else { return };
        let bit = 1 << (id % 64);
        *word = if is_in { *word | bit } else { *word & !bit };
    }
}

/// A command or subcommand.
#[derive(Debug)]
pub struct Entry {
    /// In lower case; for a subcommand `command|sub`.
    pub name: &'static str,
    /// The number of the command that a subcommand belongs to.
    pub parent: Option<u16>,
    /// Without the `@`.
    pub categories: Vec<&'static str>,
}

/// All commands by their numbers.
#[derive(Debug)]
pub struct Catalog(Vec<Entry>);

impl Catalog {
    /// The catalog of these.
    pub fn new(entries: Vec<Entry>) -> Catalog {
        assert!(entries.len() <= Bits::MOST, "a set has room for all commands");
        Catalog(entries)
    }
    /// The number of a command; case is ignored.
    pub fn id(&self, name: &[u8]) -> Option<u16> {
        let is = |entry: &Entry| name.eq_ignore_ascii_case(entry.name.as_bytes());
        self.0.iter().position(is).map(|at| at as u16)
    }
    /// The command of a number returned by [`Catalog::id`].
    pub fn entry(&self, id: u16) -> &Entry {
        &self.0[usize::from(id)]
    }
    /// A command and its subcommands.
    pub fn family(&self, id: u16) -> impl Iterator<Item = u16> {
        let ids = 0..self.0.len() as u16;
        ids.filter(move |&at| at == id || self.entry(at).parent == Some(id))
    }
    /// The command has subcommands.
    pub fn has_subcommands(&self, id: u16) -> bool {
        self.family(id).nth(1).is_some()
    }
    /// The commands of a category, and the subcommands of those.
    pub fn category(&self, name: &str) -> impl Iterator<Item = u16> {
        let named = move |id: u16| self.entry(id).categories.contains(&name);
        (0..self.0.len() as u16)
            .filter(move |&id| named(id) || self.entry(id).parent.is_some_and(named))
    }
}
