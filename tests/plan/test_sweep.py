"""A sweep in the plan and in its script: bash itself fills the words of each row."""

from __future__ import annotations

import subprocess

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from launch.plans import FACTS, plan
from muster.errors import RequestError, UnknownName
from muster.facts import Facts, SweepTable
from muster.model.plan import Engine, Plan
from muster.plan.sweep import command_of_row
from muster.render.explain import plan_as_text
from muster.render.script import job_script, job_shown

TABLE = SweepTable("grid.csv", ("lr", "seed"), (("0.1", "1"), ("0.2", "2"), ("0.3", "3")))


def facts(table: SweepTable = TABLE) -> Facts:
    return msgspec.structs.replace(FACTS, table=table)


def swept(*words: str, table: SweepTable = TABLE) -> Plan:
    return plan("--sweep", table.path, *words, facts=facts(table))


def words_in_bash(planned: Plan, task: int) -> list[str]:
    """What bash makes of the words behind the program, for one task."""
    script = job_script(planned)
    table = script[script.index("row() {") :].partition("\n}\n")[0]
    step = next(line for line in script.split("\njob() {")[1].split("muster_step srun")[1:])
    words = step.partition("train.py ")[2].partition("\n    muster_")[0]
    shown = subprocess.run(
        ["bash", "-c", f'{table}\n}}\nrow "$1" || exit 9\nprintf "%s\\0" {words}', "bash", str(task)],
        capture_output=True,
        check=True,
    )
    return shown.stdout.decode().split("\0")[:-1]


_VALUE = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(_VALUE, _VALUE), min_size=1, max_size=3))
@example([("$(id)", "`id`"), ("'", '"'), ("a\nb", "\\"), ("{seed}", "{lr}"), ("", " ")])
def test_bash_gives_each_task_the_values_of_its_row(rows: list[tuple[str, str]]) -> None:
    table = SweepTable("t.csv", ("lr", "seed"), tuple(rows))
    planned = swept("--", "python", "train.py", "{lr}", "--seed={seed}/{lr}", "${lr}", '{"a": {"b": 1}}', table=table)

    for number, (lr, seed) in enumerate(rows, 1):
        wanted = [lr, f"--seed={seed}/{lr}", "${lr}", '{"a": {"b": 1}}']
        assert words_in_bash(planned, number) == wanted
        assert list(command_of_row(planned, number))[2:] == wanted


def test_the_script_holds_the_table_and_the_header_an_array() -> None:
    planned = swept("--sweep-at-once", "2", "--", "python", "train.py", "{lr}", "{seed}")
    script = job_script(planned)

    assert "\n#SBATCH --array=1-3%2\n" in script
    assert "\n        2) row_lr=0.2 row_seed=2 ;;\n" in script.partition("\n# ----")[0]
    assert "sweep:\n  grid.csv: 3 rows of lr, seed\n" in plan_as_text(planned)
    assert [note.text for note in planned.notes if "rows" in note.text] == [
        "grid.csv: 3 rows, a task of the array for each; the first: /home/ada/env/bin/python train.py 0.1 1"
    ]


def test_a_long_table_is_cut_on_the_terminal_alone() -> None:
    planned = swept(
        "--", "python", "train.py", "{a}", table=SweepTable("t.csv", ("a",), tuple((str(n),) for n in range(300)))
    )

    assert "        # … 295 more rows\n" in job_shown(planned)
    assert "        300) row_a=299 ;;\n" in job_script(planned)


def test_a_variable_may_have_the_value_of_the_row() -> None:
    script = job_script(swept("--env", "SEED=s{seed}-{job_id}", "--", "python", "train.py", "{lr}"))

    assert 'SEED=s"$row_seed"-"$muster_job"' in script


def test_a_column_that_changes_nothing_and_one_output_for_all_are_told() -> None:
    notes = [note.text for note in swept("-o", "out.log", "--", "python", "train.py", "{lr}").notes if note.warning]

    assert "the column seed of grid.csv is in no word of the command" in notes
    assert "all tasks write the same file, /home/ada/project/out.log: put %a into its name" in notes
    assert not any("same file" in note.text for note in swept("-o", "%a.log", "--", "x", "{lr}").notes)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--", "python", "train.py"), "no word of the command holds a column of grid.csv"),
        (("--sbatch=--array=0-4", "--", "python", "train.py", "{lr}"), "contradict each other"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence) as refused:
        swept(*words)
    assert refused.value.hint


def test_a_gap_without_a_column_is_refused_with_the_columns() -> None:
    with pytest.raises(UnknownName, match=r"column of grid\.csv named 'l_r'") as refused:
        swept("--", "python", "train.py", "{l_r}")
    assert "lr" in str(refused.value.hint)


def test_a_number_at_once_without_a_table_is_refused() -> None:
    with pytest.raises(RequestError, match="no effect without a table"):
        plan("--sweep-at-once", "2", "--", "python", "train.py")


