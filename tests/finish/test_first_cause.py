"""What the script of a job takes for the first cause, from lines that Slurm wrote on a lab."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from shutil import which

import pytest

from muster.follow.attempt_list import EndCause, read_ends
from muster.render.parts import compose
from muster.runner import checked, run

_WAITED = "muster: Slurm ended the step of mpirun's daemons, and mpirun waited on: it was ended"
_TOLD = """
muster_files=("$1") muster_status=$2 muster_reason=/dev/null muster_saved='' muster_lines=labelled muster_logs=/nowhere
muster_find_cause
printf '%s\n%s' "$muster_cause" "$muster_cause_kind"
"""
_KINDS = {"rank": "rank ", "node": "node"}
"""What the words of a cause begin with, by its kind; all others have none."""


def kind_of(cause: str) -> str:
    """Return the kind that a cause of these tests has."""
    return next((kind for kind, words in _KINDS.items() if cause.startswith(words)), "")


@pytest.mark.parametrize(
    ("status", "lines", "cause"),
    [
        (
            137,
            [
                "srun: error: node3: task 2: Killed",
                "srun: error: Node failure on node4",
                "srun: error: node1: task 0: Killed",
            ],
            "node4 failed",
        ),
        (
            7,
            ["srun: error: node2: tasks 1,3: Exited with exit code 7", "srun: error: node1: task 0: Terminated"],
            "rank 1 on node2: exit status 7",
        ),
        (
            137,
            [
                "1: slurmstepd-node2: error: StepId=8.0 exceeded memory limit (231182336 > 209715200), being killed",
                "srun: error: node3: task 2: Killed",
            ],
            "Slurm ended the ranks: on node2 they used 220 MiB of memory, and had 200",
        ),
        (
            137,
            ["slurmstepd: error: StepId=4.0 exceeded memory limit (8589934592 > 4294967296), being killed"],
            "Slurm ended the ranks: they used 8192 MiB of memory, and had 4096",
        ),
        (200, ["srun: error: node2: task 1: Exited with exit code 200"], "rank 1 on node2: exit status 200"),
        (137, ["srun: error: node2: task 1: Killed"], "rank 1 on node2: ended by SIGKILL"),
    ],
)
def test_of_srun(tmp_path: Path, status: int, lines: list[str], cause: str) -> None:
    (tmp_path / "said").write_text("\n".join([*lines, ""]))
    script = compose(("again", "told_srun")) + _TOLD

    done = checked(run(["bash", "-c", script, "bash", str(tmp_path / "said"), str(status)]))
    assert done.stdout.split("\n") == [cause, kind_of(cause)]


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ([_WAITED], "mpirun lost its daemon"),
        (["  Remote daemon: [[27343,0],2] on node node3", _WAITED], "mpirun lost its daemon on node3"),
        (["muster: rank 1 on node2 ended with status 7", _WAITED], "rank 1 on node2: exit status 7"),
        (["nothing to do with it"], "exit status 7"),
    ],
)
def test_of_mpirun(tmp_path: Path, lines: list[str], cause: str) -> None:
    (tmp_path / "said").write_text("\n".join([*lines, ""]))
    script = compose(("again", "told_mpirun")) + _TOLD

    done = checked(run(["bash", "-c", script, "bash", str(tmp_path / "said"), "7"]))
    assert done.stdout.split("\n") == [cause, kind_of(cause)]


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (
            [
                "srun: error: Task launch for StepId=33.1 failed on node node2: Communication connection failure",
                "srun: error: Application launch failed: Communication connection failure",
                "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
            ],
            "node2 failed",
        ),
        ([], "exit status 205"),
    ],
)
def test_a_node_that_starts_no_step_is_the_cause(tmp_path: Path, lines: list[str], cause: str) -> None:
    """An srun that waits on after its words, as it does for a dead node, is not waited for."""
    wait = "exec sleep 600" if lines else ""
    (tmp_path / "srun").write_text("\n".join(["#!/bin/sh", "cat <<END >&2", *lines, "END", wait, ""]))
    (tmp_path / "srun").chmod(0o755)
    (tmp_path / "said").write_text("")
    told = 'printf "\\n %s %s" "$muster_cause" "$muster_cause_kind"'
    asked = f"muster_nodes=2 SLURM_JOB_NODELIST=node[1-2]; muster_find_dead; {told}"
    script = compose(("again", "told_mpirun")) + _TOLD + asked
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    done = checked(run(["bash", "-c", script, "bash", str(tmp_path / "said"), "205"], env=environment, timeout_s=300))
    assert done.stdout.split("\n") == ["exit status 205", "", f" {cause} {kind_of(cause)}"]


@pytest.mark.parametrize(
    ("starter", "rank", "words", "may"),
    [
        ("program", "", "", True),
        ("program", "1", "ValueError: no such column", False),
        ("step", "", "", False),
        ("step", "0", "BrokenPipeError: [Errno 32] Broken pipe", True),
        ("step", "0", "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:4711", True),
        ("step", "2", "torch.OutOfMemoryError: CUDA out of memory", False),
    ],
)
def test_a_lost_connection_may_be_a_node_that_died(starter: str, rank: str, words: str, may: bool) -> None:
    names = f"muster_nodes=2 muster_starter={starter} muster_failed_rank={rank} muster_failed_words={quote(words)}"
    script = f"{compose(('again',))}\n{names} muster_times=1\nmuster_may_lack_node 1"

    assert run(["bash", "-c", script]).ok == may


# A program of the name `mpirun` whose child of the name `srun` ends, while it may wait on, deaf to SIGTERM.
_MPIRUN = """
trap '' TERM
"$2" {seconds} &
wait "$!"
{then}
"""


@pytest.mark.parametrize(
    ("srun_s", "then", "is_ended"),
    [("3", "while :; do sleep 0.1; done", True), ("1.5", "exit 0", False)],
    ids=["waits on", "ends by itself"],
)
def test_an_mpirun_that_outlives_the_step_of_its_daemons_is_ended(
    tmp_path: Path, srun_s: str, then: str, is_ended: bool
) -> None:
    for name, program in (("mpirun", "bash"), ("srun", "sleep")):
        (tmp_path / name).symlink_to(which(program) or "")
    (tmp_path / "daemons.sh").write_text(_MPIRUN.format(seconds=srun_s, then=then))
    script = f"""{compose(("mpirun_waits",))}
