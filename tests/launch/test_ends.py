"""How the end of every rank is counted: what the shell around a rank writes, and what the script makes of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from muster.follow.first_failure import failure_in
from muster.launchers.base import Part
from muster.model.failure import FailureKind
from muster.render.parts import part
from muster.runner import ProgramResult, checked, run

from .shells import MPI_RANK, SLURM_RANK, each_shell, start, step


def _written(folder: Path) -> dict[str, list[str]]:
    return {file.name.removeprefix("1."): file.read_text().splitlines() for file in folder.iterdir()}


@each_shell
def test_the_shell_of_a_rank_writes_how_its_command_ended(shell: tuple[str, ...], tmp_path: Path) -> None:
    for rank, command in ((4, "exit 0"), (5, "exit 7"), (6, "kill -TERM $$")):
        place = step(rank=rank, local_rank=rank - 4, node=1, more={"MUSTER_ENDS": str(tmp_path)})
        result = start(SLURM_RANK, place, ("sh", "-c", f'[ -z "$MUSTER_ENDS" ] && {command}'), shell)
        assert result.status == {4: 0, 5: 7, 6: -signal.SIGTERM}[rank], result.stderr
        assert result.stderr == "", "the launcher tells of a signal"

    assert _written(tmp_path) == {"1": ["4 begins", "4 0", "5 7", "6 143"]}


@each_shell
def test_a_command_runs_without_a_shell_around_it_where_nobody_counts(shell: tuple[str, ...]) -> None:
    result = start(SLURM_RANK, step(), ("sh", "-c", "echo $PPID"), shell)

    assert result.stdout.strip() == str(os.getpid())


@each_shell
def test_a_signal_that_reaches_the_shell_too_ends_the_command_alone(shell: tuple[str, ...], tmp_path: Path) -> None:
    """Slurm sends a signal to every process of a step."""
    command = ("sh", "-c", "trap 'exit 3' USR1 ALRM XCPU; kill -%s $PPID $$; sleep 9")
    for number in ("USR1", "ALRM", "XCPU"):
        place = step(more={"MUSTER_ENDS": str(tmp_path)})
        result = start(SLURM_RANK, place, (*command[:2], command[2] % number), shell)
        assert result.status == 3, result.stderr

    assert (_written(tmp_path)["0"][-1], set(_written(tmp_path))) == ("0 3", {"0", "0.signalled"})


@each_shell
def test_descriptors_that_the_launcher_opened_reach_the_command(shell: tuple[str, ...], tmp_path: Path) -> None:
    """An MPI tells its rank the number of a descriptor."""
    place = step(more={"MUSTER_ENDS": str(tmp_path)})
    whole = " ".join(f"{number}</dev/null" for number in (3, 5, 6, 7, 8, 9))
    inner = "for n in 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$n ] && echo $n; done; kill -KILL $$"
    text = f'exec {whole}; exec "$@"'
    words = ("bash", "-c", text, "bash", *shell)
    result = start(SLURM_RANK, place, ("sh", "-c", inner), words)

    assert (result.status, result.stdout.split()) == (-signal.SIGKILL, ["3", "5", "6", "7", "8", "9"])
    assert _written(tmp_path)["0"][-1] == "0 137"


@each_shell
def test_a_rank_whose_folder_is_gone_ends_as_its_command_did(shell: tuple[str, ...], tmp_path: Path) -> None:
    place = step(more={"MUSTER_ENDS": str(tmp_path / "gone")})
    result = start(SLURM_RANK, place, ("sh", "-c", "exit 0"), shell)

    assert (result.status, result.stderr) == (0, "")


def _leave(name: str, folder: Path, sets: str = "", does: str = "exec sleep 600") -> str:
    """Return a shell command that leaves a process in a session of its own; its number stands in a file."""
    file = folder / name
    begun = f"until [ -s {file} ]; do sleep 0.1; done"
    return f"( {sets} setsid sh -c 'echo $$ >{file}; {does}' >/dev/null 2>&1 & ); {begun}"


def _lives(file: Path) -> bool:
    """Tell whether the process whose number is in the file runs, and end it."""
    number = int(file.read_text())
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        os.kill(number, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # nobody may have reaped it


@each_shell
def test_what_left_its_rank_is_ended_when_the_last_rank_of_the_node_has_ended(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    ends, pids = tmp_path / "ends", tmp_path / "pids"
    ends.mkdir()
    pids.mkdir()
    more = {"MUSTER_ENDS": str(ends), "SLURMD_NODENAME": "n2"}
    place = partial(step, per_node="2(x4)", node=1, more=more)
    first = start(SLURM_RANK, place(rank=2, local_rank=0), ("sh", "-c", _leave("one", pids)), shell)
    assert (first.status, first.stderr) == (0, ""), "another rank of the node may use it"
    second = start(SLURM_RANK, place(rank=3, local_rank=1), ("sh", "-c", f"{_leave('two', pids)}; exit 7"), shell)

    assert second.status == 7
    assert second.stderr == "muster: 2 processes that had left their rank were ended on n2\n"
    assert not _lives(pids / "one")
    assert not _lives(pids / "two")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder into which every user may write."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@each_shell
def test_the_processes_of_another_job_and_of_another_user_are_left_alone(
    shell: tuple[str, ...], open_folder: Path
) -> None:
    (open_folder / "ends").mkdir()
    own, mark = "SLURM_JOB_ID=4711", f"MUSTER_MARK={open_folder}/ends/1.0"
    others = {"node": f"{own} {mark}1", "attempt": f"{own} MUSTER_MARK={open_folder}/ends/2.0", "jobless": mark}
    others |= {"submitted": f"SLURM_JOB_ID=4712 {mark}", "longer": f"{own}0 {mark}"}
    for name, sets in others.items():
        checked(run(["sh", "-c", _leave(name, open_folder, sets)]))
    names = list(others)
    if os.geteuid() == 0:
        as_another = ["setpriv", "--reuid=65534", "--clear-groups"]
        checked(run([*as_another, "sh", "-c", _leave("user", open_folder, f"{own} {mark}")], timeout_s=20))
        names.append("user")
    place = step(per_node="1(x8)", more={"MUSTER_ENDS": f"{open_folder}/ends"})
    both = f"{_leave('own', open_folder)}; {_leave('child', open_folder, 'SLURM_JOB_ID=4712')}"
    result = start(SLURM_RANK, place, ("sh", "-c", both), shell)

    assert "muster: 1 processes" in result.stderr
    assert not _lives(open_folder / "own")
    assert [name for name in [*names, "child"] if _lives(open_folder / name)] == [*names, "child"]


@each_shell
def test_what_does_not_end_when_it_is_told_to_is_killed(shell: tuple[str, ...], tmp_path: Path) -> None:
    place = step(per_node="1(x8)", more={"MUSTER_ENDS": str(tmp_path)})
    deaf = "trap : TERM; while :; do sleep 0.2; done"
    start(SLURM_RANK, place, ("sh", "-c", _leave("deaf", tmp_path, does=deaf)), shell)

    assert not _lives(tmp_path / "deaf")


def test_a_rank_of_mpirun_writes_it_too(tmp_path: Path) -> None:
    names = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
    here = os.uname().nodename
    place = {**names, "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "MUSTER_NODES": f"other {here}", "MUSTER_ENDS": str(tmp_path)}
    result = start(MPI_RANK, {**place, "MUSTER_NTASKS": "2"}, ("true",))

    assert result.ok, result.stderr
    assert _written(tmp_path) == {"1": ["1 begins", "1 0"]}


def _count(
    tmp_path: Path,
    files: Mapping[int | str, str],
    *,
    of: str = "ranks",
    report: Part = "report_ends",
    states: str = "",
    more: str = "",
) -> ProgramResult:
    """Count the ends of two nodes as the script does, where sinfo answers `states`."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, answer in (("scontrol", "n1\nn2\n"), ("sinfo", states)):
        # Slurm ends a job that lost a host, and with it what the script has just asked.
        (tools / name).write_text(f"#!/bin/sh\nkill -TERM $$ && cat <<'X'\n{answer}\nX\n")
        (tools / name).chmod(0o755)
    lines = [
        part("stop"),
        part("words"),
        part("count_ends"),
        part(report),
        "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-2] muster_nodes=2 muster_ntasks_per_node=2",
        f"muster_run_dir={tmp_path}/run muster_logs=logs muster_status=0 MUSTER_ENDS=",
        more,
        'muster_tell=tell && tell() { [ "$1" = ends ] || printf \'%s|\' "${2-$1}${3+ $3}" >&3; }',
        "exec 3>&1",
        'export MUSTER_ENDS="$(muster_ends)"',
        *(f'printf "{text}" >"$MUSTER_ENDS/1.{node}"' for node, text in files.items()),
        f"muster_count_ends of={of}",
        'printf "%s|" "$muster_status"; ls "$MUSTER_ENDS" 2>/dev/null',
    ]
    path = {"PATH": f"{tools}:{os.environ['PATH']}"}
    return run(["bash", "-c", "\n".join(lines)], env={**os.environ, **path})


