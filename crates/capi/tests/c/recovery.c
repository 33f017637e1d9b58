/* Filters of logs, partitions of tables, merges of many operands, updates in place. */
#include "show.h"

static rocksdb_options_t* o;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;

static void scan(rocksdb_t* db) {
  size_t n;
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, r);
  for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
    BYTES("  key", rocksdb_iter_key(it, &n));
    BYTES("  value", rocksdb_iter_value(it, &n));
  }
  rocksdb_iter_get_error(it, &err);
  said("scan");
  rocksdb_iter_destroy(it);
}

static void put(rocksdb_t* db, const char* key, const char* value) {
  rocksdb_put(db, w, key, strlen(key), value, strlen(value), &err);
}

struct filter {
  int decision;
  int record;
  int changes;
  int seen;
};

static void ended(void* state) { (void)state; }
static const char* filter_name(void* state) {
  (void)state;
  return "my filter";
}

static void numbers(void* state, const uint32_t* ids, const uint64_t* logs, size_t count,
                    const char* const* names, const size_t* lengths, const uint32_t* named,
                    size_t name_count) {
  (void)state;
  (void)logs;
  printf("families %zu names %zu\n", count, name_count);
  for (size_t i = 0; i < count; i++) printf("id %u\n", ids[i]);
  for (size_t i = 0; i < name_count; i++) printf("%.*s is %u\n", (int)lengths[i], names[i], named[i]);
}

static int found(void* state, unsigned long long number, const char* path, size_t length,
                 const rocksdb_writebatch_t* batch, rocksdb_writebatch_t* fresh,
                 unsigned char* changed) {
  struct filter* f = state;
  printf("record of %d: %d updates, path %d\n", number > 0,
         rocksdb_writebatch_count((rocksdb_writebatch_t*)batch),
         length == strlen(path) && strstr(path, ".log") != NULL);
  if (++f->seen != f->record) return 0;
  for (int i = 0; i < f->changes; i++) {
    char key[16];
    snprintf(key, sizeof key, "n%d", i);
    rocksdb_writebatch_put(fresh, key, 2, "new", 3);
    *changed = 1;
  }
  return f->decision;
}

static void filtered(int decision, int record, int changes) {
  printf("decision %d at %d with %d\n", decision, record, changes);
  rocksdb_destroy_db(o, dir("log"), &err);
  rocksdb_t* db = rocksdb_open(o, dir("log"), &err);
  said("open");
  put(db, "a", "1");
  rocksdb_writebatch_t* b = rocksdb_writebatch_create();
  rocksdb_writebatch_put(b, "b", 1, "2", 1);
  rocksdb_writebatch_put(b, "c", 1, "3", 1);
  rocksdb_write(db, w, b, &err);
  rocksdb_writebatch_destroy(b);
  put(db, "d", "4");
  rocksdb_close(db);
  struct filter f = {decision, record, changes, 0};
  rocksdb_walfilter_t* filter = rocksdb_walfilter_create(&f, ended, numbers, found, filter_name);
  rocksdb_options_set_wal_filter(o, filter);
  db = rocksdb_open(o, dir("log"), &err);
  said("open with a filter");
  rocksdb_options_clear_wal_filter(o);
  if (db == NULL) {
    rocksdb_walfilter_destroy(filter);
    return;
  }
  scan(db);
  put(db, "e", "5");
  rocksdb_close(db);
  rocksdb_walfilter_destroy(filter);
  db = rocksdb_open(o, dir("log"), &err);
  said("open without");
  scan(db);
  rocksdb_close(db);
}

static void tables(rocksdb_t* db) {
  size_t n;
  const rocksdb_livefiles_t* files = rocksdb_livefiles(db);
  printf("%d files\n", rocksdb_livefiles_count(files));
  for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
    printf("level %d\n", rocksdb_livefiles_level(files, i));
    BYTES("  smallest", rocksdb_livefiles_smallestkey(files, i, &n));
    BYTES("  largest", rocksdb_livefiles_largestkey(files, i, &n));
  }
  rocksdb_livefiles_destroy(files);
}

