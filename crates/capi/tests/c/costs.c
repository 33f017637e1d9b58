/* What calls cost their caller: allocations, and bytes of its stack.
 *
 * Prints a line for each call, "NAME allocations N stack BYTES": of N allocations in 10,000 calls
 * on this thread, and of the most stack that one of 25 more used. The program has its own malloc,
 * which counts; libraries use it too, since the loader looks here first. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "c.h"

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static __thread unsigned long allocations;

void* malloc(size_t size) {
  allocations++;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  allocations++;
  return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) {
  allocations++;
  return __libc_realloc(block, size);
}
void* memalign(size_t alignment, size_t size) {
  allocations++;
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}
int posix_memalign(void** block, size_t alignment, size_t size) {
  *block = memalign(alignment, size);
  return *block ? 0 : ENOMEM;
}

enum { STACK = 1 << 20, PAINTED = 192 << 10, CALLS = 10000, KEYS = 5000, PAINT = 0xa5 };

static rocksdb_t* db;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;
static rocksdb_iterator_t* it;
static rocksdb_writebatch_t* batch;
static char* err;
static unsigned long at;

static char key[16], value[100];
static void key_of(unsigned long number) {
  snprintf(key, sizeof key, "key%011lu", number % KEYS);
}

static void put(void) {
  key_of(at * 7919);
  rocksdb_put(db, w, key, 14, value, sizeof value, &err);
}
static void put_merge(void) {
  key_of(at * 7919);
  rocksdb_merge(db, w, key, 14, value, 8, &err);
}
static void delete(void) {
  key_of(at * 7919);
  rocksdb_delete(db, w, key, 14, &err);
}
static void write_batch(void) {
  rocksdb_writebatch_clear(batch);
  for (int i = 0; i < 3; i++) {
    key_of(at * 7919 + (unsigned long)i);
    rocksdb_writebatch_put(batch, key, 14, value, sizeof value);
  }
  rocksdb_write(db, w, batch, &err);
}
static void get(void) {
  size_t length;
  key_of(at * 7919);
  rocksdb_free(rocksdb_get(db, r, key, 14, &length, &err));
}
static void get_pinned(void) {
  size_t length;
  key_of(at * 7919);
  rocksdb_pinnableslice_t* found = rocksdb_get_pinned(db, r, key, 14, &err);
  rocksdb_pinnableslice_value(found, &length);
  rocksdb_pinnableslice_destroy(found);
}
static void get_missing(void) {
  size_t length;
  rocksdb_free(rocksdb_get(db, r, "no such key", 11, &length, &err));
}
/* Walks that turn back before the end: an iterator that runs off a table makes its buffers anew. */
static void next(void) {
  if (at % (KEYS - 1000) == 1) rocksdb_iter_seek_to_first(it);
  else rocksdb_iter_next(it);
}
static void prev(void) {
  if (at % (KEYS - 1000) == 1) rocksdb_iter_seek_to_last(it);
  else rocksdb_iter_prev(it);
}
static void seek(void) {
  key_of(at * 7919);
  rocksdb_iter_seek(it, key, 14);
}
static void seek_for_prev(void) {
  /* Neither the first key nor the last: the table ends beside them. */
  key_of(1 + at * 7919 % (KEYS - 2));
  rocksdb_iter_seek_for_prev(it, key, 14);
}
static void first_last(void) {
  rocksdb_iter_seek_to_first(it);
  rocksdb_iter_seek_to_last(it);
}

/* The bytes of stack below this frame that `call` writes to, PAINTED if there are more. */
static __attribute__((noinline)) size_t used(void (*call)(void)) {
  char* here = __builtin_frame_address(0);
  /* This frame and that of the loop below stay as they are. */
  char *top = here - 512, *bottom = here - PAINTED;
  for (char* p = bottom; p < top; p++) *(volatile char*)p = (char)PAINT;
  call();
  char* p = bottom;
  while (p < top && *(volatile char*)p == (char)PAINT) p++;
  return (size_t)(here - p);
}

