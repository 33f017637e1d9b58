/* Drawn calls on drawn handles: databases of several kinds, column families, iterators, snapshots,
 * batches with and without an index, pinned values, in any order of making, using and destroying.
 *
 * SHOW_SEEDS is the first seed and how many ("1 20"); each seed is a database of its own. What is
 * undefined in RocksDB is not drawn: moves of an iterator that is at no entry, keys of one, single
 * deletes of keys that were overwritten, handles that are gone. Nor is what makes it refuse all
 * later writes: ranges whose end is before their start, writes to a column family that was dropped,
 * an operator that fails. Nor batches with an index where values expire: 11.8.1 gives the time behind
 * the values, too. */
#include "show.h"

enum { FAMILIES = 4, ITERATORS = 4, SNAPSHOTS = 3, BATCHES = 3, PINNED = 4, INDEXED = 2 };

static unsigned long long state;
static unsigned draw(unsigned below) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (unsigned)(state >> 33) % below;
}

/* The handles. Family 0 is the default one. */
static rocksdb_t* db;
static rocksdb_options_t* options;
static rocksdb_comparator_t* order;
static rocksdb_writeoptions_t* w;
static struct {
  rocksdb_column_family_handle_t* handle;
  char name[16];
  int dropped;
} families[FAMILIES];
static struct {
  rocksdb_iterator_t* handle;
  /* RocksDB's iterator reads its bounds in them. */
  rocksdb_readoptions_t* options;
  char lower[24], upper[24];
} iterators[ITERATORS];
static const rocksdb_snapshot_t* snapshots[SNAPSHOTS];
static rocksdb_writebatch_t* batches[BATCHES];
static rocksdb_writebatch_wi_t* indexed[INDEXED];
static rocksdb_pinnableslice_t* pinned[PINNED];
static unsigned made;
static int with_ttl, reversed;
static char path[4096];

static char key[1200], key2[1200], value[1200];
static size_t key_length, key2_length, value_length;

static size_t drawn_key(char* to) {
  switch (draw(40)) {
    case 0:
      return 0;
    case 1:
      memset(to, 'k', 1000);
      return 1000;
    case 2:
      memcpy(to, "k\0\xff", 3);
      return 3;
    default:
      return (size_t)sprintf(to, "k%02u", draw(30));
  }
}
static void drawn_value(void) {
  value_length = draw(12) == 0 ? draw(1100) : (size_t)sprintf(value, "v%u", draw(10000));
  if (value_length > 8) memset(value, 'a' + (int)draw(26), value_length);
}
static rocksdb_column_family_handle_t* drawn_family(void) {
  unsigned at = draw(FAMILIES);
  return families[at].handle ? families[at].handle : families[0].handle;
}
/* One that takes writes. */
static rocksdb_column_family_handle_t* drawn_target(void) {
  unsigned at = draw(FAMILIES);
  return families[at].handle && !families[at].dropped ? families[at].handle : families[0].handle;
}
/* Draws two keys, in their order. */
static void drawn_range(void) {
  key_length = drawn_key(key);
  key2_length = drawn_key(key2);
  int order = memcmp(key, key2, key_length < key2_length ? key_length : key2_length);
  if (order == 0) order = (key_length > key2_length) - (key_length < key2_length);
  if (order == 0 || (order < 0) != reversed) return;
  char other[sizeof key];
  memcpy(other, key, sizeof key);
  memcpy(key, key2, sizeof key);
  memcpy(key2, other, sizeof key);
  size_t length = key_length;
  key_length = key2_length;
  key2_length = length;
}

