//! The server's tests: commands without sockets, against a model, and over sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_types, clippy::disallowed_methods)]

mod suite;