static void measure(const char* name, void (*call)(void)) {
  /* What a thread, a family or an iterator makes once, and buffers that grow, are there. */
  for (at = 1; at <= CALLS; at++) call();
  unsigned long before = allocations;
  for (at = 1; at <= CALLS; at++) call();
  unsigned long made = allocations - before;
  size_t most = 0;
  for (at = 1; at <= 25; at++) {
    size_t bytes = used(call);
    if (bytes > most) most = bytes;
  }
  if (err) {
    fprintf(stderr, "%s: %s\n", name, err);
    exit(1);
  }
  printf("%s allocations %lu stack %zu\n", name, made, most);
}

static void moves(const char* where) {
  struct {
    const char* name;
    void (*call)(void);
  } all[] = {{"next", next}, {"prev", prev}, {"seek", seek}, {"seek_for_prev", seek_for_prev},
             {"first_last", first_last}};
  char name[64];
  it = rocksdb_create_iterator(db, r);
  rocksdb_iter_seek_to_first(it);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    snprintf(name, sizeof name, "%s_%s", all[i].name, where);
    measure(name, all[i].call);
    if (!rocksdb_iter_valid(it)) {
      fprintf(stderr, "%s: the iterator is at no entry\n", name);
      exit(1);
    }
  }
  rocksdb_iter_destroy(it);
}

static void gets(const char* where) {
  char name[64];
  snprintf(name, sizeof name, "get_%s", where);
  measure(name, get);
  snprintf(name, sizeof name, "get_missing_%s", where);
  measure(name, get_missing);
  snprintf(name, sizeof name, "get_pinned_%s", where);
  measure(name, get_pinned);
}

static void* all(void* unused) {
  (void)unused;
  measure("put", put);
  measure("delete", delete);
  measure("write", write_batch);
  rocksdb_writeoptions_disable_WAL(w, 1);
  measure("put_without_log", put);
  for (at = 0; at < KEYS; at++) put();
  gets("memtable");
  moves("memtable");
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &err);
  rocksdb_flushoptions_destroy(flush);
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  it = rocksdb_create_iterator(db, r);
  for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it);) rocksdb_iter_next(it);
  rocksdb_iter_destroy(it);
  gets("table");
  moves("table");
  measure("merge", put_merge);
  return NULL;
}

static char* join(void* s, const char* k, size_t kl, const char* old, size_t ol,
                  const char* const* list, const size_t* lens, int n, unsigned char* success,
                  size_t* length) {
  (void)s, (void)k, (void)kl, (void)old, (void)ol;
  char* result = malloc(lens[n - 1]);
  memcpy(result, list[n - 1], lens[n - 1]);
  *success = 1;
  *length = lens[n - 1];
  return result;
}
static char* join_part(void* s, const char* k, size_t kl, const char* const* list,
                       const size_t* lens, int n, unsigned char* success, size_t* length) {
  return join(s, k, kl, NULL, 0, list, lens, n, success, length);
}
static void nothing(void* s) {
  (void)s;
}
static const char* name_of(void* s) {
  (void)s;
  return "costs.last";
}

int main(void) {
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_merge_operator(
      options, rocksdb_mergeoperator_create(NULL, nothing, join, join_part, NULL, name_of));
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  batch = rocksdb_writebatch_create();
  memset(value, 'v', sizeof value);
  char path[4096];
  snprintf(path, sizeof path, "%s/costs", getenv("SHOW_DIR"));
  db = rocksdb_open(options, path, &err);
  if (err) {
    fprintf(stderr, "open: %s\n", err);
    return 1;
  }
  char* stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_t thread;
  if (stack == MAP_FAILED || pthread_attr_setstack(&attributes, stack, STACK) != 0 ||
      pthread_create(&thread, &attributes, all, NULL) != 0) {
    fprintf(stderr, "no thread\n");
    return 1;
  }
  pthread_join(thread, NULL);
  rocksdb_close(db);
  rocksdb_writebatch_destroy(batch);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(options);
  return 0;
}
