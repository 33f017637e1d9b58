//! The network server of Pumice: Redis's protocol and data types over the engine, on fibers.
//!
//! | room | what | knows |
//! |---|---|---|
//! | `protocol` | bytes in, commands out; replies | nothing |
//! | `keyspace` | data types over the engine | the engine |
//! | `session` | state of connections between commands, and state they share | the two above |
//! | `commands` | the table of commands and their handlers | the three above |
//! | `serve` | executor, connections, listeners, the end | all |
//!
//! Only `serve` touches sockets. Clocks are read in `serve` (and by TIME and SAVE); below, time is
//! passed in.
//!
//! Thread safety: see each module.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod commands;
pub mod keyspace;
pub mod protocol;
pub mod serve;
pub mod session;

pub use commands::about::page;
pub use pumice_port::fiber::IoMode;
pub use serve::Running;
pub use session::config::{Config, SETTINGS};