@pytest.mark.parametrize("more", [{"stream": True}, {"engine": Engine.HERE, "stream": True, "launcher": "local"}])
def test_what_starts_now_has_no_rows_and_says_how_one_is_run(more: dict[str, object]) -> None:
    with pytest.raises(RequestError, match="waits in the queue") as refused:
        plan("--sweep", "grid.csv", "--", "python", "train.py", "{lr}", facts=facts(), **more)  # type: ignore[arg-type]
    assert "muster run … -- python train.py 0.1" in str(refused.value.hint)


def test_a_job_without_a_table_is_called_as_before() -> None:
    assert "row" not in job_script(plan("--", "python", "train.py")).partition("\n# ----")[0]


def packed(*words: str) -> Plan:
    return swept(*words, "--", "python", "train.py", "{lr}", "{seed}")


def test_rows_that_share_a_node_are_steps_beside_each_other() -> None:
    planned = packed("--sweep-per-node", "2", "-g", "1", "-c", "3", "--mem", "4G", "--sweep-at-once", "2")
    script = job_script(planned)

    assert "\n#SBATCH --array=1-3:2%1\n" in script
    assert "\n#SBATCH --nodes=1 --ntasks-per-node=2 --cpus-per-task=3 --gpus-per-node=2 --mem=8G\n" in script
    assert "    muster_run_rows at_once=2 rows=3 ranks=1\n    muster_finish\n}" in script
    row = script.partition("row_job() {")[2].partition("\n}\n")[0]
    for flag in ("--exact", "--gpus-per-node=1", "--mem=4G", '--cpus-per-task="$muster_cpus_per_task"'):
        assert row.count(flag) == 1
    reasons = {str(flag.word): flag.reason.text for flag in planned.step_flags}
    assert reasons["--mem=4G"] == "the memory of one row"
    assert "GPUS=1 " in row
    assert "PORT_LOW=$((20000 + muster_slot * 6000)) PORT_COUNT=6000" in row
    assert "grid.csv: 3 rows, 2 at a time on one node: 2 jobs;" in " ".join(note.text for note in planned.notes)


@pytest.mark.parametrize(("site", "flags"), [("perlmutter", []), ("jupiter", ["--threads-per-core=1"])])
def test_masks_for_the_cpus_of_a_whole_node_are_for_no_row(site: str, flags: list[str]) -> None:
    words = ("--sweep", TABLE.path, "--sweep-per-node", "2", "-g", "2", "-A", "a", "-t", "60")
    planned = plan(*words, "--", "python", "train.py", "{lr}{seed}", facts=facts(), site=site)
    assert [flag.word for flag in planned.step_flags] == [*flags, "--exact", "--gpus-per-node=2", "--mem=0"]


def test_rows_share_no_node_whose_gpus_slurm_does_not_give_out_one_by_one() -> None:
    words = (
        "--sweep",
        TABLE.path,
        "--sweep-per-node",
        "2",
        "-A",
        "a",
        "-t",
        "60",
        "--",
        "python",
        "t.py",
        "{lr}{seed}",
    )
    with pytest.raises(RequestError, match="does not give out single GPUs"):
        plan("-g", "1", *words, facts=facts(), site="meluxina")
    assert plan("-g", "0", *words, facts=facts(), site="meluxina").pack is not None


def test_rows_without_a_number_of_cpus_or_memory_share_what_the_job_has() -> None:
    script = job_script(packed("--sweep-per-node", "2", "--ntasks-per-node", "2"))

    assert "--ntasks-per-node=4" in script.partition("job() {")[0]
    row = script.partition("row_job() {")[2].partition("\n}\n")[0]
    assert '--cpus-per-task="$muster_cpus_per_task"' in row
    assert "--mem=0" in row
    assert "muster_run_rows at_once=2 rows=3 ranks=2\n" in script


@pytest.mark.parametrize(
    ("words", "sentence", "hint"),
    [
        (("-N", "2"), "a row of 2 nodes cannot share one node", "-N 1"),
        (("--launcher", "torchrun"), "torchrun cannot start rows beside each other", "--launcher srun"),
        (("--launcher", "mpirun"), "mpirun cannot start rows beside each other", "--launcher srun"),
        (("--restart", "2"), "--restart.* does not go together", "table of its own"),
        (("--until-done", "-t", "10"), "--until-done.* does not go together", "a chain of its own"),
        (("--requeue",), "--requeue.* does not go together", "by itself"),
        (("--hang", "5m"), "--hang.* does not go together", "log of each row"),
        (("-o", "x.log"), "-o.* does not go together", "muster logs"),
        (("--master-port", "5000"), "--master-port.* does not go together", "--port-range"),
        (("--sweep-at-once", "2"), "fewer than the 3 rows of one node", "--sweep-per-node 2"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_rows_on_one_node_cannot_have_is_refused(words: tuple[str, ...], sentence: str, hint: str) -> None:
    with pytest.raises(RequestError, match=sentence) as refused:
        packed("--sweep-per-node", "3", "-g", "1", *words)
    assert hint in str(refused.value.hint)


def test_rows_per_node_without_a_table_are_refused() -> None:
    with pytest.raises(RequestError, match="has no effect without a table"):
        plan("--sweep-per-node", "2", "--", "python", "train.py")
