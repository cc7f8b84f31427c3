"""mpirun: a rank per slot. Open MPI and MPICH spell the same things differently; the script asks which it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from muster.launchers.base import Launcher, Part, Prologue, Starter, Wrap, door_prologues, rank_prologue, rank_words
from muster.model.failure import Failure, FailureKind, exit_words
from muster.model.plan import Engine, Flag, Output, Plan, Reason
from muster.model.words import Fragment, Word, fold, in_lines, named

# Behind a line whose report passes through the script on its way to the user.
KEEP_REPORT = Fragment('2> >(tee -i "$muster_report" >&2)')
REPORT_KEPT = 'muster_report_kept "$!"'

_PATIENCE = "odls_base_sigkill_timeout"
_MOST_NAMES = 90  # letters, so that no line is wider than a page

# What the shell of the rank itself says (render/shell/rank/go_mpi_rank.sh).
_OF_A_RANK = re.compile(
    r"^muster: rank (?P<rank>[0-9]{1,9}) on (?P<host>\S+) ended with status (?P<status>[0-9]{1,3})$"
)
_OPEN_MPI_SIGNAL = re.compile(
    r"^\S+ noticed that process rank (?P<rank>[0-9]{1,9}) with PID [0-9]+ on node (?P<host>\S+) "
    r"exited on signal (?P<signal>[0-9]{1,9})"
)
_OPEN_MPI_PROCESS = re.compile(r"^\s*Process name: \[\[[^\]]*\],(?P<rank>[0-9]{1,9})\]")
_OPEN_MPI_CODE = re.compile(r"^\s*Exit code:\s+(?P<code>[0-9]{1,9})")
_OPEN_MPI_DAEMON = re.compile(r"^\s*Remote daemon: \[\[[^\]]*\],[0-9]+\] on node (?P<host>\S+)")
_HYDRA_HOST = re.compile(r"^=\s+(?:RANK (?P<rank>[0-9]{1,9}) )?PID [0-9]+ RUNNING AT (?P<host>\S+)")
_HYDRA_SIGNAL = re.compile(r"^YOUR APPLICATION TERMINATED WITH THE EXIT STRING: .*\(signal (?P<signal>[0-9]{1,9})\)")


def report_parts(plan: Plan) -> tuple[Part, ...]:
    """Return the shell parts by which a report passes through the script, and those by which a run keeps the output."""
    return ("report",) if plan.output is Output.STREAM else ("report", "to_log")


def watch_parts(plan: Plan) -> tuple[Part, ...]:
    """Return the parts by which a job that goes on keeps mpirun off dead nodes, and ends one that waits for them."""
    return ("mpirun_place", "mpirun_waits") if plan.finish is not None else ()


class ByMpirun(Launcher):
    """What every launcher of mpirun's has in common: a program that reaches the nodes, and says its own status."""

    engines = frozenset({Engine.SLURM, Engine.HERE})
    # The words of Open MPI 4, of Open MPI 5 and of MPICH for the same.
    reaches_by_ssh: tuple[tuple[str, str], ...] = (
        ("OMPI_MCA_plm", "rsh"),
        ("PRTE_MCA_plm", "ssh"),
        ("HYDRA_LAUNCHER", "ssh"),
    )
    keeps_signals = "mpirun's daemons, which pass nothing on"
    tells_failure = "mpirun"
    reads_status = "muster_hydra_status"
    """The function of the script that reads the status out of what was reported."""

    def starter(self, engine: Engine) -> Starter:
        del engine
        return Starter.PROGRAM

    @property
    def task_of_slurm(self) -> str:
        return "mpirun's daemon"

    def prepare(self, plan: Plan, names: Sequence[str]) -> Iterator[str]:
        if plan.finish is not None and plan.finish.save is not None and plan.finish.save.signal == "TERM":
            # By itself Open MPI kills its ranks one second after SIGTERM, by which Slurm announces an end.
            yield f"export OMPI_MCA_{_PATIENCE}={plan.grace_s} PRTE_MCA_{_PATIENCE}={plan.grace_s}"
        words = [named("labels", "yes")] if plan.label else []
        lines = in_lines(" ".join(dict.fromkeys(names)), _MOST_NAMES)
        words += [named("variables", line.replace(" ", ",")) for line in lines]
        site = ("--", *(flag.word for flag in plan.mpirun_flags)) if plan.mpirun_flags else ()
        yield fold(("muster_mpirun_words", *words, *site))

    def step(self, plan: Plan, words: tuple[Word, ...]) -> Iterator[str]:
        """Yield the step and a reader of its reports.

        mpirun's status is not always that of the first rank that failed.
        """
        if plan.finish is not None:
            yield from ("muster_place_daemons", "muster_watch_daemons")
        in_files = plan.output is not Output.STREAM
        report = '"${muster_report:-$muster_logs/ranks.log}"' if in_files else '"$muster_report"'
        yield '[ -n "$muster_keeps_logs" ] || muster_keep_report' if in_files else "muster_keep_report"
        yield from self.watch(report)
        if in_files:
            yield fold(("muster_to_log", *words), indent=plan.step_indent)
        else:
            yield fold((*words, KEEP_REPORT), indent=plan.step_indent)
            yield "muster_status=$?"
            yield REPORT_KEPT
        if plan.finish is not None:
            yield 'kill "$muster_daemons_watcher" 2>/dev/null'
        yield f"{self.reads_status} {report}"

    def watch(self, report: str) -> Iterator[str]:
        """Yield what ends a starter that waits for ever. `report`: the file that takes the ranks' report."""
        yield f"muster_watch_hydra {report}"

    def first_failure(self, outputs: Iterable[Iterable[str]]) -> Failure | None:
        return next((failure for lines in outputs if (failure := mpirun_failure(lines))), None)