/* The operator appends. */
static char* full(void* s, const char* k, size_t kl, const char* old, size_t ol,
                  const char* const* list, const size_t* lens, int n, unsigned char* success,
                  size_t* length) {
  (void)s, (void)k, (void)kl;
  size_t all = ol;
  for (int i = 0; i < n; i++) all += lens[i] + 1;
  char* result = malloc(all + 1);
  size_t at = 0;
  if (ol > 0) memcpy(result, old, ol);
  at = ol;
  for (int i = 0; i < n; i++) {
    result[at++] = ',';
    memcpy(result + at, list[i], lens[i]);
    at += lens[i];
  }
  *length = at;
  *success = 1;
  return result;
}
static char* partial(void* s, const char* k, size_t kl, const char* const* list,
                     const size_t* lens, int n, unsigned char* success, size_t* length) {
  (void)s, (void)k, (void)kl, (void)list, (void)lens, (void)n;
  *success = 0;
  *length = 0;
  return NULL;
}
static const char* append_name(void* s) {
  (void)s;
  return "drawn.append";
}
static int backwards(void* s, const char* a, size_t al, const char* b, size_t bl) {
  (void)s;
  int r = memcmp(b, a, al < bl ? al : bl);
  return r != 0 ? r : (bl > al) - (bl < al);
}
static const char* backwards_name(void* s) {
  (void)s;
  return "drawn.backwards";
}
static void nothing(void* s) {
  (void)s;
}

static rocksdb_readoptions_t* drawn_read(void) {
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  unsigned at = draw(SNAPSHOTS);
  if (snapshots[at] && draw(3) == 0) rocksdb_readoptions_set_snapshot(r, snapshots[at]);
  rocksdb_readoptions_set_verify_checksums(r, (unsigned char)draw(2));
  rocksdb_readoptions_set_fill_cache(r, (unsigned char)draw(2));
  return r;
}

static void write_one(void) {
  rocksdb_column_family_handle_t* cf = drawn_target();
  key_length = drawn_key(key);
  drawn_value();
  switch (draw(6)) {
    case 0:
      rocksdb_delete_cf(db, w, cf, key, key_length, &err);
      said("delete");
      break;
    case 1:
      rocksdb_merge_cf(db, w, cf, key, key_length, value, value_length, &err);
      said("merge");
      break;
    case 2:
      drawn_range();
      rocksdb_delete_range_cf(db, w, cf, key, key_length, key2, key2_length, &err);
      said("delete range");
      break;
    case 3:
      rocksdb_put(db, w, key, key_length, value, value_length, &err);
      said("put");
      break;
    default:
      rocksdb_put_cf(db, w, cf, key, key_length, value, value_length, &err);
      said("put cf");
  }
}

static void read_many(rocksdb_readoptions_t* r) {
  enum { MANY = 5 };
  char keys[MANY][1200];
  const char* pointers[MANY];
  const rocksdb_column_family_handle_t* cfs[MANY];
  size_t lengths[MANY], found[MANY];
  char *values[MANY], *errors[MANY];
  rocksdb_pinnableslice_t* slices[MANY];
  for (int i = 0; i < MANY; i++) {
    lengths[i] = drawn_key(keys[i]);
    pointers[i] = keys[i];
    cfs[i] = drawn_family();
  }
  int how = (int)draw(3);
  size_t many = draw(MANY + 1);
  if (how == 0) rocksdb_multi_get(db, r, many, pointers, lengths, values, found, errors);
  if (how == 1) rocksdb_multi_get_cf(db, r, cfs, many, pointers, lengths, values, found, errors);
  rocksdb_column_family_handle_t* cf = drawn_family();
  if (how == 2) rocksdb_batched_multi_get_cf(db, r, cf, many, pointers, lengths, slices, errors, 0);
  for (size_t i = 0; i < many; i++) {
    printf(" %s\n", errors[i] ? errors[i] : "ok");
    rocksdb_free(errors[i]);
    if (how == 2) {
      size_t n = 0;
      const char* data = slices[i] ? rocksdb_pinnableslice_value(slices[i], &n) : NULL;
      bytes(" many", data, n);
      rocksdb_pinnableslice_destroy(slices[i]);
    } else {
      taken(" many", values[i], values[i] ? found[i] : 0);
    }
  }
}

