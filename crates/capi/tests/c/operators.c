/* Call-backs: orders, merges, filters, prefixes; column families; listeners. */
#include "show.h"

static int destroyed = 0;
static void destroy(void* s) {
  destroyed += *(int*)s;
}
static int one = 1, ten = 10, hundred = 100, thousand = 1000;

static int reverse(void* s, const char* a, size_t al, const char* b, size_t bl) {
  (void)s;
  size_t n = al < bl ? al : bl;
  int r = memcmp(b, a, n);
  if (r == 0) r = bl < al ? -1 : bl > al;
  return r;
}
static const char* reverse_name(void* s) {
  (void)s;
  return "test.reverse";
}

static char* full(void* s, const char* key, size_t kl, const char* old, size_t ol,
                  const char* const* list, const size_t* lens, int n, unsigned char* success,
                  size_t* result) {
  (void)s;
  (void)key;
  *success = !(kl == 3 && memcmp(key, "bad", 3) == 0);
  *result = 0;
  if (!*success) return NULL;
  char* out = malloc(4096);
  size_t at = 0;
  if (old) {
    memcpy(out, old, ol);
    at = ol;
  }
  for (int i = 0; i < n; i++) {
    out[at++] = ',';
    memcpy(out + at, list[i], lens[i]);
    at += lens[i];
  }
  *result = at;
  return out;
}
static char* partial(void* s, const char* key, size_t kl, const char* const* list,
                     const size_t* lens, int n, unsigned char* success, size_t* result) {
  (void)s, (void)key, (void)kl, (void)list, (void)lens, (void)n;
  *success = 0;
  *result = 0;
  return NULL;
}
static const char* merge_name(void* s) {
  (void)s;
  return "test.append";
}

static unsigned char filter(void* s, int level, const char* key, size_t kl, const char* value,
                            size_t vl, char** new_value, size_t* new_length,
                            unsigned char* changed) {
  (void)s, (void)level, (void)value, (void)vl;
  if (kl == 6 && memcmp(key, "remove", 6) == 0) return 1;
  if (kl == 6 && memcmp(key, "change", 6) == 0) {
    *new_value = "changed";
    *new_length = 7;
    *changed = 1;
  }
  return 0;
}
static const char* filter_name(void* s) {
  (void)s;
  return "test.filter";
}

/* The first flush; it may be reported a moment after the call has returned. */
static int flushed = 0;
static char report[256];
static void flush_done(void* s, rocksdb_t* db, const rocksdb_flushjobinfo_t* info) {
  (void)s;
  (void)db;
  size_t n;
  if (flushed++ > 0) return;
  const char* name = rocksdb_flushjobinfo_cf_name(info, &n);
  snprintf(report, sizeof report, "%.*s %llu to %llu, reason %u", (int)n, name,
           (unsigned long long)rocksdb_flushjobinfo_smallest_seqno(info),
           (unsigned long long)rocksdb_flushjobinfo_largest_seqno(info),
           rocksdb_flushjobinfo_flush_reason(info));
}
static void flush_none(void* s, rocksdb_t* db, const rocksdb_flushjobinfo_t* i) {
  (void)s, (void)db, (void)i;
}
static void compaction_none(void* s, rocksdb_t* db, const rocksdb_compactionjobinfo_t* i) {
  (void)s, (void)db, (void)i;
}
static void part_none(void* s, const rocksdb_subcompactionjobinfo_t* i) {
  (void)s, (void)i;
}
static void ingested_none(void* s, rocksdb_t* db, const rocksdb_externalfileingestioninfo_t* i) {
  (void)s, (void)db, (void)i;
}
static void error_none(void* s, uint32_t r, rocksdb_status_ptr_t* i) {
  (void)s, (void)r, (void)i;
}
static void stall_none(void* s, const rocksdb_writestallinfo_t* i) {
  (void)s, (void)i;
}
static void sealed_none(void* s, const rocksdb_memtableinfo_t* i) {
  (void)s, (void)i;
}

static void show(rocksdb_t* db, rocksdb_column_family_handle_t* cf) {
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_iterator_t* it = rocksdb_create_iterator_cf(db, r, cf);
  for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
    size_t n;
    const char* k = rocksdb_iter_key(it, &n);
    bytes("  key", k, n);
    const char* v = rocksdb_iter_value(it, &n);
    bytes("  value", v, n);
  }
  rocksdb_iter_destroy(it);
  rocksdb_readoptions_destroy(r);
}

static rocksdb_options_t* options(rocksdb_comparator_t* order) {
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_compression(o, 0);
  if (order) rocksdb_options_set_comparator(o, order);
  return o;
}

