"""A shell beside a rank of a running job: a step of that job, on the rank's host, in the rank's environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NoReturn

from muster.runner import become
from muster.slurm.variables import scheduler_environment

# Finds the first process of the rank, and becomes the command in the environment, directory and image of that process,
# without the mark of the rank: what has the mark is ended with the attempt.
_BESIDE = r"""
job=$1 role=$2 rank=$3
shift 3
pid=
for folder in $(ls -d /proc/[0-9]* | sort -V); do
    [ -O "$folder" ] && grep -qszx "MUSTER_JOB=$job" "$folder/environ" || continue
    grep -qszx "RANK=$rank" "$folder/environ" || continue
    [ -z "$role" ] || grep -qszx "MUSTER_ROLE=$role" "$folder/environ" || continue
    pid=${folder#/proc/}
    break
done 2>/dev/null
if [ -z "$pid" ]; then
    printf 'muster: error: rank %s of %s has no process on %s\n\nhint: muster stacks %s shows where the ranks are\n' \
        "$rank" "${role:-the job}" "$(hostname)" "$job" >&2
    exit 1
fi
variables=()
while IFS= read -r -d '' variable; do
    [[ $variable == MUSTER_MARK=* ]] || variables+=("$variable")
done <"/proc/$pid/environ"
inside=()
if [ "$(readlink "/proc/$pid/ns/mnt")" != "$(readlink /proc/self/ns/mnt)" ]; then
    inside=(nsenter --user --preserve-credentials --mount --target "$pid")
    "${inside[@]}" true 2>/dev/null || {
        inside=()
        printf 'muster: the image of the rank cannot be entered here: this shell is outside of it\n' >&2
    }
fi
[ "${#inside[@]}" -ne 0 ] || cd -P "/proc/$pid/cwd" || exit
exec "${inside[@]}" env -i "${variables[@]}" "TERM=${TERM:-dumb}" "$@"
"""


def attach(
    job: str, host: str, role: str, rank: int, command: Sequence[str], environment: Mapping[str, str], part: int | None
) -> NoReturn:
    """Become the srun that starts the command beside a rank, whose host is in this part of a heterogeneous job."""
    words = ["srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={host}", "--mem=0"]
    words += ["--mpi=none", "--quiet", *([] if part is None else [f"--het-group={part}"])]
    words += ["--pty"] if os.isatty(0) else []
    words += ["bash", "-c", _BESIDE, "muster", job, role, str(rank), *command]
    become(words, scheduler_environment(environment))
