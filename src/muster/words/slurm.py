"""Options of sbatch and srun: their names, their letters, and which take the next word. Pure.

`tests/words/test_slurm.py` asks sbatch and srun themselves.
"""

from __future__ import annotations

_LETTERS_OF_BOTH = {
    "A": "account",
    "B": "extra-node-info",
    "b": "begin",
    "C": "constraint",
    "c": "cpus-per-task",
    "D": "chdir",
    "d": "dependency",
    "e": "error",
    "F": "nodefile",
    "G": "gpus",
    "H": "hold",
    "i": "input",
    "J": "job-name",
    "k": "no-kill",
    "L": "licenses",
    "M": "clusters",
    "m": "distribution",
    "N": "nodes",
    "n": "ntasks",
    "O": "overcommit",
    "o": "output",
    "p": "partition",
    "Q": "quiet",
    "q": "qos",
    "S": "core-spec",
    "s": "oversubscribe",
    "t": "time",
    "v": "verbose",
    "W": "wait",
    "w": "nodelist",
    "x": "exclude",
}
LETTERS_OF_SBATCH = {**_LETTERS_OF_BOTH, "a": "array"}
LETTERS_OF_SRUN = {
    **_LETTERS_OF_BOTH,
    "E": "preserve-env",
    "I": "immediate",
    "K": "kill-on-bad-exit",
    "l": "label",
    "r": "relative",
    "T": "threads",
    "u": "unbuffered",
    "X": "disable-status",
    "Z": "no-allocate",
}

# What sbatch takes: `sbatch --help` of 22.05, 24.11 and 26.05, and what was removed between them. A site's plugins
# add to it.
SBATCH_FLAGS = frozenset(
    """
    account array batch bb bbf begin chdir cluster-constraint clusters comment constraint container container-id
    container-type contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot
    dependency distribution error exclude exclusive export export-file extra extra-node-info get-user-env gid
    gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint hold ignore-pbs input
    job-name kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus
    network nice no-kill no-requeue nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node
    ntasks-per-socket oom-kill-step open-mode output overcommit oversubscribe parsable partition power prefer
    priority profile propagate qos quiet reboot requeue reservation resv-ports segment signal sockets-per-node
    spread-job spread-segments stepmgr switches tasks-per-node test-only thread-spec threads-per-core time time-min
    tmp tres-bind tres-per-task uid use-min-nodes verbose wait wait-all-nodes wckey wrap
        """.split()  # noqa: SIM905  # a page of names, not of quotes
)
_OF_SRUN_ALONE = frozenset(
    """
    acctg-freq bcast bcast-exclude bell compress cpu-bind cpu_bind disable-status epilog exact het-group immediate jobid
    kill-on-bad-exit label mem_bind mpi msg-timeout multi-prog no-allocate overlap preserve-env prolog pty
    quit-on-interrupt relative send-libs slurmd-debug task-epilog task-prolog threads unbuffered
    """.split()  # noqa: SIM905
)
# Options of plug-ins that sites have: of pyxis, of Alps' container engine, of Shifter.
_OF_PLUGINS = frozenset(
    """
    container-env container-image container-mounts container-name container-save container-workdir environment image
    module volume
    """.split()  # noqa: SIM905
)
# What srun takes without a value, or with one behind "=" alone: the next word is not theirs.
_WITHOUT_NEXT_WORD = frozenset(
    """
    bcast bell compress contiguous disable-status exact exclusive get-user-env hold ignore-pbs immediate
    kill-on-bad-exit label multi-prog nice no-allocate no-kill no-requeue oom-kill-step overcommit overlap
    oversubscribe parsable preserve-env propagate pty quiet quit-on-interrupt reboot requeue resv-ports send-libs
    spread-job spread-segments stepmgr test-only unbuffered use-min-nodes verbose
    """.split()  # noqa: SIM905
)
SRUN_VALUED = frozenset(
    {f"--{name}" for name in (SBATCH_FLAGS | _OF_SRUN_ALONE | _OF_PLUGINS) - _WITHOUT_NEXT_WORD}
    | {f"-{letter}" for letter, name in LETTERS_OF_SRUN.items() if name not in _WITHOUT_NEXT_WORD}
)
"""Options of srun whose value is the next word, as they are written."""
