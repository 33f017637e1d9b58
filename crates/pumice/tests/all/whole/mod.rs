//! The whole engine at once: against models, under faults, everything beside everything.

mod background_errors;
mod concurrent;
mod endless;
mod faults;
mod hardship;
mod model;
mod pairs;
mod simulation;
