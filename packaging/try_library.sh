#!/bin/sh
# `cargo xtask capi --deb --try`: installs the packages of the C library in a copy of this system that
# is thrown away: a mount namespace with an overlay over /. Debian's program that was built for its
# own library runs on ours, a program is built against it, and Debian's library takes its place again.
# Arguments: the library, its -dev package, both of a later version, a folder with Debian's packages.
# Needs root.
set -eu
if [ "${IN_NAMESPACE:-}" != yes ]; then
    IN_NAMESPACE=yes exec unshare --mount --propagation private sh "$0" "$@"
fi
library=$(realpath "$1") develop=$(realpath "$2") debian=$(realpath "$5")
second=$(realpath "$3") second_develop=$(realpath "$4")
base=$(mktemp -d)
mount -t tmpfs -o size=2g tmpfs "$base"
mkdir "$base/upper" "$base/work" "$base/root" "$base/in"
cp "$library" "$base/in/library.deb"
cp "$develop" "$base/in/develop.deb"
cp "$second" "$base/in/second.deb"
cp "$second_develop" "$base/in/second-develop.deb"
cp "$debian"/*.deb "$base/in/"
mount -t overlay -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" overlay "$base/root"
mount --rbind /proc "$base/root/proc"
mount --rbind /dev "$base/root/dev"
mkdir -p "$base/root/in"
mount --bind "$base/in" "$base/root/in"
cat > "$base/in/steps" <<'STEPS'
set -eu
say() { echo "deb: $*"; }
# Says its first word if the command after it succeeds, and ends the trial if not.
holds() {
    said=$1
    shift
    "$@" || { echo "deb: NOT $said" >&2; exit 1; }
    say "$said"
}
fails() { ! "$@" > /in/out 2>&1; }
# The file that the loader takes for Debian's program.
loaded() { readlink -f "$(ldd /usr/bin/balboa-rocksdb | sed -n 's/.*librocksdb.so.7.8 => \([^ ]*\).*/\1/p')"; }
# Programs of Debian that use RocksDB's classes cannot stay.
dpkg --remove --force-depends rocksdb-tools sortmerna librocksdb-dev librocksdb7.8 > /in/out 2>&1 || true
dpkg -i /in/librocksdb7.8_*.deb > /in/out
debians=$(ldconfig -p | sed -n 's/.*librocksdb.so.7.8 .*=> //p')
holds "Debian's library is installed: $debians" test -n "$debians"
dpkg -i /in/library.deb
holds "it took the place of Debian's" fails dpkg -s librocksdb7.8
holds "Debian's name leads to it" test "$(basename "$(readlink -f "$debians")")" = librocksdb-pumice.so
dpkg -i /in/balboa-backend-common_*.deb /in/balboa-backend-rocksdb_*.deb > /in/out 2>&1 || {
    cat /in/out; exit 1; }
say "Debian's balboa-backend-rocksdb is installed, and its dependencies are met"
holds "the loader takes ours for its program" test "$(basename "$(loaded)")" = librocksdb-pumice.so
holds "its program starts" sh -c 'balboa-rocksdb -h 2>&1 | grep -q database'
holds "Debian's library is refused beside it" fails dpkg -i /in/librocksdb7.8_*.deb
dpkg -i /in/develop.deb
cat > /in/a.c <<'C'
#include <rocksdb/c.h>
#include <stdio.h>
int main(void) {
  char* error = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, "/in/db", &error);
  if (error) { puts(error); return 1; }
  rocksdb_close(db);
  return 0;
}
C
cc /in/a.c -o /in/a $(pkg-config --cflags --libs rocksdb 2>/dev/null || echo -lrocksdb)
holds "a program is built against it and runs" /in/a
holds "its log says which library it was" grep -q "Pumice version" /in/db/LOG
dpkg -i /in/second.deb /in/second-develop.deb > /in/out
holds "upgraded to $(dpkg-query -W -f '${Version}' librocksdb-pumice)" /in/a
dpkg --remove --force-depends librocksdb-pumice-dev librocksdb-pumice > /in/out 2>&1
holds "removed" test ! -e "$(dirname "$debians")/librocksdb-pumice.so"
dpkg -i /in/librocksdb7.8_*.deb > /in/out
holds "Debian's library is back" test "$(basename "$(loaded)")" = librocksdb.so.7.8.3
holds "and balboa runs on it" sh -c 'balboa-rocksdb -h 2>&1 | grep -q database'
STEPS
chroot "$base/root" bash /in/steps
