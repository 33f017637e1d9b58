//! The public interface: handles, builders, futures, options by name, and what it refuses.

mod another_database;
mod api_traits;
mod async_api;
mod builder;
mod entrances;
mod family_names;
mod interop;
mod interop_dead;
mod interop_entities;
mod newer_options;
mod option_changes;
mod option_effects;
mod secondary_interop;
mod secondary_recycled;
mod ttl;
mod ttl_drawn;
