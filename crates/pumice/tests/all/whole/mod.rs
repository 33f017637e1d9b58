//! The whole engine at once: against models, under faults, all operations at the same time.

mod background_errors;
mod concurrent;
mod endless;
mod faults;
mod hardship;
mod model;
mod neighbours;
mod pairs;
mod simulation;
