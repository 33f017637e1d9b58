/* Keys with timestamps of a comparator in C, big-endian so that they order as bytes do. */
#include "show.h"

static rocksdb_options_t* options;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;
static char now[8];

/* A timestamp; each call uses the same bytes. */
static const char* at(int time) {
  now[7] = (char)time;
  return now;
}

static int compare_parts(const char* a, size_t al, const char* b, size_t bl) {
  size_t common = al < bl ? al : bl;
  int order = common == 0 ? 0 : memcmp(a, b, common);
  return order != 0 ? order : (al > bl) - (al < bl);
}
static int compare(void* state, const char* a, size_t al, const char* b, size_t bl) {
  (void)state;
  int order = compare_parts(a, al - 8, b, bl - 8);
  return order != 0 ? order : -memcmp(a + al - 8, b + bl - 8, 8);
}
static int compare_ts(void* state, const char* a, size_t al, const char* b, size_t bl) {
  (void)state;
  return compare_parts(a, al, b, bl);
}
static int compare_without_ts(void* state, const char* a, size_t al, unsigned char a_has,
                              const char* b, size_t bl, unsigned char b_has) {
  (void)state;
  return compare_parts(a, a_has ? al - 8 : al, b, b_has ? bl - 8 : bl);
}
static const char* name(void* state) {
  (void)state;
  return "test.timed";
}
static void destroy(void* state) { (void)state; }

/* Whether the call failed: texts of arguments that are wrong differ from call to call. */
static void failed(const char* what) {
  printf("%s: %s\n", what, err ? "error" : "ok");
  free(err);
  err = NULL;
}

static void read_at(int time) { rocksdb_readoptions_set_timestamp(r, at(time), 8); }

static void get(rocksdb_t* db, const char* key, int time) {
  size_t n = 7, tn = 7;
  char* t = NULL;
  read_at(time);
  char* value = rocksdb_get_with_ts(db, r, key, strlen(key), &n, &t, &tn, &err);
  printf("%s at %d ", key, time);
  failed("get");
  bytes("value", value, n);
  bytes("timestamp", t, tn);
  rocksdb_free(value);
  rocksdb_free(t);
  value = rocksdb_get(db, r, key, strlen(key), &n, &err);
  failed("plain get");
  bytes("value", value, n);
  rocksdb_free(value);
}

static void rows(rocksdb_t* db, int time, int from) {
  printf("rows at %d from %d\n", time, from);
  char start[8] = {0};
  start[7] = (char)from;
  read_at(time);
  rocksdb_readoptions_set_iter_start_ts(r, from > 0 ? start : NULL, from > 0 ? 8 : 0);
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, r);
  for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
    size_t n;
    const char* data = rocksdb_iter_key(it, &n);
    /* Sequence numbers depend on what else was written. */
    if (from > 0) bytes("version", data, n - 7);
    else bytes("key", data, n);
    data = rocksdb_iter_timestamp(it, &n);
    bytes("timestamp", data, n);
    rocksdb_slice_t slice = rocksdb_iter_timestamp_slice(it);
    printf("slice %zu\n", slice.size);
    data = rocksdb_iter_value(it, &n);
    bytes("value", data, n);
  }
  rocksdb_iter_get_error(it, &err);
  said("end");
  rocksdb_iter_destroy(it);
  rocksdb_readoptions_set_iter_start_ts(r, NULL, 0);
}

static void many(rocksdb_t* db, int time) {
  const char* keys[] = {"a", "b", "none"};
  size_t lens[] = {1, 1, 4}, value_lens[3], ts_lens[3];
  char *values[3], *times[3], *errors[3];
  read_at(time);
  rocksdb_multi_get_with_ts(db, r, 3, keys, lens, values, value_lens, times, ts_lens, errors);
  for (int i = 0; i < 3; i++) {
    bytes("value", values[i], values[i] ? value_lens[i] : 0);
    bytes("timestamp", values[i] ? times[i] : NULL, values[i] ? ts_lens[i] : 0);
    printf("%s\n", errors[i] ? "error" : "ok");
    rocksdb_free(values[i]);
    rocksdb_free(times[i]);
    free(errors[i]);
  }
}

static size_t size_of(void* state, uint32_t cf) {
  (void)state;
  (void)cf;
  return 8;
}

static void batches(rocksdb_t* db, rocksdb_column_family_handle_t* cf) {
  rocksdb_writebatch_t* b = rocksdb_writebatch_create();
  rocksdb_writebatch_put_cf_with_ts(b, cf, "batch", 5, at(7), 8, "7", 1);
  rocksdb_writebatch_delete_cf_with_ts(b, cf, "b", 1, at(7), 8);
  rocksdb_writebatch_singledelete_cf_with_ts(b, cf, "c", 1, at(7), 8);
  rocksdb_write(db, w, b, &err);
  said("write");
  rocksdb_writebatch_destroy(b);

  b = rocksdb_writebatch_create_with_params(0, 0, 0, 8);
  rocksdb_writebatch_put_cf(b, cf, "later", 5, "put", 3);
  rocksdb_writebatch_put(b, "default", 7, "put", 3);
  rocksdb_writebatch_delete_cf(b, cf, "a", 1);
  rocksdb_writebatch_singledelete_cf(b, cf, "none", 4);
  rocksdb_writebatch_delete_range_cf(b, cf, "m", 1, "n", 1);
  size_t n;
  rocksdb_writebatch_data(b, &n);
  printf("bytes %zu\n", n);
  rocksdb_write(db, w, b, &err);
  said("write without times");
  rocksdb_writebatch_update_timestamps(b, at(7), 3, NULL, size_of, &err);
  said("short time");
  rocksdb_writebatch_update_timestamps(b, at(7), 8, NULL, size_of, &err);
  said("times");
  rocksdb_write(db, w, b, &err);
  said("write");
  rocksdb_writebatch_destroy(b);
}

