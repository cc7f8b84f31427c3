"""squeue and sacct as text: the words that ask about jobs, and the jobs in what they answer. 22.05 to 26.05.

Fields stand behind a separator that nobody types, the job's name is the last of them, and times are asked for in
seconds since 1970 (`QUERY_ENVIRONMENT`), so no time zone, locale or hostile name can shift a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from muster.errors import RequestError
from muster.older import pairwise, zip_equal
from muster.slurm.question import Question
from muster.slurm.reasons import Clears, WaitReason, reason_of
from muster.slurm.states import Phase, State, state_of
from muster.units import known_walltime_s, whole_number

QUERY_ENVIRONMENT = {"SLURM_TIME_FORMAT": "%s"}

_FIELD_END, _RECORD_END = "\x1f", "\x1e"
_MARK = "muster:"

# Field of SlurmJob → squeue -O's name, sacct --format's name (None: sacct has it not). The last takes what is left.
_COLUMNS = (
    ("id", "JobID", "JobIDRaw"),
    ("shown_id", "JobArrayID", "JobID"),
    ("state", "State", "State"),
    ("reason", "Reason", "Reason"),
    ("exit", "exit_code", "ExitCode"),
    ("batch", "BatchFlag", None),
    ("user", "UserName", "User"),
    ("partition", "Partition", "Partition"),
    ("account", "Account", "Account"),
    ("qos", "QOS", "QOS"),
    ("nodes", "NumNodes", "NNodes"),
    ("cpus", "NumCPUs", "NCPUS"),
    ("time_limit", "TimeLimit", "Timelimit"),
    ("submitted", "SubmitTime", "Submit"),
    ("started", "StartTime", "Start"),
    ("ended", "EndTime", "End"),
    ("node_list", "NodeList", "NodeList"),
    ("dependency", "Dependency", None),
    ("stdout", "StdOut", None),
    ("comment", "Comment", "Comment"),
    ("name", "Name", "JobName"),
)
# Both clients print a heading above their rows: an answer without it is none.
_SQUEUE_HEADING, _SACCT_HEADING = "JOBID", "JobIDRaw"
_SACCT = tuple((field, sacct) for field, _, sacct in _COLUMNS if sacct is not None)
_NOTHING = frozenset({"", "(null)", "N/A", "n/a", "NONE", "None", "None assigned", "Unknown", "INVALID"})


class SlurmJob(msgspec.Struct, frozen=True):
    """One job as the scheduler or its accounting knows it. What neither says is None."""

    id: str
    shown_id: str
    """As squeue shows it: 7_[2-9%1] for what waits of an array."""

    name: str
    state: State
    reason: WaitReason
    exit_code: int | None = None
    signal: int | None = None
    user: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    nodes: int | None = None
    cpus: int | None = None
    time_limit_s: int | None = None
    submitted: int | None = None
    """Seconds since 1970, as all times here."""

    started: int | None = None
    """When it started; of a job that waits, when Slurm expects it to start."""

    ended: int | None = None
    node_list: str | None = None
    dependency: str | None = None
    stdout: str | None = None
    comment: str | None = None
    is_batch: bool | None = None
    """Whether a script is the job's first process (sbatch), and no command outside of it (salloc, srun)."""

    parts: tuple[SlurmJob, ...] = ()
    """The parts of a heterogeneous job, in their order; empty: its nodes are of one kind."""

    @property
    def nodes_of_parts(self) -> tuple[int, ...]:
        """Return the number of nodes of each part; a job whose nodes are of one kind has one part."""
        return tuple(part.nodes or 1 for part in self.parts or (self,))

    @property
    def is_ours(self) -> bool:
        """Return whether Muster made it."""
        return (self.comment or "").startswith(_MARK)

    @property
    def was_withdrawn(self) -> bool:
        """Return whether it was cancelled before it had nodes."""
        return self.state.name == "CANCELLED" and not self.node_list

    @property
    def status(self) -> int | None:
        """Return the exit status a shell would give: 128 + n for signal n."""
        return 128 + self.signal if self.signal else self.exit_code

    @property
    def expected_start(self) -> int | None:
        """Return when Slurm expects a waiting job to start; None where Slurm does not say."""
        return self.started if self.state.phase is Phase.WAITING else None


def parse_job_id(text: str) -> str:
    """Return a job id that squeue, sacct and scancel take: 123, 123_4, 123_[5-8]; RequestError for anything else."""
    if re.fullmatch(r"[0-9]{1,10}(\+[0-9]+)?(_([0-9]+|\[[0-9,%:-]+\]))?", text):
        return text
    raise RequestError(f"{text!r} is not a job id", hint="muster jobs shows them: 123, or 123_4 for one of an array")


def ask_controller(jobs: Sequence[str] = ()) -> Question[tuple[SlurmJob, ...] | None]:
    """Ask for these jobs in one request; without any, for all that the user has in the controller's memory."""
    selection = f"--jobs={','.join(jobs)}" if jobs else "--me"
    columns = [name for _, name, _ in _COLUMNS]
    ends = [*[_FIELD_END] * (len(columns) - 1), _RECORD_END]
    form = ",".join(f"{name}:{end}" for name, end in zip_equal(columns, ends))
    return Question(("squeue", "--all", "--states=all", selection, f"--Format={form}"), parse_squeue)


