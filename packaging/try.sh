#!/bin/sh
# `cargo xtask deb --try`: installs the package, starts its server from its own settings and from
# Debian's redis.conf, upgrades, removes and purges it, in a copy of this system that is thrown away:
# a mount namespace with an overlay over /. Arguments: the package, one of a later version, and the
# redis.conf. Needs root.
set -eu
if [ "${IN_NAMESPACE:-}" != yes ]; then
    IN_NAMESPACE=yes exec unshare --mount --propagation private sh "$0" "$@"
fi
first=$(realpath "$1") second=$(realpath "$2") conf=$(realpath "$3")
base=$(mktemp -d)
mount -t tmpfs -o size=2g tmpfs "$base"
mkdir "$base/upper" "$base/work" "$base/root" "$base/in"
cp "$first" "$base/in/first.deb"
cp "$second" "$base/in/second.deb"
cp "$conf" "$base/in/redis.conf"
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
# A client in sh's words: one command, the first line of its reply.
ask() { printf '%s\r\n' "$1" | timeout 5 bash -c \
    'exec 3<>/dev/tcp/127.0.0.1/16379; cat >&3; IFS= read -r line <&3; echo "${line%?}"'; }
# As the unit does it, on a port of its own; the words are more arguments.
start() {
    setpriv --reuid=pumice --regid=pumice --clear-groups \
        /usr/bin/pumice serve "$@" --port 16379 >/in/out 2>/in/err &
    server=$!
    n=0
    until [ "$(ask PING 2>/dev/null)" = +PONG ]; do
        n=$((n + 1))
        if [ $n -gt 600 ]; then cat /in/out /in/err; exit 1; fi
        sleep 0.1
    done
}
stop() { kill -TERM "$server"; wait "$server"; }
dpkg -i /in/first.deb
say "installed $(dpkg-query -W -f '${Version}' pumice)"
pumice --version
holds "man pages are found: $(man -w pumice-ldb)" test -e "$(man -w pumice-ldb)"
holds "the unit is valid" systemd-analyze verify /usr/lib/systemd/system/pumice.service
start /etc/pumice/pumice.conf
[ "$(ask 'SET kept 1')" = +OK ]
stop
say "served from /etc/pumice/pumice.conf and stopped well"
echo '# mine' >> /etc/pumice/pumice.conf
dpkg -i /in/second.deb
say "upgraded to $(dpkg-query -W -f '${Version}' pumice)"
holds "the changed settings survived" grep -q '^# mine$' /etc/pumice/pumice.conf
start /etc/pumice/pumice.conf
holds "the data survived" test "$(ask 'EXISTS kept')" = :1
stop
mkdir -p /var/lib/redis && chown pumice /var/lib/redis
cp /in/redis.conf /etc/pumice/redis.conf && chown pumice /etc/pumice/redis.conf
start /etc/pumice/redis.conf
holds "Debian's redis.conf: serves, and CONFIG REWRITE works" test "$(ask 'CONFIG REWRITE')" = +OK
cat /in/err
stop
dpkg -r pumice
holds "removed" test ! -e /usr/bin/pumice
holds "the data is kept" test -e /var/lib/pumice/CURRENT
dpkg -P pumice
holds "purged: no data" test ! -e /var/lib/pumice
holds "purged: no settings" test ! -e /etc/pumice
STEPS
chroot "$base/root" bash /in/steps
