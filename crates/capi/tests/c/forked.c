/* A child process of fork has the memory of a database and none of its threads and locks: every
 * call there is refused, and the parent's database is as it was. For our library alone. */
#include <sys/wait.h>
#include <unistd.h>

#include "show.h"

static rocksdb_t* db;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;
static rocksdb_iterator_t* it;

static void in_child(void) {
  size_t n;
  rocksdb_put(db, w, "b", 1, "2", 1, &err);
  said("put");
  rocksdb_delete(db, w, "a", 1, &err);
  said("delete");
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "c", 1, "3", 1);
  rocksdb_write(db, w, batch, &err);
  said("write");
  TAKEN("value", rocksdb_get(db, r, "a", 1, &n, &err));
  said("get");
  rocksdb_iter_seek_to_first(it);
  printf("valid %d\n", rocksdb_iter_valid(it));
  rocksdb_iter_get_error(it, &err);
  said("iterator");
  rocksdb_iterator_t* other = rocksdb_create_iterator(db, r);
  rocksdb_iter_seek_to_first(other);
  printf("valid %d\n", rocksdb_iter_valid(other));
  rocksdb_iter_get_error(other, &err);
  said("new iterator");
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &err);
  said("flush");
  fflush(stdout);
}

int main(void) {
  size_t n;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  db = rocksdb_open(options, dir("forked"), &err);
  said("open");
  rocksdb_put(db, w, "a", 1, "1", 1, &err);
  it = rocksdb_create_iterator(db, r);
  printf("child\n");
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    in_child();
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  printf("parent: child ended with %d\n", status);
  TAKEN("value", rocksdb_get(db, r, "a", 1, &n, &err));
  TAKEN("value", rocksdb_get(db, r, "b", 1, &n, &err));
  rocksdb_put(db, w, "b", 1, "2", 1, &err);
  said("put");
  rocksdb_iter_destroy(it);
  rocksdb_close(db);
  db = rocksdb_open(options, dir("forked"), &err);
  said("open again");
  rocksdb_close(db);
  return 0;
}
