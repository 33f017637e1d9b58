/* Puts, gets, batches, iterators, snapshots. */
#include "show.h"

static void put_seen(void* s, const char* k, size_t kl, const char* v, size_t vl) {
  (void)s;
  bytes("  put", k, kl);
  bytes("   to", v, vl);
}
static void del_seen(void* s, const char* k, size_t kl) {
  (void)s;
  bytes("  del", k, kl);
}
static void log_seen(void* s, const char* k, size_t kl) {
  (void)s;
  bytes("  log", k, kl);
}
static void cf_put_seen(void* s, uint32_t cf, const char* k, size_t kl, const char* v, size_t vl) {
  (void)s;
  printf("  cf %u\n", cf);
  bytes("  put", k, kl);
  bytes("   to", v, vl);
}
static void cf_del_seen(void* s, uint32_t cf, const char* k, size_t kl) {
  (void)s;
  printf("  cf %u\n", cf);
  bytes("  del", k, kl);
}

static void walk(rocksdb_iterator_t* it) {
  size_t n;
  while (rocksdb_iter_valid(it)) {
    const char* k = rocksdb_iter_key(it, &n);
    bytes("  key", k, n);
    rocksdb_slice_t v = rocksdb_iter_value_slice(it);
    bytes("  value", v.data, v.size);
    rocksdb_iter_next(it);
  }
  rocksdb_iter_get_error(it, &err);
  said("iterator");
}

static void batches(rocksdb_t* db, rocksdb_writeoptions_t* w) {
  size_t n;
  rocksdb_writebatch_t* b = rocksdb_writebatch_create();
  rocksdb_writebatch_put(b, "b1", 2, "v1", 2);
  rocksdb_writebatch_set_save_point(b);
  rocksdb_writebatch_put(b, "b2", 2, "v2", 2);
  rocksdb_writebatch_rollback_to_save_point(b, &err);
  said("rollback");
  rocksdb_writebatch_rollback_to_save_point(b, &err);
  said("rollback again");
  rocksdb_writebatch_pop_save_point(b, &err);
  said("pop");
  rocksdb_writebatch_set_save_point(b);
  rocksdb_writebatch_put(b, "b3", 2, "v3", 2);
  rocksdb_writebatch_pop_save_point(b, &err);
  said("pop what is there");
  const char* parts[] = {"k", "ey"};
  const size_t lens[] = {1, 2};
  rocksdb_writebatch_putv(b, 2, parts, lens, 2, parts, lens);
  rocksdb_writebatch_deletev(b, 2, parts, lens);
  rocksdb_writebatch_put_log_data(b, "note", 4);
  rocksdb_writebatch_singledelete(b, "sd", 2);
  rocksdb_writebatch_merge(b, "mk", 2, "mv", 2);
  printf("count %d\n", rocksdb_writebatch_count(b));
  rocksdb_writebatch_data(b, &n);
  printf("bytes %zu\n", n);
  rocksdb_writebatch_iterate(b, NULL, put_seen, del_seen);
  rocksdb_writebatch_iterate_ld(b, NULL, put_seen, del_seen, log_seen);
  rocksdb_writebatch_iterate_cf(b, NULL, cf_put_seen, cf_del_seen, cf_put_seen);
  const char* rep = rocksdb_writebatch_data(b, &n);
  rocksdb_writebatch_t* copy = rocksdb_writebatch_create_from(rep, n);
  printf("copied %d\n", rocksdb_writebatch_count(copy));
  rocksdb_writebatch_clear(b);
  rocksdb_writebatch_put(b, "c1", 2, "", 0);
  rocksdb_writebatch_delete_range(b, "b", 1, "c", 1);
  rocksdb_write(db, w, b, &err);
  said("write");
  rocksdb_writebatch_destroy(copy);
  rocksdb_writebatch_destroy(b);
  b = rocksdb_writebatch_create_with_params(0, 60, 0, 0);
  rocksdb_writebatch_put(b, "small", 5, "x", 1);
  rocksdb_writebatch_put(b, "large", 5, "0123456789012345678901234567890123456789", 40);
  printf("limited %d\n", rocksdb_writebatch_count(b));
  rocksdb_writebatch_destroy(b);
}

