//! Recoveries beside RocksDB 11.8.1's, whose library shares a process with no other RocksDB.

mod best_efforts;
mod drawn;
mod temperatures;
