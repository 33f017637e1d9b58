/* Batches with an index and transactions of both kinds: each rule alone. Waiting for locks is left
 * out: its outcome is a matter of time. */
#include "show.h"

static rocksdb_options_t* options;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;
rocksdb_transaction_t** never_freed;

/* What a batch refuses, and merges without what they need. */
static void batch_rules(void) {
  size_t n;
  rocksdb_t* db = rocksdb_open(options, dir("rules"), &err);
  said("open");
  rocksdb_writebatch_wi_t* b = rocksdb_writebatch_wi_create(0, 1);
  rocksdb_writebatch_wi_put(b, "bar", 3, "1", 1);
  rocksdb_writebatch_wi_delete_range(b, "a", 1, "z", 1);
  printf("count %d\n", rocksdb_writebatch_wi_count(b));
  rocksdb_writebatch_wi_merge(b, "m", 1, "2", 1);
  TAKEN("merge", rocksdb_writebatch_wi_get_from_batch(b, options, "m", 1, &n, &err));
  said("get of a merge");
  TAKEN("merge", rocksdb_writebatch_wi_get_from_batch_and_db(b, db, r, "m", 1, &n, &err));
  said("get of a merge over the database");
  rocksdb_writebatch_wi_merge(b, "bar", 3, "2", 1);
  TAKEN("merge", rocksdb_writebatch_wi_get_from_batch(b, options, "bar", 3, &n, &err));
  said("get of a merge over a put");
  rocksdb_iterator_t* it =
      rocksdb_writebatch_wi_create_iterator_with_base(b, rocksdb_create_iterator(db, r));
  rocksdb_iter_seek_to_first(it);
  entries(it, 1);
  rocksdb_iter_destroy(it);
  rocksdb_writebatch_wi_clear(b);
  rocksdb_writebatch_wi_put_log_data(b, "note", 4);
  printf("count %d\n", rocksdb_writebatch_wi_count(b));
  rocksdb_writebatch_wi_destroy(b);
  b = rocksdb_writebatch_wi_create_with_params(NULL, 0, 1, 40, 0);
  rocksdb_writebatch_wi_put(b, "k", 1, "v", 1);
  rocksdb_writebatch_wi_put(b, "l", 1, "a value that is too long for it", 31);
  printf("count %d\n", rocksdb_writebatch_wi_count(b));
  rocksdb_writebatch_wi_destroy(b);
  rocksdb_close(db);
}