muster_watch_daemons
"$1/mpirun" "$1/daemons.sh" mpirun "$1/srun"
echo $?
wait "$muster_daemons_watcher"
"""
    done = run(["bash", "-c", script, "bash", str(tmp_path)], env={**os.environ, "MUSTER_GRACE": "1"}, timeout_s=60)

    assert done.stdout == ("137\n" if is_ended else "0\n"), done.stderr
    assert (_WAITED in done.stderr) == is_ended


# An mpirun of MPICH's that writes a line, and waits for a proxy that did not hear of the end; or one that works on.
_HYDRA = """#!/bin/sh
echo "$1" >>report
sleep "$2" &
wait "$!"
"""


@pytest.mark.parametrize(
    ("line", "seconds", "is_ended"),
    [
        ("[2] muster: rank 2 on node2 ended with status 7", 600, True),
        ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", 600, True),
        ("[2] epoch 1", 7, False),
    ],
)
def test_an_mpich_that_waits_on_after_a_rank_failed_is_ended(
    tmp_path: Path, line: str, seconds: int, is_ended: bool
) -> None:
    (tmp_path / "mpirun").write_text(_HYDRA)
    (tmp_path / "mpirun").chmod(0o755)
    (tmp_path / "report").write_text("[1] muster: rank 1 on node1 ended with status 3\n")  # of the attempt before
    script = f"""{compose(("mpirun",))}
muster_mpirun_kind='HYDRA build details'
muster_watch_hydra report
./mpirun '{line}' {seconds}
echo $?
kill "$muster_hydra_watcher" 2>/dev/null
"""
    done = run(["bash", "-c", script], cwd=tmp_path, timeout_s=60)

    assert done.stdout == ("143\n" if is_ended else "0\n"), done.stderr
    assert ("mpirun waited on after a rank had failed: it was ended" in done.stderr) == is_ended


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        (
            ["0: ok", "1: ValueError: b\tad (x)", "srun: error: node2: task 1: Exited with exit code 7"],
            (EndCause.RANK, 1, "node2", "ValueError: b ad (x)"),
        ),
        (["srun: error: Node failure on node4"], (EndCause.NODE, None, "node4", "")),
        (["0: ValueError: bad", "nothing of Slurm's"], (None, None, None, "")),
    ],
    ids=["a rank", "a node", "neither"],
)
def test_the_line_of_an_end_holds_the_kind_of_its_cause(
    tmp_path: Path, lines: list[str], end: tuple[EndCause | None, int | None, str | None, str]
) -> None:
    (tmp_path / "said").write_text("\n".join([*lines, ""]))
    note = f"muster_number=1 muster_began=5 muster_decision=end muster_run_dir={quote(str(tmp_path))}\n"
    script = compose(("again", "told_srun")) + _TOLD + note + "muster_note_end 'not started again'\n"

    checked(run(["bash", "-c", script, "bash", str(tmp_path / "said"), "7"]))
    (read,) = read_ends(tmp_path)
    assert (read.kind, read.rank, read.host, read.error_line) == end
    assert (read.number, read.decision, read.done) == (1, "end", "not started again")


@pytest.mark.parametrize(
    ("launcher", "words", "cause"),
    [
        (
            "srun",
            "ConnectionError: reset",
            "rank 1 on node2 ended with status 0, and then rank 0 on node1: exit status 1",
        ),
        ("srun", "ValueError: 7", "rank 0 on node1: exit status 1"),
        ("torchrun", "ConnectionError: reset", "rank 0 on node1: exit status 1"),
    ],
)
def test_who_left_before_a_connection_was_lost_is_named(tmp_path: Path, launcher: str, words: str, cause: str) -> None:
    (tmp_path / "said").write_text(f"0: {words}\nsrun: error: node1: task 0: Exited with exit code 1\n")
    (tmp_path / "1.0").write_text("0 begins\n")
    (tmp_path / "1.1").write_text("1 begins\n1 0\n")
    names = f"MUSTER_LAUNCHER={launcher} MUSTER_ENDS={quote(str(tmp_path))} SLURM_JOB_NODELIST=x muster_left=$1.left\n"
    hosts = "scontrol() { printf '%s\\n' node1 node2; }\n"
    script = f"{compose(('again', 'told_srun'))}{names}{hosts}muster_find_left >$1.left\n{_TOLD}"

    done = checked(run(["bash", "-c", script, "bash", str(tmp_path / "said"), "1"]))
    assert done.stdout.split("\n")[0] == f"{cause} ({words})"
