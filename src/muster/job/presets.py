"""Programs that have rules of their own for starting as a role: what each runs, offers and counts as ready. Data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec


class Preset(msgspec.Struct, frozen=True):
    """How one program starts as a role, with one process on each node of the role."""

    ready: str
    """As --ready says it."""

    text: str = ""
    """What each process runs, in sh: the role's command is its words. Empty: the command itself."""

    scheme: str = "http"
    ports: int = 1
    """How many ports in a row the program takes on each node."""

    offers: Mapping[str, str] = MappingProxyType({})
    """Variables by which the other roles find it; {own.host} and the like stand for this role."""


# Ray finds no other Ray: its ports, its folder and (since 2.52) its token are this job's alone. --block ends all of its
# processes with it. The CPUs and GPUs are those that were granted, and not those that are seen. Each port is named, so
# that two Rays on a host share none; workers take free ports (0). Ray's raylet asks one agent for 10 minutes, and not
# 30 s; for another it waits 15 s, and nothing changes that. Ray opens its folder to all, so it lies in one that is not.
# A Ray that is told to end waits 30 s for work that another node may take over: no node is left, so it does not wait.
# A status other than 0 would have srun kill the other nodes' Rays before their folders are gone.
# Its start fails on a busy node (the 15 s above), so it has five: a Ray that did start has opened the log of its end.
_RAY = """\
port=$MUSTER_ROLE_PORT folder=/tmp/ray-$MUSTER_JOB-$MUSTER_ROLE cpus=${SLURM_CPUS_PER_TASK:-$SLURM_CPUS_ON_NODE}
if ! mkdir -m 700 "$folder" 2>/dev/null && { [ -L "$folder" ] || ! [ -O "$folder" ]; }; then
    echo "muster: error: role $MUSTER_ROLE: $folder on $(hostname) cannot be made, or belongs to somebody else" >&2
    exit 1
fi
trap 'rm -rf "$folder"' EXIT
address=$(getent ahostsv4 "${SLURMD_NODENAME:-$(hostname)}" | awk '$1 !~ /^127[.]/ { print $1; exit }')
address=${address:-$(hostname -I | awk '{ print $1 }')}
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN="$MUSTER_ROLE_KEY" RAY_TMPDIR="$folder/t"
export RAY_agent_register_timeout_ms="${RAY_agent_register_timeout_ms:-600000}"
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S="${RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S:-0}"
trap 'told=yes; kill "$child" 2>/dev/null || exit 0' TERM INT HUP
set -- --block --disable-usage-stats --node-ip-address="$address" --num-cpus="$cpus" --num-gpus="${MUSTER_GPUS:-0}" \\
    --node-manager-port=$((port + 1)) --object-manager-port=$((port + 2)) --runtime-env-agent-port=$((port + 3)) \\
    --metrics-export-port=$((port + 4)) --dashboard-agent-grpc-port=$((port + 5)) \\
    --dashboard-agent-listen-port=$((port + 6)) --min-worker-port=0 --max-worker-port=0 "$@"
if [ "$RANK" = 0 ]; then
    set -- --head --port="$port" --include-dashboard=false --dashboard-port=$((port + 7)) --temp-dir="$folder/t" \\
        $(python3 -c 'import grpc' 2>/dev/null && echo "--ray-client-server-port=$((port + 8))") "$@"
else
    until python3 -c 'import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)' \\
        "$MASTER_ADDR" "$port" 2>/dev/null; do sleep 0.2; done
    set -- --address="$MASTER_ADDR:$port" "$@"
fi
for try in 1 2 3 4 5; do
    ray start "$@" &
    child=$!
    wait "$child"
    status=$?
    wait "$child" 2>/dev/null
    [ -z "${told:-}" ] || exit 0
    [ "$status" = 1 ] && ! [ -e "$folder/t/session_latest/logs/ray_process_exit.log" ] || break
    echo "muster: role $MUSTER_ROLE: Ray did not start on $(hostname), try $try of 5" >&2
    [ "$try" = 5 ] || sleep "$((RANK % 8))"
done
exit "$status"
"""

# Rank 0 has the scheduler, and every rank a worker.
_DASK = """\
trap 'told=yes; kill $children 2>/dev/null' TERM INT HUP
children='' folder=${TMPDIR:-/tmp}/dask-$MUSTER_JOB-$MUSTER_ROLE
if [ "$RANK" = 0 ]; then
    dask scheduler --host "tcp://$MASTER_ADDR" --port "$MUSTER_ROLE_PORT" --no-dashboard --no-show &
    children=$!
fi
dask worker "tcp://$MASTER_ADDR:$MUSTER_ROLE_PORT" --nthreads "${SLURM_CPUS_PER_TASK:-$SLURM_CPUS_ON_NODE}" \\
    --no-dashboard --local-directory "$folder" "$@" &
worker=$! children="$children $!"
wait "$worker"
status=$?
kill $children 2>/dev/null
wait
rm -rf "$folder"
[ -z "${told:-}" ] || exit 0
exit "$status"
"""

PRESET_TABLE: Mapping[str, Preset] = {
    "ray": Preset(
        "log:Ray runtime started.",
        _RAY,
        scheme="ray",
        ports=9,
        offers={
            "RAY_ADDRESS": "{own.host}:{own.port}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": "{own.key}",
        },
    ),
    "serve": Preset("http://{host}:{port}/health http://{host}:{port}/v1/models"),
    "dask": Preset(
        "log:Registered to:",
        _DASK,
        scheme="tcp",
        offers={"DASK_SCHEDULER_ADDRESS": "tcp://{own.host}:{own.port}"},
    ),
    # The lighthouse alone: each replica group is a role, so that it comes back without the others.
    "torchft": Preset(
        "port",
        'exec torchft_lighthouse --bind "[::]:$MUSTER_ROLE_PORT" "$@"\n',
        offers={"TORCHFT_LIGHTHOUSE": "{own.url}"},
    ),
}
PRESETS = tuple(PRESET_TABLE)