static void read_one(void) {
  rocksdb_column_family_handle_t* cf = drawn_family();
  rocksdb_readoptions_t* r = drawn_read();
  size_t n = 0;
  unsigned char is_found = 7;
  char buffer[64];
  key_length = drawn_key(key);
  unsigned at = draw(PINNED);
  switch (draw(5)) {
    case 0:
      TAKEN("get", rocksdb_get_cf(db, r, cf, key, key_length, &n, &err));
      said("get");
      break;
    case 1:
      TAKEN("get", rocksdb_get(db, r, key, key_length, &n, &err));
      said("get");
      break;
    case 2:
      rocksdb_pinnableslice_destroy(pinned[at]);
      pinned[at] = rocksdb_get_pinned_cf(db, r, cf, key, key_length, &err);
      said("pin");
      break;
    case 3: {
      size_t room = draw(64);
      unsigned char fits =
          rocksdb_get_into_buffer_cf(db, r, cf, key, key_length, buffer, room, &n, &is_found, &err);
      printf("into %d %zu %d\n", fits, n, is_found);
      if (fits) bytes(" buffer", buffer, n);
      said("into");
      break;
    }
    default:
      read_many(r);
  }
  rocksdb_readoptions_destroy(r);
  if (pinned[at]) BYTES("pinned", rocksdb_pinnableslice_value(pinned[at], &n));
}

static void at_entry(rocksdb_iterator_t* it) {
  size_t n;
  if (rocksdb_iter_valid(it)) {
    BYTES(" at", rocksdb_iter_key(it, &n));
    rocksdb_slice_t slice = rocksdb_iter_value_slice(it);
    bytes(" is", slice.data, slice.size);
  }
  rocksdb_iter_get_error(it, &err);
  said(" iterator");
}

static void make_iterator(unsigned at) {
  rocksdb_readoptions_t* r = drawn_read();
  char *lower = iterators[at].lower, *upper = iterators[at].upper;
  unsigned a = draw(30), b = draw(30);
  if ((a > b) != reversed) {
    unsigned other = a;
    a = b;
    b = other;
  }
  sprintf(lower, "k%02u", a);
  sprintf(upper, "k%02u", b);
  if (draw(3) == 0) rocksdb_readoptions_set_iterate_lower_bound(r, lower, 3);
  if (draw(3) == 0) rocksdb_readoptions_set_iterate_upper_bound(r, upper, 3);
  iterators[at].handle = rocksdb_create_iterator_cf(db, r, drawn_family());
  printf("iterator %u\n", at);
  iterators[at].options = r;
}
static void forget_iterator(unsigned at) {
  if (iterators[at].handle == NULL) return;
  rocksdb_iter_destroy(iterators[at].handle);
  rocksdb_readoptions_destroy(iterators[at].options);
  iterators[at].handle = NULL;
}

static void iterate(void) {
  unsigned at = draw(ITERATORS);
  rocksdb_iterator_t* it = iterators[at].handle;
  if (it == NULL) {
    make_iterator(at);
    return;
  }
  key_length = drawn_key(key);
  switch (draw(9)) {
    case 0:
      forget_iterator(at);
      printf("iterator gone\n");
      return;
    case 1:
      rocksdb_iter_seek_to_first(it);
      printf("first\n");
      break;
    case 2:
      rocksdb_iter_seek_to_last(it);
      printf("last\n");
      break;
    case 3:
      rocksdb_iter_seek(it, key, key_length);
      printf("seek\n");
      break;
    case 4:
      rocksdb_iter_seek_for_prev(it, key, key_length);
      printf("seek for prev\n");
      break;
    default:
      for (unsigned i = draw(4); i > 0 && rocksdb_iter_valid(it); i--) {
        if (draw(2)) rocksdb_iter_next(it);
        else rocksdb_iter_prev(it);
        at_entry(it);
      }
      printf("moved\n");
  }
  at_entry(it);
}

static void snapshot(void) {
  unsigned at = draw(SNAPSHOTS);
  if (snapshots[at]) rocksdb_release_snapshot(db, snapshots[at]);
  snapshots[at] = draw(3) ? rocksdb_create_snapshot(db) : NULL;
  printf("snapshot %d\n", snapshots[at] != NULL);
}

static void seen_put(void* s, const char* k, size_t kl, const char* v, size_t vl) {
  (void)s;
  bytes("  put", k, kl);
  bytes("  to", v, vl);
}
static void seen_delete(void* s, const char* k, size_t kl) {
  (void)s;
  bytes("  delete", k, kl);
}

