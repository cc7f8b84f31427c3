"""submit on a real cluster: what is left on disk, what scales, what is refused, and never the same job twice."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab

from .lab_runs import Witness, path_with, wait_until_ended

pytestmark = pytest.mark.lab


@pytest.fixture
def witness(shared_directory: Path) -> Witness:
    return Witness.at(shared_directory)


def submit(
    lab: Lab, folder: Path, *words: str, env: Mapping[str, str] | None = None, before: tuple[str, ...] = ()
) -> ProgramResult:
    return lab.exec(
        [*before, MUSTER, "submit", "--quiet", *words], cwd=folder, env={"PATH": path_with(), **(env or {})}
    )


def run_directory(folder: Path) -> Path:
    (found,) = (folder / "muster-runs").iterdir()
    return found


def test_a_job_leaves_its_script_its_record_and_a_log_for_each_node(lab: Lab, witness: Witness) -> None:
    said = checked(submit(lab, witness.folder, "-N", "2", "--ntasks-per-node", "2", "--", *witness.command("a  b")))

    assert said.stdout.strip().isdigit()
    assert wait_until_ended(lab, said.stdout.strip()) == "COMPLETED"
    run = run_directory(witness.folder)
    assert sorted(path.name for path in (run / "logs").iterdir()) == ["batch.log", "node1.log", "node2.log"]
    for node, ranks in (("node1", (0, 1)), ("node2", (2, 3))):
        wanted = sorted(f"{rank}: {stream} of {rank}" for rank in ranks for stream in ("out", "err"))
        assert sorted((run / "logs" / f"{node}.log").read_text().splitlines()) == wanted
    assert (run / "job_id").read_text().strip() == said.stdout.strip()
    assert json.loads((run / "plan.json").read_text())["launcher"] == "srun"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in run.iterdir() if path.is_file()}
    assert modes["record.json"] == modes["plan.json"] == 0o600
    assert modes["job.sh"] == 0o700
    assert {rank.arguments for rank in witness.ranks().values()} == {("a  b",)}


def test_the_tasks_of_an_array_keep_their_output_apart(lab: Lab, shared_directory: Path) -> None:
    """They run on the same node at the same time: one name for all of them would leave the output of the last."""
    words = ("--sbatch=--array=0-2", "--ntasks-per-node", "2", "--")
    said = checked(
        submit(lab, shared_directory, *words, "sh", "-c", 'echo "task $SLURM_ARRAY_TASK_ID in ${MUSTER_RUN_DIR##*/}"')
    )
    job = said.stdout.strip()

    for task in range(3):
        assert wait_until_ended(lab, f"{job}_{task}") == "COMPLETED"
        logs = checked(lab.exec([MUSTER, "logs", f"{job}_{task}"], env={"PATH": path_with()})).stdout
        assert sorted(logs.splitlines()) == [f"{rank}: task {task} in task-{task}" for rank in range(2)]
    together = checked(lab.exec([MUSTER, "logs", job], env={"PATH": path_with()})).stdout
    assert len(together.splitlines()) == 6


def test_each_row_of_a_sweep_is_a_task_whose_parameters_are_named(lab: Lab, shared_directory: Path) -> None:
    """Values reach the ranks byte for byte; the row that fails is named by its values."""
    (shared_directory / "grid.csv").write_text('lr,name\n0.1,"a ""b"", $(id)\nü"\n0.2,\n7,bad\n', encoding="utf-8")
    show = '[ "$1" != 7 ] || exit 7; printf "<%s>" "$@"; echo " $SEED $RANK of $WORLD_SIZE"'
    words = ("--sweep", "grid.csv", "--sweep-at-once", "2", "--ntasks-per-node", "2", "--env", "SEED=s{lr}", "--")
    job = checked(submit(lab, shared_directory, *words, "sh", "-c", show, "sh", "{lr}", "{name}")).stdout.strip()
    path = {"PATH": path_with()}

    def muster(*verb: str) -> ProgramResult:
        return checked(lab.exec([MUSTER, *verb], env=path))

    wanted = {1: ['<0.1><a "b", $(id)', "ü> s0.1"], 2: ["<0.2><> s0.2"]}
    for task, lines in wanted.items():
        assert wait_until_ended(lab, f"{job}_{task}") == "COMPLETED"
        shown = muster("logs", f"{job}_{task}").stdout.splitlines()
        assert sorted(shown) == sorted(
            f"{rank}: {line}" + (f" {rank} of 2" if line == lines[-1] else "") for rank in range(2) for line in lines
        )
    assert wait_until_ended(lab, f"{job}_3") == "FAILED"
    for verb in ("status", "why"):
        assert "  row 3: lr=7 name=bad\n" in muster(verb, f"{job}_3").stdout
    assert "muster: row 3: lr=7 name=bad\n" in muster("logs", f"{job}_3").stderr
    assert [entry["row"] for entry in json.loads(muster("status", "--json", f"{job}_3").stdout)] == [
        {"lr": "7", "name": "bad"}
    ]
    (folder,) = shared_directory.glob("muster-runs/*/task-2")
    assert json.loads((folder / "row.json").read_text()) == {"lr": "0.2", "name": ""}


# Each row of a pair waits for the other to begin; the first then waits until the second has failed.
_ROW = """
until [ -e began-$2 ]; do sleep 0.1; : >began-$1; done
echo "row $1: rank $RANK of $WORLD_SIZE, GPUs $CUDA_VISIBLE_DEVICES, $(grep Cpus_allowed_list /proc/self/status)"
[ "$1" != 2 ] || exit 7
[ "$1" != 1 ] || until [ -e muster-runs/*/task-2/status ]; do sleep 0.1; done
"""


def test_rows_share_a_node_and_one_that_fails_does_not_end_its_neighbour(lab: Lab, shared_directory: Path) -> None:
    (shared_directory / "grid.csv").write_text("own,other\n1,2\n2,1\n3,3\n")
    (shared_directory / "row.sh").write_text(_ROW)
    words = ("--sweep", "grid.csv", "--sweep-per-node", "2", "-g", "2", "--", "sh", "row.sh", "{own}", "{other}")
    job = checked(submit(lab, shared_directory, *words)).stdout.strip()
    path = {"PATH": path_with()}

    def muster(*verb: str) -> ProgramResult:
        return lab.exec([MUSTER, *verb], env=path)

    followed = muster("logs", "-f", f"{job}_2")
    assert followed.status == 7, followed.stderr
    assert wait_until_ended(lab, f"{job}_1") == "FAILED"
    assert wait_until_ended(lab, f"{job}_3") == "COMPLETED"
    shown = {row: checked(muster("logs", f"{job}_{row}")).stdout for row in (1, 2, 3)}
    for row, text in shown.items():
        begins = sorted(line.partition(", ")[0] for line in text.splitlines() if not line.startswith("srun: "))
        assert begins == [f"{rank}: row {row}: rank {rank} of 2" for rank in range(2)]
    gpus = {row: text.partition("GPUs ")[2].partition(",")[0] for row, text in shown.items()}
    assert gpus[1] != gpus[2], "both rows see the same GPUs"
    states = {entry["shown_id"]: entry for entry in json.loads(muster("status", "--json", job).stdout)}
    assert [states[f"{job}_{row}"]["state"] for row in (1, 2, 3)] == ["COMPLETED", "FAILED", "COMPLETED"]
    assert states[f"{job}_2"]["row"] == {"own": "2", "other": "1"}
    why = checked(muster("why", f"{job}_2")).stdout
    assert f"job {job}_2 (row) is FAILED: it ended with a status other than 0 (exit status 7)\n" in why
    assert "  row 2: own=2 other=1\n" in why
    alone = checked(submit(lab, shared_directory, *words[:4], "-g", "1", "--", "sh", "-c", "echo it is {own}; exit 3"))
    assert wait_until_ended(lab, f"{alone.stdout.strip()}_1") == "FAILED", "which holds the rows 1 and 2"
    assert "    it is 2\n" in checked(muster("why", f"{alone.stdout.strip()}_2")).stdout, "a rank alone has no label"
    refused = muster("cancel", f"{job}_2")
    assert refused.status == 2
    assert f"hint: scancel {job}_1 ends these rows, muster cancel {job} all of the table" in refused.stderr


def test_more_rows_than_the_cluster_takes_are_refused_with_the_number(lab: Lab, shared_directory: Path) -> None:
    (shared_directory / "grid.csv").write_text("n\n" + "".join(f"{number}\n" for number in range(2000)))

    refused = submit(lab, shared_directory, "--sweep", "grid.csv", "--", "echo", "{n}")

    assert refused.status == 2
    assert "MaxArraySize" in refused.stderr
    assert not (shared_directory / "muster-runs").exists() or not list((shared_directory / "muster-runs").iterdir())


def test_a_submitted_job_ends_with_the_status_of_its_first_failed_rank(lab: Lab, shared_directory: Path) -> None:
    command = '[ "$RANK" != 1 ] || exit 7; exec sleep 100'
    said = checked(submit(lab, shared_directory, "-N", "2", "--ntasks-per-node", "1", "--", "sh", "-c", command))
    job = said.stdout.strip()

    assert wait_until_ended(lab, job) == "FAILED"
    assert "ExitCode=7:0" in checked(lab.exec(["scontrol", "show", "job", job])).stdout


def test_the_planned_script_runs_with_sbatch_alone_and_scales_to_what_is_granted(lab: Lab, witness: Witness) -> None:
    words = ["-N", "2", "--ntasks-per-node", "2", "--", *witness.command()]
    script = checked(lab.exec([MUSTER, "plan", *words], cwd=witness.folder, env={"PATH": path_with()})).stdout
    (witness.folder / "job.sh").write_text(script)
    job = checked(lab.exec(["sbatch", "--parsable", "-N4", "job.sh"], cwd=witness.folder)).stdout.strip()

    assert wait_until_ended(lab, job) == "COMPLETED"
    ranks = witness.ranks()
    assert len(ranks) == 8
    assert {rank.host for rank in ranks.values()} == set(lab.hosts)
    assert {rank.ints("WORLD_SIZE", "GROUP_WORLD_SIZE") for rank in ranks.values()} == {(8, 4)}


@pytest.mark.parametrize("before", [(), ("salloc", "--quiet", "-N1", "srun", "-n1")], ids=["shell", "inside a job"])
def test_what_the_shell_or_an_outer_job_says_does_not_reach_the_new_job(
    lab: Lab, witness: Witness, before: tuple[str, ...]
) -> None:
    clashing = {"SBATCH_PARTITION": "no-such", "SBATCH_EXPORT": "ALL", "SBATCH_TIMELIMIT": "0:01", "SECRET": "1"}
    words = ("-N", "2", "--ntasks-per-node", "1", "--", *witness.command())
    job = checked(submit(lab, witness.folder, *words, env=clashing, before=before)).stdout.strip()

    assert wait_until_ended(lab, job) == "COMPLETED"
    assert len(witness.ranks()) == 2
    for rank in witness.ranks().values():
        assert rank.environment["SLURM_JOB_ID"] == job
        assert "SECRET" not in rank.environment


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("-p", "nowhere"), 2, "this cluster has no partition nowhere"),
        (("-N", "99"), 2, "99 nodes, but main has 4"),
        (("-C", "nothing-has-it"), 2, "no node of this cluster has the feature"),
        (
            ("--gres", "quantum:3"),
            3,
            "muster: error: Slurm refuses the job: this cluster knows no such generic resource",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_rejection_is_a_sentence_and_a_hint(
    lab: Lab, shared_directory: Path, words: tuple[str, ...], status: int, sentence: str
) -> None:
    result = submit(lab, shared_directory, *words, "--", "hostname")

    assert result.status == status, result.stderr
    assert result.stdout == ""
    assert sentence in result.stderr
    assert "\n\nhint: " in result.stderr
    assert "Traceback" not in result.stderr


def test_a_job_waits_for_a_node_that_is_down_as_it_does_under_sbatch(
    new_lab: Callable[..., Lab], shared_directory: Path
) -> None:
    lab = new_lab("-N", "2")
    checked(lab.muster("fault", "kill-node", "node2"))
    checked(lab.exec(["scontrol", "update", "NodeName=node2", "State=DOWN", "Reason=test"]))
    words = [MUSTER, "submit", "-N", "2", "--", "hostname"]
    answer = lab.exec(words, cwd=shared_directory, env={"PATH": path_with()})

    assert answer.status == 0, answer.stderr
    assert "warning: the job waits: node2 of main is down or drained: 1 of 2 nodes take jobs" in answer.stderr
    assert checked(lab.exec(["squeue", "--noheader", "--format=%t"])).stdout == "PD\n"


def test_a_controller_that_falls_silent_does_not_get_the_same_job_twice(
    new_lab: Callable[..., Lab], shared_directory: Path
) -> None:
    lab = new_lab("-N", "1")
    checked(lab.muster("fault", "stop-controller"))
    # It comes back while submit waits for its answer.
    mend = threading.Timer(4, lambda: lab.muster("fault", "restore"))
    mend.start()
    answer = submit(lab, shared_directory, "--", "sleep", "100")
    mend.join()
    if answer.status:  # what it then says is: type the same command again
        assert answer.status == 3
        answer = submit(lab, shared_directory, "--", "sleep", "100")

    assert answer.status == 0, answer.stderr
    queued = checked(lab.exec(["squeue", "--noheader", "--format=%j"])).stdout.split()
    assert len(queued) == 1
    checked(lab.exec(["scancel", "--me"]))