static void reads(rocksdb_t* db, rocksdb_readoptions_t* r) {
  size_t n = 77;
  TAKEN("get", rocksdb_get(db, r, "a", 1, &n, &err));
  said("get");
  char* none = rocksdb_get(db, r, "nothing", 7, &n, &err);
  bytes("get nothing", none, n);
  said("get nothing");
  TAKEN("get empty", rocksdb_get(db, r, "empty", 5, &n, &err));
  rocksdb_pinnableslice_t* p = rocksdb_get_pinned(db, r, "a", 1, &err);
  BYTES("pinned", rocksdb_pinnableslice_value(p, &n));
  rocksdb_pinnableslice_destroy(p);
  printf("no pinned: %d\n", rocksdb_get_pinned(db, r, "zz", 2, &err) == NULL);
  BYTES("null pinned", rocksdb_pinnableslice_value(NULL, &n));
  rocksdb_pinnable_handle_t* h = rocksdb_get_pinned_v2(db, r, "a", 1, &err);
  BYTES("pinned v2", rocksdb_pinnable_handle_get_value(h, &n));
  rocksdb_pinnable_handle_destroy(h);
  char buffer[8];
  unsigned char found = 9;
  printf("into %d ", rocksdb_get_into_buffer(db, r, "a", 1, buffer, 8, &n, &found, &err));
  printf("%zu %d\n", n, found);
  printf("into small %d ", rocksdb_get_into_buffer(db, r, "long", 4, buffer, 8, &n, &found, &err));
  printf("%zu %d\n", n, found);
  printf("into none %d ", rocksdb_get_into_buffer(db, r, "zz", 2, buffer, 8, &n, &found, &err));
  printf("%zu %d\n", n, found);
  const char* keys[] = {"a", "zz", "empty"};
  const size_t lens[] = {1, 2, 5};
  char* values[3];
  size_t sizes[3];
  char* errs[3];
  rocksdb_multi_get(db, r, 3, keys, lens, values, sizes, errs);
  for (int i = 0; i < 3; i++) {
    printf("multi %s ", errs[i] ? errs[i] : "ok");
    taken("", values[i], sizes[i]);
  }
  rocksdb_column_family_handle_t* cf = rocksdb_get_default_column_family_handle(db);
  rocksdb_pinnableslice_t* pinned[3];
  rocksdb_batched_multi_get_cf(db, r, cf, 3, keys, lens, pinned, errs, false);
  for (int i = 0; i < 3; i++) {
    BYTES("batched", rocksdb_pinnableslice_value(pinned[i], &n));
    rocksdb_pinnableslice_destroy(pinned[i]);
  }
  rocksdb_column_family_handle_destroy(cf);
  char* value = NULL;
  unsigned char value_found = 5;
  printf("may %d", rocksdb_key_may_exist(db, r, "a", 1, &value, &n, NULL, 0, &value_found));
  printf(" %d\n", value_found);
  if (value_found) taken("may value", value, n);
  printf("may not %d\n", rocksdb_key_may_exist(db, r, "zz", 2, NULL, NULL, NULL, 0, NULL));
  value = NULL;
  n = 9;
  printf("may not %d", rocksdb_key_may_exist(db, r, "zz", 2, &value, &n, NULL, 0, &value_found));
  printf(" found %d length %zu text %d\n", value_found, n, value != NULL);
  free(value);
}

static void scans(rocksdb_t* db, rocksdb_writeoptions_t* w) {
  size_t n;
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  const rocksdb_snapshot_t* snapshot = rocksdb_create_snapshot(db);
  rocksdb_put(db, w, "d", 1, "new", 3, &err);
  rocksdb_readoptions_set_snapshot(r, snapshot);
  TAKEN("at the snapshot", rocksdb_get(db, r, "d", 1, &n, &err));
  rocksdb_readoptions_set_snapshot(r, NULL);
  TAKEN("now", rocksdb_get(db, r, "d", 1, &n, &err));
  rocksdb_release_snapshot(db, snapshot);
  rocksdb_readoptions_set_iterate_lower_bound(r, "b", 1);
  rocksdb_readoptions_set_iterate_upper_bound(r, "e", 1);
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, r);
  printf("valid before a seek %d\n", rocksdb_iter_valid(it));
  rocksdb_iter_seek_to_first(it);
  walk(it);
  rocksdb_iter_seek_to_last(it);
  BYTES("last", rocksdb_iter_key(it, &n));
  rocksdb_iter_prev(it);
  printf("prev %d\n", rocksdb_iter_valid(it));
  rocksdb_iter_seek(it, "c", 1);
  printf("seek %d\n", rocksdb_iter_valid(it));
  rocksdb_iter_seek_for_prev(it, "cz", 2);
  printf("seek for prev %d\n", rocksdb_iter_valid(it));
  rocksdb_put(db, w, "bb", 2, "late", 4, &err);
  rocksdb_iter_refresh(it, &err);
  said("refresh");
  rocksdb_iter_seek(it, "bb", 2);
  BYTES("refreshed", rocksdb_iter_key(it, &n));
  rocksdb_iter_destroy(it);
  rocksdb_readoptions_destroy(r);
}

