"""What Slurm's clients say and take, word by word: one line for each condition that decides something."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from msgspec.structs import replace

from muster.errors import RequestError
from muster.model.plan import Directive, Reason
from muster.slurm.allocation import hold_nodes, step_of_job
from muster.slurm.cluster_answers import read_kinds
from muster.slurm.directives import format_header
from muster.slurm.fit import Wanted, find_misfit, parse_nodes
from muster.slurm.flags import refuse_flag, split_flag, whole_step_flags
from muster.slurm.granted import read_granted
from muster.slurm.jobs import SlurmJob, parse_squeue
from muster.slurm.jobs import _whole as whole_job
from muster.slurm.reasons import Clears, reason_of
from muster.slurm.states import state_of
from slurm.test_fit import FOUR
from slurm.test_jobs import HEADING


@pytest.mark.parametrize(
    ("name", "value", "refused"),
    [
        ("tres-per-task", "gres/gpu:1", "--tres-per-task=gres/gpu:1"),
        ("tres-per-task", "cpu:2", None),
        ("tres-per-task", None, None),
        ("signal", "B:USR1@60", "is for the batch script alone"),
        ("signal", "RB:USR1@60", "is for the batch script alone"),
        ("signal", "R:USR1@60", None),
        ("signal", "BUS@60", None),
        ("signal", "USR1@60", None),
        ("signal", None, None),
        ("licenses", "B:2", None),
    ],
)
def test_a_flag_that_would_break_the_job_is_refused(name: str, value: str | None, refused: str | None) -> None:
    with pytest.raises(RequestError, match=refused) if refused else nullcontext():
        refuse_flag(name, value)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("--mem=4G", ("mem", "4G")),
        ("--mem 4G", ("mem", "4G")),
        ("--mem =4G", ("mem", "4G")),
        ("--mem", ("mem", None)),
        ("-N2", ("nodes", "2")),
        ("-N=2", ("nodes", "2")),
        ("-N", ("nodes", None)),
        ("--", None),
        ("-- =", None),
        ("--=4G", None),
        ("---mem=4G", None),
        ("-", None),
        ("mem=4G", None),
    ],
)
def test_a_flag_of_sbatch_is_a_name_and_a_value(text: str, read: tuple[str, str | None] | None) -> None:
    with nullcontext() if read else pytest.raises(RequestError, match="is not a whole flag"):
        assert split_flag(text) == read


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("--label", "--label"),
        ("-l", "-l"),
        ("--mem 4G", "--mem=4G"),
        ("--comment=A=b c", "--comment=A=b c"),
        ("--", None),
        ("-", None),
        ("label", None),
    ],
)
def test_a_flag_of_srun_is_one_word(text: str, word: str | None) -> None:
    with nullcontext() if word else pytest.raises(RequestError, match="is not a whole flag"):
        assert list(whole_step_flags([text])) == [word]


@pytest.mark.parametrize(
    ("line", "cores", "partitions", "gpus"),
    [
        ("CPUTot=8 Sockets=1 CoresPerSocket=4 Partitions=a,b Gres=gpu:2", 4, ["a", "b"], 2),
        ("CPUTot=8 Partitions=a", 8, ["a"], 0),
        ("CPUTot=4 Sockets=1 CoresPerSocket=8 Partitions=a", 4, ["a"], 0),
        ("CPUTot=8 Sockets=1 CoresPerSocket=4", 0, [], 0),
    ],
)
def test_a_node_is_read_as_far_as_its_words_go(line: str, cores: int, partitions: list[str], gpus: int) -> None:
    kinds = read_kinds(f"NodeName=n1 {line}")
    assert [kind.partition for kind in kinds] == partitions
    assert all((kind.cores, kind.gpu_count) == (cores, gpus) for kind in kinds)


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ([("wckey", "a"), ("licenses", "b")], 2),
        ([("account", "a"), ("time", "1")], 1),
        ([("account", "a" * (120 - len("#SBATCH --account= --time=1"))), ("time", "1")], 1),
        ([("account", "a" * (121 - len("#SBATCH --account= --time=1"))), ("time", "1")], 2),
    ],
)
def test_options_of_one_subject_share_a_line_of_120(options: list[tuple[str, str | None]], lines: int) -> None:
    assert len(format_header(options)) == lines


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("signal", "B:USR1@60", None),
        ("signal", "USR1@60", "--signal=USR1@60"),
        ("exclusive", None, "--exclusive"),
        ("job-name", "B:1", "--job-name=B:1"),
    ],
)
def test_salloc_is_not_told_of_what_is_for_the_script(name: str, value: str | None, word: str | None) -> None:
    directive = Directive(name, value, Reason("x", "y"))
    assert hold_nodes([directive]) == ["salloc", *([word] if word else [])]


@pytest.mark.parametrize("named", [("n1",), ("n1", "n2"), ()])
def test_nodes_that_all_take_jobs_are_no_reason(named: tuple[str, ...]) -> None:
    assert find_misfit(Wanted(nodes=1, named=named), parse_nodes(FOUR)) is None


@pytest.mark.parametrize(("gpus", "read"), [("4", 4), ("a100:4", 4), ("0", None), ("", None), ("all", None)])
def test_the_gpus_of_an_allocation_are_a_number(gpus: str, read: int | None) -> None:
    assert read_granted({"SLURM_GPUS_ON_NODE": gpus}).gpus_on_node == read


def test_a_step_names_the_parts_of_a_job_that_has_several() -> None:
    assert "--het-group=0" not in step_of_job("7", [2])
    assert {":", "--het-group=0", "--het-group=1"} <= {*step_of_job("7", [2, 1])}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (HEADING, 0),
        (f"welcome\n{HEADING}", 0),
        (HEADING.replace("JOBID", "ACCOUNT", 1), None),
        (f"{HEADING}12", None),
        (f"{HEADING}goodbye\n", 0),
        (f"{HEADING}goodbye\n12\x1f12\x1fRUN", None),
        ("welcome\n", None),
    ],
)
def test_an_answer_of_squeue_is_whole_or_none(text: str, count: int | None) -> None:
    jobs = parse_squeue(text)
    assert (None if jobs is None else len(jobs)) == count


@pytest.mark.parametrize(("cpus", "total"), [((4, 8), 12), ((4, None), 4), ((None, None), None)])
def test_the_parts_of_a_job_are_counted_as_far_as_they_are_told(
    cpus: tuple[int | None, ...], total: int | None
) -> None:
    part = SlurmJob("7", "7+0", "train", state_of("RUNNING"), reason_of("None"))
    assert (
        whole_job("7", [replace(part, id=str(7 + index), cpus=each) for index, each in enumerate(cpus)]).cpus == total
    )


@pytest.mark.parametrize(
    ("text", "code", "clears"),
    [
        ("", "None", Clears.ITSELF),
        ("(null)", "None", Clears.ITSELF),
        ("QOSGrpWallLimit", "QOSGrpWallLimit", Clears.USER),
        ("QOSGrpCpuLimit", "QOSGrpCpuLimit", Clears.ITSELF),
        ("QOSGrpCPUMinutesLimit", "QOSGrpCPUMinutesLimit", Clears.USER),
    ],
)
def test_who_ends_a_wait_follows_from_its_reason(text: str, code: str, clears: Clears) -> None:
    reason = reason_of(text)
    assert (reason.code, reason.clears) == (code, clears)
