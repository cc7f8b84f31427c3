"""muster why: why a job waits, what a running one does, or how it ended and what the first failing rank said."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from muster.cli.asked_jobs import ask, cases, ids_or_newest, scheduler
from muster.cli.command_line import JSON, CommandLine, Words
from muster.cli.job_json import as_json
from muster.cli.job_words import is_script_gone, plain, row_line, when
from muster.cli.output import at_words, print_json
from muster.cli.status import headline, role_lines
from muster.follow.cases import JobCase
from muster.follow.last_words import last_words
from muster.follow.signatures import tells_of_peer
from muster.parts import service_if_there
from muster.slurm.reasons import Clears
from muster.slurm.states import Phase
from muster.units import format_memory

if TYPE_CHECKING:
    from muster.follow.watch import JobOutput
    from muster.model.failure import Failure
    from muster.slurm.jobs import SlurmJob

_LINES = 15
_SHOWN = 400
_SIGTERM = 143
_SAID_ELSEWHERE = {"None", "NonZeroExitCode", "RaisedSignal"}
_HELD = {"JobHeldAdmin", "JobHeldUser"}
"""Slurm keeps such a reason of a job that was held and ran later."""
_OF_NODES = {"ReqNodeNotAvail", "NodeDown", "PartitionNodeLimit"}
"""The reasons for which Slurm names no node."""
_GROUPS = 4
_OF_SIGTERM = {137, 143, 205}
"""The statuses of ranks that Slurm ended; 205 is mpirun's, whose daemon was ended."""
_WARNING = "muster: warning: "


def main(words: Words) -> int:
    """Explain a job."""
    ids = ids_or_newest(words)
    found_cases = cases(ids, ask(ids))
    if words.json:
        print_json([case_as_json(case) for case in found_cases])
        return 0
    print(at_words("\n\n".join("\n".join(explain_case(case)) for case in found_cases), sys.stdout))
    return 0


def explain_case(case: JobCase) -> Iterator[str]:
    """Yield the lines that explain a job."""
    yield headline(case)
    yield from (f"  {text}" for text in (*row_line(case), *case.earlier_runs()))
    if case.job is not None and case.job.state.phase is Phase.WAITING:
        yield from _waiting(case.job)
        yield from _neighbours(case)
    elif case.job is not None and case.job.state.phase is Phase.RUNNING:
        yield f"  since {when(case.job.started)} on {case.job.node_list or 'nodes unknown'}"
        yield from role_lines(case)
        yield from service_if_there("running-ranks", _unseen)(case)
        yield f"  what it says: muster logs -f {case.id_to_type}"
    else:
        yield from _ended(case)


def _unseen(case: JobCase) -> Iterator[str]:
    del case
    yield "  its ranks cannot be looked at: muster-check is not installed"


def _waiting(job: SlurmJob) -> Iterator[str]:
    reason = job.reason
    detail = f" ({plain(reason.detail)})" if reason.detail else ""
    yield f"  {plain(reason.code)}: {reason.sentence}{detail}"
    if reason.code in _OF_NODES and job.partition:
        yield from _nodes_out(job.partition)
    is_told = reason.clears is not Clears.UNKNOWN
    yield f"  it clears {reason.clears.value}" if is_told else "  when it clears is not known"
    yield f"  sooner: {reason.remedy_for(job.id, job.dependency)}"
    if job.dependency:
        yield f"  it depends on {plain(job.dependency)}"
    expected = job.expected_start
    if expected:
        yield f"  expected to start {when(expected)}"
    elif reason.clears is Clears.USER:
        yield "  as it stands, it does not start"
    else:
        yield "  Slurm has not yet estimated when it starts"


def _nodes_out(partitions: str) -> Iterator[str]:
    """Yield which nodes take no job, and why: who took them out has written that down for the others."""
    groups = scheduler().nodes_out(partitions)
    for names, state, cause in groups[:_GROUPS]:
        yield f"  out in {partitions}: {plain(names)}, {plain(state)}: {plain(cause)}"
    if len(groups) > _GROUPS:
        yield f"  and others: sinfo --list-reasons --partition={partitions}"


