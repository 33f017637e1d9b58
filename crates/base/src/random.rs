//! random (being written).
