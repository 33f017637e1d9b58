//! The commands: one row each, from which everything reported about them is derived.
//!
//! A row gives name, arity, flags, key positions, ACL categories, the version of Redis that
//! introduced it, a one-line summary, what it needs of the keyspace and its handler. COMMAND and
//! its relatives, the checks before a command and docs/server_commands.md are made from the rows.
//!
//! | file | commands on |
//! |---|---|
//! | `strings`, `counters`, `lcs` | strings |
//! | `keys`, `expire`, `rename`, `scan`, `sort` | keys of any type |
//! | `blocking` | collections, waiting for elements |
//! | `hashes`, `sets`, `lists`, `sorted_sets`, `sorted_ranges`, `sorted_joins` | collections |
//! | `slow`, `latency`, `memory` | slow commands, how long commands take, memory use |
//! | `acl`, `acl_rules` | users and their permissions |
//! | `permits`, `specs` | whether a user may run a command; what commands do with their keys |
//! | `arguments`, `syntax` | the arguments of commands, and their notation |
//! | `connection`, `server`, `config`, `about`, `pubsub`, `transactions` | the server |
//! | `info`, `info_counters` | what the server reports about itself |
//!
//! Thread safety: the table is constant; handlers run on the task of their connection and suspend.

pub mod about;
mod acl;
pub mod acl_rules;
pub mod args;
mod arguments;
pub mod blocking;
mod config;
mod connection;
mod counters;
mod expire;
mod hashes;
mod info;
mod info_counters;
mod keys;
mod latency;
mod lcs;
mod lists;
pub mod memory;
pub mod permits;
mod pubsub;
mod rename;
mod scan;
mod server;
mod sets;
mod slow;
mod sort;
mod sorted_joins;
mod sorted_ranges;
mod sorted_sets;
mod specs;
mod strings;
mod syntax;
mod transactions;

use std::sync::OnceLock;

use crate::keyspace::Outcome;
use crate::keyspace::txn::Txn;
use crate::protocol::Reply;
use crate::session::acl::catalog::{Catalog, Entry};
use crate::session::{Session, Shared};

/// A command that is being executed.
pub struct Call<'a, 'k> {
    /// The command's name and arguments, as received.
    pub args: &'a [&'a [u8]],
    /// The command's reads and writes.
    pub txn: &'a mut Txn<'k>,
    /// Where the reply goes.
    pub out: &'a mut Reply,
    /// The calling client.
    pub session: &'a mut Session,
    /// Everything that is shared.
    pub shared: &'a Shared,
    /// The command is part of a transaction: it may not block.
    pub in_exec: bool,
}

/// Carries a command out.
pub type Handler = fn(&mut Call<'_, '_>) -> Outcome<()>;

/// Changes data.
pub const WRITE: u32 = 1;
/// Only reads data.
pub const READONLY: u32 = 1 << 1;
/// May need more memory.
pub const DENYOOM: u32 = 1 << 2;
/// For administrators.
pub const ADMIN: u32 = 1 << 3;
/// About channels.
pub const PUBSUB: u32 = 1 << 4;
/// Not for scripts.
pub const NOSCRIPT: u32 = 1 << 5;
/// May wait for others.
pub const BLOCKING: u32 = 1 << 6;
/// Allowed while data is loaded.
pub const LOADING: u32 = 1 << 7;
/// Allowed on a replica that is behind.
pub const STALE: u32 = 1 << 8;
/// Left out of the slow log.
pub const SKIP_SLOWLOG: u32 = 1 << 9;
/// Takes constant or logarithmic time.
pub const FAST: u32 = 1 << 10;
/// Allowed before authentication.
pub const NO_AUTH: u32 = 1 << 11;
/// Allowed while a script runs.
pub const ALLOW_BUSY: u32 = 1 << 12;
/// The positions of keys depend on the arguments.
pub const MOVABLEKEYS: u32 = 1 << 13;
/// Not in transactions.
pub const NO_MULTI: u32 = 1 << 14;
/// Not while data is loaded in the background.
pub const NO_ASYNC_LOADING: u32 = 1 << 15;

