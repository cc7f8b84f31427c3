"""Guards `scripts/hold_ported.py`: a fault that is planted in port comes out as silent, whatever else is asked."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from muster_lint.bash import ShellText
from muster_lint.port import body, read, step, values
from muster_lint.port.sizes import put_sizes
from muster_lint.port.values import Draft

from .box import Outcome, run_boxed, started_runs

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("hold_ported", ROOT / "scripts/hold_ported.py")
assert _SPEC is not None
assert _SPEC.loader is not None
hold_ported = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(hold_ported)

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap: no script runs without its box"),
]

_HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2 --gpus-per-node=2 --time=10 --account=abc\n"
_SCRIPT = _HEAD + (
    "module load tools/1\ncd /proj\nexport DATA=/data\necho node1 > hosts\n"
    'srun python train.py --name "my run" --lr 1\n'
)


def _verdict(text: str, site: str = "lumi") -> tuple[str, set[tuple[str, str]]]:
    """Return the verdict of a script at a site, and (kind, what the table says) of each difference."""
    ((_, result),) = hold_ported.hold(text, [site])
    return result.word, {(each.kind, each.said) for each in result.found}


def test_without_a_fault_nothing_is_silent() -> None:
    assert _verdict(_SCRIPT) == ("asked, differs", {("file", "asked")})


def _drop_an_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = step._StepReader._finish
    monkeypatch.setattr(step._StepReader, "_finish", lambda self, words, what: whole(self, words[:-1], what))


def _change_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    def put(header: object, flags: object, draft: Draft, **more: bool) -> None:
        put_sizes(header, flags, draft, **more)  # type: ignore[arg-type]
        draft.values["ntasks_per_node"], draft.world = ["1"], 2

    monkeypatch.setattr(read, "put_sizes", put)


def _lose_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    def note(self: Draft, line: int, subject: str, name: str, value: str) -> None:
        self.note(line, subject, f"--env {name}={value}", "a variable of the ranks")

    monkeypatch.setattr(values.Draft, "variable", note)


def _lose_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = {**body._COMMANDS, "cd": lambda line, what, _, draft: draft.note(line, what, "", "where the ranks work")}
    monkeypatch.setattr(body, "_COMMANDS", commands)


def _lose_the_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = step._StepReader._finish

    def finish(self: step._StepReader, words: list[str], what: str) -> None:
        whole(self, " ".join(words).split(), what)

    monkeypatch.setattr(step._StepReader, "_finish", finish)


def _drop_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = body.read_commands

    def read_most(chains: list[step.Chain], *rest: object) -> None:
        whole([chain for chain in chains if chain.command.program != "echo"], *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(read, "read_commands", read_most)


def _lose_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "_load", lambda line, what, name, draft: draft.note(line, what, "", "loaded"))


def _take_an_alias_for_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read._launch
    monkeypatch.setattr(
        read, "_launch", lambda chains: whole([each for each in chains if each.command.program != "alias"])
    )


def _take_the_first_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step._StepReader, "_interpreter", lambda self, stage: "python")


def _take_the_first_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def value_of(self: ShellText, name: str) -> object:
        return next((each.value for each in self.assigned(name)), None)

    monkeypatch.setattr(ShellText, "value_of", value_of)


_FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "an argument is dropped": (_drop_an_argument, "words"),
    "the number of ranks is another": (_change_the_ranks, "ranks"),
    "a variable is lost": (_lose_a_variable, "variable"),
    "the working directory is lost": (_lose_the_folder, "folder"),
    "quotes are lost": (_lose_the_quotes, "words"),
    "a line that writes is dropped": (_drop_a_line, "file"),
    "a module is lost": (_lose_a_module, "module"),
}


_SEEN = {
    "an alias is taken for the launch": (
        _take_an_alias_for_the_launch,
        "ranks",
        "shopt -s expand_aliases\nalias srun='srun -n 1'\nsrun python train.py\n",
    ),
    "the Python that runs an agent's module is lost": (
        _take_the_first_python,
        "words",
        "srun -n 2 /opt/e/bin/python3.8 -m torch.distributed.run --nnodes 2 --nproc_per_node 2 train.py\n",
    ),
    "a value that is set again": (_take_the_first_value, "words", "A=1\nlet A=2\nsrun python train.py --a $A\n"),
}
"""Losses in public scripts: the fault, what differs, and the lines that showed it."""


@pytest.mark.parametrize("site", ["generic", "lumi"])
@pytest.mark.parametrize("name", [*_FAULTS, *_SEEN])
def test_a_planted_fault_is_silent(name: str, site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At another site the account, the module and the folder are asked about: no such row excuses the fault."""
    plant, kind, *lines = _FAULTS[name] if name in _FAULTS else _SEEN[name]
    text = f"{_HEAD}{lines[0]}" if lines else _SCRIPT
    assert _verdict(text, site)[0] != "silent"
    plant(monkeypatch)

    word, found = _verdict(text, site)

    assert word == "silent"
    assert (kind, "") in found


