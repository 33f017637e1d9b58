/* What a short scan costs: a new iterator, a seek to a prefix, 50 entries with key and value. Built
 * with the header of the C library and linked with either library:
 *
 *   cargo xtask capi
 *   cc -O2 -I target/capi/include/rocksdb crates/capi/benches/c/scans.c -o scans \
 *      target/capi/lib/librocksdb.so
 *   LD_LIBRARY_PATH=target/capi/lib ./scans FOLDER SCANS PUTS [CACHE_MB]
 *
 * FOLDER does not exist. It gets 4,000 prefixes of 50 entries, of which every fiftieth is then put
 * again, PUTS times in all. They stay in the memtable; with CACHE_MB they are flushed, and read
 * through a block cache of so many megabytes. Prints the processor time of a scan.
 *
 * Instructions of a scan, and of a put: the difference of two runs under
 * `valgrind --tool=callgrind`, for another number of scans, and of puts.
 *
 * What is read is checked: a wrong count ends the program. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "c.h"

enum { PREFIXES = 4000, ENTRIES = 50, PREFIX = 10, KEY = 18, VALUE = 103 };

static char* err = NULL;
static char key[KEY];

static void check(const char* what) {
  if (err == NULL) return;
  fprintf(stderr, "%s: %s\n", what, err);
  exit(1);
}

static void put_fixed64(char* at, uint64_t number) {
  for (int i = 0; i < 8; i++) at[i] = (char)(number >> (56 - 8 * i));
}

/* As Flink's keys of a map: key group, key, namespace, key of the map. */
static void make_key(uint64_t prefix, uint64_t entry) {
  uint64_t mixed = (prefix + 1) * 0x9e3779b97f4a7c15ULL;
  key[0] = (char)(mixed & 1);
  put_fixed64(key + 1, mixed ^ (mixed >> 29));
  key[9] = 0;
  put_fixed64(key + PREFIX, entry);
}

static double processor_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void scan(rocksdb_t* db, rocksdb_readoptions_t* options, uint64_t prefix) {
  make_key(prefix, 0);
  rocksdb_iterator_t* iterator = rocksdb_create_iterator(db, options);
  int found = 0;
  for (rocksdb_iter_seek(iterator, key, PREFIX); rocksdb_iter_valid(iterator);
       rocksdb_iter_next(iterator)) {
    size_t key_length, value_length;
    const char* at = rocksdb_iter_key(iterator, &key_length);
    if (key_length != KEY || memcmp(at, key, PREFIX) != 0) break;
    found += rocksdb_iter_value(iterator, &value_length)[0] == 'v' && value_length == VALUE;
  }
  rocksdb_iter_get_error(iterator, &err);
  check("scan");
  rocksdb_iter_destroy(iterator);
  if (found == ENTRIES) return;
  fprintf(stderr, "wrong: %d entries\n", found);
  exit(1);
}

int main(int count, char** words) {
  if (count < 4) {
    fprintf(stderr, "usage: scans FOLDER SCANS PUTS [CACHE_MB]\n");
    return 2;
  }
  uint64_t scans = strtoull(words[2], NULL, 10), puts = strtoull(words[3], NULL, 10);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_error_if_exists(options, 1);
  if (count > 4) {
    rocksdb_block_based_table_options_t* tables = rocksdb_block_based_options_create();
    size_t bytes = strtoull(words[4], NULL, 10) << 20;
    rocksdb_block_based_options_set_block_cache(tables, rocksdb_cache_create_lru(bytes));
    rocksdb_options_set_block_based_table_factory(options, tables);
  }
  rocksdb_t* db = rocksdb_open(options, words[1], &err);
  check("open");
  rocksdb_writeoptions_t* unlogged = rocksdb_writeoptions_create();
  rocksdb_writeoptions_disable_WAL(unlogged, 1);
  char value[VALUE];
  memset(value, 'v', VALUE);
  for (uint64_t i = 0; i < PREFIXES * ENTRIES + puts; i++) {
    uint64_t again = i - PREFIXES * ENTRIES;
    if (i < PREFIXES * ENTRIES) {
      make_key(i % PREFIXES, i / PREFIXES);
    } else {
      make_key(again * 7919 % PREFIXES, again % ENTRIES);
    }
    rocksdb_put(db, unlogged, key, KEY, value, VALUE, &err);
    check("put");
  }
  if (count > 4) {
    rocksdb_flush(db, rocksdb_flushoptions_create(), &err);
    check("flush");
  }
  rocksdb_readoptions_t* read_options = rocksdb_readoptions_create();
  double started = processor_seconds();
  for (uint64_t i = 0; i < scans; i++) scan(db, read_options, i * 7919 % PREFIXES);
  double taken = processor_seconds() - started;
  if (scans > 0) printf("scan.cpu %.0f\n", taken / (double)scans * 1e9);
  rocksdb_close(db);
  return 0;
}
