/* Drawn batches with an index over drawn databases, and drawn schedules of up to eight transactions
 * of both kinds, step by step. SHOW_SEEDS has the first seed and how many there are. Transactions
 * do not wait for locks: its outcome is a matter of time. In every other seed there are merges, of
 * numbers that are added. */
#include "show.h"

static rocksdb_options_t* options;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;
static int merges;

/* The same numbers everywhere. */
static unsigned long long state;
static unsigned draw(unsigned below) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (unsigned)(state >> 33) % below;
}

/* A value; numbers of eight bytes where they are added. */
static size_t value(char* v, char kind, unsigned number) {
  if (!merges) return (size_t)sprintf(v, "%c%u", kind, number);
  memset(v, 0, 8);
  v[0] = (char)number;
  v[1] = kind;
  return 8;
}

static void indexed_update(rocksdb_writebatch_wi_t* b, rocksdb_t* db, const char* k, const char* v,
                           size_t vl, unsigned what) {
  size_t kl = strlen(k);
  if (merges && what == 1) what = 9;
  switch (what) {
    case 9:
      if (b) rocksdb_writebatch_wi_merge(b, k, kl, v, vl);
      else rocksdb_merge(db, w, k, kl, v, vl, &err);
      break;
    case 0:
    case 1:
      if (b) rocksdb_writebatch_wi_put(b, k, kl, v, vl);
      else rocksdb_put(db, w, k, kl, v, vl, &err);
      break;
    case 2:
      if (b) rocksdb_writebatch_wi_delete(b, k, kl);
      else rocksdb_delete(db, w, k, kl, &err);
      break;
    default:
      if (b) rocksdb_writebatch_wi_singledelete(b, k, kl);
      else rocksdb_singledelete(db, w, k, kl, &err);
  }
}

/* A drawn batch over a drawn database: gets, both directions, turns. */
static void drawn_batch(unsigned seed) {
  size_t n;
  char name[32], k[16], v[16];
  state = seed;
  snprintf(name, sizeof name, "wi%u", seed);
  rocksdb_t* db = rocksdb_open(options, dir(name), &err);
  if (err) said("open");
  for (int i = 0; i < 12; i++) {
    snprintf(k, sizeof k, "k%02u", draw(16));
    size_t vl = value(v, 'd', draw(100));
    indexed_update(NULL, db, k, v, vl, draw(3));
  }
  rocksdb_writebatch_wi_t* b = rocksdb_writebatch_wi_create(0, (unsigned char)draw(2));
  int points = 0;
  for (int i = 0; i < 20; i++) {
    unsigned what = draw(12);
    if (what == 10) {
      rocksdb_writebatch_wi_set_save_point(b);
      points++;
    } else if (what == 11) {
      rocksdb_writebatch_wi_rollback_to_save_point(b, &err);
      printf("rollback with %d: %s\n", points, err ? err : "ok");
      free(err);
      err = NULL;
      if (points > 0) points--;
    } else {
      snprintf(k, sizeof k, "k%02u", draw(16));
      size_t vl = value(v, 'b', draw(100));
      indexed_update(b, NULL, k, v, vl, what % 4);
    }
  }
  printf("seed %u count %d\n", seed, rocksdb_writebatch_wi_count(b));
  BYTES("data", rocksdb_writebatch_wi_data(b, &n));
  for (int i = 0; i < 16; i++) {
    snprintf(k, sizeof k, "k%02d", i);
    TAKEN("batch", rocksdb_writebatch_wi_get_from_batch(b, options, k, 3, &n, &err));
    said("get from the batch");
    TAKEN("both", rocksdb_writebatch_wi_get_from_batch_and_db(b, db, r, k, 3, &n, &err));
    said("get from both");
  }
  rocksdb_iterator_t* it =
      rocksdb_writebatch_wi_create_iterator_with_base(b, rocksdb_create_iterator(db, r));
  rocksdb_iter_seek_to_first(it);
  entries(it, 1);
  rocksdb_iter_seek_to_last(it);
  entries(it, 0);
  for (int i = 0; i < 30; i++) {
    unsigned what = draw(6);
    if (what == 0 || !rocksdb_iter_valid(it)) {
      snprintf(k, sizeof k, "k%02u", draw(17));
      if (draw(2)) rocksdb_iter_seek(it, k, 3);
      else rocksdb_iter_seek_for_prev(it, k, 3);
    } else if (what < 4) {
      rocksdb_iter_next(it);
    } else {
      rocksdb_iter_prev(it);
    }
    if (rocksdb_iter_valid(it)) {
      BYTES("at", rocksdb_iter_key(it, &n));
      BYTES("is", rocksdb_iter_value(it, &n));
    } else {
      printf("at the end\n");
    }
  }
  rocksdb_iter_destroy(it);
  rocksdb_write_writebatch_wi(db, w, b, &err);
  said("write");
  it = rocksdb_create_iterator(db, r);
  rocksdb_iter_seek_to_first(it);
  entries(it, 1);
  rocksdb_iter_destroy(it);
  rocksdb_writebatch_wi_destroy(b);
  rocksdb_close(db);
  rocksdb_destroy_db(options, dir(name), &err);
}