/// The names of the flags in COMMAND, in its order.
const FLAG_NAMES: &[(u32, &str)] = &[
    (WRITE, "write"),
    (READONLY, "readonly"),
    (DENYOOM, "denyoom"),
    (ADMIN, "admin"),
    (PUBSUB, "pubsub"),
    (NOSCRIPT, "noscript"),
    (BLOCKING, "blocking"),
    (LOADING, "loading"),
    (STALE, "stale"),
    (SKIP_SLOWLOG, "skip_slowlog"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (ALLOW_BUSY, "allow_busy"),
    (MOVABLEKEYS, "movablekeys"),
    (NO_MULTI, "no_multi"),
    (NO_ASYNC_LOADING, "no_async_loading"),
];

/// Category `@dangerous` in addition to those that group and flags imply.
const DANGEROUS: &str = "dangerous";

/// Where a command's keys are among its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// The command has no keys.
    None,
    /// From `first` to `last` (negative: from the end) in steps.
    Range(i32, i32, i32),
    /// The number of keys is argument `at`, and they follow; if `dest`, argument 1 is a key too.
    Counted {
        /// Index of the number.
        at: usize,
        /// The first key is a destination.
        dest: bool,
    },
    /// Argument 1, and the key that STORE names.
    Sort,
}

/// What a command needs of the keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing, or one read.
    Glance,
    /// One consistent state for several reads.
    View,
    /// To write its keys.
    Write,
    /// Writing its keys, and reading others from one consistent state.
    WriteOneMoment,
    /// To write any key.
    WriteAll,
}

/// A command. See the module's head.
#[derive(Clone, Copy)]
pub struct Row {
    /// In lower case; for a subcommand the word itself.
    pub name: &'static str,
    /// Number of words; negative: at least that many.
    pub arity: i32,
    /// Flags.
    pub flags: u32,
    /// Where the keys are.
    pub keys: Keys,
    /// As in Redis's documentation.
    pub group: &'static str,
    /// ACL categories that neither group nor flags imply.
    pub categories: &'static [&'static str],
    /// The version of Redis that introduced it.
    pub since: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// What it needs.
    pub access: Access,
    /// With exactly this many words it sets its key to the string that is its last word, whatever
    /// was there, and replies OK; 0 if it has no such form. Commands in that form that follow each
    /// other are executed as one batch (`serve/set_run.rs`).
    pub plain_words: usize,
    /// The handler.
    pub run: Handler,
    /// The subcommands.
    pub subcommands: &'static [Row],
    /// The command's number among all commands and subcommands. This and the fields below are
    /// filled in by [`all`].
    pub id: u16,
    /// For a subcommand `command|sub`, else the name.
    pub full_name: &'static str,
    /// What it does with its first key, and with the others.
    pub uses: [u16; 2],
}