static void logs(rocksdb_t* db) {
  rocksdb_wal_readoptions_t* o = rocksdb_wal_readoptions_create();
  rocksdb_wal_iterator_t* it = rocksdb_get_updates_since(db, 0, o, &err);
  said("updates");
  for (int i = 0; i < 3 && rocksdb_wal_iter_valid(it); i++) {
    uint64_t sequence;
    rocksdb_writebatch_t* b = rocksdb_wal_iter_get_batch(it, &sequence);
    printf("batch %llu of %d\n", (unsigned long long)sequence, rocksdb_writebatch_count(b));
    rocksdb_writebatch_destroy(b);
    rocksdb_wal_iter_next(it);
  }
  rocksdb_wal_iter_status(it, &err);
  said("wal status");
  rocksdb_wal_iter_destroy(it);
  rocksdb_wal_readoptions_destroy(o);
}

/* Reads without range deletions, and moves that skip at most so many entries. */
static void limits(rocksdb_t* db, rocksdb_writeoptions_t* w) {
  rocksdb_column_family_handle_t* cf = rocksdb_get_default_column_family_handle(db);
  for (int i = 0; i < 10; i++) {
    char key[8];
    snprintf(key, sizeof key, "z%d", i);
    rocksdb_put(db, w, key, 2, "v", 1, &err);
    if (i == 3 || i == 4 || i == 5) rocksdb_delete(db, w, key, 2, &err);
  }
  rocksdb_delete_range_cf(db, w, cf, "z7", 2, "z9", 2, &err);
  rocksdb_column_family_handle_destroy(cf);
  said("fill");
  for (int ignores = 0; ignores < 2; ignores++) {
    for (uint64_t most = 0; most < 8; most++) {
      rocksdb_readoptions_t* r = rocksdb_readoptions_create();
      rocksdb_readoptions_set_ignore_range_deletions(r, (unsigned char)ignores);
      rocksdb_readoptions_set_max_skippable_internal_keys(r, most);
      printf("ignores %d, at most %d\n", ignores, (int)most);
      size_t n;
      TAKEN("z7", rocksdb_get(db, r, "z7", 2, &n, &err));
      rocksdb_iterator_t* it = rocksdb_create_iterator(db, r);
      for (rocksdb_iter_seek(it, "z", 1); rocksdb_iter_valid(it); rocksdb_iter_next(it))
        BYTES("  next", rocksdb_iter_key(it, &n));
      rocksdb_iter_get_error(it, &err);
      said("forward");
      for (rocksdb_iter_seek_to_last(it); rocksdb_iter_valid(it); rocksdb_iter_prev(it)) {
        BYTES("  prev", rocksdb_iter_key(it, &n));
        if (memcmp(rocksdb_iter_key(it, &n), "z0", 2) == 0) break;
      }
      rocksdb_iter_get_error(it, &err);
      said("backward");
      rocksdb_iter_destroy(it);
      rocksdb_readoptions_destroy(r);
    }
  }
}

int main(void) {
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_t* db = rocksdb_open(o, dir("none"), &err);
  said("open without create");
  printf("no handle %d\n", db == NULL);
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_compression(o, 0);
  db = rocksdb_open(o, dir("db"), &err);
  said("open");
  rocksdb_t* second = rocksdb_open(o, dir("db"), &err);
  printf("second %d, refused %d\n", second != NULL, err != NULL);
  free(err);
  err = NULL;
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_put(db, w, "a", 1, "value", 5, &err);
  rocksdb_put(db, w, "empty", 5, "", 0, &err);
  rocksdb_put(db, w, "long", 4, "a long value", 12, &err);
  rocksdb_put(db, w, "d", 1, "old", 3, &err);
  said("put");
  rocksdb_put(db, w, "gone", 4, "x", 1, &err);
  rocksdb_delete(db, w, "gone", 4, &err);
  said("delete");
  rocksdb_merge(db, w, "a", 1, "x", 1, &err);
  said("merge without an operator");
  printf("sequence %llu\n", (unsigned long long)rocksdb_get_latest_sequence_number(db));
  reads(db, r);
  batches(db, w);
  scans(db, w);
  logs(db);
  limits(db, w);
  rocksdb_close(db);
  rocksdb_options_set_error_if_exists(o, 1);
  db = rocksdb_open(o, dir("db"), &err);
  said("open of what exists");
  rocksdb_options_set_error_if_exists(o, 0);
  db = rocksdb_open_for_read_only(o, dir("db"), 0, &err);
  said("open for reading");
  rocksdb_put(db, w, "a", 1, "b", 1, &err);
  said("put of a reader");
  rocksdb_close(db);
  rocksdb_destroy_db(o, dir("db"), &err);
  said("destroy");
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(o);
  return 0;
}