class Mpirun(ByMpirun):
    """A rank per slot, in the order of the hosts that the script writes."""

    name = "mpirun"
    closes = True
    labels_pieces = True
    sets_mpi_variables = True
    keeps_signals = "mpirun's daemons, which pass nothing on"

    def prologues(self, plan: Plan) -> tuple[Prologue, ...]:
        last = ("ends", "left", "go_mpi_rank")
        rank = rank_prologue(plan, "rank_mpi", after=("slurm_names", "jax"), last=last, looks=True)
        return (rank, *door_prologues(plan))

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        return (*_LINE, *plan.mpirun_flags)

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        command = rank_words(plan, wrap)
        return ("mpirun", *(flag.word for flag in _LINE), *command)

    def parts(self, plan: Plan) -> tuple[Part, ...]:
        return (*report_parts(plan), "mpirun", "hydra_watch", "hydra_status", *watch_parts(plan))


# The site's own flags of mapping and binding reach the line through the second.
_LINE = (
    Flag(Fragment('-np "$((muster_nodes * muster_ntasks_per_node))"'), Reason("nodes × ranks of a node")),
    Flag(
        Fragment('"${muster_mpirun_ranks[@]}"'),
        Reason(
            "hosts, binding, labels and the variables for every host, in the words of this mpirun",
            short="hosts, binding, labels and variables, for this mpirun",
        ),
    ),
)


def mpirun_failure(lines: Iterable[str]) -> Failure | None:
    """Return the first failure as Open MPI or MPICH report it; MPICH names a host at most."""
    rank: int | None = None
    host: str | None = None
    in_hydra = ""
    for text in lines:
        if match := _OF_A_RANK.match(text):
            return failure_of(int(match["rank"]), match["host"], int(match["status"]), text)
        if match := _OPEN_MPI_SIGNAL.match(text):
            return failure_of(int(match["rank"]), match["host"], 128 + int(match["signal"]), text)
        if match := _OPEN_MPI_PROCESS.match(text):
            rank = int(match["rank"])
        elif rank is not None and (match := _OPEN_MPI_CODE.match(text)):
            return failure_of(rank, None, int(match["code"]), text)
        elif match := _OPEN_MPI_DAEMON.match(text):
            sentence = (
                f"mpirun lost its daemon on {match['host']}: the node or the way to it failed, or somebody ended it"
            )
            return Failure(sentence, match["host"], (), None, text.strip(), FailureKind.OUTSIDE)
        elif match := _HYDRA_HOST.match(text):
            host, in_hydra = match["host"], text
            rank = int(match["rank"]) if match["rank"] else None
        elif host is not None and (match := _HYDRA_SIGNAL.match(text)):
            return failure_of(rank, host, 128 + int(match["signal"]), text)
    return failure_of(rank, host, None, in_hydra) if host is not None else None


def failure_of(rank: int | None, host: str | None, status: int | None, text: str) -> Failure:
    """Return the failure of one rank, in words."""
    subject = "a rank" if rank is None else f"rank {rank}"
    place = "" if host is None else f" on {host}"
    ending = "failed" if status is None else exit_words(status)
    tasks = () if rank is None else (rank,)
    return Failure(f"{subject}{place}: {ending}", host, tasks, status, text.strip(), ending=ending)