static void partitions(void) {
  rocksdb_options_t* cut = rocksdb_options_create_copy(o);
  rocksdb_sst_partitioner_factory_t* f = rocksdb_sst_partitioner_fixed_prefix_factory_create(2);
  rocksdb_options_set_sst_partitioner_factory(cut, f);
  rocksdb_sst_partitioner_factory_destroy(f);
  rocksdb_t* db = rocksdb_open(cut, dir("cut"), &err);
  said("open");
  const char* keys[] = {"aa1", "aa2", "ab1", "b", "ba", "ba1", "ba2"};
  for (int i = 0; i < 7; i++) put(db, keys[i], "x");
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &err);
  tables(db);
  put(db, "aa3", "y");
  rocksdb_flush(db, flush, &err);
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  tables(db);
  rocksdb_flushoptions_destroy(flush);
  rocksdb_close(db);
  rocksdb_options_destroy(cut);
}

static char* join(const char* const* operands, const size_t* lengths, int count, size_t* length) {
  size_t total = 0;
  for (int i = 0; i < count; i++) total += lengths[i];
  char* joined = malloc(total + 1);
  *length = 0;
  for (int i = 0; i < count; i++) {
    memcpy(joined + *length, operands[i], lengths[i]);
    *length += lengths[i];
  }
  return joined;
}

static char* full(void* state, const char* key, size_t key_length, const char* old,
                  size_t old_length, const char* const* operands, const size_t* lengths, int count,
                  unsigned char* success, size_t* length) {
  (void)state;
  printf("full merge of %.*s, %d on %zu\n", (int)key_length, key, count, old ? old_length : 0);
  *success = 1;
  return join(operands, lengths, count, length);
}

static char* part(void* state, const char* key, size_t key_length, const char* const* operands,
                  const size_t* lengths, int count, unsigned char* success, size_t* length) {
  (void)state;
  printf("partial merge of %.*s:", (int)key_length, key);
  for (int i = 0; i < count; i++) printf(" %.*s", (int)lengths[i], operands[i]);
  printf("\n");
  *success = 1;
  return join(operands, lengths, count, length);
}

static const char* merge_name(void* state) {
  (void)state;
  return "join";
}

static void merges(void) {
  size_t n;
  rocksdb_options_t* with = rocksdb_options_create_copy(o);
  rocksdb_options_set_merge_operator(
      with, rocksdb_mergeoperator_create(NULL, ended, full, part, NULL, merge_name));
  rocksdb_t* db = rocksdb_open(with, dir("merge"), &err);
  said("open");
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  put(db, "k", "base");
  rocksdb_flush(db, flush, &err);
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  const char* operands[] = {"1", "22", "333", "4"};
  for (int i = 0; i < 4; i++) {
    rocksdb_merge(db, w, "k", 1, operands[i], strlen(operands[i]), &err);
  }
  rocksdb_flush(db, flush, &err);
  said("flush");
  TAKEN("merged", rocksdb_get(db, r, "k", 1, &n, &err));
  rocksdb_flushoptions_destroy(flush);
  rocksdb_close(db);
  rocksdb_options_destroy(with);
}

int main(void) {
  o = rocksdb_options_create();
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_compression(o, 0);
  rocksdb_options_set_disable_auto_compactions(o, 1);
  filtered(0, 0, 0);
  filtered(0, 2, 2);
  filtered(0, 2, 1);
  filtered(0, 1, 2);
  filtered(1, 1, 0);
  filtered(1, 3, 0);
  filtered(2, 2, 0);
  filtered(3, 2, 0);
  rocksdb_options_set_paranoid_checks(o, 0);
  filtered(3, 2, 0);
  rocksdb_options_set_paranoid_checks(o, 1);
  partitions();
  merges();
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(o);
  return 0;
}
