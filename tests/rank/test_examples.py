"""Guards that each example runs copied out alone, on one process and on several, with the same result."""

from __future__ import annotations

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .ranks import Ended, together, torch_variables

pytestmark = pytest.mark.torch

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))


def run_program(program: Path, *words: str) -> Callable[[], None]:
    """A body for `together`: the program, in a process that has imported torch already."""

    def body() -> None:
        sys.argv = [str(program), *words]
        runpy.run_path(str(program), run_name="__main__")

    return body


def ended_well(ended: list[Ended]) -> str:
    assert [one.status for one in ended] == [0] * len(ended), "\n".join(one.err for one in ended)
    assert all(not one.out for one in ended[1:]), "only rank 0 prints"
    return ended[0].out


def weights_of(file: Path) -> dict[str, Any]:
    import torch

    return dict(torch.load(file))


def largest_difference(one: Path, other: Path) -> float:
    ours, theirs = weights_of(one), weights_of(other)
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


def losses(said: str) -> list[float]:
    return [float(number) for number in re.findall(r"loss ([0-9.]+)", said)]


@pytest.fixture
def needs_digits() -> None:
    pytest.importorskip("sklearn.datasets")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.name))
def test_an_example_says_what_it_is_and_where_your_own_goes(program: Path) -> None:
    text = program.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert "our own" in text.partition('"""')[2]


def test_the_script_of_the_demo_knows_nothing_of_muster() -> None:
    tree = ast.parse((EXAMPLES / "train_env.py").read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(name.startswith("muster") for name in imported)


@pytest.mark.usefixtures("needs_digits")
def test_four_ranks_end_with_the_weights_of_one_process(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    shutil.copy(EXAMPLES / "train_env.py", program)
    one, four = tmp_path / "one.pt", tmp_path / "four.pt"
    alone = ended_well(together(1, run_program(program, "--out", str(one)), environment=lambda rank, size: {}))
    ranks = ended_well(together(4, run_program(program, "--out", str(four)), timeout_s=120))
    assert largest_difference(one, four) < 1e-5
    assert losses(alone) == losses(ranks)
    assert losses(alone)[-1] < losses(alone)[0] / 5


@pytest.mark.usefixtures("needs_digits")
def test_without_the_all_reduce_the_weights_differ(tmp_path: Path) -> None:
    """The comparison would notice: each rank trains for itself, and rank 0's weights are not the whole batch's."""
    text = (EXAMPLES / "train_env.py").read_text()
    broken = re.sub(r"model = DistributedDataParallel\(.*\)", "pass", text)
    assert broken != text
    program = tmp_path / "train.py"
    program.write_text(broken)
    one, two = tmp_path / "one.pt", tmp_path / "two.pt"
    ended_well(together(1, run_program(program, "--out", str(one)), environment=lambda rank, size: {}))
    ended_well(together(2, run_program(program, "--out", str(two)), timeout_s=120))
    assert largest_difference(one, two) > 1e-3


@pytest.mark.usefixtures("needs_digits")
def test_a_batch_that_cannot_be_shared_is_refused() -> None:
    ended = together(3, run_program(EXAMPLES / "train_env.py"))
    assert all(one.status == 1 and "cannot be shared by 3 ranks" in one.err for one in ended)


@pytest.mark.usefixtures("needs_digits")
def test_the_library_trains_as_one_process_does(tmp_path: Path) -> None:
    single = subprocess.run(
        [sys.executable, str(EXAMPLES / "train_single.py")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert losses(single.stdout)[-1] < losses(single.stdout)[0]
    one, two = tmp_path / "one.pt", tmp_path / "two.pt"
    program = EXAMPLES / "train_ddp.py"
    alone = ended_well(together(1, run_program(program, "--out", str(one)), environment=lambda rank, size: {}))
    ranks = ended_well(together(2, run_program(program, "--out", str(two)), timeout_s=120))
    assert losses(alone) == pytest.approx(losses(ranks), abs=2e-3)
    assert largest_difference(one, two) < 1e-3  # single precision: sums are taken in another order


def test_hello_and_pi_from_three_ranks() -> None:
    assert "every rank was heard (ranks: 3, hosts: 1)" in ended_well(together(3, run_program(EXAMPLES / "hello.py")))
    said = ended_well(together(3, run_program(EXAMPLES / "pi.py", "--slices", "1000003"), environment=torch_variables))
    assert "pi is about 3.14159265" in said
