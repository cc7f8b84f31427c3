#!/bin/sh
# Run a command as an ordinary user whom the machine does not have: `rehearsal`, uid 20001, with subordinate ids.
# Nothing of the machine changes: the user exists in this process's own mount namespace only.
# usage (as root): ordinary_user.sh HOME PYTHON_FOLDER COMMAND…
set -eu

if [ "${REHEARSAL_INSIDE-}" != 1 ]; then
  export REHEARSAL_INSIDE=1
  exec unshare --mount --propagation private "$0" "$@"
fi
unset REHEARSAL_INSIDE
home=$1 python=$2
shift 2

hidden=$home/.etc
if [ ! -d "$hidden" ]; then
  mkdir -p "$hidden.$$"
  { cat /etc/passwd; echo "rehearsal:x:20001:20001::$home:/bin/sh"; } >"$hidden.$$/passwd"
  { cat /etc/group; echo "rehearsal:x:20001:"; } >"$hidden.$$/group"
  echo rehearsal:300000:65536 | tee "$hidden.$$/subuid" >"$hidden.$$/subgid"
  chown 20001:20001 "$home"
  mv -T "$hidden.$$" "$hidden" 2>/dev/null || [ -d "$hidden" ]
fi
for file in passwd group subuid subgid; do
  mount --bind "$hidden/$file" "/etc/$file"
done

# The tests' Python may lie where only root may go (/root/.pyenv): open a way to it, and to nothing else.
closed=
path=/
for part in $(dirname "$python" | tr / ' ') $(basename "$python"); do
  path=${path%/}/$part
  if [ -z "$closed" ] && [ "$path" != "$python" ] && ! setpriv --reuid 20001 --regid 20001 --clear-groups test -x "$path"; then
    closed=$path
  fi
done
if [ -n "$closed" ]; then
  mkdir -p "$hidden/python"
  mount --bind "$python" "$hidden/python"
  mount -t tmpfs -o mode=755 tmpfs "$closed"
  mkdir -p "$python"
  mount --move "$hidden/python" "$python"
fi

export HOME="$home" USER=rehearsal LOGNAME=rehearsal
unset XDG_STATE_HOME XDG_RUNTIME_DIR
exec setpriv --reuid 20001 --regid 20001 --clear-groups "$@"
