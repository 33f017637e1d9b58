//! Files that enter, leave or are copied: directories, MANIFEST, tables, backups, full disks.

mod backup;
mod backup_faults;
mod backup_options;
mod beside;
mod checkpoint;
mod destroy;
mod direct;
mod directories;
mod exports;
mod file_checksums;
mod full_disk;
mod ingest;
mod lost_current;
mod numbers;
mod orders;
mod overlapping_files;
mod paths;
mod repair;
mod secondary;
mod single_table;
mod space_limit;
mod storage_info;
mod torn_manifest;
mod trash;
mod two_disks;
mod two_openers;
