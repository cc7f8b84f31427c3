"""What becomes of typed words before a verb starts, and of pages on a screen: each condition by its smallest line."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from muster.act.record import Run
from muster.cli import docs
from muster.cli.app import main
from muster.cli.asked_jobs import running_case
from muster.cli.command_line import _with_file, read_command
from muster.cli.completion import _joined, candidates
from muster.cli.docs import _contents
from muster.cli.help_page import _NARROW, _rows
from muster.cli.logs import _refuse_closed
from muster.cli.verbs import VERBS, _start_verb_of
from muster.errors import RequestError, SiteError, UnknownName
from muster.follow.cases import JobCase
from muster.follow.known_causes import _MOST_COUNTED, read_log
from muster.follow.nccl_log import NcclLog
from muster.follow.redact import Redactor
from muster.follow.support import ATTEMPTS, LOGS, ReportFile, log_parts
from muster.job.option import OriginKind, ValueOrigin
from muster.job.request import Request
from muster.launchers import launcher_named
from muster.plan.pack import packed
from muster.plan.shape import NodeShape
from muster.slurm.jobs import SlurmJob
from muster.slurm.reasons import reason_of
from muster.slurm.states import state_of


@pytest.mark.parametrize(
    ("typed", "words", "cut"),
    [
        ("a b", ["a", "b"], ""),
        ("--a = b", ["--a=b"], "--a="),
        ("--a =", ["--a="], "--a="),
        ("= b", ["=", "b"], ""),
        ("a = b", ["a", "=", "b"], ""),
        ("--a = b c", ["--a=b", "c"], ""),
        ("--a=", ["--a="], ""),
        ("--a= b", ["--a=", "b"], ""),
        ("--a = b --c = d", ["--a=b", "--c=d"], "--c="),
    ],
)
def test_bash_s_cuts_at_each_equals_sign_are_joined(typed: str, words: list[str], cut: str) -> None:
    assert _joined(typed.split()) == (words, cut)


def _offered(*earlier: str, word: str = "") -> set[str]:
    return {candidate.word for candidate in candidates(earlier, word)}


def test_what_may_stand_at_a_place_is_offered_and_nothing_else() -> None:
    assert _offered(word="su") == {"submit"}
    assert {"--help", "--version", "run"} <= _offered()
    assert _offered("no-verb") == set()
    assert {"up", "--help"} <= _offered("lab")
    assert _offered("lab", "no-verb") == set()
    assert _offered("completion") == {"bash", "zsh", "fish"}
    assert "--nodes" in _offered("run", word="--n")
    assert "--nodes" not in _offered("run", "--nodes", "2", word="--n")
    assert "--nodes" not in _offered("run", "--nodes=2", word="--n")
    assert "--module" in _offered("run", "--module", "a", word="--mod")
    assert _offered("run", "--nodes") == set()
    assert _offered("run", "--", word="--n") == set()
    assert _offered("run", "python", word="--n") == set()
    assert {"srun", "torchrun"} <= _offered("run", "--launcher")
    assert _offered("run", word="--launcher=tor") == {"--launcher=torchrun"}
    assert _offered("run", "-", word="--n") == set()
    assert "--json" in _offered("queues")


_SUBVERBS = next(verb for verb in VERBS if verb.name == "lab")


@pytest.mark.parametrize(
    ("words", "status"),
    [((), 2), (("--help",), 0), (("-h", "x"), 0), (("--", "--help"), None), (("x",), None), (("x", "--help"), None)],
)
def test_a_verb_of_verbs_shows_its_page_or_refuses(
    words: tuple[str, ...], status: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    from muster.cli.command_line import CommandLine

    inner = CommandLine(name="try one", summary="one", start=lambda _: 7)
    command = CommandLine(name="try", summary="try", verbs=(inner,))
    assert _SUBVERBS
    if status is None:
        with pytest.raises(UnknownName):
            _start_verb_of(command, words)
        return
    assert _start_verb_of(command, words) == status
    assert "one" in capsys.readouterr().out
    assert _start_verb_of(command, ("one",)) == 7


def test_the_options_of_a_file_stand_before_what_is_typed_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('nodes = 2\ncommand = ["python", "t.py"]\n')
    for words in (["--file", str(file), "-g", "4"], [f"--file={file}", "-g", "4"]):
        made = list(_with_file(words))
        assert made.index("-g") > next(place for place, word in enumerate(made) if "2" in word)
        assert not any("--file" in word for word in made)
    for words in (["-g", "4"], ["--file"], ["--file="], ["--", "--file", str(file)]):
        assert list(_with_file(words)) == words
    (tmp_path / "bytes").write_bytes(b"\xff")
    for name, says in (("gone", "No such file"), ("bytes", "it is not text")):
        with pytest.raises(RequestError, match=says):
            _with_file(["--file", str(tmp_path / name)])


def test_a_verb_refuses_options_that_it_does_not_take() -> None:
    from muster.cli.run import COMMAND

    for words, says in (
        (["--role", "a", "--", "x"], "takes no --role"),
        (["--hold", "--", "x"], "does not take|no option"),
    ):
        with pytest.raises(RequestError, match=says):
            read_command(COMMAND, words)


@pytest.mark.parametrize(("more", "below"), [(0, False), (1, True)])
def test_a_long_head_stands_above_its_sentence(more: int, below: bool) -> None:
    head = "x" * (26 + more)
    lines = list(_rows([(head, "a sentence")], 80, 30))
    assert len(lines) == 1 + below
    assert list(_rows([("h", "")], 80, 30)) == [f"  {'h':<28}"]
    assert len(list(_rows([("h", "a sentence")], _NARROW, 30))) == 1
    assert len(list(_rows([("h", "a sentence")], _NARROW - 1, 30))) == 2


@pytest.mark.parametrize(("columns", "below"), [(59, True), (60, False)])
def test_the_list_of_pages_is_in_two_columns_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch, columns: int, below: bool
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    kind = next(iter(docs.KINDS))
    page: Any = SimpleNamespace(name="a/page", title="Its title", kind=kind)
    lines = [line for line in _contents([page]) if "page" in line and line.startswith("  ")]
    assert ("Its title" in lines[0]) is not below


# --- jobs ---


def _job(state: str, **fields: Any) -> SlurmJob:
    return replace(SlurmJob("7", "7", "train", state_of(state), reason_of("None")), **fields)


@pytest.mark.parametrize(
    ("states", "says"),
    [
        (["RUNNING"], ""),
        (["PENDING", "RUNNING"], ""),
        (["RUNNING", "RUNNING"], "is an array, and 2 of its jobs run"),
        (["PENDING"], "does not run yet: PENDING"),
        (["COMPLETED"], "has ended"),
        ([None], "has ended"),
        ([], "has ended"),
    ],
)
def test_the_job_that_runs_is_meant(states: list[str | None], says: str) -> None:
    found_cases = [JobCase("7", None if state is None else _job(state), None) for state in states]
    if says:
        with pytest.raises((RequestError, SiteError), match=says):
            running_case("7", found_cases, "top")
    else:
        job = running_case("7", found_cases, "top").job
        assert job is not None
        assert job.state.name == "RUNNING"


def test_output_that_is_not_kept_is_said_to_be_so(tmp_path: Path) -> None:
    _refuse_closed(JobCase("7", None, None))
    _refuse_closed(JobCase("7", _job("RUNNING", is_batch=True, stdout=str(tmp_path / "x")), None))
    with pytest.raises(RequestError, match="no script of sbatch wrote it"):
        _refuse_closed(JobCase("7", _job("RUNNING", is_batch=False), None))
    _refuse_closed(JobCase("7", _job("RUNNING", is_batch=False), Run("7", tmp_path, "train")))
    with pytest.raises(RequestError, match="it goes to /dev/null"):
        _refuse_closed(JobCase("7", _job("RUNNING", is_batch=True, stdout="/dev/null"), None))


# --- reports ---


@pytest.mark.parametrize(("attempts", "logs"), [(ATTEMPTS, LOGS), (ATTEMPTS + 1, LOGS + 1)])
def test_a_report_has_the_last_attempts_and_logs_and_says_what_it_omits(
    tmp_path: Path, attempts: int, logs: int
) -> None:
    (tmp_path / "plan.json").write_text(
        json.dumps({"shape": {"nodes": 1, "ntasks_per_node": 1}, "label": True, "output": "files", "launcher": "srun"})
    )
    (tmp_path / "attempts").write_text("".join(f"{number}\t1\tn1\n" for number in range(1, attempts + 1)))
    for number in range(1, attempts + 1):
        folder = tmp_path / "logs" / ("" if number == 1 else f"attempt-{number}")
        folder.mkdir(parents=True, exist_ok=True)
        for log in range(logs if number == attempts else 1):
            (folder / f"n{log}.log").write_text("x\n")
    made = list(log_parts(None, Run("7", tmp_path, "train"), "7", Redactor({})))
    sentences = [part for part in made if isinstance(part, str)]
    assert len([part for part in made if isinstance(part, ReportFile)]) == LOGS + min(attempts, ATTEMPTS) - 1
    omitted = [
        "the logs of the first 1 attempts are omitted",
        f"of the {logs} logs of attempt {attempts} the last {LOGS} are in it",
    ]
    assert sentences == (omitted if attempts > ATTEMPTS else [])


def test_a_known_error_is_counted_up_to_a_number() -> None:
    line = b"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    counts = [read_log([line] * times).causes[0].times for times in (1, _MOST_COUNTED, _MOST_COUNTED + 5)]
    assert counts == [1, _MOST_COUNTED, _MOST_COUNTED]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["n1:7:8 [0] NCCL INFO Using network Socket"], 1),
        (["n1:7:8 [0] NCCL INFO NET/OFI Selected provider is efa"], 1),
        (["n1:7:8 [0] NCCL INFO comm 0x1 rank 0 nranks 2"], 0),
        (["NCCL version 2.27.7+cuda12.9", "n1:7:8 [0] NCCL INFO Using network IB"], 1),
    ],
)
def test_a_process_that_speaks_of_its_network_is_told(lines: list[str], told: int) -> None:
    log = NcclLog()
    for line in lines:
        log.take(line)
    transports = log.transports()
    assert len(transports) == told
    assert all(
        transport.version == ("NCCL 2.27.7+cuda12.9" if "version" in lines[0] else "") for transport in transports
    )


# --- rows that share a node ---


def _packed(count: int, node: NodeShape, launcher: str = "srun", **fields: Any) -> Any:
    origins = {"sweep_per_node": ValueOrigin(OriginKind.PROFILE, "--sweep-per-node")}
    asked = Request(**{"command": ("x",), "origins": origins, **fields})
    return packed(asked, node, launcher_named(launcher), count)


_NODE = NodeShape(gpus=4, cpus=16, cpus_per_gpu=4)


@pytest.mark.parametrize(
    ("count", "fields", "says", "hint"),
    [
        (4, {}, "", ""),
        (5, {}, "5 rows, but a node has 4 GPUs", "--sweep-per-node 4"),
        (2, {"nodes": 1}, "", ""),
        (2, {"nodes": 2}, "a row of 2 nodes cannot share", "omit"),
        (2, {"gpus_per_node": 2}, "", ""),
        (3, {"gpus_per_node": 2}, "3 rows × 2 GPUs = 6, but a node has 4", "--sweep-per-node 2"),
        (2, {"gpus_per_node": 5}, "5 GPUs per node are asked for", ""),
        (5, {"gpus_per_node": 1}, "5 rows × 1 GPU = 5, but a node has 4", "--sweep-per-node 4"),
        (4, {"gpus_per_node": 0, "cpus_per_task": 4}, "", ""),
        (4, {"gpus_per_node": 0, "cpus_per_task": 5}, "4 rows × 5 CPUs = 20", "--sweep-per-node 3"),
        (2, {"gpus_per_node": 0, "cpus_per_task": 17}, "1 rank × 17 CPUs = 17 CPUs per node", "--cpus-per-task 16"),
        (2, {"gpus_per_node": 0, "ntasks_per_node": 17, "cpus_per_task": 2}, "17 ranks × 2", "--ntasks-per-node 8"),
    ],
)
def test_rows_have_to_fit_on_their_node(count: int, fields: dict[str, Any], says: str, hint: str) -> None:
    if says:
        with pytest.raises(RequestError, match=says) as refused:
            _packed(count, _NODE, **fields)
        assert hint in (refused.value.hint or "")
        return
    request, pack = _packed(count, _NODE, **fields)
    assert (pack.rows, request.nodes) == (count, 1)
    assert request.gpus_per_node == count * pack.shape.gpus_per_node
    with pytest.raises(RequestError, match="cannot start rows beside each other"):
        _packed(count, _NODE, "mpirun", **fields)


def test_a_job_file_may_have_the_mark_that_windows_puts_there(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_bytes(b'\xef\xbb\xbfnodes = 2\r\ncommand = ["true"]\r\n')
    words = list(_with_file(["--file", str(file)]))
    assert ("2" in " ".join(words), words[-1]) == (True, "true")


def test_a_verb_that_does_not_rehearse_names_the_one_that_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "--rehearse", "--", "true"]) == 2
    assert "hint: muster run --rehearse -- COMMAND rehearses one launch" in capsys.readouterr().err