impl Row {
    /// A row without keys.
    const fn new(
        group: &'static str,
        name: &'static str,
        arity: i32,
        flags: u32,
        since: &'static str,
        summary: &'static str,
        run: Handler,
    ) -> Row {
        let access = match (flags & WRITE != 0, flags & FAST != 0) {
            (true, _) => Access::Write,
            (false, true) => Access::Glance,
            (false, false) => Access::View,
        };
        Row {
            name,
            arity,
            flags,
            keys: Keys::None,
            group,
            categories: &[],
            since,
            summary,
            access,
            plain_words: 0,
            run,
            subcommands: &[],
            id: u16::MAX,
            full_name: name,
            uses: [0; 2],
        }
    }
    const fn keys(self, first: i32, last: i32, step: i32) -> Row {
        Row { keys: Keys::Range(first, last, step), ..self }
    }
    /// Argument 1 is the key.
    const fn key(self) -> Row {
        self.keys(1, 1, 1)
    }
    const fn counted(self, at: usize, dest: bool) -> Row {
        let flags = self.flags | MOVABLEKEYS;
        Row { keys: Keys::Counted { at, dest }, flags, ..self }
    }
    const fn categories(self, categories: &'static [&'static str]) -> Row {
        Row { categories, ..self }
    }
    const fn access(self, access: Access) -> Row {
        Row { access, ..self }
    }
    const fn plain(self, plain_words: usize) -> Row {
        Row { plain_words, ..self }
    }
    const fn subcommands(self, subcommands: &'static [Row]) -> Row {
        Row { subcommands, ..self }
    }

    /// Whether the command accepts this many words.
    pub fn takes(&self, words: usize) -> bool {
        let words = words as i64;
        let arity = i64::from(self.arity);
        if arity >= 0 { words == arity } else { words >= -arity }
    }

    /// Key and string of a command in the form of [`Row::plain_words`].
    pub fn plain_pair<'a>(&self, args: &[&'a [u8]]) -> Option<(&'a [u8], &'a [u8])> {
        match args {
            [_, key, .., value] if args.len() == self.plain_words => Some((key, value)),
            _ => None,
        }
    }

    /// Whether the command has this flag.
    pub fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// First key, last key and step, as COMMAND reports them.
    pub fn key_positions(&self) -> (i32, i32, i32) {
        match self.keys {
            Keys::Range(first, last, step) => (first, last, step),
            Keys::Counted { dest: true, .. } | Keys::Sort => (1, 1, 1),
            Keys::Counted { .. } | Keys::None => (0, 0, 0),
        }
    }

    /// The keys among `args`. Invalid arguments have none.
    pub fn keys_of<'a>(&self, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
        let mut keys = Vec::new();
        match self.keys {
            Keys::None => {}
            Keys::Range(first, last, step) => {
                let last = if last < 0 { args.len() as i32 + last } else { last };
                let each = (first..=last).step_by(step.max(1) as usize);
                keys.extend(each.filter_map(|at| args.get(at as usize).copied()));
            }
            Keys::Sort => {
                keys.extend(args.get(1).copied());
                keys.extend(sort::stored_key(args));
            }
            Keys::Counted { at, dest } => {
                keys.extend(args.get(1).copied().filter(|_| dest));
                keys.extend(args.iter().skip(at + 1).take(count_at(args, at)).copied());
            }
        }
        keys
    }

    /// The number of keys, if `args` has to contain one, is valid and not zero, and that many
    /// arguments follow it.
    pub fn counts_well(&self, args: &[&[u8]]) -> bool {
        match self.keys {
            Keys::Counted { at, .. } => {
                (1..args.len().saturating_sub(at)).contains(&count_at(args, at))
            }
            _ => true,
        }
    }

    /// Names of the flags.
    pub fn flag_names(&self) -> Vec<&'static str> {
        FLAG_NAMES.iter().filter(|(flag, _)| self.is(*flag)).map(|(_, name)| *name).collect()
    }

    /// ACL categories, without the `@`.
    pub fn category_names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        let implied = [
            (WRITE, "write"),
            (READONLY, "read"),
            (ADMIN, "admin"),
            (ADMIN, DANGEROUS),
            (PUBSUB, "pubsub"),
            (FAST, "fast"),
            (BLOCKING, "blocking"),
        ];
        names.extend(implied.iter().filter(|(flag, _)| self.is(*flag)).map(|(_, name)| *name));
        names.extend((!self.is(FAST)).then_some("slow"));
        let of_group = match self.group {
            "string" => Some("string"),
            "hash" => Some("hash"),
            "set" => Some("set"),
            "list" => Some("list"),
            "sorted-set" => Some("sortedset"),
            "connection" => Some("connection"),
            "transactions" => Some("transaction"),
            "generic" if !self.is(MOVABLEKEYS) => Some("keyspace"),
            _ => None,
        };
        names.extend(of_group.filter(|_| !self.has_subcommands()));
        names.extend(self.categories);
        names.sort_unstable();
        names.dedup();
        names
    }

    fn has_subcommands(&self) -> bool {
        !self.subcommands.is_empty()
    }
}

