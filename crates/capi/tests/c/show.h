/* What the C programs of the tests have in common: every result is printed, so that what two
 * libraries print can be compared. Paths are replaced by the caller. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "c.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#include <unistd.h>

/* Ends a program that leaks. A thread that is about to end may hold a block in a register alone:
 * that is gone when it is looked for again, and a leak is not. */
static void end_if_memory_leaks(void) {
  for (int i = 0; i < 100; i++) {
    if (!__lsan_do_recoverable_leak_check()) return;
    usleep(20000);
  }
  _exit(9);
}
static __attribute__((constructor)) void look_for_leaks(void) {
  atexit(end_if_memory_leaks);
}
#endif

static char* err = NULL;

/* Prints and forgets the error of a call. */
static void said(const char* what) {
  printf("%s: %s\n", what, err ? err : "ok");
  free(err);
  err = NULL;
}

static void bytes(const char* what, const char* data, size_t size) {
  printf("%s: ", what);
  if (data == NULL) {
    printf("none (%zu)\n", size);
    return;
  }
  printf("%zu ", size);
  for (size_t i = 0; i < size; i++) {
    unsigned char c = (unsigned char)data[i];
    if (c >= 32 && c < 127) printf("%c", c);
    else printf("\\%02x", c);
  }
  printf("\n");
}

/* The same, and frees the bytes. */
static void taken(const char* what, char* data, size_t size) {
  bytes(what, data, size);
  rocksdb_free(data);
}

/* Calls that store the length in n, which must be read after them. */
#define TAKEN(what, call)       \
  do {                          \
    char* data_ = (call);       \
    taken(what, data_, n);      \
  } while (0)
#define BYTES(what, call)       \
  do {                          \
    const char* data_ = (call); \
    bytes(what, data_, n);      \
  } while (0)

/* Shows the entries from where the iterator is, and its error. */
static inline void entries(rocksdb_iterator_t* it, int forward) {
  size_t n;
  while (rocksdb_iter_valid(it)) {
    const char* k = rocksdb_iter_key(it, &n);
    bytes("  key", k, n);
    const char* v = rocksdb_iter_value(it, &n);
    bytes("  value", v, n);
    if (forward) rocksdb_iter_next(it);
    else rocksdb_iter_prev(it);
  }
  rocksdb_iter_get_error(it, &err);
  said("iterator");
}

static inline const char* dir(const char* name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", getenv("SHOW_DIR"), name);
  return path;
}
