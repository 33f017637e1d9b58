//! histogram (being written).
