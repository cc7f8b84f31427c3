"""The kinds of silence: one table of what Slurm's programs may say in the place of an answer, and who they are.

Each kind is a few lines of sh that stand in the place of a program of Slurm, first on PATH. `cluster.py` makes the
folder of programs, runs a verb over it and judges what the verb makes of it.

To add a verb: one row of a table like `VERBS` of `test_launching.py`, for the same three tests. To add a kind: one row
below; every verb that asks one of its programs meets it.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ACCOUNTING", "CONTROLLER", "HEALTHY", "HELPERS", "KINDS", "Kind"]

# Who answers through which program.
CONTROLLER = ("scontrol", "squeue", "sinfo", "sbatch", "salloc", "srun", "sshare", "scancel", "sprio")
ACCOUNTING = ("sacct", "sacctmgr")
_ALL = (*CONTROLLER, *ACCOUNTING)

# A job that runs on node1, as squeue and sacct write it for the columns that Muster asks for.
_JOB = (
    r"JOBID\037JOBID\037STATE\037REASON\037EXIT_CODE\037BATCH_FLAG\037USER\037PARTITION\037ACCOUNT\037QOS\037NODES"
    r"\037CPUS\037TIME_LIMIT\037SUBMIT_TIME\037START_TIME\037END_TIME\037NODELIST\037DEPENDENCY\037STDOUT\037COMMENT"
    r"\037NAME\036\n"
    r"7\0377\037RUNNING\037None\0370\0371\037%s\037main"
    r"\037acct\037normal\0371\0371\03710:00\0371700000000\0371700000001"
    r"\0371700000601\037node1\037(null)\037/dev/null\037(null)\037train\036\n"
)
_ENDED = (
    r"JobIDRaw\037JobID\037State\037Reason\037ExitCode\037User\037Partition\037Account\037QOS\037NNodes\037NCPUS"
    r"\037Timelimit\037Submit\037Start\037End\037NodeList\037Comment\037JobName\n"
    r"7\0377\037COMPLETED\037None\0370:0\037%s\037main"
    r"\037acct\037normal\0371\0371\03700:10:00\0371700000000\0371700000001"
    r"\0371700000601\037node1\037\037train\n"
)

HEALTHY = {
    "scontrol": """\
case "$1 $2" in
"ping "*) echo "Slurmctld(primary) at ctl is UP" ;;
"show config") printf 'Configuration data as of now\\nClusterName = silence\\nSLURM_VERSION = 24.05.4\\n'
    printf 'NEXT_JOB_ID = 8\\nKillOnBadExit = 0\\nSlurmctld(primary) at ctl is UP\\n' ;;
"show hostnames") printf 'node1\\n' ;;
"show job"*|"--details show"*) echo "JobId=7 JobName=train JobState=RUNNING NodeList=node1" ;;
"--all --oneliner") cat >/dev/null
    printf 'ClusterName = silence\\nSLURM_VERSION = 24.05.4\\nSelectType = select/cons_tres\\n'
    printf 'AccountingStorageType = accounting_storage/slurmdbd\\n'
    printf 'PartitionName=main Default=YES MaxTime=1-00:00:00 DefaultTime=00:30:00 State=UP TotalNodes=2\\n'
    for node in node1 node2; do
        echo "NodeName=$node CPUTot=8 Sockets=1 CoresPerSocket=8 RealMemory=16000 Gres=gpu:4 Partitions=main "
    done ;;
*) exit 1 ;;
esac
""",
    "squeue": f"""\
case "$*" in
*--Format=*) printf '{_JOB}' "$(id -un)" ;;
*--states=PENDING*) echo main ;;
*%b*) echo "gres:gpu:2" ;;
*%k*) echo "7 (null)" ;;
*) echo 7 ;;
esac
""",
    "sinfo": r"""
case "$*" in
*--all*) printf 'main*\037up\0371-00:00:00\03730:00\0371-infinite\0372\0370/16/0/16\0378\03716000\037gpu:4\037idle\n' ;;
*%R*) echo "main|up|1-00:00:00|30:00|1-infinite|2|8|1:8:1|16000|gpu:4|(null)" ;;
*%P) echo "main*" ;;
*) printf 'node1|main*|idle|8|16000|gpu:4|(null)\n' ;;
esac
""",
    "sbatch": """\
case "$*" in
*--test-only*) cat >/dev/null; echo "sbatch: Job 8 to start at 2026-01-01T00:00:00 on nodes node1" >&2 ;;
*) echo 8 ;;
esac
""",
    # Nodes are given at once; the script runs as on the first of them.
    "salloc": """\