static void add_to_batch(rocksdb_writebatch_t* b) {
  rocksdb_column_family_handle_t* cf = drawn_target();
  const char* parts[] = {key, value};
  drawn_range();
  drawn_value();
  const size_t lengths[] = {key_length, value_length};
  switch (draw(9)) {
    case 0:
      rocksdb_writebatch_set_save_point(b);
      break;
    case 1:
      rocksdb_writebatch_rollback_to_save_point(b, &err);
      said("rollback");
      break;
    case 2:
      rocksdb_writebatch_pop_save_point(b, &err);
      said("pop");
      break;
    case 3:
      rocksdb_writebatch_delete_range_cf(b, cf, key, key_length, key2, key2_length);
      break;
    case 4:
      rocksdb_writebatch_merge_cf(b, cf, key, key_length, value, value_length);
      break;
    case 5:
      rocksdb_writebatch_putv_cf(b, cf, 2, parts, lengths, 2, parts, lengths);
      break;
    case 6:
      rocksdb_writebatch_delete(b, key, key_length);
      break;
    default:
      rocksdb_writebatch_put_cf(b, cf, key, key_length, value, value_length);
  }
}

static void batch(void) {
  unsigned at = draw(BATCHES);
  if (batches[at] == NULL) batches[at] = rocksdb_writebatch_create();
  rocksdb_writebatch_t* b = batches[at];
  size_t n;
  switch (draw(6)) {
    case 0:
      rocksdb_write(db, w, b, &err);
      said("write");
      break;
    case 1:
      rocksdb_writebatch_clear(b);
      break;
    case 2:
      rocksdb_writebatch_destroy(b);
      batches[at] = NULL;
      printf("batch gone\n");
      return;
    case 3: {
      const char* data = rocksdb_writebatch_data(b, &n);
      rocksdb_writebatch_t* copy = rocksdb_writebatch_create_from(data, n);
      printf("copy: %d\n", rocksdb_writebatch_count(copy));
      if (draw(2)) rocksdb_write(db, w, copy, &err);
      said("write copy");
      rocksdb_writebatch_destroy(copy);
      break;
    }
    default:
      for (unsigned i = draw(5); i > 0; i--) add_to_batch(b);
  }
  rocksdb_writebatch_data(b, &n);
  printf("batch %u: %d in %zu\n", at, rocksdb_writebatch_count(b), n);
  if (draw(4) == 0) rocksdb_writebatch_iterate(b, NULL, seen_put, seen_delete);
}

static void add_indexed(rocksdb_writebatch_wi_t* b, rocksdb_column_family_handle_t* cf) {
  key_length = drawn_key(key);
  drawn_value();
  unsigned what = draw(4);
  if (what == 0) rocksdb_writebatch_wi_delete_cf(b, cf, key, key_length);
  else if (what == 1) rocksdb_writebatch_wi_merge_cf(b, cf, key, key_length, value, value_length);
  else rocksdb_writebatch_wi_put_cf(b, cf, key, key_length, value, value_length);
}

static void batch_with_index(void) {
  unsigned at = draw(INDEXED);
  if (indexed[at] == NULL) indexed[at] = rocksdb_writebatch_wi_create(0, 1);
  rocksdb_writebatch_wi_t* b = indexed[at];
  rocksdb_column_family_handle_t* cf = drawn_target();
  rocksdb_readoptions_t* r = drawn_read();
  size_t n;
  key_length = drawn_key(key);
  switch (draw(7)) {
    case 0:
      rocksdb_write_writebatch_wi(db, w, b, &err);
      said("write indexed");
      break;
    case 1:
      rocksdb_writebatch_wi_destroy(b);
      indexed[at] = NULL;
      break;
    case 2: {
      rocksdb_iterator_t* it = rocksdb_writebatch_wi_create_iterator_with_base_cf(
          b, rocksdb_create_iterator_cf(db, r, cf), cf);
      for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
        at_entry(it);
      }
      rocksdb_iter_destroy(it);
      break;
    }
    case 3:
      TAKEN("from batch", rocksdb_writebatch_wi_get_from_batch_cf(b, options, cf, key, key_length,
                                                                  &n, &err));
      said("from batch");
      break;
    case 4:
      TAKEN("from both", rocksdb_writebatch_wi_get_from_batch_and_db_cf(b, db, r, cf, key,
                                                                        key_length, &n, &err));
      said("from both");
      break;
    default:
      for (unsigned i = draw(5); i > 0; i--) add_indexed(b, cf);
      printf("indexed %d\n", rocksdb_writebatch_wi_count(b));
  }
  rocksdb_readoptions_destroy(r);
}