def ask_accounting(jobs: Sequence[str]) -> Question[tuple[SlurmJob, ...] | None]:
    """Ask accounting for these jobs in one request, whenever they were."""
    form = ",".join(name for _, name in _SACCT)
    selection = f"--jobs={','.join(jobs)}"
    argv = ("sacct", "-X", "--parsable2", f"--delimiter={_FIELD_END}", selection, f"--format={form}")
    return Question(argv, parse_sacct)


class PeakMemory(msgspec.Struct, frozen=True):
    """The most memory that accounting saw one task use, and what it lists as that of the job."""

    task_mib: int
    task: str | None
    """None: the batch step, which runs the script: its task is not one of a rank."""
    listed: str
    """As Slurm writes it: "4G"; empty: not known. Where none was asked for, that of the whole nodes."""


def ask_memory(job: str) -> Question[PeakMemory | None]:
    """Ask accounting what memory the steps of a job used."""
    form = "JobID,MaxRSS,MaxRSSTask,ReqMem"
    return Question(("sacct", f"--jobs={job}", "--noheader", "--parsable2", f"--format={form}"), parse_peak_memory)


def parse_peak_memory(stdout: str) -> PeakMemory | None:
    """Return the step that used most; None where accounting counted nothing."""
    rows = [cells for line in stdout.splitlines() if len(cells := line.split("|")) == 4]
    limit = next((cells[3] for cells in rows if "." not in cells[0]), "")
    peaks = [(_kib(cells[1]), cells[0], cells[2]) for cells in rows if "." in cells[0]]
    peak, step, task = max(peaks, default=(0, "", ""))
    return PeakMemory(-(-peak // 1024), None if step.endswith(".batch") else task, limit) if peak else None


def _kib(text: str) -> int:
    """Return the KiB of MaxRSS: 3905492K, 12M, 0, nothing."""
    match = re.fullmatch(r"([0-9]{1,15})(?:\.[0-9]+)?([KMGT]?)", text.strip(), re.ASCII)
    return int(match[1]) * {"": 1, "K": 1, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30}[match[2]] if match else 0


def ask_preemption(job: str) -> Question[int | None]:
    """Ask the controller when a job was preempted in its last run, in seconds since 1970."""
    return Question(("scontrol", "--oneliner", "show", "job", job), partial(_read_preemption, job))


def _read_preemption(job: str, stdout: str) -> int | None:
    line = next((line for line in stdout.splitlines() if line.startswith(f"JobId={job} ")), "")
    fields = dict(word.partition("=")[::2] for word in line.split())
    preempted, started = (whole_number(fields.get(name, "")) for name in ("PreemptTime", "StartTime"))
    return preempted if preempted is not None and preempted >= (started or 0) else None


def ask_details(job: str) -> Question[str]:
    """Ask the controller for its own lines about a job, for people to read."""
    return Question(("scontrol", "--details", "show", "job", job), str.strip)


def ask_comments() -> Question[tuple[tuple[str, str], ...]]:
    """Ask for (id, comment) of every job of the user."""
    argv = ("squeue", "--me", "--noheader", "--states=all", "--format=%A %k")
    return Question(argv, _read_comments)


def _read_comments(stdout: str) -> tuple[tuple[str, str], ...]:
    rows = (line.partition(" ")[::2] for line in stdout.splitlines())
    return tuple((job, comment.strip()) for job, comment in rows if whole_number(job) is not None)


def cancel_argv(jobs: Sequence[str]) -> list[str]:
    """Cancel these jobs in one request."""
    return ["scancel", *jobs]


def tell_script_argv(job: str) -> list[str]:
    """Send USR1 to the script of a job, and to nothing else."""
    return ["scancel", "--batch", "--signal=USR1", job]


def parse_squeue(stdout: str) -> tuple[SlurmJob, ...] | None:
    """Return the jobs in squeue's answer; None where its heading is missing, or a row was cut.

    Other lines, such as a site's greeting, are ignored.
    """
    names = [field for field, _, _ in _COLUMNS]
    heading, *records = stdout.split(f"{_RECORD_END}\n")
    titles = heading.split(_FIELD_END)
    if titles[0].rpartition("\n")[2] != _SQUEUE_HEADING or len(titles) != len(names) or not records:
        return None
    rows = [record.split(_FIELD_END, len(names) - 1) for record in records]
    *whole_rows, rest = rows
    # A row that was cut: its first field may be all that is left.
    if len(rest) > 1 or rest[0].strip().isdigit():
        return None
    return _jobs(names, [row for row in whole_rows if len(row) > 1])


def parse_sacct(stdout: str) -> tuple[SlurmJob, ...] | None:
    """Return the jobs in sacct's answer; None where its heading is missing, or a row was cut.

    A line that begins no record goes on with the name of the record before it.
    """
    names = [field for field, _ in _SACCT]
    heading = re.search(rf"^{_SACCT_HEADING}{_FIELD_END}.*\n", stdout, re.MULTILINE)
    if heading is None or not stdout.endswith("\n"):
        return None
    rows = stdout[heading.end() :]
    starts = [match.start() for match in re.finditer(rf"^[0-9]+{_FIELD_END}", rows, re.MULTILINE)]
    records = (rows[start:end].removesuffix("\n") for start, end in pairwise([*starts, len(rows)]))
    return _jobs(names, [record.split(_FIELD_END, len(names) - 1) for record in records])


def is_job_unknown(stderr: str) -> bool:
    """Return whether squeue or scancel says that there is no such job."""
    return "Invalid job id" in stderr


def is_accounting_absent(stderr: str) -> bool:
    """Return whether sacct says that this cluster keeps no accounts."""
    return "accounting storage is disabled" in stderr


def _jobs(names: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[SlurmJob, ...] | None:
    """Return a job for each row; None where one of them cannot be read."""
    jobs = [_job(names, row) for row in rows]
    known_jobs = tuple(job for job in jobs if job is not None)
    return _joined(known_jobs) if len(known_jobs) == len(jobs) else None


def _joined(jobs: Sequence[SlurmJob]) -> tuple[SlurmJob, ...]:
    """Return the jobs, with the parts of a heterogeneous job, 57+0 and 57+1, as the one job 57."""
    groups: dict[str | int, list[SlurmJob]] = {}
    for number, job in enumerate(jobs):
        name, plus, _ = job.shown_id.partition("+")
        groups.setdefault(name if plus else number, []).append(job)
    return tuple(_whole(name, parts) if len(parts) > 1 else parts[0] for name, parts in groups.items())


def _whole(name: str | int, unsorted: Sequence[SlurmJob]) -> SlurmJob:
    """Return a heterogeneous job: its first part runs the script and has its id; the slowest part decides when."""
    parts = sorted(unsorted, key=lambda part: int(part.id))
    starts = [part.started for part in parts if part.started is not None]
    return replace(
        parts[0],
        shown_id=str(name),
        reason=max((part.reason for part in parts), key=_how_long),
        started=max(starts) if len(starts) == len(parts) else None,
        partition=",".join(dict.fromkeys(part.partition for part in parts if part.partition)) or None,
        nodes=sum(part.nodes or 0 for part in parts) or None,
        cpus=sum(part.cpus or 0 for part in parts) or None,
        node_list=",".join(part.node_list for part in parts if part.node_list) or None,
        parts=tuple(parts),
    )


def _how_long(reason: WaitReason) -> int:
    """Return how long a reason may keep a job waiting: that the nodes are busy passes before a limit or a mistake."""
    if reason.code in {*_NOTHING, "Priority", "Resources"}:
        return int(reason.code not in _NOTHING)
    return 2 if reason.clears is Clears.ITSELF else 3


_YEAR = "365-00:00:00"
"""The limit that Slurm's backfill writes into a job without one (22.05)."""


def _job(names: Sequence[str], values: Sequence[str]) -> SlurmJob | None:
    if len(values) != len(names):
        return None
    # A greeting stands before the first record, on lines of its own.
    job_fields = dict(zip_equal(names, (values[0].rpartition("\n")[2], *values[1:])))
    if not job_fields["id"].strip().isdigit():
        return None
    exit_code, signal = _exit(job_fields["exit"])
    limit = job_fields["time_limit"].strip()
    job = SlurmJob(
        id=job_fields["id"].strip(),
        shown_id=job_fields["shown_id"].strip() or job_fields["id"].strip(),
        name=job_fields["name"],
        state=state_of(job_fields["state"]),
        reason=reason_of(job_fields["reason"]),
        exit_code=exit_code,
        signal=signal,
        nodes=_number(job_fields["nodes"]),
        cpus=_number(job_fields["cpus"]),
        time_limit_s=None if limit == _YEAR else known_walltime_s(limit),
        submitted=_number(job_fields["submitted"]),
        started=_number(job_fields["started"]),
        ended=_number(job_fields["ended"]),
        is_batch={"1": True, "0": False}.get(job_fields.get("batch", "").strip()),
    )
    return replace(job, **dict(_texts(job_fields)))


def _texts(job_fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in ("user", "partition", "account", "qos", "node_list", "dependency", "stdout", "comment"):
        if (value := job_fields.get(name, "").strip()) not in _NOTHING:
            yield name, value


def _exit(text: str) -> tuple[int | None, int | None]:
    """Return exit code and signal of "7:0", "0:9"; squeue of 22.05 gives the number that wait() gave: 1792, 9."""
    code, colon, signal = text.strip().partition(":")
    if colon:
        pair = whole_number(code), whole_number(signal)
        return pair if None not in pair else (None, None)
    number = _number(code)
    return (None, None) if number is None else (number >> 8 & 0xFF, number & 0x7F)


def _number(text: str) -> int | None:
    """Return a whole number; squeue shortens node counts: 4K."""
    match = re.fullmatch(r"([0-9]{1,15})([KM]?)", text.strip(), re.ASCII)
    return int(match[1]) * {"": 1, "K": 1024, "M": 1024 * 1024}[match[2]] if match else None