static void table(rocksdb_t* db) {
  rocksdb_envoptions_t* env = rocksdb_envoptions_create();
  rocksdb_sstfilewriter_t* writer = rocksdb_sstfilewriter_create(env, options);
  char path[4096];
  snprintf(path, sizeof path, "%s.sst", dir("table"));
  rocksdb_sstfilewriter_open(writer, path, &err);
  said("open table");
  rocksdb_sstfilewriter_put_with_ts(writer, "x", 1, at(5), 8, "x5", 2, &err);
  said("put");
  rocksdb_sstfilewriter_put_with_ts(writer, "x", 1, at(6), 8, "x6", 2, &err);
  failed("put of a newer one");
  rocksdb_sstfilewriter_put(writer, "y", 1, "y", 1, &err);
  said("put without a timestamp");
  rocksdb_sstfilewriter_delete_with_ts(writer, "x", 1, at(3), 8, &err);
  said("delete");
  rocksdb_sstfilewriter_finish(writer, &err);
  said("finish");
  const char* files[] = {path};
  rocksdb_ingestexternalfileoptions_t* how = rocksdb_ingestexternalfileoptions_create();
  rocksdb_ingest_external_file(db, files, 1, how, &err);
  said("ingest");
  rocksdb_ingestexternalfileoptions_destroy(how);
  rocksdb_sstfilewriter_destroy(writer);
  rocksdb_envoptions_destroy(env);
  get(db, "x", 5);
  get(db, "x", 4);
}

static void history(rocksdb_t* db, rocksdb_column_family_handle_t* cf) {
  size_t n;
  TAKEN("low", rocksdb_get_full_history_ts_low(db, cf, &n, &err));
  said("get low");
  rocksdb_increase_full_history_ts_low(db, cf, at(3), 8, &err);
  said("raise");
  rocksdb_increase_full_history_ts_low(db, cf, at(2), 8, &err);
  said("lower");
  rocksdb_increase_full_history_ts_low(db, cf, at(4), 3, &err);
  failed("short");
  TAKEN("low", rocksdb_get_full_history_ts_low(db, cf, &n, &err));
  said("get low");
  rocksdb_compactoptions_t* how = rocksdb_compactoptions_create();
  char low[8] = {0};
  low[7] = 4;
  rocksdb_compactoptions_set_full_history_ts_low(how, low, 8);
  rocksdb_compactoptions_set_bottommost_level_compaction(how, 2);
  rocksdb_compact_range_opt(db, how, NULL, 0, NULL, 0);
  rocksdb_compactoptions_destroy(how);
  TAKEN("low", rocksdb_get_full_history_ts_low(db, cf, &n, &err));
  said("get low");
  get(db, "a", 3);
  get(db, "a", 4);
  rows(db, 9, 4);
}

int main(void) {
  options = rocksdb_options_create();
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_comparator_t* order = rocksdb_comparator_with_ts_create(
      NULL, destroy, compare, compare_ts, compare_without_ts, name, 8);
  rocksdb_options_set_comparator(options, order);
  rocksdb_t* db = rocksdb_open(options, dir("timed"), &err);
  said("open");
  rocksdb_column_family_handle_t* cf = rocksdb_get_default_column_family_handle(db);
  rocksdb_put_with_ts(db, w, "a", 1, at(1), 8, "a1", 2, &err);
  said("put");
  rocksdb_put_cf_with_ts(db, w, cf, "a", 1, at(3), 8, "a3", 2, &err);
  said("put");
  rocksdb_put_with_ts(db, w, "b", 1, at(2), 8, "b2", 2, &err);
  rocksdb_put_with_ts(db, w, "c", 1, at(2), 8, "", 0, &err);
  rocksdb_delete_with_ts(db, w, "a", 1, at(5), 8, &err);
  said("delete");
  rocksdb_put(db, w, "a", 1, "x", 1, &err);
  said("put without a timestamp");
  rocksdb_put_with_ts(db, w, "a", 1, at(6), 4, "x", 1, &err);
  failed("put with a short timestamp");
  size_t n;
  rocksdb_free(rocksdb_get(db, r, "a", 1, &n, &err));
  said("get without a timestamp");
  for (int time = 0; time < 7; time++) {
    get(db, "a", time);
    rows(db, time, 0);
    many(db, time);
  }
  batches(db, cf);
  rows(db, 9, 0);
  rows(db, 9, 1);
  table(db);
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &err);
  rocksdb_flushoptions_destroy(flush);
  rows(db, 9, 1);
  history(db, cf);
  rocksdb_delete_cf_with_ts(db, w, cf, "d", 1, at(8), 8, &err);
  rocksdb_singledelete_with_ts(db, w, "e", 1, at(8), 8, &err);
  rocksdb_singledelete_cf_with_ts(db, w, cf, "e", 1, at(9), 8, &err);
  rocksdb_put_with_ts(db, w, "late", 4, at(9), 8, "late", 4, &err);
  said("writes");
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_close(db);

  const char* names[] = {"default"};
  const rocksdb_options_t* each[] = {options};
  rocksdb_column_family_handle_t* handles[1];
  char trim[8] = {0};
  trim[7] = 6;
  db = rocksdb_open_and_trim_history(options, dir("timed"), 1, names, each, handles, trim, 8, &err);
  said("open and trim");
  rows(db, 20, 4);
  get(db, "late", 20);
  rocksdb_column_family_handle_destroy(handles[0]);
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_comparator_destroy(order);
  return 0;
}
