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
    offers: Mapping[str, str] = MappingProxyType({})
    """Variables by which the other roles find it; {own.host} and the like stand for this role."""


# Rank 0 has the scheduler, and every rank a worker.
_DASK = """\
trap 'kill $children 2>/dev/null' TERM INT HUP
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
exit "$status"
"""

PRESET_TABLE: Mapping[str, Preset] = {
    "serve": Preset("http://{host}:{port}/health http://{host}:{port}/v1/models"),
    "dask": Preset(
        "log:Registered to:",
        _DASK,
        scheme="tcp",
        offers={"DASK_SCHEDULER_ADDRESS": "tcp://{own.host}:{own.port}"},
    ),
}
PRESETS = tuple(PRESET_TABLE)