static void family(void) {
  unsigned at = 1 + draw(FAMILIES - 1);
  if (families[at].handle == NULL) {
    if (draw(6) == 0) {
      rocksdb_create_column_family(db, options, "default", &err);
      said("create what is there");
      return;
    }
    sprintf(families[at].name, "f%u", made++);
    families[at].handle =
        with_ttl ? rocksdb_create_column_family_with_ttl(db, options, families[at].name, 0, &err)
                 : rocksdb_create_column_family(db, options, families[at].name, &err);
    families[at].dropped = 0;
    said("create");
    printf("id %u\n", rocksdb_column_family_handle_get_id(families[at].handle));
  } else if (!families[at].dropped && draw(2)) {
    rocksdb_drop_column_family(db, families[at].handle, &err);
    families[at].dropped = 1;
    said("drop");
    for (int i = 0; i < BATCHES; i++) {
      if (batches[i]) rocksdb_writebatch_clear(batches[i]);
    }
    for (int i = 0; i < INDEXED; i++) {
      if (indexed[i]) rocksdb_writebatch_wi_clear(indexed[i]);
    }
  } else if (families[at].dropped && draw(2)) {
    rocksdb_drop_column_family(db, families[at].handle, &err);
    /* RocksDB's text has a line's end behind it. */
    if (err) err[strcspn(err, "\n")] = 0;
    said("drop again");
  } else if (families[at].dropped) {
    rocksdb_column_family_handle_destroy(families[at].handle);
    families[at].handle = NULL;
    printf("family gone\n");
  } else if (draw(4) == 0) {
    rocksdb_drop_column_family(db, families[0].handle, &err);
    said("drop the default");
  }
}

static void files(void) {
  rocksdb_column_family_handle_t* cf = drawn_target();
  if (draw(2)) {
    rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
    rocksdb_flush_cf(db, f, cf, &err);
    said("flush");
    rocksdb_flushoptions_destroy(f);
  } else if (draw(2)) {
    key_length = drawn_key(key);
    rocksdb_compact_range_cf(db, cf, NULL, 0, draw(2) ? key : NULL, key_length);
    printf("compact\n");
  } else {
    rocksdb_flush_wal(db, (unsigned char)draw(2), &err);
    said("flush wal");
  }
  printf("sequence %llu\n", (unsigned long long)rocksdb_get_latest_sequence_number(db));
}

static void settings(void) {
  static const char* names[] = {"write_buffer_size", "compression",  "no_such_option",
                                "disable_auto_compactions", "ttl", "max_bytes_for_level_base"};
  static const char* values[] = {"1048576", "kNoCompression", "true", "", "many"};
  const char* keys[] = {names[draw(6)]};
  const char* texts[] = {values[draw(5)]};
  rocksdb_set_options(db, 1, keys, texts, &err);
  /* The reasons are told in each library's own words. */
  printf("set %s=%s: %.16s\n", keys[0], texts[0], err ? err : "ok");
  free(err);
  err = NULL;
}

static void forget_children(void) {
  size_t n;
  for (unsigned i = 0; i < ITERATORS; i++) forget_iterator(i);
  for (int i = 0; i < SNAPSHOTS; i++) {
    if (snapshots[i]) rocksdb_release_snapshot(db, snapshots[i]);
    snapshots[i] = NULL;
  }
  for (int i = 0; i < PINNED; i++) {
    if (pinned[i]) BYTES("last", rocksdb_pinnableslice_value(pinned[i], &n));
    rocksdb_pinnableslice_destroy(pinned[i]);
    pinned[i] = NULL;
  }
  for (int i = 0; i < INDEXED; i++) {
    if (indexed[i]) rocksdb_writebatch_wi_destroy(indexed[i]);
    indexed[i] = NULL;
  }
  for (int i = 0; i < FAMILIES; i++) {
    if (families[i].handle) rocksdb_column_family_handle_destroy(families[i].handle);
    families[i].handle = NULL;
  }
}

static int by_name(const void* a, const void* b) {
  return strcmp(*(char* const*)a, *(char* const*)b);
}