def _neighbours(case: JobCase) -> Iterator[str]:
    """Yield a sentence where nodes beside each other were asked for.

    Slurm's reason does not say that they are rarer.
    """
    script = case.run.directory / "job.sh" if case.run else None
    if script is not None and script.is_file() and "\n#SBATCH --contiguous\n" in script.read_text(errors="replace"):
        yield "  it asks for nodes side by side (--contiguous): without that, any free ones would do"


def _ended(case: JobCase) -> Iterator[str]:
    from muster.model.failure import FailureKind

    job = case.job
    if job is not None and job.state.phase is Phase.ENDED_WELL:
        yield from (f"  {plain(text)}" for text in _warnings(_output(case)))
        step_failure = _failure_of_a_step(case)
        if step_failure is not None:
            role = step_failure.role
            who = f"role {role} failed, and the job" if role else "a step in it failed, and its script"
            yield f"  but {who} went on: first: {step_failure.sentence}"
            yield f"  all of it: muster logs {case.id_to_type}"
        return
    is_told = job is not None and job.reason.is_known and job.reason.code not in _SAID_ELSEWHERE
    if job is not None and is_told and (job.was_withdrawn or job.reason.code not in _HELD):
        waited = f"until then it waited ({job.reason.code})"
        words = waited if job.was_withdrawn else f"{job.reason.code}: {job.reason.sentence}"
        yield f"  {words}"
    output, failure = _failure(case)
    names_no_node = job is not None and _names_no_node(job, failure)
    yield from (f"  {plain(text)}" for text in _warnings(output))
    if failure is not None:
        yield f"  {_order_of(job, failure)}: {failure.sentence}"
        yield from _silent_node(case, failure)
        if failure.kind is FailureKind.LATE:
            yield "    hint: --ready-within gives it longer, --ready names another sign: muster docs roles"
    elif job is not None and job.node_list:
        yield f"  on {job.node_list}"
        yield from _of_script(case)
    if names_no_node:
        yield from _unnamed_node(case)
    yield from _of_status(job, failure)
    lines = last_words(output, failure)
    if failure is not None and failure.tasks and tells_of_peer(lines):
        yield f"  its last lines tell of a peer that had gone before: {_gone_before(case, output)}"
    if lines:
        owner_words = f"of rank {failure.tasks[0]}" if failure is not None and failure.tasks else "of its output"
        owner_words += f", role {failure.role}" if failure is not None and failure.role else ""
        yield f"  last lines {owner_words}:"
        yield from (f"    {plain(_shortened(line))}" for line in lines)
        yield from () if names_no_node else _known_in_words(lines, failure)
        yield f"  all of it: muster logs {case.id_to_type}"
        return
    if failure is not None:  # what Slurm says of a rank that it did not start may be known
        yield from _known_in_words([failure.line], failure)
    from muster.follow.find_output import closed_output

    closed = None if case.run is not None else closed_output(job)
    if closed is not None:
        yield f"  what it wrote cannot be read by you: {closed}"


def _of_preemption(job: SlurmJob | None, status: int | None) -> Iterator[str]:
    """Yield that a job was preempted where Slurm calls it otherwise: its script ended within the grace time."""
    may_be = job is not None and job.state.name == "FAILED" and not _OF_SIGTERM.isdisjoint({status, job.status})
    if job is None or not (may_be or job.state.name == "TIMEOUT"):
        return
    preempted = scheduler().preempted_at(job.id)
    if preempted is not None:
        yield f"  it was preempted at {when(preempted)}: a more important job took its nodes"
        yield "    hint: with --requeue or --until-done such a job goes on by itself"


def _silent_node(case: JobCase, failure: Failure) -> Iterator[str]:
    """Yield the one node on which no rank of the start wrote a word, where a rank failed and its node is not told."""
    files = case.files_of_ends() if failure.host is None and failure.tasks else []
    silent = [host for host, file in files if not file.exists()]
    if len(silent) == 1 and len(files) > 1:
        yield f"  no rank wrote a word on {silent[0]}"


def _known_in_words(lines: Sequence[str], failure: Failure | None) -> Iterator[str]:
    """Yield the known error that explains these lines, and what to do."""
    explanation = _known(lines, failure)
    if explanation is not None:
        yield f"  known: {explanation['cause']}"
        yield f"    hint: {explanation['remedy']}"


