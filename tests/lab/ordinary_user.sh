#!/bin/sh
# Run a command as an ordinary user whom the machine does not have: `rehearsal`, uid 20001, with subordinate ids.
# Nothing of the machine changes: the user exists in this process's own mount namespace only.
# usage (as root): ordinary_user.sh HOME PYTHON_FOLDER COMMAND…
# WITHOUT_IDS=1 in the environment: the user has no subordinate ids.
set -eu

if [ "${REHEARSAL_INSIDE-}" != 1 ]; then
  export REHEARSAL_INSIDE=1
  exec unshare --mount --propagation private "$0" "$@"
fi
unset REHEARSAL_INSIDE
home=$1 python=$2
shift 2

# A copy of all of /etc: a file mounted over one of the machine's goes as soon as useradd replaces that one, in whatever
# namespace, and other tests make users.
hidden=$home/.etc
if [ ! -d "$hidden" ]; then
  cp -a /etc "$hidden.$$" 2>/dev/null || :  # a lock of useradd's may go meanwhile
  { cat /etc/passwd; echo "rehearsal:x:20001:20001::$home:/bin/sh"; } >"$hidden.$$/passwd"
  { cat /etc/group; echo "rehearsal:x:20001:"; } >"$hidden.$$/group"
  echo rehearsal:300000:65536 | tee "$hidden.$$/subuid" >"$hidden.$$/subgid"
  : >"$hidden.$$/none"
  chown 20001:20001 "$home"
  mv -T "$hidden.$$" "$hidden" 2>/dev/null || [ -d "$hidden" ]
fi
mount --bind "$hidden" /etc
# Files mounted below /etc, as containers have them: the lab lays its own /etc in another way there.
for file in subuid subgid; do
  kept=$file
  [ "${WITHOUT_IDS-}" != 1 ] || kept=none
  mount --bind "/etc/$kept" "/etc/$file"
done

# Distributions open this device to everybody; the machine, or the container that it is, may not.
if [ -c /dev/net/tun ] && ! setpriv --reuid 20001 --regid 20001 --clear-groups test -w /dev/net/tun; then
  [ -c "$hidden/tun" ] || mknod -m 666 "$hidden/tun" c 10 200 2>/dev/null || [ -c "$hidden/tun" ]
  mount --bind "$hidden/tun" /dev/net/tun
fi

# The first directory on the way to $1 that is closed to the user, if any.
closed_above() {
  path='' rest=$(dirname "$1")/
  while rest=${rest#/} && [ -n "$rest" ]; do
    path=$path/${rest%%/*} rest=${rest#*/}
    setpriv --reuid 20001 --regid 20001 --clear-groups test -x "$path" || { echo "$path"; return; }
  done
}

# The checkout and the tests' Python may lie where only root may go (/root): open a way to them, and to nothing else.
checkout=$(cd "$(dirname "$0")/../.." && pwd -P)
mount -t tmpfs tmpfs /run
for needed in "$checkout" "$python"; do
  closed=$(closed_above "$needed")
  [ -n "$closed" ] || continue
  mkdir -p "/run$needed"
  mount --bind "$needed" "/run$needed"
  printf '%s\t%s\n' "$needed" "$closed" >>/run/needed
done
[ ! -e /run/needed ] || cut -f2 /run/needed | sort -u | while read -r closed; do
  mount -t tmpfs -o mode=755 tmpfs "$closed"
done
[ ! -e /run/needed ] || cut -f1 /run/needed | while read -r needed; do
  mkdir -p "$needed"
  mount --move "/run$needed" "$needed"
done
umount /run
cd "$PWD" 2>/dev/null || cd /

export HOME="$home" USER=rehearsal LOGNAME=rehearsal
unset XDG_STATE_HOME XDG_RUNTIME_DIR
exec setpriv --reuid 20001 --regid 20001 --clear-groups "$@"
