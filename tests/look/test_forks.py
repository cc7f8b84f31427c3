"""Guards that a script whose data loaders fork is told of before the start, where the network's card forbids it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from muster.cli.app import main
from muster.look.forks import forking_loaders
from muster.look.sources import imported_modules
from muster_lab.rehearse.source import insists

FORKING = """\
from torch.utils.data import DataLoader

loader = DataLoader(data, batch_size=4, num_workers=args.workers)
import torch.distributed
"""
MENDED = """\
if __name__ == "__main__":
    import torch.multiprocessing
    torch.multiprocessing.set_start_method("forkserver")
"""
LUMI = ("--site", "lumi", "-A", "project_465000000", "-t", "10", "-p", "small-g")


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "train.py"
    file.write_text(FORKING)
    return file


@pytest.mark.parametrize(
    ("words", "forks"),
    [
        ("num_workers=4", True),
        ("num_workers=args.workers", True),
        ("num_workers=4, multiprocessing_context=None", True),
        ("num_workers=4, multiprocessing_context='fork'", True),
        ("num_workers=4, multiprocessing_context='spawn'", False),
        ("num_workers=4, multiprocessing_context=context", False),
        ("num_workers=0", False),
        ("batch_size=4", False),
        ("num_workers=4, **options", False),
        ("**options", False),
    ],
)
def test_only_what_the_source_says_is_claimed(script: Path, words: str, *, forks: bool) -> None:
    for name in ("DataLoader", "torch.utils.data.DataLoader"):
        script.write_text(f"loader = {name}(data, {words})\n")
        assert bool(forking_loaders(script)) == forks


def test_a_start_method_chosen_anywhere_in_the_project_mends_it(script: Path) -> None:
    assert forking_loaders(script) == ["train.py, line 3: DataLoader(num_workers=args.workers)"]
    script.write_text(FORKING + MENDED)
    assert forking_loaders(script) == []
    script.write_text(FORKING + MENDED.replace("forkserver", "fork"))
    assert len(forking_loaders(script)) == 1


def test_modules_beside_the_script_are_read_too(script: Path) -> None:
    script.write_text("from project.data import loader\nimport torch, numpy, broken, missing\n")
    (script.parent / "project").mkdir()
    (script.parent / "project/data.py").write_text("import train\n" + FORKING)
    (script.parent / "broken.py").write_text("def (:\n")
    assert forking_loaders(script) == ["project/data.py, line 4: DataLoader(num_workers=args.workers)"]
    assert forking_loaders(script.parent / "nothing.py") == []


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["plan", *words, "--", "python", "train.py"]) == 0
    return capsys.readouterr().err


@pytest.mark.usefixtures("script")
def test_it_is_said_before_the_start_where_the_fabric_is_slingshot(capsys: pytest.CaptureFixture[str]) -> None:
    said = told(capsys, *LUMI)
    assert "warning: train.py, line 3: DataLoader(num_workers=args.workers): its workers are forked" in said
    assert "\n\nhint: two lines fix it" in said
    assert "torch.multiprocessing.set_start_method('forkserver')" in said
    assert "the script unchanged: --workload fork" in said

    assert "forked" not in told(capsys, *LUMI, "--workload", "fork"), "the profile's environment was asked for"
    assert "forked" not in told(capsys, "--site", "snellius", "-t", "10"), "InfiniBand's cards may meet a fork"


def test_a_script_that_is_mended_is_passed_in_silence(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.write_text(FORKING + MENDED)
    assert "forked" not in told(capsys, *LUMI)


@pytest.mark.parametrize("workers", ["1 + " * 2000 + "1", "-" * 20_000 + "1", "a" + ".b" * 6000])
def test_of_a_script_too_deep_to_be_read_nothing_is_known(
    script: Path, workers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script.write_text(FORKING.replace("args.workers", workers))
    assert "train.py" not in told(capsys, *LUMI)
    assert insists(FORKING.replace("args.workers", workers)) == ()


def test_an_import_of_a_neighbour_has_no_name_of_a_module() -> None:
    assert list(imported_modules(ast.parse("from . import a\nimport b.c\nfrom d import e\n"))) == ["b.c", "d"]
