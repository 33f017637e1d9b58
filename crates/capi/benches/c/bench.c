/* How long calls of the C interface take: prints a line for each row, "NAME NANOSECONDS" of one
 * operation by the clock and "NAME.cpu NANOSECONDS" of processor time of the whole process, and at
 * the end the memory of the process. Linked with either library; `cargo xtask capi --bench` runs it
 * with both in turn and compares.
 *
 * bench FOLDER OPERATIONS [writes|merges|reads]: FOLDER is empty, and has the databases of this run
 * afterwards. Keys and values are the same in every run. What is read is checked: a wrong value ends
 * the program. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "c.h"

enum { KEY = 16, VALUE = 100, MANY = 32, BATCH = 100 };

static char* err = NULL;
static rocksdb_writeoptions_t *logged, *unlogged;
static rocksdb_readoptions_t* read_options;
static uint64_t state;

static void check(const char* what) {
  if (err == NULL) return;
  fprintf(stderr, "%s: %s\n", what, err);
  exit(1);
}

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "wrong: %s\n", what);
  exit(1);
}

static uint64_t draw(uint64_t below) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return (z ^ (z >> 31)) % below;
}

static double seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double begun, begun_cpu;
static void begin(uint64_t seed) {
  state = seed;
  begun_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
  begun = seconds(CLOCK_MONOTONIC);
}
static void end(const char* name, uint64_t operations) {
  double wall = seconds(CLOCK_MONOTONIC) - begun;
  double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - begun_cpu;
  printf("%s %.1f\n%s.cpu %.1f\n", name, wall * 1e9 / (double)operations, name,
         cpu * 1e9 / (double)operations);
}

/* As db_bench's keys: the number, the highest byte first, and zeros behind it. */
static void key_of(uint64_t number, char* key) {
  memset(key, '0', KEY);
  for (int i = 7; i >= 0; i--, number >>= 8) key[i] = (char)number;
}
static void value_of(uint64_t number, char* value) {
  /* Half of it is the same everywhere, so that blocks can be compressed as usual ones are. */
  memset(value, 'v', VALUE);
  uint64_t z = number;
  for (int i = 0; i < VALUE / 2; i += 8) {
    z = z * 6364136223846793005ULL + 1442695040888963407ULL;
    memcpy(value + i, &z, i + 8 <= VALUE / 2 ? 8 : VALUE / 2 - i);
  }
}

/* Adds numbers of 8 bytes. */
static char* sum(const char* old, size_t old_length, const char* const* list, const size_t* lengths,
                 int count, unsigned char* success, size_t* length) {
  uint64_t total = 0, one;
  if (old && old_length == 8) memcpy(&total, old, 8);
  for (int i = 0; i < count; i++) {
    if (lengths[i] != 8) continue;
    memcpy(&one, list[i], 8);
    total += one;
  }
  char* result = malloc(8);
  memcpy(result, &total, 8);
  *success = 1;
  *length = 8;
  return result;
}
static char* full(void* s, const char* key, size_t key_length, const char* old, size_t old_length,
                  const char* const* list, const size_t* lengths, int count, unsigned char* success,
                  size_t* length) {
  (void)s, (void)key, (void)key_length;
  return sum(old, old_length, list, lengths, count, success, length);
}
static char* partial(void* s, const char* key, size_t key_length, const char* const* list,
                     const size_t* lengths, int count, unsigned char* success, size_t* length) {
  (void)s, (void)key, (void)key_length;
  return sum(NULL, 0, list, lengths, count, success, length);
}
static const char* operator_name(void* s) {
  (void)s;
  return "bench.sum";
}
static void nothing(void* s) {
  (void)s;
}

static rocksdb_t* open_database(const char* folder, const char* name, rocksdb_options_t* options) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  check("open");
  return db;
}

static void writes(const char* folder, rocksdb_options_t* options, uint64_t n) {
  char key[KEY], value[VALUE];
  rocksdb_t* db = open_database(folder, "writes", options);
  begin(1);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t number = draw(n);
    key_of(number, key);
    value_of(number, value);
    rocksdb_put(db, logged, key, KEY, value, VALUE, &err);
  }
  check("put");
  end("put", n);
  begin(2);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t number = draw(n);
    key_of(number, key);
    value_of(number, value);
    rocksdb_put(db, unlogged, key, KEY, value, VALUE, &err);
  }
  check("put without log");
  end("put_without_log", n);
  begin(3);
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  for (uint64_t i = 0; i < n;) {
    rocksdb_writebatch_clear(batch);
    for (int j = 0; j < BATCH; j++, i++) {
      uint64_t number = draw(n);
      key_of(number, key);
      value_of(number, value);
      rocksdb_writebatch_put(batch, key, KEY, value, VALUE);
    }
    rocksdb_write(db, logged, batch, &err);
  }
  check("batch");
  end("batch_of_100", n);
  rocksdb_writebatch_destroy(batch);
  rocksdb_close(db);
}

