# Starts the door of this host, which lets nobody else's processes reach the ranks' store (docs/guides/closed.md): $1 is
# its text. The first rank of the host starts it, with the host's own Python, and the door ends with that rank.
if [ "$muster_local_rank" -eq 0 ]; then
    for muster_python in /usr/bin/python3 "$(command -v python3)" /usr/libexec/platform-python ''; do
        "$muster_python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null && break
    done
    [ -n "$muster_python" ] || {
        read -r muster_here </proc/sys/kernel/hostname
        muster_here="$muster_here has no Python 3.6 or later, by which the door of a closed job runs"
        muster_python=$(python3 -V 2>/dev/null)
        muster_stop "$muster_here${muster_python:+: its python3 is $muster_python}" \
            'omit --closed, or load a Python: --module'
    }
    (
        exec </dev/null
        PATH=/usr/bin:/bin:$PATH # no folder on a shared file system is searched
        set -- "$muster_python" -I -S -c "$1"
        # The kernel ends the door with its rank, also while Python starts: a step lasts while its output is held open.
        ! setpriv --pdeathsig clear true 2>/dev/null || set -- setpriv --pdeathsig KILL "$@"
        [ "$muster_rank" -ne 0 ] || exec "$@" store "$muster_port" "$$" "$muster_nodes"
        exec >/dev/null 2>&1
        exec "$@" node "$muster_port" "$$" "$muster_address"
    ) &
fi
shift
unset MUSTER_DOOR_KEY
# torch connects to a store that stands already, on rank 0 too.
export TORCHELASTIC_USE_AGENT_STORE=True