/* Calls out of their time, and handles that are used again. */
static void transaction_rules(void) {
  size_t n;
  rocksdb_transactiondb_options_t* dbo = rocksdb_transactiondb_options_create();
  rocksdb_transaction_options_t* o = rocksdb_transaction_options_create();
  rocksdb_transaction_options_set_lock_timeout(o, 0);
  rocksdb_transactiondb_t* db = rocksdb_transactiondb_open(options, dbo, dir("txn"), &err);
  said("open");
  rocksdb_transaction_t* t = rocksdb_transaction_begin(db, w, o, NULL);
  rocksdb_transaction_rollback_to_savepoint(t, &err);
  said("rollback to savepoint");
  rocksdb_transaction_put(t, "a", 1, "1", 1, &err);
  said("put");
  rocksdb_transaction_commit(t, &err);
  said("commit");
  rocksdb_transaction_commit(t, &err);
  said("commit again");
  rocksdb_transaction_rollback(t, &err);
  said("rollback of a committed one");
  t = rocksdb_transaction_begin(db, w, o, t);
  rocksdb_transaction_put(t, "b", 1, "2", 1, &err);
  rocksdb_writebatch_wi_t* wi = rocksdb_transaction_get_writebatch_wi(t);
  printf("count %d\n", rocksdb_writebatch_wi_count(wi));
  TAKEN("own write", rocksdb_writebatch_wi_get_from_batch(wi, options, "b", 1, &n, &err));
  rocksdb_free(wi);
  rocksdb_transaction_rollback(t, &err);
  said("rollback");
  rocksdb_transaction_put(t, "c", 1, "3", 1, &err);
  rocksdb_transaction_commit(t, &err);
  said("commit after a rollback");
  rocksdb_transaction_destroy(t);
  rocksdb_transaction_options_set_expiration(o, 0);
  t = rocksdb_transaction_begin(db, w, o, NULL);
  rocksdb_transaction_put(t, "d", 1, "4", 1, &err);
  rocksdb_transaction_commit(t, &err);
  said("commit of an expired one");
  rocksdb_transaction_options_set_expiration(o, -1);
  rocksdb_transaction_options_set_set_snapshot(o, 1);
  rocksdb_transaction_t* u = rocksdb_transaction_begin(db, w, o, NULL);
  rocksdb_transaction_put(u, "d", 1, "5", 1, &err);
  said("put of a stolen lock");
  rocksdb_transaction_commit(t, &err);
  said("commit of one whose lock was stolen");
  rocksdb_transaction_rollback(t, &err);
  said("rollback of it");
  rocksdb_transaction_destroy(t);
  const rocksdb_snapshot_t* s = rocksdb_transaction_get_snapshot(u);
  rocksdb_readoptions_t* at = rocksdb_readoptions_create();
  rocksdb_readoptions_set_snapshot(at, s);
  rocksdb_transactiondb_put(db, w, "a", 1, "new", 3, &err);
  said("plain put");
  TAKEN("at the snapshot", rocksdb_transaction_get(u, at, "a", 1, &n, &err));
  TAKEN("now", rocksdb_transaction_get(u, r, "a", 1, &n, &err));
  rocksdb_transaction_put(u, "a", 1, "6", 1, &err);
  said("put of what has changed");
  rocksdb_free((void*)s);
  rocksdb_readoptions_destroy(at);
  const char* keys[] = {"a", "d", "x"};
  const size_t lens[] = {1, 1, 1};
  char* values[3];
  size_t sizes[3];
  char* errs[3];
  rocksdb_transaction_multi_get(u, r, 3, keys, lens, values, sizes, errs);
  for (int i = 0; i < 3; i++) {
    printf("%s\n", errs[i] ? errs[i] : "ok");
    taken("many", values[i], sizes[i]);
    free(errs[i]);
  }
  rocksdb_transaction_multi_get_for_update(u, r, 3, keys, lens, values, sizes, errs);
  for (int i = 0; i < 3; i++) {
    printf("%s\n", errs[i] ? errs[i] : "ok");
    taken("many for update", values[i], sizes[i]);
    free(errs[i]);
  }
  rocksdb_writebatch_t* b = rocksdb_writebatch_create();
  rocksdb_writebatch_put(b, "r1", 2, "x", 1);
  rocksdb_writebatch_delete(b, "r2", 2);
  rocksdb_transaction_rebuild_from_writebatch(u, b, &err);
  said("rebuild");
  rocksdb_transactiondb_write(db, w, b, &err);
  said("a batch with locked keys");
  rocksdb_writebatch_clear(b);
  rocksdb_writebatch_delete_range(b, "a", 1, "b", 1);
  rocksdb_transactiondb_write(db, w, b, &err);
  said("a range deletion");
  rocksdb_writebatch_destroy(b);
  rocksdb_transaction_commit(u, &err);
  said("commit");
  rocksdb_transaction_destroy(u);
  rocksdb_transaction_options_set_skip_prepare(o, 0);
  t = rocksdb_transaction_begin(db, w, o, NULL);
  rocksdb_transaction_put(t, "e", 1, "7", 1, &err);
  rocksdb_transaction_commit(t, &err);
  said("commit of one that must be prepared");
  rocksdb_transaction_destroy(t);
  rocksdb_iterator_t* it = rocksdb_transactiondb_create_iterator(db, r);
  rocksdb_iter_seek_to_first(it);
  entries(it, 1);
  rocksdb_iter_destroy(it);
  rocksdb_transactiondb_close(db);
  rocksdb_transactiondb_options_set_max_num_locks(dbo, 2);
  db = rocksdb_transactiondb_open(options, dbo, dir("txn"), &err);
  said("open again");
  rocksdb_transaction_options_set_skip_prepare(o, 1);
  t = rocksdb_transaction_begin(db, w, o, NULL);
  for (const char* k = "abc"; *k; k++) {
    rocksdb_transaction_put(t, k, 1, "8", 1, &err);
    said("put with few locks");
  }
  rocksdb_transaction_destroy(t);
  rocksdb_transactiondb_close(db);
  rocksdb_transactiondb_options_destroy(dbo);
  rocksdb_transaction_options_destroy(o);
}