static void merges(const char* folder, rocksdb_options_t* options, uint64_t n) {
  char key[KEY];
  size_t length;
  uint64_t one = 1, keys = n / 8, total = 0;
  rocksdb_t* db = open_database(folder, "merges", options);
  begin(4);
  for (uint64_t i = 0; i < n; i++) {
    key_of(draw(keys), key);
    rocksdb_merge(db, logged, key, KEY, (const char*)&one, 8, &err);
  }
  check("merge");
  end("merge", n);
  begin(5);
  for (uint64_t i = 0; i < keys; i++) {
    key_of(i, key);
    char* value = rocksdb_get(db, read_options, key, KEY, &length, &err);
    if (value) {
      uint64_t found;
      require(length == 8, "length of a sum");
      memcpy(&found, value, 8);
      total += found;
    }
    rocksdb_free(value);
  }
  check("get of merges");
  end("get_merged", keys);
  require(total == n, "sums of all keys");
  rocksdb_close(db);
}

static void fill(rocksdb_t* db, uint64_t n) {
  char key[KEY], value[VALUE];
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  for (uint64_t i = 0; i < n; i++) {
    key_of(2 * i, key);
    value_of(i, value);
    rocksdb_writebatch_put(batch, key, KEY, value, VALUE);
    if (i % 1000 != 999 && i + 1 != n) continue;
    rocksdb_write(db, unlogged, batch, &err);
    rocksdb_writebatch_clear(batch);
  }
  check("fill");
  rocksdb_writebatch_destroy(batch);
}

static void gets(rocksdb_t* db, const char* name, uint64_t n, uint64_t keys) {
  char key[KEY], value[VALUE], row[64];
  size_t length;
  snprintf(row, sizeof row, "get%s", name);
  begin(6);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t number = draw(keys);
    key_of(2 * number, key);
    char* found = rocksdb_get(db, read_options, key, KEY, &length, &err);
    require(found && length == VALUE, "a value");
    if (i % 64 == 0) {
      value_of(number, value);
      require(memcmp(found, value, VALUE) == 0, "a value's bytes");
    }
    rocksdb_free(found);
  }
  check("get");
  end(row, n);
  snprintf(row, sizeof row, "get_pinned%s", name);
  begin(7);
  for (uint64_t i = 0; i < n; i++) {
    key_of(2 * draw(keys), key);
    rocksdb_pinnableslice_t* found = rocksdb_get_pinned(db, read_options, key, KEY, &err);
    rocksdb_pinnableslice_value(found, &length);
    require(length == VALUE, "a pinned value");
    rocksdb_pinnableslice_destroy(found);
  }
  check("get_pinned");
  end(row, n);
}

static void misses(rocksdb_t* db, uint64_t n, uint64_t keys) {
  char key[KEY];
  size_t length;
  begin(8);
  for (uint64_t i = 0; i < n; i++) {
    key_of(2 * draw(keys) + 1, key);
    require(!rocksdb_get(db, read_options, key, KEY, &length, &err), "no value");
  }
  check("get of a missing key");
  end("get_missing", n);
}

static void multi_gets(rocksdb_t* db, uint64_t n, uint64_t keys) {
  char key[MANY][KEY];
  const char* pointers[MANY];
  size_t lengths[MANY], found[MANY];
  char *values[MANY], *errors[MANY];
  rocksdb_pinnableslice_t* pinned[MANY];
  rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(db);
  for (int j = 0; j < MANY; j++) {
    pointers[j] = key[j];
    lengths[j] = KEY;
  }
  begin(9);
  for (uint64_t i = 0; i < n; i += MANY) {
    for (int j = 0; j < MANY; j++) key_of(2 * draw(keys), key[j]);
    rocksdb_multi_get(db, read_options, MANY, pointers, lengths, values, found, errors);
    for (int j = 0; j < MANY; j++) {
      require(values[j] && found[j] == VALUE && !errors[j], "one of many values");
      rocksdb_free(values[j]);
    }
  }
  end("multi_get_of_32", n);
  begin(10);
  for (uint64_t i = 0; i < n; i += MANY) {
    for (int j = 0; j < MANY; j++) key_of(2 * draw(keys), key[j]);
    rocksdb_batched_multi_get_cf(db, read_options, family, MANY, pointers, lengths, pinned, errors,
                                 0);
    for (int j = 0; j < MANY; j++) {
      size_t length;
      rocksdb_pinnableslice_value(pinned[j], &length);
      require(length == VALUE && !errors[j], "one of many pinned values");
      rocksdb_pinnableslice_destroy(pinned[j]);
    }
  }
  end("batched_multi_get_of_32", n);
  rocksdb_column_family_handle_destroy(family);
}