def _names_no_node(job: SlurmJob, failure: Failure | None) -> bool:
    """Return whether a node of a job failed, and nothing says which: ranks that were left fail on other nodes."""
    if job.state.name != "NODE_FAIL" or failure is None or failure.host is None:
        return job.state.name == "NODE_FAIL"
    from muster.model.failure import FailureKind

    return failure.kind not in {FailureKind.NODE, FailureKind.UNSAID}


def _nodes_down(job: SlurmJob) -> list[str] | None:
    """Return which nodes of a job are down now; None where Slurm does not tell it of all."""
    return scheduler().nodes_down(job.node_list) if job.node_list else None


def _unnamed_node(case: JobCase) -> Iterator[str]:
    """Yield what is known of the node that failed, unless the job itself wrote down which one it was."""
    from muster.follow.attempt_list import EndCause, read_ends

    ends = [] if case.folder is None else read_ends(case.folder)
    if case.job is not None and not (ends and ends[-1].kind is EndCause.NODE and ends[-1].host):
        yield from _which_node(case.job)


def _which_node(job: SlurmJob) -> Iterator[str]:
    """Yield which nodes of a job are down now: Slurm keeps no record of the one that failed."""
    if is_script_gone(job) and job.node_list:
        from muster.rank.hostlist import expand

        yield f"  Slurm found its script no more on {expand(job.node_list)[0]}: that node restarted, or lost the script"
        return
    if job.nodes == 1 or not job.node_list:
        return
    down = _nodes_down(job)
    now_words = ""
    if down is not None:
        subject = ", ".join(down) if down else "none of them"
        now_words = f"; {subject} {'are' if len(down) > 1 else 'is'} down now"
    yield f"  Slurm does not say which of them failed{now_words}"


def _order_of(job: SlurmJob | None, failure: Failure) -> str:
    """Return what a failure is to the end: of a job whose script was killed Slurm ends the ranks, maybe after that."""
    if job is not None and job.state.name == "FAILED" and job.signal:
        return "beside that"
    return "a rank that was left" if job is not None and failure.tasks and _names_no_node(job, failure) else "first"


def _of_script(case: JobCase) -> Iterator[str]:
    """Yield that the script alone did not end well, as after scancel --batch, or a copy back that failed."""
    from muster.follow.attempt_list import read_good_ends

    began = (case.job and case.job.started) or 0
    if case.folder is not None and any(end.when >= began for end in read_good_ends(case.folder)):
        yield "  all of its ranks ended with status 0: the script itself ended with another"


def _of_status(job: SlurmJob | None, failure: Failure | None) -> Iterator[str]:
    """Yield what the exit status itself tells to do; of a SIGKILL, whose sender no system names, what Slurm counted."""
    from muster.model.failure import KILLED_STATUS, hint_of_status

    status = failure.status if failure is not None else job.status if job is not None else None
    yield from _of_preemption(job, status)
    hint = hint_of_status(status)
    if hint is not None:
        yield f"  {hint}"
    if status != KILLED_STATUS:
        return
    peak = None if job is None else scheduler().peak_memory(job.id)
    if peak is not None:
        limit_words = f", and it lists {peak.listed} for the job" if peak.listed else ""
        who = "the script and what it started itself" if peak.task is None else f"task {peak.task}"
        yield f"  memory: {who} used at most {format_memory(peak.task_mib)} as Slurm counted{limit_words}"


def _failure(case: JobCase) -> tuple[JobOutput | None, Failure | None]:
    """Return the job's output, and what went wrong first in it."""
    from muster.follow.first_failure import first_failure

    output = _output(case)
    return output, None if output is None else first_failure(output)


def _failure_of_a_step(case: JobCase) -> Failure | None:
    """Return what failed first in a job that ended well: a person's own script goes on after a step that fails.

    What was ended from outside, as the script ends its server, is not a failure.
    """
    from muster.follow.roles import failed_role
    from muster.model.failure import FailureKind

    if case.run is not None:
        return _failure(case)[1] if failed_role(case.run.directory) is not None else None
    failure = _failure(case)[1]
    own_ends = {FailureKind.TASKS, FailureKind.AGENT, FailureKind.NODE}
    return failure if failure is not None and failure.kind in own_ends and failure.status != _SIGTERM else None


