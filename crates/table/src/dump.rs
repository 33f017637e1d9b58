//! The texts that `sst_dump` prints.
