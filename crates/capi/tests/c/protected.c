/* Bits that flip in batches and memtables, through pointers that the library gives, and an order
 * that turns around; with checks and without. RocksDB takes no more writes after some of it, so
 * each case has a database of its own. */
#include <stdint.h>

#include "show.h"

#define KEYS 600

static rocksdb_options_t* o;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;
static const char* path;

static rocksdb_t* opened(void) {
  rocksdb_destroy_db(o, path, &err);
  free(err);
  err = NULL;
  rocksdb_t* db = rocksdb_open(o, path, &err);
  if (err) said("open");
  return db;
}

static void flip(const char* at) {
  *(char*)(uintptr_t)at ^= 1;
}

static void value_of(rocksdb_t* db, const char* key) {
  size_t n = 0;
  TAKEN(key, rocksdb_get(db, r, key, strlen(key), &n, &err));
  said("get");
}

/* Writes a batch of which a byte changed: the count, and one of the last key or value. */
static void changed_batches(size_t protection, int unlogged) {
  rocksdb_writeoptions_disable_WAL(w, unlogged);
  /* ..|1|5|first|1|1|1|4|last|5|value */
  const int places[] = {8, 25, 30, -1};
  for (int i = 0; i < 4; i++) {
    if (protection == 0 && places[i] == 8) continue;
    rocksdb_t* db = opened();
    rocksdb_writebatch_t* b = rocksdb_writebatch_create_with_params(0, 0, protection, 0);
    rocksdb_writebatch_put(b, "first", 5, "1", 1);
    rocksdb_writebatch_put(b, "last", 4, "value", 5);
    size_t n = 0;
    const char* rep = rocksdb_writebatch_data(b, &n);
    if (places[i] >= 0) flip(rep + places[i]);
    rocksdb_write(db, w, b, &err);
    printf("protection %zu, unlogged %d, byte %d of %zu, ", protection, unlogged, places[i], n);
    said("write");
    value_of(db, "first");
    value_of(db, "last");
    rocksdb_writebatch_destroy(b);
    rocksdb_close(db);
  }
  rocksdb_writeoptions_disable_WAL(w, 0);
}

/* A batch that a write protected stays so when it is cleared; one with an index. */
static void others(void) {
  rocksdb_writeoptions_set_protection_bytes_per_key(w, 8);
  rocksdb_t* db = opened();
  rocksdb_writebatch_t* b = rocksdb_writebatch_create();
  rocksdb_writebatch_put(b, "first", 5, "1", 1);
  rocksdb_write(db, w, b, &err);
  said("write");
  rocksdb_writeoptions_set_protection_bytes_per_key(w, 0);
  rocksdb_writebatch_clear(b);
  rocksdb_writebatch_put(b, "last", 4, "value", 5);
  size_t n = 0;
  const char* rep = rocksdb_writebatch_data(b, &n);
  flip(rep + n - 1);
  rocksdb_write(db, w, b, &err);
  said("write of a cleared batch");
  value_of(db, "first");
  value_of(db, "last");
  rocksdb_writebatch_destroy(b);
  rocksdb_close(db);
  for (size_t protection = 0; protection <= 8; protection += 8) {
    db = opened();
    rocksdb_writebatch_wi_t* wi =
        rocksdb_writebatch_wi_create_with_params(NULL, 0, 1, 0, protection);
    rocksdb_writebatch_wi_put(wi, "last", 4, "value", 5);
    rep = rocksdb_writebatch_wi_data(wi, &n);
    flip(rep + n - 1);
    rocksdb_write_writebatch_wi(db, w, wi, &err);
    said("write with an index");
    value_of(db, "last");
    rocksdb_writebatch_wi_destroy(wi);
    rocksdb_close(db);
  }
}

static void sizes(void) {
  const size_t given[] = {0, 8, 1, 4, 7, 9, 16, 264};
  for (int i = 0; i < 8; i++) {
    rocksdb_t* db = opened();
    rocksdb_writeoptions_set_protection_bytes_per_key(w, given[i]);
    printf("%zu of %zu\n", rocksdb_writeoptions_get_protection_bytes_per_key(w), given[i]);
    rocksdb_put(db, w, "k", 1, "v", 1, &err);
    said("put");
    rocksdb_delete(db, w, "none", 4, &err);
    said("delete");
    rocksdb_writebatch_t* b = rocksdb_writebatch_create();
    rocksdb_writebatch_put(b, "b", 1, "v", 1);
    rocksdb_write(db, w, b, &err);
    said("write");
    value_of(db, "k");
    rocksdb_writebatch_destroy(b);
    rocksdb_close(db);
  }
  rocksdb_writeoptions_set_protection_bytes_per_key(w, 0);
}

