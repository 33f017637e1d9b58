/* Calls that the header forbids, each in a child process: what they end in is printed.
 *
 * Reads orders from the input, one in a line:
 *   null FUNCTION               the function with 0 for each argument
 *   twice CREATE DESTROY        an object that is destroyed twice
 *   other CREATE FUNCTION       an object where one of another type is wanted
 * and prints for each "ORDER: returned" or "ORDER: signal N" and what the child said on stderr.
 * Functions are found by name, and called with more arguments than they have, all of them 0 but
 * the first: what is not theirs lies in registers and on the stack, where they do not look. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void* (*function)(void*, long, long, long, long, long, long, long, long, long, long, long,
                          long, long, long, long);

static function find(const char* name) {
  void* address = dlsym(RTLD_DEFAULT, name);
  if (address == NULL) {
    printf("%s: is not there\n", name);
    exit(1);
  }
  function result;
  memcpy(&result, &address, sizeof result);
  return result;
}

static void* call(const char* name, void* first) {
  return find(name)(first, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static void obey(const char* what, const char* a, const char* b) {
  if (strcmp(what, "null") == 0) {
    call(a, NULL);
  } else if (strcmp(what, "twice") == 0) {
    void* object = call(a, NULL);
    call(b, object);
    call(b, object);
  } else {
    call(b, call(a, NULL));
  }
}

int main(void) {
  char line[512], what[16], a[200], b[200], said[4096];
  /* A child that ends leaves no core. */
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  while (fgets(line, sizeof line, stdin)) {
    b[0] = 0;
    if (sscanf(line, "%15s %199s %199s", what, a, b) < 2) return 2;
    int pipes[2];
    if (pipe(pipes) != 0) return 3;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      dup2(pipes[1], 2);
      close(pipes[0]);
      close(pipes[1]);
      obey(what, a, b);
      _exit(0);
    }
    close(pipes[1]);
    size_t length = 0;
    ssize_t got;
    while ((got = read(pipes[0], said + length, sizeof said - 1 - length)) > 0) {
      length += (size_t)got;
      if (length + 1 >= sizeof said) break;
    }
    close(pipes[0]);
    said[length] = 0;
    for (char* p = said; *p; p++) {
      if (*p == '\n') *p = '|';
    }
    int status;
    if (waitpid(child, &status, 0) != child) return 4;
    line[strcspn(line, "\n")] = 0;
    if (WIFSIGNALED(status)) printf("%s: signal %d %s\n", line, WTERMSIG(status), said);
    else printf("%s: returned %s\n", line, said);
  }
  return 0;
}