int main(void) {
  size_t n;
  rocksdb_comparator_t* order = rocksdb_comparator_create(&one, destroy, reverse, reverse_name);
  rocksdb_options_t* o = options(order);
  rocksdb_options_set_merge_operator(
      o, rocksdb_mergeoperator_create(&ten, destroy, full, partial, NULL, merge_name));
  rocksdb_compactionfilter_t* f =
      rocksdb_compactionfilter_create(&hundred, destroy, filter, filter_name);
  rocksdb_options_set_compaction_filter(o, f);
  rocksdb_options_add_eventlistener(
      o, rocksdb_eventlistener_create(&thousand, destroy, flush_none, flush_done, compaction_none,
                                      compaction_none, part_none, part_none, ingested_none,
                                      error_none, stall_none, sealed_none));
  rocksdb_t* db = rocksdb_open(o, dir("ops"), &err);
  said("open");
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_put(db, w, "a", 1, "1", 1, &err);
  rocksdb_put(db, w, "b", 1, "2", 1, &err);
  rocksdb_put(db, w, "remove", 6, "x", 1, &err);
  rocksdb_put(db, w, "change", 6, "x", 1, &err);
  rocksdb_merge(db, w, "b", 1, "3", 1, &err);
  rocksdb_merge(db, w, "b", 1, "4", 1, &err);
  rocksdb_merge(db, w, "new", 3, "5", 1, &err);
  said("merge");
  TAKEN("merged", rocksdb_get(db, r, "b", 1, &n, &err));
  rocksdb_merge(db, w, "bad", 3, "5", 1, &err);
  char* none = rocksdb_get(db, r, "bad", 3, &n, &err);
  bytes("failing merge", none, n);
  said("failing merge");
  rocksdb_delete(db, w, "bad", 3, &err);
  rocksdb_column_family_handle_t* cf = rocksdb_get_default_column_family_handle(db);
  show(db, cf);
  rocksdb_flushoptions_t* fo = rocksdb_flushoptions_create();
  rocksdb_flush(db, fo, &err);
  said("flush");
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  show(db, cf);
  rocksdb_column_family_handle_destroy(cf);

  cf = rocksdb_create_column_family(db, o, "second", &err);
  said("create family");
  printf("id %u\n", rocksdb_column_family_handle_get_id(cf));
  TAKEN("name", rocksdb_column_family_handle_get_name(cf, &n));
  rocksdb_put_cf(db, w, cf, "in", 2, "second", 6, &err);
  said("put");
  printf("again %d\n", rocksdb_create_column_family(db, o, "second", &err) != NULL);
  said("create again");
  rocksdb_drop_column_family(db, cf, &err);
  said("drop");
  rocksdb_put_cf(db, w, cf, "in", 2, "dropped", 7, &err);
  said("put to what is dropped");
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_options_t* plain = options(NULL);
  cf = rocksdb_create_column_family(db, plain, "third", &err);
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_close(db);

  char** names = rocksdb_list_column_families(o, dir("ops"), &n, &err);
  said("list");
  for (size_t i = 0; i < n; i++) printf("family %s\n", names[i]);
  rocksdb_list_column_families_destroy(names, n);
  db = rocksdb_open(o, dir("ops"), &err);
  said("open without families");
  const char* wanted[] = {"default", "third"};
  const rocksdb_options_t* each[] = {o, plain};
  rocksdb_column_family_handle_t* handles[2];
  db = rocksdb_open_column_families(o, dir("ops"), 2, wanted, each, handles, &err);
  said("open with families");
  rocksdb_put_cf(db, w, handles[1], "k", 1, "v", 1, &err);
  const char* keys[] = {"a", "k"};
  const size_t lens[] = {1, 1};
  char *values[2], *errs[2];
  size_t sizes[2];
  rocksdb_multi_get_cf(db, r, (const rocksdb_column_family_handle_t* const*)handles, 2, keys, lens,
                       values, sizes, errs);
  for (int i = 0; i < 2; i++) taken("multi", values[i], sizes[i]);
  rocksdb_flush_cfs(db, fo, handles, 2, &err);
  said("flush families");
  rocksdb_column_family_handle_destroy(handles[0]);
  rocksdb_column_family_handle_destroy(handles[1]);
  rocksdb_close(db);
  rocksdb_options_t* other = options(NULL);
  db = rocksdb_open(other, dir("ops"), &err);
  printf("with another order: %d\n", db == NULL && err != NULL);
  free(err);
  err = NULL;
  rocksdb_destroy_db(o, dir("ops"), &err);
  rocksdb_options_destroy(other);
  rocksdb_options_destroy(plain);
  rocksdb_options_destroy(o);
  rocksdb_compactionfilter_destroy(f);
  rocksdb_comparator_destroy(order);
  rocksdb_flushoptions_destroy(fo);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  printf("destroyed %d, flushed %s\n", destroyed, report);
  return 0;
}