static void iterators(rocksdb_t* db, uint64_t n, uint64_t keys) {
  char key[KEY];
  size_t length, bytes = 0;
  uint64_t count = 0;
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, read_options);
  rocksdb_iter_seek_to_first(it);
  begin(11);
  for (; rocksdb_iter_valid(it); rocksdb_iter_next(it), count++) {
    rocksdb_iter_key(it, &length);
    bytes += length;
    rocksdb_iter_value(it, &length);
    bytes += length;
  }
  end("iterator_next", count);
  require(count == keys && bytes == keys * (KEY + VALUE), "a scan");
  rocksdb_iter_seek_to_last(it);
  begin(12);
  for (count = 0; rocksdb_iter_valid(it); rocksdb_iter_prev(it), count++) {
    bytes -= rocksdb_iter_key_slice(it).size + rocksdb_iter_value_slice(it).size;
  }
  end("iterator_prev", count);
  require(count == keys && bytes == 0, "a scan backwards");
  begin(13);
  for (uint64_t i = 0; i < n / 4; i++) {
    key_of(2 * draw(keys), key);
    rocksdb_iter_seek(it, key, KEY);
    const char* found = rocksdb_iter_key(it, &length);
    require(length == KEY && memcmp(found, key, KEY) == 0, "a seek");
  }
  end("iterator_seek", n / 4);
  rocksdb_iter_destroy(it);
  begin(14);
  for (uint64_t i = 0; i < n / 16; i++) {
    key_of(2 * draw(keys), key);
    it = rocksdb_create_iterator(db, read_options);
    rocksdb_iter_seek(it, key, KEY);
    for (int j = 0; j < 10 && rocksdb_iter_valid(it); j++) rocksdb_iter_next(it);
    rocksdb_iter_destroy(it);
  }
  end("new_iterator_seek_next_10", n / 16);
}

static void reads(const char* folder, rocksdb_options_t* options, uint64_t n) {
  rocksdb_t* db = open_database(folder, "reads", options);
  /* Half of what fills a memtable of 64 MiB. */
  uint64_t keys = n < 200000 ? n : 200000;
  fill(db, keys);
  gets(db, "_from_memtable", n, keys);
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &err);
  check("flush");
  rocksdb_flushoptions_destroy(flush);
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  /* Every block gets into the cache. */
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, read_options);
  for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it);) rocksdb_iter_next(it);
  rocksdb_iter_destroy(it);
  gets(db, "", n, keys);
  misses(db, n, keys);
  multi_gets(db, n, keys);
  iterators(db, n, keys);
  rocksdb_close(db);
}

static void memory(void) {
  char line[256];
  FILE* file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file)) {
    long kib;
    if (sscanf(line, "VmHWM: %ld", &kib) == 1) printf("memory_peak_kib %ld\n", kib);
    if (sscanf(line, "VmRSS: %ld", &kib) == 1) printf("memory_end_kib %ld\n", kib);
  }
  if (file) fclose(file);
}

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    fprintf(stderr, "usage: bench FOLDER OPERATIONS [writes|merges|reads]\n");
    return 2;
  }
  uint64_t n = strtoull(argv[2], NULL, 10) / BATCH * BATCH;
  logged = rocksdb_writeoptions_create();
  unlogged = rocksdb_writeoptions_create();
  rocksdb_writeoptions_disable_WAL(unlogged, 1);
  read_options = rocksdb_readoptions_create();
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_block_based_table_options_t* table = rocksdb_block_based_options_create();
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(256 << 20);
  rocksdb_block_based_options_set_block_cache(table, cache);
  rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(10));
  rocksdb_options_set_block_based_table_factory(options, table);
  rocksdb_options_set_merge_operator(
      options, rocksdb_mergeoperator_create(NULL, nothing, full, partial, NULL, operator_name));
  const char* part = argc == 4 ? argv[3] : "";
  if (!*part || strcmp(part, "writes") == 0) writes(argv[1], options, n);
  if (!*part || strcmp(part, "merges") == 0) merges(argv[1], options, n);
  if (!*part || strcmp(part, "reads") == 0) reads(argv[1], options, n);
  memory();
  rocksdb_options_destroy(options);
  rocksdb_block_based_options_destroy(table);
  rocksdb_cache_destroy(cache);
  rocksdb_readoptions_destroy(read_options);
  rocksdb_writeoptions_destroy(unlogged);
  rocksdb_writeoptions_destroy(logged);
  return 0;
}