WELL: dict[int | str, str] = {0: r"0 begins\n1 0\n0 0\n", 1: r"2 begins\n2 0\n3 0\n"}
DOWN = "n1 alloc none\nn2 down* Not responding"


@pytest.mark.parametrize(("more", "told"), [({}, ""), ({"1.signalled": ""}, "signalled|")])
def test_a_start_whose_ranks_all_said_0_ends_well_and_leaves_no_file(
    more: dict[int | str, str], told: str, tmp_path: Path
) -> None:
    result = _count(tmp_path, {**WELL, **more}, states=DOWN)

    assert (result.stdout.strip(), result.stderr) == (f"{told}0|", ""), "what Slurm says of a node does not matter then"
    assert not (tmp_path / "run" / "ranks").exists()


@pytest.mark.parametrize(
    ("files", "words", "ranks"),
    [
        ({**WELL, 1: r"2 begins\n2 0\n"}, "rank 3 on n2", (3,)),
        ({**WELL, 1: r"2 begins\n"}, "ranks 2-3 on n2", (2, 3)),
        ({0: WELL[0]}, "ranks 2-3 on n2", (2, 3)),
        ({0: r"1 begins\n1 0\n3 0\n"}, "a rank on n2", ()),
    ],
    ids=["one of a node", "all of a node", "a node that never wrote", "dealt in another order"],
)
def test_ranks_that_never_said_how_they_ended_are_told(
    files: dict[int | str, str], words: str, ranks: tuple[int, ...], tmp_path: Path
) -> None:
    result = _count(tmp_path, files, states=DOWN)

    assert result.stdout.startswith("n2 lost|1|")
    sentence = f"how {words} ended is not known; Slurm calls n2 down* (Not responding)"
    assert result.stderr.startswith(f"muster: {sentence}\n\nhint: ")
    failure = failure_in(f"srun: error: Node failure on n2\n{result.stderr}", "srun")
    assert failure is not None
    assert (failure.sentence, failure.host, failure.tasks) == (sentence, "n2", ranks)
    assert failure.kind is FailureKind.NODE