static void open(void) {
  size_t count = 0;
  char** names = rocksdb_list_column_families(options, path, &count, &err);
  if (err) {
    /* There is none yet. */
    free(err);
    err = NULL;
    names = NULL;
  }
  const char* wanted[FAMILIES] = {"default"};
  const rocksdb_options_t* all[FAMILIES] = {options, options, options, options};
  rocksdb_column_family_handle_t* handles[FAMILIES] = {NULL};
  const int ttls[FAMILIES] = {0};
  if (names) qsort(names, count, sizeof *names, by_name);
  int n = names ? 0 : 1;
  for (size_t i = 0; i < count && n < FAMILIES; i++) wanted[n++] = names[i];
  db = with_ttl ? rocksdb_open_column_families_with_ttl(options, path, n, wanted, all, handles,
                                                        ttls, &err)
                : rocksdb_open_column_families(options, path, n, wanted, all, handles, &err);
  said("open");
  for (int i = 0; i < n; i++) {
    printf(" family %s\n", wanted[i]);
    snprintf(families[i].name, sizeof families[i].name, "%s", wanted[i]);
    families[i].handle = handles[i];
    families[i].dropped = 0;
  }
  if (names) rocksdb_list_column_families_destroy(names, count);
}

static void scan(void) {
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  for (int i = 0; i < FAMILIES; i++) {
    if (!families[i].handle) continue;
    printf("scan %s\n", families[i].name);
    rocksdb_iterator_t* it = rocksdb_create_iterator_cf(db, r, families[i].handle);
    for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
      at_entry(it);
    }
    rocksdb_iter_get_error(it, &err);
    said("scan");
    rocksdb_iter_destroy(it);
  }
  rocksdb_readoptions_destroy(r);
}

static void again(void) {
  forget_children();
  rocksdb_close(db);
  open();
  scan();
}

static void one(unsigned seed) {
  char name[32];
  sprintf(name, "drawn%u", seed);
  snprintf(path, sizeof path, "%s", dir(name));
  printf("seed %u\n", seed);
  state = seed;
  made = 0;
  reversed = (int)draw(3) == 0;
  with_ttl = (int)draw(4) == 0;
  options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_compression(options, draw(2) ? rocksdb_no_compression : rocksdb_lz4_compression);
  rocksdb_options_set_merge_operator(
      options, rocksdb_mergeoperator_create(NULL, nothing, full, partial, NULL, append_name));
  order = rocksdb_comparator_create(NULL, nothing, backwards, backwards_name);
  if (reversed) rocksdb_options_set_comparator(options, order);
  rocksdb_block_based_table_options_t* table = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_block_size(table, 64 << draw(7));
  if (draw(2)) {
    rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom(10));
  }
  rocksdb_options_set_block_based_table_factory(options, table);
  open();
  for (int step = 0; step < 400 && db; step++) {
    switch (draw(24)) {
      case 0:
        if (draw(8) == 0) again();
        break;
      case 1:
        family();
        break;
      case 2:
        snapshot();
        break;
      case 3:
        files();
        break;
      case 4:
        if (draw(3) == 0) settings();
        break;
      case 5:
      case 6:
        if (!with_ttl) batch_with_index();
        break;
      case 7:
      case 8:
      case 9:
        batch();
        break;
      case 10:
      case 11:
      case 12:
      case 13:
        iterate();
        break;
      case 14:
      case 15:
      case 16:
      case 17:
        read_one();
        break;
      default:
        write_one();
    }
  }
  again();
  forget_children();
  rocksdb_close(db);
  for (int i = 0; i < BATCHES; i++) {
    if (batches[i]) rocksdb_writebatch_destroy(batches[i]);
    batches[i] = NULL;
  }
  rocksdb_block_based_options_destroy(table);
  rocksdb_options_destroy(options);
  rocksdb_comparator_destroy(order);
}

int main(void) {
  unsigned first = 1, count = 12;
  const char* seeds = getenv("SHOW_SEEDS");
  if (seeds && sscanf(seeds, "%u %u", &first, &count) != 2) return 2;
  w = rocksdb_writeoptions_create();
  for (unsigned seed = first; seed < first + count; seed++) one(seed);
  rocksdb_writeoptions_destroy(w);
  return 0;
}