def test_a_launch_that_is_dropped_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    text = _HEAD + "srun python prepare.py\nsrun python train.py\n"
    assert _verdict(text) == ("asked, differs", {("launch", "asked")})
    whole = body.read_commands

    def read_last(chains: list[step.Chain], launch: step.Chain, *rest: object) -> None:
        whole([chain for chain in chains if chain is launch], launch, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(read, "read_commands", read_last)

    assert _verdict(text) == ("silent", {("launch", "")})


@pytest.mark.parametrize(
    ("name", "word"),
    [("$RANDOM", "asked"), ("$(date +%d)", "asked"), ("$$", "asked"), ("$(printf %s%s a b)", "silent")],
)
def test_a_file_of_the_clock_or_of_chance_is_not_compared(name: str, word: str) -> None:
    assert _verdict(f"{_HEAD}touch {name}\nsrun python train.py\n")[0] == word


@pytest.mark.parametrize(("job", "word"), [("exit 3", "no rank"), ("srun python train.py\nexit 3", "ended")])
def test_a_job_that_fails_keeps_its_status(job: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold_ported, "job_script", lambda _: f"{_HEAD}{job}\n")

    ((_, result),) = hold_ported.hold(_HEAD + "srun python train.py\n", ["generic"])

    assert result.word == word
    assert result.why.startswith("status 3:")


@pytest.mark.parametrize(
    "lines",
    [
        "export A=1\nsrun python t.py",
        "A=1\nexport A\nsrun python t.py",
        "A=1 srun python t.py",
        "srun env A=1 python t.py",
        "srun --export=ALL,A=1 python t.py",
        "declare -x A=1\nsrun python t.py",
        "typeset -x A=1\nsrun python t.py",
        "set -a\nA=1\nset +a\nsrun python t.py",
        "set -o allexport\nA=1\nsrun python t.py",
        "srun bash -c 'export A=1; python t.py'",
        "srun bash -c 'A=1 python t.py'",
        "mpirun -np 4 -x A=1 python t.py",
        "srun apptainer exec --env A=1 a.sif python t.py",
    ],
)
def test_a_variable_is_compared_however_it_is_set(lines: str) -> None:
    ran = run_boxed(f"{_HEAD}{lines}\n", traced=True)
    assert [rank["environment"].get("A") for rank in ran.ranks] == ["1"] * 4

    word, found = _verdict(f"{_HEAD}{lines}\n", "generic")

    assert word in {"same", "asked"}, found


def _starts(ran: Outcome) -> list[tuple[int, str]]:
    """Return how many ranks each command of the script started, and their words."""
    runs = started_runs(ran.ranks)
    return [(len(run), shlex.join([run[0]["program"], *run[0]["words"]])) for run in runs]


_STARTED = {
    "deepspeed --num_gpus 2 t.py --deepspeed": (4, "python t.py --local_rank=0 --deepspeed"),
    "deepspeed --no_local_rank --include localhost:0,1 t.py": (4, "python t.py"),
    "accelerate launch --multi_gpu --num_processes 4 --num_machines 1 t.py a": (4, "python t.py a"),
    "mpirun --mca btl tcp -np 3 -x A=1 --bind-to none python t.py": (3, "python t.py"),
    "horovodrun -np 2 python t.py": (2, "python t.py"),
    "python -m torch.distributed.run --standalone --nproc_per_node=2 t.py": (2, "python t.py"),
    "python -m torch.distributed.launch --nproc_per_node 2 t.py x": (2, "python t.py --local_rank=0 x"),
    "python3 -m torch.distributed.launch --use_env --nproc_per_node 2 t.py": (2, "python3 t.py"),
    "torchrun --nnodes 1 --nproc-per-node gpu --no-python ./t x": (2, "./t x"),
    "singularity --quiet exec --nv -B /a:/b --pwd /w a.sif python t.py": (1, "python t.py"),
    "apptainer run a.sif python t.py": (1, "python t.py"),
    "podman run --rm -v /a:/b --device x -w /w image python t.py": (1, "python t.py"),
    "docker run --gpus all -e A=1 image:tag python t.py": (1, "python t.py"),
    "shifter --image=a:b python t.py": (1, "python t.py"),
    "conda run --no-capture-output -n env python t.py": (1, "python t.py"),
    "uv run --with x t.py y": (1, "python t.py y"),
    "uv run accelerate launch --num_processes 2 t.py": (2, "python t.py"),
    "wandb agent me/it/abc": (1, "wandb agent me/it/abc"),
    "srun -l --cpu-bind=none -N1 -n2 --mem 1G numactl -N 0 python t.py": (2, "python t.py"),
    "srun nsys profile -o out -t cuda python t.py": (4, "python t.py"),
    "nohup ./program.x 1": (1, "program.x 1"),
    "bash run.sh 1 2": (1, "run.sh 1 2"),
    "unknown_solver -i in": (1, "unknown_solver -i in"),
}


@pytest.mark.parametrize("command", _STARTED)
def test_a_stub_starts_what_the_program_would(command: str) -> None:
    ran = run_boxed(f"{_HEAD}{command}\n", traced=True, programs=["./program.x", "run.sh"])

    assert _starts(ran) == [_STARTED[command]], ran.said
    assert {rank["line"] for rank in ran.ranks} == {"3"}


def test_a_look_and_a_module_of_python_are_no_ranks() -> None:
    ran = run_boxed(f"{_HEAD}python --version\npython -m pip list\nP=$(python -c 'print(7)')\npython t.py $P\n")

    assert _starts(ran) == [(1, "python t.py 7")]


def test_a_rank_knows_the_line_in_a_function_and_of_its_call() -> None:
    ran = run_boxed(f"{_HEAD}f() {{\n  srun -n 1 python t.py\n}}\n\nf\n", traced=True)

    assert [rank["line"] for rank in ran.ranks] == ["4 7"]


def test_files_and_empty_folders_of_the_job_are_found() -> None:
    ran = run_boxed(f"{_HEAD}cd /far/away\nmkdir -p out/logs\necho x > c.json\nsrun -n 1 python t.py\necho y > end\n")

    assert ran.ranks[0]["files"] == {"/far/away/out/logs/": "", "/far/away/c.json": "x\n"}
    assert ran.files == {**ran.ranks[0]["files"], "/far/away/end": "y\n"}