/// The number of keys that an argument gives; 0 if it is not a number.
fn count_at(args: &[&[u8]], at: usize) -> usize {
    let count = args.get(at).and_then(|n| crate::protocol::number::integer(n));
    count.and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
}

/// All groups of rows.
const GROUPS: &[&[Row]] = &[
    strings::ROWS,
    counters::ROWS,
    lcs::ROWS,
    keys::ROWS,
    expire::ROWS,
    rename::ROWS,
    scan::ROWS,
    sort::ROWS,
    hashes::ROWS,
    sets::ROWS,
    lists::ROWS,
    blocking::ROWS,
    sorted_sets::ROWS,
    sorted_ranges::ROWS,
    sorted_joins::ROWS,
    pubsub::ROWS,
    connection::ROWS,
    acl::ROWS,
    server::ROWS,
    slow::ROWS,
    latency::ROWS,
    memory::ROWS,
    config::ROWS,
    info::ROWS,
    about::ROWS,
    transactions::ROWS,
];

/// All rows, by name.
pub fn all() -> &'static [Row] {
    static ALL: OnceLock<Vec<Row>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut rows: Vec<Row> = GROUPS.iter().flat_map(|rows| rows.iter().copied()).collect();
        rows.sort_by_key(|row| row.name);
        let mut next = 0;
        let mut complete = |row: &mut Row, parent: Option<&str>| {
            row.id = next;
            next += 1;
            if let Some(parent) = parent {
                // Runs once per process.
                row.full_name = format!("{parent}|{}", row.name).leak();
            }
            row.uses = specs::uses_of(row);
        };
        for row in &mut rows {
            complete(row, None);
            let mut subcommands = row.subcommands.to_vec();
            subcommands.iter_mut().for_each(|sub| complete(sub, Some(row.name)));
            row.subcommands = subcommands.leak();
        }
        rows
    })
}

/// The commands as rules of users see them; numbers are those of the rows.
pub fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| {
        let entry = |row: &Row, parent: Option<&Row>| Entry {
            name: row.full_name,
            parent: parent.map(|parent| parent.id),
            categories: row.category_names(),
        };
        let family = |row: &'static Row| {
            let subs = row.subcommands.iter().map(move |sub| entry(sub, Some(row)));
            std::iter::once(entry(row, None)).chain(subs)
        };
        Catalog::new(all().iter().flat_map(family).collect())
    })
}

/// Hash table of the rows by name; a power of two, several times the rows.
const PLACES: usize = 2048;
/// No command's name is longer.
const NAME_BYTES: usize = 24;

fn place_of(lower: &[u8]) -> usize {
    let mix = |hash: usize, &b: &u8| (hash ^ usize::from(b)).wrapping_mul(0x0100_0193);
    let hash = lower.iter().fold(0x811c_9dc5, mix);
    (hash ^ hash >> 15) % PLACES
}

/// The row of a command; case is ignored.
pub fn find(name: &[u8]) -> Option<&'static Row> {
    static TABLE: OnceLock<Vec<Option<&'static Row>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table = vec![None; PLACES];
        for row in all() {
            let mut at = place_of(row.name.as_bytes());
            while table[at].is_some() {
                at = (at + 1) % PLACES;
            }
            table[at] = Some(row);
        }
        table
    });
    let mut lower = [0; NAME_BYTES];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let mut at = place_of(lower);
    while let Some(row) = table[at] {
        if row.name.as_bytes() == lower {
            return Some(row);
        }
        at = (at + 1) % PLACES;
    }
    None
}

/// The row of a subcommand.
pub fn subcommand(row: &Row, word: &[u8]) -> Option<&'static Row> {
    row.subcommands.iter().find(|sub| word.eq_ignore_ascii_case(sub.name.as_bytes()))
}