static void fill(rocksdb_t* db) {
  for (int i = 0; i < KEYS; i++) {
    char key[16];
    sprintf(key, "key%05d", i);
    rocksdb_put(db, w, key, 8, "a value", 7, &err);
    if (err) said(key);
  }
}

/* How many gets of every second key fail, when bits of the values between them have flipped. */
static void changed_memtable(int protection, unsigned char on_seek) {
  rocksdb_options_set_memtable_protection_bytes_per_key(o, protection);
  rocksdb_options_set_memtable_verify_per_key_checksum_on_seek(o, on_seek);
  rocksdb_t* db = opened();
  fill(db);
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, r);
  rocksdb_iter_seek_to_first(it);
  for (int i = 0; i < KEYS && rocksdb_iter_valid(it); i++, rocksdb_iter_next(it)) {
    size_t n;
    const char* value = rocksdb_iter_value(it, &n);
    if (i % 2 == 1) flip(value);
  }
  rocksdb_iter_destroy(it);
  int failed[2] = {0, 0};
  for (int i = 0; i < KEYS; i++) {
    char key[16];
    size_t n;
    sprintf(key, "key%05d", i);
    free(rocksdb_get(db, r, key, 8, &n, &err));
    failed[i % 2] += err != NULL;
    free(err);
    err = NULL;
  }
  printf("protection %d, on seek %d: ", protection, on_seek);
  printf("others fail %d, all changed ones fail %d\n", failed[0] > 0, failed[1] == KEYS / 2);
  rocksdb_close(db);
  rocksdb_options_set_memtable_protection_bytes_per_key(o, 0);
  rocksdb_options_set_memtable_verify_per_key_checksum_on_seek(o, 0);
}

static int turned;

static int turning(void* state, const char* a, size_t an, const char* b, size_t bn) {
  (void)state;
  int order = memcmp(a, b, an < bn ? an : bn);
  if (order == 0) order = (an > bn) - (an < bn);
  return turned ? -order : order;
}

static const char* turning_name(void* state) {
  (void)state;
  return "turning";
}

static void nothing(void* state) {
  (void)state;
}

static void turned_order(unsigned char paranoid) {
  rocksdb_comparator_t* order = rocksdb_comparator_create(NULL, nothing, turning, turning_name);
  rocksdb_options_set_comparator(o, order);
  rocksdb_options_set_paranoid_memory_checks(o, paranoid);
  printf("paranoid %d\n", rocksdb_options_get_paranoid_memory_checks(o));
  turned = 0;
  rocksdb_t* db = opened();
  fill(db);
  turned = 1;
  size_t n = 0;
  free(rocksdb_get(db, r, "key00000", 8, &n, &err));
  said("get of what is the last key now");
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, r);
  rocksdb_iter_seek_to_first(it);
  rocksdb_iter_get_error(it, &err);
  said("first");
  rocksdb_iter_next(it);
  rocksdb_iter_get_error(it, &err);
  said("next");
  rocksdb_iter_seek(it, "key00000", 8);
  rocksdb_iter_get_error(it, &err);
  said("seek");
  rocksdb_iter_destroy(it);
  turned = 0;
  rocksdb_close(db);
  rocksdb_destroy_db(o, path, &err);
  rocksdb_options_set_paranoid_memory_checks(o, 0);
}

int main(void) {
  path = dir("db");
  o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(o, 1);
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  for (int unlogged = 0; unlogged < 2; unlogged++) {
    changed_batches(0, unlogged);
    changed_batches(8, unlogged);
  }
  others();
  sizes();
  changed_memtable(0, 0);
  changed_memtable(0, 1);
  changed_memtable(8, 0);
  changed_memtable(8, 1);
  turned_order(0);
  turned_order(1);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(o);
  return 0;
}