/* Names, prepares, and what the next open finds. */
static void two_phases(void) {
  size_t n;
  rocksdb_transactiondb_options_t* dbo = rocksdb_transactiondb_options_create();
  rocksdb_transaction_options_t* o = rocksdb_transaction_options_create();
  rocksdb_transaction_options_set_lock_timeout(o, 0);
  rocksdb_transactiondb_t* db = rocksdb_transactiondb_open(options, dbo, dir("phases"), &err);
  said("open");
  rocksdb_transaction_t* t = rocksdb_transaction_begin(db, w, o, NULL);
  rocksdb_transaction_prepare(t, &err);
  said("prepare without a name");
  rocksdb_transaction_set_name(t, "", 0, &err);
  said("an empty name");
  char* longest = malloc(513);
  memset(longest, 'x', 513);
  rocksdb_transaction_set_name(t, longest, 513, &err);
  said("a long name");
  free(longest);
  rocksdb_transaction_set_name(t, "first", 5, &err);
  said("a name");
  rocksdb_transaction_set_name(t, "again", 5, &err);
  said("another name");
  TAKEN("name", rocksdb_transaction_get_name(t, &n));
  rocksdb_transaction_t* u = rocksdb_transaction_begin(db, w, o, NULL);
  rocksdb_transaction_set_name(u, "first", 5, &err);
  said("a name that is taken");
  rocksdb_transaction_put(t, "k", 1, "1", 1, &err);
  rocksdb_transaction_prepare(t, &err);
  said("prepare");
  rocksdb_transaction_prepare(t, &err);
  said("prepare again");
  TAKEN("not yet", rocksdb_transactiondb_get(db, r, "k", 1, &n, &err));
  rocksdb_transaction_put(u, "k", 1, "2", 1, &err);
  said("a locked key");
  rocksdb_transaction_t** all = rocksdb_transactiondb_get_prepared_transactions(db, &n);
  printf("prepared %zu\n", n);
  /* In RocksDB the end of such a handle is the end of t, which has its own. */
  never_freed = all;
  rocksdb_transaction_commit(t, &err);
  said("commit");
  rocksdb_transaction_commit(t, &err);
  said("commit again");
  rocksdb_transaction_prepare(t, &err);
  said("prepare of a committed one");
  TAKEN("its name", rocksdb_transaction_get_name(t, &n));
  TAKEN("now", rocksdb_transactiondb_get(db, r, "k", 1, &n, &err));
  rocksdb_transaction_set_name(u, "first", 5, &err);
  said("the name once more");
  rocksdb_transaction_put(u, "k", 1, "3", 1, &err);
  rocksdb_transaction_prepare(u, &err);
  said("prepare");
  rocksdb_transaction_rollback(u, &err);
  said("rollback");
  rocksdb_transaction_rollback(u, &err);
  said("rollback again");
  rocksdb_transaction_commit(u, &err);
  said("commit after the rollback");
  rocksdb_transaction_prepare(u, &err);
  said("prepare after the rollback");
  rocksdb_transaction_destroy(t);
  rocksdb_transaction_destroy(u);
  for (const char* name = "abcd"; *name; name++) {
    t = rocksdb_transaction_begin(db, w, o, NULL);
    rocksdb_transaction_set_name(t, name, 1, &err);
    rocksdb_transaction_put(t, name, 1, "left", 4, &err);
    rocksdb_transaction_prepare(t, &err);
    said("prepare of one that is left");
    rocksdb_transaction_destroy(t);
  }
  rocksdb_transactiondb_close(db);
  db = rocksdb_transactiondb_open(options, dbo, dir("phases"), &err);
  said("open again");
  all = rocksdb_transactiondb_get_prepared_transactions(db, &n);
  printf("prepared %zu\n", n);
  size_t found = n;
  rocksdb_transactiondb_put(db, w, "a", 1, "plain", 5, &err);
  said("a key of a recovered one");
  /* RocksDB lists them in the order of a hash table. */
  for (const char* name = "abcd"; *name; name++) {
    for (size_t i = 0; i < found; i++) {
      char* own = rocksdb_transaction_get_name(all[i], &n);
      int wanted = n == 1 && own[0] == *name;
      rocksdb_free(own);
      if (!wanted) continue;
      if (*name == 'a' || *name == 'c') rocksdb_transaction_commit(all[i], &err);
      else rocksdb_transaction_rollback(all[i], &err);
      said("its end");
    }
  }
  for (size_t i = 0; i < found; i++) rocksdb_transaction_destroy(all[i]);
  rocksdb_free(all);
  rocksdb_iterator_t* it = rocksdb_transactiondb_create_iterator(db, r);
  rocksdb_iter_seek_to_first(it);
  entries(it, 1);
  rocksdb_iter_destroy(it);
  rocksdb_transactiondb_close(db);
  db = rocksdb_transactiondb_open(options, dbo, dir("phases"), &err);
  said("open at last");
  all = rocksdb_transactiondb_get_prepared_transactions(db, &n);
  printf("prepared %zu %s\n", n, all == NULL ? "none" : "some");
  rocksdb_free(all);
  it = rocksdb_transactiondb_create_iterator(db, r);
  rocksdb_iter_seek_to_first(it);
  entries(it, 1);
  rocksdb_iter_destroy(it);
  rocksdb_transactiondb_close(db);
  rocksdb_transactiondb_options_destroy(dbo);
  rocksdb_transaction_options_destroy(o);
}

int main(void) {
  options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  batch_rules();
  transaction_rules();
  two_phases();
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(options);
  return 0;
}