echo "salloc: Granted job allocation 8" >&2
while [ "$#" -gt 0 ]; do case $1 in -*) shift ;; *) break ;; esac; done
export SLURM_JOB_ID=8 SLURM_JOB_NODELIST=node1 SLURM_JOB_NUM_NODES=1 SLURM_NNODES=1
export SLURM_JOB_CPUS_PER_NODE=8 SLURM_TASKS_PER_NODE=1
exec "$@"
""",
    # A step says that it ran, and runs nothing: what runs is then not started by Slurm.
    "srun": """\
case "$*" in
*--mpi=list*) printf 'MPI plugin types are...\\n\\tnone\\n\\tpmi2\\n\\tpmix\\n' >&2 ;;
*"@@ "*|*'ask end true'*) printf '@@ arch\\nx86_64\\n@@ end\\n' ;;
*) echo "a step on node1" ;;
esac
""",
    "sacct": f"""\
case "$*" in
*MaxRSS*) echo "7||4G" ;;
*) printf '{_ENDED}' "$(id -un)" ;;
esac
""",
    "sacctmgr": """\
case "$*" in
*--readonly*) cat >/dev/null; printf 'acct|acct||normal|\\nnormal|1-00:00:00||||||\\n' ;;
*associations*) echo "acct||normal" ;;
*) echo "normal|1-00:00:00|" ;;
esac
""",
    "sshare": 'echo "acct"\n',
    "scancel": ":\n",
    "sprio": ":\n",
}

# Programs of the system that scripts and verbs may use: PATH holds these and Slurm's, so a missing program is missing.
HELPERS = (
    *(
        "awk",
        "split",
        "sha256sum",
        "gzip",
        "basename",
        "bash",
        "cat",
        "chmod",
        "cut",
        "date",
        "df",
        "dirname",
        "env",
        "find",
        "flock",
        "getent",
        "git",
    ),
    *(
        "grep",
        "head",
        "hostname",
        "id",
        "ls",
        "lscpu",
        "mkdir",
        "mkfifo",
        "mktemp",
        "mv",
        "nproc",
        "od",
        "ps",
        "python",
    ),
    *(
        "python3",
        "readlink",
        "rm",
        "sed",
        "seq",
        "sh",
        "sleep",
        "sort",
        "stat",
        "tail",
        "tar",
        "tee",
        "test",
        "timeout",
    ),
    *("touch", "tr", "true", "uname", "uniq", "wc", "xargs"),
)


class Kind(NamedTuple):
    """One kind of silence."""

    name: str
    programs: tuple[str, ...]
    """Who answers so."""

    answer: str
    """What they do, in sh; `@healthy` is the program's right answer, `@part` one to cut. Empty: it is not there."""

    sentence: str = ""
    """A pattern: what the verb's sentence has to name beside, or in the place of, the program."""

    is_answer: bool = False
    """It is a right answer after all: the verb has to do what it does over a healthy cluster."""

    hangs: bool = False
    """The program does not end: it is waited for as short as the test wants."""

    mode: int = 0o755
    first_line: str = "#!/bin/sh"
    is_munge_down: bool = False
    is_no_slurm: bool = False
    """It is what a machine without a cluster says: a run is then on this machine."""


_DAEMON = r"controller|Slurm|slurm|munge|accounting"


def _fails(words: str, status: int = 1) -> str:
    return f'echo "${{0##*/}}: error: {words}" >&2\nexit {status}\n'


