//! hash (being written).