#define SLOTS 8

/* A drawn schedule of transactions that do not wait for locks. */
static void drawn_transactions(unsigned seed, int locking) {
  size_t n;
  char name[32], k[8], v[16];
  state = seed + 1000003ULL * (unsigned)locking;
  snprintf(name, sizeof name, "%s%u", locking ? "locks" : "checks", seed);
  rocksdb_transactiondb_t* ldb = NULL;
  rocksdb_optimistictransactiondb_t* odb = NULL;
  rocksdb_transactiondb_options_t* ldbo = rocksdb_transactiondb_options_create();
  rocksdb_transactiondb_options_set_default_lock_timeout(ldbo, 0);
  rocksdb_transaction_options_t* lo = rocksdb_transaction_options_create();
  rocksdb_transaction_options_set_lock_timeout(lo, 0);
  rocksdb_optimistictransaction_options_t* oo = rocksdb_optimistictransaction_options_create();
  if (locking) ldb = rocksdb_transactiondb_open(options, ldbo, dir(name), &err);
  else odb = rocksdb_optimistictransactiondb_open(options, dir(name), &err);
  said(name);
  char path[sizeof name];
  strcpy(path, name);
  rocksdb_t* base = locking ? rocksdb_transactiondb_get_base_db(ldb)
                            : rocksdb_optimistictransactiondb_get_base_db(odb);
  rocksdb_flushoptions_t* fo = rocksdb_flushoptions_create();
  rocksdb_transaction_t* t[SLOTS] = {NULL};
  for (int step = 0; step < 80; step++) {
    unsigned at = draw(SLOTS), what = draw(24);
    snprintf(k, sizeof k, "k%u", draw(5));
    size_t vl = value(v, 'v', (unsigned)step);
    printf("%d: t%u %u %s\n", step, at, what, k);
    if (t[at] == NULL) {
      unsigned char snap = (unsigned char)draw(2);
      rocksdb_transaction_options_set_set_snapshot(lo, snap);
      rocksdb_optimistictransaction_options_set_set_snapshot(oo, snap);
      t[at] = locking ? rocksdb_transaction_begin(ldb, w, lo, NULL)
                      : rocksdb_optimistictransaction_begin(odb, w, oo, NULL);
      continue;
    }
    switch (what) {
      case 0: case 1: case 2: case 3: case 4:
        rocksdb_transaction_put(t[at], k, 2, v, vl, &err);
        said("put");
        break;
      case 5: case 6:
        rocksdb_transaction_delete(t[at], k, 2, &err);
        said("delete");
        break;
      case 7: case 8:
        TAKEN("get", rocksdb_transaction_get(t[at], r, k, 2, &n, &err));
        said("get");
        break;
      case 9: case 10: case 11: {
        unsigned char exclusive = (unsigned char)draw(2);
        TAKEN("for update",
              rocksdb_transaction_get_for_update(t[at], r, k, 2, &n, exclusive, &err));
        said("get for update");
        break;
      }
      case 12:
        rocksdb_transaction_set_savepoint(t[at]);
        break;
      case 13:
        rocksdb_transaction_rollback_to_savepoint(t[at], &err);
        said("rollback to savepoint");
        break;
      case 14: case 15:
        rocksdb_transaction_commit(t[at], &err);
        said("commit");
        rocksdb_transaction_destroy(t[at]);
        t[at] = NULL;
        break;
      case 16:
        rocksdb_transaction_rollback(t[at], &err);
        said("rollback");
        break;
      case 17:
        rocksdb_transaction_destroy(t[at]);
        t[at] = NULL;
        break;
      case 18:
        if (locking) rocksdb_transactiondb_put(ldb, w, k, 2, v, vl, &err);
        else rocksdb_put(base, w, k, 2, v, vl, &err);
        said("plain put");
        break;
      case 20:
        if (!merges) break; /* RocksDB takes what no operator will merge. */
        rocksdb_transaction_merge(t[at], k, 2, v, vl, &err);
        said("merge");
        break;
      case 21:
        if (!locking) break; /* Names of optimistic ones are in the rules. */
        snprintf(name, sizeof name, "n%u at %d", at, step);
        rocksdb_transaction_set_name(t[at], name, strlen(name), &err);
        said("name");
        rocksdb_transaction_prepare(t[at], &err);
        said("prepare");
        break;
      case 22: {
        const char* keys[] = {"k0", k, "k4"};
        const size_t lens[] = {2, 2, 2};
        char *values[3], *errs[3];
        size_t sizes[3];
        rocksdb_transaction_multi_get_for_update(t[at], r, 3, keys, lens, values, sizes, errs);
        for (int i = 0; i < 3; i++) {
          printf("%s\n", errs[i] ? errs[i] : "ok");
          taken("many for update", values[i], sizes[i]);
          free(errs[i]);
        }
        break;
      }
      case 19: case 23:
        rocksdb_flush(base, fo, &err);
        said("flush");
    }
  }
  for (int at = 0; at < SLOTS; at++) {
    if (t[at] == NULL) continue;
    rocksdb_iterator_t* it = rocksdb_transaction_create_iterator(t[at], r);
    rocksdb_iter_seek_to_last(it);
    entries(it, 0);
    rocksdb_iter_destroy(it);
    rocksdb_transaction_commit(t[at], &err);
    said("commit at the end");
    rocksdb_transaction_destroy(t[at]);
  }
  rocksdb_iterator_t* it = rocksdb_create_iterator(base, r);
  rocksdb_iter_seek_to_first(it);
  entries(it, 1);
  rocksdb_iter_destroy(it);
  rocksdb_flushoptions_destroy(fo);
  if (locking) {
    rocksdb_transactiondb_close_base_db(base);
    rocksdb_transactiondb_close(ldb);
  } else {
    rocksdb_optimistictransactiondb_close_base_db(base);
    rocksdb_optimistictransactiondb_close(odb);
  }
  rocksdb_transactiondb_options_destroy(ldbo);
  rocksdb_transaction_options_destroy(lo);
  rocksdb_optimistictransaction_options_destroy(oo);
  rocksdb_destroy_db(options, dir(path), &err);
  free(err);
  err = NULL;
}

int main(void) {
  unsigned first = 0, count = 40;
  const char* seeds = getenv("SHOW_SEEDS");
  if (seeds) sscanf(seeds, "%u %u", &first, &count);
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  for (unsigned seed = first; seed < first + count; seed++) {
    merges = (int)(seed % 2);
    options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    if (merges) rocksdb_options_set_uint64add_merge_operator(options);
    drawn_batch(seed);
    drawn_transactions(seed, 1);
    drawn_transactions(seed, 0);
    rocksdb_options_destroy(options);
  }
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  return 0;
}