# Every program of a daemon says the same; the daemon that is meant is in the words.
_REFUSALS = {
    "connection refused": "slurm_msg_sendto: Connection refused",
    "connect failure": "Unable to contact slurm controller (connect failure)",
    "timed out": "Socket timed out on send/recv operation",
    "zero bytes": "Zero Bytes were transmitted or received",
    "incomplete message": "slurm_receive_msg: Insane message length",
    "authentication": "Protocol authentication error",
    "expired credential": "Munge decode failed: Expired credential",
    "rewound credential": "Munge decode failed: Rewound credential",
    "no munge socket": "Munge encode failed: Failed to access '/run/munge/munge.socket.2': No such file or directory",
    "munge refused": "Munge encode failed: Unable to access '/run/munge/munge.socket.2': Permission denied",
    "other version": "Incompatible versions of client and server code",
    "standby": "Slurm backup controller in standby mode",
    "unknown host": "Unable to resolve 'ctl': Unknown host",
    "no route": "slurm_open_stream: No route to host",
    "denied": "Access/permission denied",
    "plugin": "cannot find auth plugin for auth/munge",
    "too many requests": "RPC rate limit exceeded too many times, giving up",
    "wrong user": "Invalid user id",
    "full table": "Unable to allocate resources: Resource temporarily unavailable",
    "no memory": "fork: Cannot allocate memory",
    "in French": "le contrôleur ne répond pas",
}
_BROKEN = {
    "nothing, status 0": "exit 0\n",
    "an empty line, status 0": "echo\n",
    "spaces, status 0": "printf '   \\n \\n'\n",
    "garbage, status 0": "printf '\\001\\377\\376GARBAGE\\000|||\\n%%s%%n\\n'\n",
    "a page of HTML, status 0": "printf '<html><head><title>502 Bad Gateway</title></head></html>\\n'\n",
    "a greeting alone, status 0": "printf 'Welcome to the cluster!\\nMaintenance on Tuesday.\\n'\n",
    "usage, status 0": 'echo "Usage: ${0##*/} [OPTIONS]"\n',
    "only a warning, status 0": 'echo "${0##*/}: warning: something is odd" >&2\n',
    "an error, status 0": 'echo "${0##*/}: error: Unable to contact slurm controller (connect failure)" >&2\n',
    "no word, status 1": "exit 1\n",
    "no word, status 255": "exit 255\n",
    "odd words, status 3": "echo 'xyzzy: 0x7f3a' >&2; exit 3\n",
    "a long complaint": 'i=0; while [ $i -lt 300 ]; do echo "error line $i of many" >&2; i=$((i+1)); done; exit 1\n',
    "no text on stderr": "printf '\\377\\376\\001' >&2; exit 1\n",
    "a crash": "kill -SEGV $$\n",
    "killed": "kill -KILL $$\n",
    "ended by SIGTERM": "kill -TERM $$\n",
    "a library missing": (
        'echo "${0##*/}: error while loading shared libraries: libslurmfull.so: cannot open shared object file" >&2\n'
        "exit 127\n"
    ),
    "a wrapper without its program": 'echo "/opt/bin/wrap: line 3: real-${0##*/}: not found" >&2; exit 127\n',
    "half an answer, then a crash": "( @part ) | head -c 9; kill -SEGV $$\n",
}


