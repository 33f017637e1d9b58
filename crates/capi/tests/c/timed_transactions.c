/* Transactions and batches with an index over keys with timestamps. $MODE write ends as by a kill,
 * with one transaction that is prepared and one that was committed in two phases; $MODE read goes on
 * from there, with the other library too. */
#include <unistd.h>

#include "show.h"

static rocksdb_options_t* options;
static rocksdb_comparator_t* order;
static rocksdb_transactiondb_options_t* db_options;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;
static unsigned char time_bytes[8];

static int compare_parts(const char* a, size_t al, const char* b, size_t bl) {
  size_t common = al < bl ? al : bl;
  int order = common == 0 ? 0 : memcmp(a, b, common);
  return order != 0 ? order : (al > bl) - (al < bl);
}
static int compare_ts(void* state, const char* a, size_t al, const char* b, size_t bl) {
  (void)state;
  unsigned long long x = 0, y = 0;
  memcpy(&x, a, al < 8 ? al : 8);
  memcpy(&y, b, bl < 8 ? bl : 8);
  return (x > y) - (x < y);
}
static int compare(void* state, const char* a, size_t al, const char* b, size_t bl) {
  int order = compare_parts(a, al - 8, b, bl - 8);
  return order != 0 ? order : -compare_ts(state, a + al - 8, 8, b + bl - 8, 8);
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
static size_t size_of(void* state, uint32_t cf) {
  (void)state;
  return cf == 0 ? 8 : 0;
}

static const char* at(int time) {
  memset(time_bytes, 0, 8);
  time_bytes[0] = (unsigned char)time;
  return (const char*)time_bytes;
}
static void read_at(int time) { rocksdb_readoptions_set_timestamp(r, at(time), 8); }
static void read_plain(void) { rocksdb_readoptions_set_timestamp(r, NULL, 0); }

static void rows(rocksdb_transactiondb_t* db, int time) {
  printf("rows at %d\n", time);
  read_at(time);
  rocksdb_iterator_t* it = rocksdb_transactiondb_create_iterator(db, r);
  rocksdb_iter_seek_to_first(it);
  entries(it, 1);
  rocksdb_iter_destroy(it);
  read_plain();
}

static void put(rocksdb_transaction_t* t, const char* key, const char* value) {
  rocksdb_transaction_put(t, key, strlen(key), value, strlen(value), &err);
  said("put");
}

static void locked(rocksdb_transaction_t* t, const char* key) {
  size_t n = 0;
  TAKEN("locked", rocksdb_transaction_get_for_update(t, r, key, strlen(key), &n, 1, &err));
  said("get for update");
}

static void commit(rocksdb_transaction_t* t) {
  rocksdb_transaction_commit(t, &err);
  said("commit");
}

static rocksdb_transaction_t* begin(rocksdb_transactiondb_t* db) {
  rocksdb_transaction_options_t* o = rocksdb_transaction_options_create();
  rocksdb_transaction_t* t = rocksdb_transaction_begin(db, w, o, NULL);
  rocksdb_transaction_options_destroy(o);
  return t;
}

static void commits(rocksdb_transactiondb_t* db) {
  size_t n = 0;
  rocksdb_transaction_t* t = begin(db);
  put(t, "a", "a5");
  put(t, "b", "b5");
  rocksdb_transaction_delete(t, "gone", 4, &err);
  said("delete");
  TAKEN("own", rocksdb_transaction_get(t, r, "a", 1, &n, &err));
  said("get without a time");
  read_at(3);
  TAKEN("own", rocksdb_transaction_get(t, r, "a", 1, &n, &err));
  said("get");
  TAKEN("other", rocksdb_transaction_get(t, r, "none", 4, &n, &err));
  said("get");
  rocksdb_iterator_t* it = rocksdb_transaction_create_iterator(t, r);
  rocksdb_iter_seek_to_first(it);
  entries(it, 1);
  rocksdb_iter_destroy(it);
  read_plain();
  rocksdb_transaction_set_savepoint(t);
  put(t, "c", "c5");
  rocksdb_transaction_rollback_to_savepoint(t, &err);
  said("rollback to save point");
  rocksdb_transaction_set_commit_timestamp(t, 5);
  commit(t);
  rocksdb_transaction_destroy(t);
  rows(db, 4);
  rows(db, 5);
  t = begin(db);
  put(t, "x", "never");
  commit(t);
  rocksdb_transaction_destroy(t);
  t = begin(db);
  put(t, "y", "never");
  rocksdb_transaction_rollback(t, &err);
  said("rollback");
  rocksdb_transaction_destroy(t);
  rows(db, 9);
}

static void checks(rocksdb_transactiondb_t* db) {
  rocksdb_transaction_t* t = begin(db);
  locked(t, "a");
  rocksdb_transaction_set_read_timestamp_for_validation(t, 4);
  locked(t, "a");
  locked(t, "free");
  put(t, "b", "too late");
  rocksdb_transaction_set_read_timestamp_for_validation(t, 3);
  read_at(3);
  locked(t, "other");
  read_at(4);
  locked(t, "other");
  read_plain();
  rocksdb_transaction_set_commit_timestamp(t, 4);
  rocksdb_transaction_rollback(t, &err);
  said("rollback");
  rocksdb_transaction_destroy(t);
  t = begin(db);
  rocksdb_transaction_set_read_timestamp_for_validation(t, 5);
  locked(t, "a");
  put(t, "a", "a7");
  rocksdb_transaction_set_commit_timestamp(t, 5);
  rocksdb_transaction_set_commit_timestamp(t, 7);
  commit(t);
  rocksdb_transaction_destroy(t);
  rows(db, 6);
  rows(db, 7);
}

static void batches(rocksdb_transactiondb_t* db) {
  size_t n = 0;
  rocksdb_t* base = rocksdb_transactiondb_get_base_db(db);
  rocksdb_column_family_handle_t* cf = rocksdb_get_default_column_family_handle(base);
  rocksdb_writebatch_t* plain = rocksdb_writebatch_create();
  rocksdb_writebatch_put_cf_with_ts(plain, cf, "k", 1, at(9), 8, "v", 1);
  rocksdb_transactiondb_write(db, w, plain, &err);
  said("write of a batch at a time");
  rocksdb_writebatch_destroy(plain);

  rocksdb_writebatch_wi_t* b = rocksdb_writebatch_wi_create_with_params(order, 0, 1, 0, 0);
  rocksdb_writebatch_wi_put(b, "default", 7, "in the default family", 21);
  rocksdb_writebatch_wi_put_cf(b, cf, "a", 1, "a8", 2);
  rocksdb_writebatch_wi_put_cf(b, cf, "wi", 2, "first", 5);
  rocksdb_writebatch_wi_put_cf(b, cf, "wi", 2, "wi8", 3);
  rocksdb_writebatch_wi_delete_cf(b, cf, "b", 1);
  printf("count %d\n", rocksdb_writebatch_wi_count(b));
  TAKEN("wi", rocksdb_writebatch_wi_get_from_batch_cf(b, options, cf, "wi", 2, &n, &err));
  TAKEN("no time",
        rocksdb_writebatch_wi_get_from_batch_and_db_cf(b, base, r, cf, "wi", 2, &n, &err));
  said("get without a time");
  read_at(7);
  TAKEN("wi", rocksdb_writebatch_wi_get_from_batch_and_db_cf(b, base, r, cf, "wi", 2, &n, &err));
  TAKEN("b", rocksdb_writebatch_wi_get_from_batch_and_db_cf(b, base, r, cf, "b", 1, &n, &err));
  rocksdb_iterator_t* it = rocksdb_writebatch_wi_create_iterator_with_base_cf(
      b, rocksdb_create_iterator_cf(base, r, cf), cf);
  rocksdb_iter_seek_to_first(it);
  entries(it, 1);
  rocksdb_iter_seek_to_last(it);
  entries(it, 0);
  rocksdb_iter_destroy(it);
  read_plain();
  rocksdb_write_writebatch_wi(base, w, b, &err);
  said("write without times");
  rocksdb_writebatch_wi_update_timestamps(b, at(8), 4, NULL, size_of, &err);
  said("short time");
  rocksdb_writebatch_wi_update_timestamps(b, at(8), 8, NULL, size_of, &err);
  said("times");
  rocksdb_write_writebatch_wi(base, w, b, &err);
  said("write");
  rocksdb_writebatch_wi_destroy(b);
  rows(db, 8);
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_transactiondb_close_base_db(base);
}

static rocksdb_transactiondb_t* opened(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/db", getenv("EXCHANGE"));
  rocksdb_transactiondb_t* db = rocksdb_transactiondb_open(options, db_options, path, &err);
  said("open");
  return db;
}

static void wrote(void) {
  rocksdb_transactiondb_t* db = opened();
  commits(db);
  checks(db);
  batches(db);
  rocksdb_transaction_t* t = begin(db);
  rocksdb_transaction_set_name(t, "done", 4, &err);
  put(t, "two", "phases");
  put(t, "a", "a11");
  rocksdb_transaction_prepare(t, &err);
  said("prepare");
  rocksdb_transaction_set_commit_timestamp(t, 11);
  commit(t);
  rocksdb_transaction_t* open = begin(db);
  rocksdb_transaction_set_name(open, "open", 4, &err);
  put(open, "prepared", "p");
  rocksdb_transaction_delete(open, "a", 1, &err);
  rocksdb_transaction_prepare(open, &err);
  said("prepare");
  rows(db, 11);
  fflush(stdout);
  _exit(0);
}

static void went_on(void) {
  rocksdb_transactiondb_t* db = opened();
  rows(db, 10);
  rows(db, 20);
  size_t count = 0, n = 0;
  rocksdb_transaction_t** found = rocksdb_transactiondb_get_prepared_transactions(db, &count);
  printf("prepared %zu\n", count);
  for (size_t i = 0; i < count; i++) {
    TAKEN("name", rocksdb_transaction_get_name(found[i], &n));
    commit(found[i]);
    rocksdb_transaction_set_commit_timestamp(found[i], 13);
    commit(found[i]);
    rocksdb_transaction_destroy(found[i]);
  }
  rocksdb_free(found);
  rows(db, 12);
  rows(db, 13);
  rocksdb_transactiondb_close(db);
  db = opened();
  rows(db, 12);
  rows(db, 13);
  rocksdb_transactiondb_close(db);
}

/* What an open refuses, and a database whose transactions do not check times. */
static void others(void) {
  rocksdb_transactiondb_options_t* prepared = rocksdb_transactiondb_options_create();
  rocksdb_transactiondb_options_set_write_policy(prepared, 1);
  rocksdb_transactiondb_t* db =
      rocksdb_transactiondb_open(options, prepared, dir("prepared"), &err);
  said("open with another policy");
  rocksdb_transactiondb_options_destroy(prepared);
  rocksdb_transactiondb_options_t* unchecked = rocksdb_transactiondb_options_create();
  rocksdb_transactiondb_options_set_enable_udt_validation(unchecked, 0);
  db = rocksdb_transactiondb_open(options, unchecked, dir("unchecked"), &err);
  said("open");
  rocksdb_transaction_t* t = begin(db);
  locked(t, "k");
  rocksdb_transaction_set_read_timestamp_for_validation(t, 5);
  locked(t, "k");
  put(t, "k", "v");
  rocksdb_transaction_set_commit_timestamp(t, 4);
  commit(t);
  rocksdb_transaction_destroy(t);
  rows(db, 4);
  rocksdb_transactiondb_close(db);
  rocksdb_transactiondb_options_destroy(unchecked);

  rocksdb_optimistictransactiondb_t* free_db =
      rocksdb_optimistictransactiondb_open(options, dir("optimistic"), &err);
  said("open");
  rocksdb_optimistictransaction_options_t* o = rocksdb_optimistictransaction_options_create();
  t = rocksdb_optimistictransaction_begin(free_db, w, o, NULL);
  put(t, "k", "v");
  rocksdb_transaction_set_commit_timestamp(t, 4);
  commit(t);
  rocksdb_transaction_destroy(t);
  rocksdb_optimistictransaction_options_destroy(o);
  rocksdb_optimistictransactiondb_close(free_db);
}

int main(void) {
  options = rocksdb_options_create();
  db_options = rocksdb_transactiondb_options_create();
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  rocksdb_options_set_create_if_missing(options, 1);
  order = rocksdb_comparator_with_ts_create(
      NULL, destroy, compare, compare_ts, compare_without_ts, name, 8);
  rocksdb_options_set_comparator(options, order);
  if (strcmp(getenv("MODE"), "write") == 0) wrote();
  went_on();
  others();
  rocksdb_options_destroy(options);
  rocksdb_transactiondb_options_destroy(db_options);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_comparator_destroy(order);
  return 0;
}