def test_a_rank_whose_node_nobody_calls_lost_is_told_if_it_began(tmp_path: Path) -> None:
    result = _count(tmp_path, {**WELL, 1: r"2 begins\n2 0\n"}, states="n1 idle none\nn2 idle none")

    assert result.stdout.startswith("n2 heard|1|")
    failure = failure_in(result.stderr, "mpirun")
    assert failure is not None
    assert (failure.sentence, failure.kind) == ("how rank 3 on n2 ended is not known", FailureKind.UNSAID)


def test_a_node_that_does_not_see_the_folder_is_no_failure(tmp_path: Path) -> None:
    result = _count(tmp_path, {0: WELL[0]}, states="n1 idle none\nn2 idle none")

    assert (result.stdout.strip(), result.stderr) == ("0|", "")


def test_a_node_that_srun_calls_failed_counts_where_no_folder_could_be_made(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    result = _count(tmp_path, {}, more="muster_failed_nodes=' n2'")

    assert result.stdout.startswith("n2 lost|1|")
    assert "how ranks 2-3 on n2 ended is not known; Slurm calls n2 lost" in result.stderr


def test_a_rank_that_said_another_status_than_its_launcher_counts(tmp_path: Path) -> None:
    result = _count(tmp_path, {**WELL, 1: r"2 begins\n2 0\n3 9\n"})

    assert result.stdout.startswith("9|")
    failure = failure_in(result.stderr, "mpirun")
    assert failure is not None
    assert (failure.tasks, failure.status) == ((3,), 9)


_SAMPLES = Path(__file__).resolve().parents[1] / "samples" / "srun"


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
@pytest.mark.parametrize(("kind", "status"), [("exit", 7), ("kill", 137), ("segv", 139), ("abrt", 134)])
def test_without_the_watch_the_status_is_that_of_the_rank_that_failed_first(
    version: str, kind: str, status: int, tmp_path: Path
) -> None:
    """What srun said and returned in a lab: mostly 143, the status of the ranks that srun itself ended."""
    *said, last = (_SAMPLES / f"{version}-{kind}.txt").read_text().splitlines()
    rank = next(line for line in said if ": task" in line).partition(": task ")[2].partition(":")[0]
    (tmp_path / "said").write_text("\n".join(said))
    (tmp_path / "1.0").write_text(f"0 begins\n{rank}0 5\n")
    (tmp_path / "1.1").write_text(f"4 begins\n9 143\n{rank} {status}\n")
    srun = f"muster_step sh -c 'cat {tmp_path}/said >&2; exit {last.split()[1]}'"
    done = run(["bash", "-c", f"{part('watch_else')}MUSTER_ENDS={tmp_path}\n{srun}; echo $muster_status"])

    assert (done.stdout.strip(), done.stderr) == (str(status), "\n".join(said))


def test_without_the_watch_the_status_is_srun_s_where_no_rank_is_named_or_wrote_its_end(tmp_path: Path) -> None:
    (tmp_path / "1.0").write_text("0 begins\n0 0\n11 5\n")
    for said, status in (("srun: error: Unable to create step", 3), ("srun: error: n1: task 1: Killed", 137), ("", 0)):
        step_of = f"muster_step sh -c 'echo \"{said}\" >&2; exit {status}'; echo $muster_status"
        done = run(["bash", "-c", f"{part('watch_else')}MUSTER_ENDS={tmp_path}\n{step_of}"])
        assert done.stdout.strip() == str(status)


_NOT_LAUNCHED = "srun: error: task 1 launch failed: Slurmd could not connect IO"


@pytest.mark.parametrize("watch", ["watch", "watch_else"])
def test_a_rank_that_srun_could_not_start_is_no_success_though_srun_says_0(watch: Part, tmp_path: Path) -> None:
    """Slurm 22.05, where a node does not see the folder of the logs: the others end well, and the job was COMPLETED."""
    (tmp_path / "1.0").write_text("0 begins\n0 0\n")
    step_of = f"muster_step sh -c 'echo \"{_NOT_LAUNCHED}\" >&2'; echo $muster_status"
    done = run(["bash", "-c", f"{part(watch)}MUSTER_ENDS={tmp_path} MUSTER_GRACE=1\n{step_of}"])

    assert (done.stdout.strip(), _NOT_LAUNCHED in done.stderr) == ("1", True)
    failure = failure_in(done.stderr, "srun")
    assert failure is not None
    words = "rank 1: not started by srun: Slurmd could not connect IO"
    assert (failure.sentence, failure.tasks, failure.status) == (words, (1,), 1)
    agent = failure_in(done.stderr, "torchrun")
    assert agent is not None
    assert agent.sentence == "torchrun itself: not started by srun: Slurmd could not connect IO"


@pytest.mark.parametrize(
    ("end", "status"), [("echo 'srun: error: n1: task 0: Exited with exit code 7' >&2; exit 7", "7"), ("exit 0", "0")]
)
def test_a_signal_to_all_processes_of_a_job_does_not_end_who_reads_srun_s_words(end: str, status: str) -> None:
    """scancel --full --signal=USR1: ranks that saved and ended with 0 were told as ended by SIGTERM."""
    script = f"trap : USR1; kill -USR1 0; sleep 0.2; {end}"
    text = f'{part("watch")}MUSTER_GRACE=1\ntrap : USR1\nmuster_step bash -c "{script}"; echo $muster_status'
    done = run(["setsid", "--wait", "bash", "-c", text])

    assert done.stdout.strip() == status, done


@pytest.mark.parametrize("report", ["report_ends", "report_ends_else"])
def test_a_rank_may_end_before_the_first_of_its_node_begins(report: Part, tmp_path: Path) -> None:
    result = _count(tmp_path, {**WELL, 0: r"1 0\n0 begins\n0 0\n"}, report=report)

    assert (result.stdout.strip(), result.stderr) == ("0|", "")


@pytest.mark.parametrize(
    ("files", "status", "sentence"),
    [
        (WELL, "0|", ""),
        ({0: WELL[0]}, "0|", ""),
        ({0: r"0 begins\n0 0\n", 1: WELL[1]}, "1|1.0\n1.1", "how the ranks on n1 ended is not known\n\nhint: "),
        ({**WELL, 1: r"2 begins\n3 9\n2 5\n"}, "9|1.0\n1.1", "rank 3 on n2 ended with status 9\n"),
    ],
)
def test_without_the_folder_of_texts_the_ends_are_counted(
    files: dict[int | str, str], status: str, sentence: str, tmp_path: Path
) -> None:
    done = _count(tmp_path, files, report="report_ends_else")
    assert (done.stdout.strip(), done.stderr[: 8 + len(sentence)]) == (status, sentence and f"muster: {sentence}")


def test_an_agent_is_counted_for_the_ranks_of_its_node(tmp_path: Path) -> None:
    result = _count(tmp_path, {0: r"0 begins\n0 0\n", 1: r"1 begins\n"}, of="agents", states=DOWN)

    assert "muster: how the agent on n2 ended is not known; Slurm calls n2 down*" in result.stderr
    failure = failure_in(result.stderr, "torchrun")
    assert failure is not None
    assert (failure.host, failure.tasks) == ("n2", ())


def test_what_was_told_to_end_is_not_counted(tmp_path: Path) -> None:
    result = _count(tmp_path, {}, states=DOWN, more="muster_interrupted=143")

    assert (result.stdout.strip(), result.stderr) == ("0|", "")


def test_a_node_that_dies_after_its_ranks_failed_is_not_the_first_failure() -> None:
    text = "srun: error: n1: task 0: Exited with exit code 7\nmuster: how rank 2 on n2 ended is not known\n"
    failure = failure_in(text, "srun")

    assert failure is not None
    assert failure.status == 7


def test_an_agent_of_mpirun_that_stops_before_it_starts_is_no_rank() -> None:
    failure = failure_in("muster: rank 1 on node2 ended with status 2\n", "mpirun+torchrun")

    assert failure is not None
    assert (failure.sentence, failure.tasks) == ("torchrun itself on node2: exit status 2", ())


def test_agents_of_mpirun_that_were_told_to_end_did_not_fail_first() -> None:
    said = "ORTE has lost communication with a remote daemon.\n  Remote daemon: [[946,0],3] on node node3\n"
    failure = failure_in(said, "mpirun+torchrun")

    assert failure is not None
    assert failure.host == "node3"


def test_a_script_to_whose_header_a_person_added_set_e_ends_as_its_ranks_did() -> None:
    """The end of the watch for hangs, a 143, ended such a job: FAILED, where each rank had ended with 0."""
    stubs = "".join(f"muster_{name}() {{ :; }}\n" for name in ("take_size", "find_run_directory", "go_to", "forget"))
    ends = "muster_leave_run_directory() { :; }\n"
    job = 'muster_begin; sleep 9 & muster_watcher=$!; muster_end_watch; echo "${no}on"; muster_status=3; muster_finish'
    text = f"set -euo pipefail\nSLURM_JOB_ID=7\nmuster_dir=/\n{part('begin')}{part('silence')}{stubs}{ends}{job}"
    done = run(["bash", "-c", text])

    assert (done.status, done.stdout.strip()) == (3, "on"), done.stderr