def _gone_before(case: JobCase, output: JobOutput | None) -> str:
    """Return which rank said that it ended with status 0, or the host whose agent did, which waits for its ranks."""
    from muster.launchers import known_launcher

    launcher = known_launcher(output.launcher) if output is not None and not output.roles else None
    for host, file in case.files_of_ends() if launcher is not None else ():
        ends = file.read_text(errors="replace").splitlines() if file.is_file() else []
        rank = next((line.partition(" ")[0] for line in ends if line.endswith(" 0")), None)
        if rank is not None:
            who = f"each rank on {host}" if launcher is not None and launcher.agent else f"rank {rank} on {host}"
            return f"{who} ended with status 0"
    return "which one is not known"


def _output(case: JobCase) -> JobOutput | None:
    """Return what the job wrote; a link that never ran has that of the link before it in its folder."""
    from muster.follow.find_output import find_output

    return None if case.job is not None and case.job.was_withdrawn else find_output(case.job, case.run, case.asked)


def _warnings(output: JobOutput | None) -> list[str]:
    """Return the warnings of Muster's own shell at the job's end, by rank 0 or the script, each with its hint."""
    from muster.follow.watch import last_lines

    if output is None:
        return []
    lines = [line for rank in (0, None) for line in last_lines(output, rank=rank, count=_LINES)]
    texts = [line.text.decode(errors="replace") for line in lines if line.rank in {0, None}]
    warnings: dict[str, None] = {}
    for text, line_behind in zip(texts, [*texts[2:], "", ""]):
        if text.startswith(_WARNING):
            warnings[text.removeprefix("muster: ")] = None
            if line_behind.startswith("hint: "):
                warnings[f"  {line_behind}"] = None
    return list(warnings)


def _shortened(line: str) -> str:
    """Return a line for a person to read: of a long one its beginning and its end."""
    left_out = len(line) - 2 * _SHOWN
    return line if left_out <= 0 else f"{line[:_SHOWN]} … {left_out:,} characters … {line[-_SHOWN:]}"


def _known(lines: Sequence[str], failure: Failure | None) -> dict[str, str] | None:
    """Return the known error that explains these lines best."""
    from muster.follow.known_causes import explain

    explanation = explain(lines, failure)
    if explanation is None:
        return None
    return {"id": explanation.signature.id, "cause": explanation.cause, "remedy": explanation.remedy}


def case_as_json(case: JobCase) -> dict[str, Any]:
    """Return what `status --json` gives, and the reasons."""
    job = case.job
    document: dict[str, Any] = {
        **as_json(case),
        "explanation": headline(case),
        "waiting": None,
        "running": None,
        "first_failure": None,
        "last_lines": [],
        "known_error": None,
        "nodes_down": None,
        "warnings": [],
        "attempts": case.attempts_over(),
    }
    if job is not None and job.state.phase is Phase.WAITING:
        reason = job.reason
        document["waiting"] = {
            "code": reason.code,
            "detail": reason.detail,
            "sentence": reason.sentence,
            "sooner": reason.remedy_for(job.id, job.dependency),
            "clears": reason.clears.value,
            "dependency": job.dependency,
        }
    if job is not None and job.state.phase is Phase.RUNNING:
        document["running"] = service_if_there("running-ranks-json", lambda _: None)(case)
    if job is None or job.state.phase in {Phase.ENDED_BADLY, Phase.ENDED, Phase.UNKNOWN}:
        output, failure = _failure(case)
        document["first_failure"] = failure and failure.as_json()
        document["last_lines"] = last_words(output, failure)
        if job is not None and _names_no_node(job, failure):
            document["nodes_down"] = _nodes_down(job)
        else:
            document["known_error"] = _known(document["last_lines"], failure)
        document["warnings"] = _warnings(output)
    elif job.state.phase is Phase.ENDED_WELL:
        document["warnings"] = _warnings(_output(case))
        step_failure = _failure_of_a_step(case)
        document["first_failure"] = step_failure and step_failure.as_json()
    return document


COMMAND = CommandLine(
    name="why",
    start=main,
    summary="""\
Say why a job waits, what would start it sooner and when it is expected to start. Of a running job: whether it works,
waits for one rank, or hangs, and where. Of a job that is over: state, exit status or signal, node, and the last lines
of the rank that failed first.""",
    options=(JSON,),
    operands="[JOB…]",
    most=None,
    hint="muster jobs lists yours",
)
