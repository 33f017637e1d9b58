//! The action of a connection that waits for a key: pop or move an element.
//!
//! Plain data. `commands::blocking` reads it from a command and performs it.

use crate::keyspace::encoding::Kind;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The beginning.
    Left,
    /// The end.
    Right,
}

/// The end from which elements are taken.
#[derive(Clone, Copy, Debug)]
pub enum Take {
    /// At an end of a list.
    End(End),
    /// An end of a sorted set's scores.
    Score {
        /// At the highest.
        highest: bool,
    },
}

/// What is done with a key once it has something.
#[derive(Clone, Debug)]
pub enum Op {
    /// Elements are taken; None: one, with the short reply.
    Pop(Take, Option<u64>),
    /// One element is moved to a list.
    Move {
        /// Taken here,
        from: End,
        /// put there,
        to: End,
        /// of this list.
        target: Vec<u8>,
    },
}

impl Op {
    /// The type it needs.
    pub fn kind(&self) -> Kind {
        match self {
            Op::Pop(Take::Score { .. }, _) => Kind::SortedSet,
            _ => Kind::List,
        }
    }

    /// The key it writes besides the one it takes from.
    pub fn target(&self) -> Option<&[u8]> {
        match self {
            Op::Move { target, .. } => Some(target),
            Op::Pop(..) => None,
        }
    }
}
