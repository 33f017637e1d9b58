//! The wire: bytes in, commands out; values in, bytes out. Pure: no clock, socket, lock or file.
//!
//! | file | what |
//! |---|---|
//! | `request` | RESP arrays and inline commands, cut out of what has been received so far |
//! | `reply` | replies, in RESP2 or RESP3 |
//! | `number` | integers and floating-point numbers as Redis reads and writes them |
//! | `extended` | sums of numbers with a mantissa of 64 bits, as INCRBYFLOAT makes them |
//!
//! Thread safety: plain values.

pub mod extended;
pub mod number;
pub mod reply;
pub mod request;

pub use reply::{Meter, Reply};
#[cfg(test)]
mod tests;

pub use request::{KeysAhead, Limits, Parser, ProtocolError};