def _rows() -> list[Kind]:
    rows = [
        Kind("controller silent", CONTROLLER, "exec sleep 1000\n", _DAEMON, hangs=True),
        Kind("controller silent after half an answer", CONTROLLER, "echo main; exec sleep 1000\n", _DAEMON, hangs=True),
        Kind("controller silent, deaf to SIGTERM", CONTROLLER, "trap '' TERM; sleep 1000\n", _DAEMON, hangs=True),
        Kind("munge is down", _ALL, "exec sleep 1000\n", "munge", hangs=True, is_munge_down=True),
        Kind("munge is down, and said", _ALL, _fails(_REFUSALS["no munge socket"]), "munge", is_munge_down=True),
        Kind("all of Slurm silent", _ALL, "exec sleep 1000\n", _DAEMON, hangs=True),
        Kind("only scontrol silent", ("scontrol",), "exec sleep 1000\n", _DAEMON, hangs=True),
        Kind("only squeue silent", ("squeue",), "exec sleep 1000\n", _DAEMON, hangs=True),
        Kind("only sinfo silent", ("sinfo",), "exec sleep 1000\n", _DAEMON, hangs=True),
        Kind("only sbatch silent", ("sbatch",), "exec sleep 1000\n", _DAEMON, hangs=True),
        Kind("only srun silent", ("srun",), "exec sleep 1000\n", _DAEMON, hangs=True),
        Kind("accounting silent", ACCOUNTING, "exec sleep 1000\n", _DAEMON, hangs=True),
        Kind("accounting silent after half an answer", ACCOUNTING, "printf 7; exec sleep 1000\n", _DAEMON, hangs=True),
        Kind("accounting: refused", ACCOUNTING, _fails("slurm_persist_conn_open: Connection refused"), _DAEMON),
        Kind(
            "accounting: slurmdbd", ACCOUNTING, _fails("Problem talking to the database: Connection refused"), _DAEMON
        ),
        Kind("accounting: disabled", ACCOUNTING, _fails("Slurm accounting storage is disabled"), _DAEMON),
        Kind("accounting: only for administrators", ACCOUNTING, _fails("Access/permission denied"), _DAEMON),
        *(Kind(f"controller: {name}", CONTROLLER, _fails(words), _DAEMON) for name, words in _REFUSALS.items()),
        *(Kind(f"controller's programs: {name}", CONTROLLER, text) for name, text in _BROKEN.items()),
        *(
            Kind(f"accounting's programs: {name}", ACCOUNTING, _BROKEN[name])
            for name in ("nothing, status 0", "garbage, status 0", "no word, status 1", "a crash", "killed")
        ),
        Kind("ping: all down, status 1", ("scontrol",), _ping("DOWN", 1), _DAEMON),
        Kind("ping: all down, status 0, as Slurm 17 has it", ("scontrol",), _ping("DOWN", 0), _DAEMON),
        Kind("ping: nothing, status 0", ("scontrol",), '[ "$1" != ping ] || exit 0\n@healthy', _DAEMON),
        Kind("ping: another word, status 0", ("scontrol",), _ping("STARTING", 0), _DAEMON),
        Kind("sinfo: no partition", ("sinfo",), "exit 0\n", _DAEMON),
        Kind("sinfo: half a line", ("sinfo",), "( @part ) | head -c 12; exit 0\n", _DAEMON),
        Kind("sinfo: other columns, as of another version", ("sinfo",), "( @part ) | tr -d '|\\037'\n", _DAEMON),
        Kind("squeue: garbage", ("squeue",), _BROKEN["garbage, status 0"], _DAEMON),
        Kind("squeue: one of two questions", ("squeue",), '[ "${1#--all}" = "$1" ] || exit 1\n@healthy', _DAEMON),
        Kind("sbatch: no job id", ("sbatch",), _queueing("echo 'Submitted, thank you'"), _DAEMON),
        Kind("sbatch: nothing, when it queues", ("sbatch",), _queueing("exit 0"), _DAEMON),
        Kind("sbatch: silent when it queues", ("sbatch",), _queueing("exec sleep 1000"), _DAEMON, hangs=True),
        Kind("sbatch: times out when it queues", ("sbatch",), _queueing(_fails(_REFUSALS["timed out"])), _DAEMON),
        Kind("sbatch: dies when it queues", ("sbatch",), _queueing("kill -KILL $$"), _DAEMON),
        Kind("salloc: ends without nodes or words", ("salloc",), "exit 0\n"),
        Kind(
            "salloc: loses its controller",
            ("salloc",),
            _fails("Job allocation 8 has been revoked: " + _REFUSALS["timed out"]),
        ),
        Kind("srun: lists no MPI", ("srun",), "exit 0\n"),
        Kind(
            "srun: a node does not answer",
            ("srun",),
            _step(_fails("Task launch failed on node node1: Communication connection failure")),
        ),
        Kind("srun: a node is silent", ("srun",), _step("exec sleep 1000"), hangs=True),
        Kind("srun: half of what a node says", ("srun",), _step("printf '@@ lscpu\\n0,0,'; exit 0"), "a compute node"),
        Kind(
            "no configuration",
            _ALL,
            _fails("s_p_parse_file: unable to establish configuration source"),
            _DAEMON,
            is_no_slurm=True,
        ),
        Kind(
            "no file of configuration",
            _ALL,
            _fails("resolve_ctls_from_dns_srv: failed to fetch config"),
            _DAEMON,
            is_no_slurm=True,
        ),
        Kind("no Slurm", _ALL, "", is_no_slurm=True),
        Kind("scontrol is missing", ("scontrol",), ""),
        Kind("sbatch is missing", ("sbatch",), ""),
        Kind("salloc is missing", ("salloc",), ""),
        Kind("srun is missing", ("srun",), ""),
        Kind("sinfo is missing", ("sinfo",), ""),
        Kind("squeue is missing", ("squeue",), ""),
        Kind("accounting's programs are missing", ACCOUNTING, ""),
        Kind("may not be run", CONTROLLER, "exit 0\n", mode=0o644, is_no_slurm=True),
        Kind("another machine's program", CONTROLLER, "\177ELF\n", first_line="\177ELF garbage"),
        Kind("no such interpreter", CONTROLLER, "exit 0\n", first_line="#!/opt/gone/bin/python"),
        # What is an answer after all.
        Kind("slow, in time", _ALL, "sleep 0.05\n@healthy", is_answer=True),
        Kind("right, with a warning", _ALL, 'echo "${0##*/}: warning: deprecated" >&2\n@healthy', is_answer=True),
        Kind("right, after a greeting", ("scontrol",), "echo 'Welcome to the cluster'\n@healthy", is_answer=True),
        Kind("ping: the primary is down, the backup is up", ("scontrol",), _backup(), is_answer=True),
    ]
    assert len({row.name for row in rows}) == len(rows)
    return rows


def _ping(word: str, status: int) -> str:
    return f'[ "$1" != ping ] || {{ echo "Slurmctld(primary) at ctl is {word}"; exit {status}; }}\n@healthy'


def _backup() -> str:
    lines = "Slurmctld(primary) at ctl is DOWN\\nSlurmctld(backup) at ctl2 is UP\\n"
    return f"[ \"$1\" != ping ] || {{ printf '{lines}'; exit 0; }}\n@healthy"


def _queueing(text: str) -> str:
    """Answer a trial, and say `text` where the job is queued."""
    return f'case "$*" in *--test-only*) ;; *) {text}\n;; esac\n@healthy'


def _step(text: str) -> str:
    """Answer a question for MPI types, and do `text` where a step is to start."""
    return f'case "$*" in *--mpi=list*) ;; *) {text}\n;; esac\n@healthy'


KINDS = _rows()
