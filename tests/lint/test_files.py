"""What is read and what is refused: each bad input is a sentence or a finding, never a traceback."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from muster.cli.app import main
from muster.runner import run
from muster_lint import look
from muster_lint.read import SourceFile
from muster_lint.values import LintFinding

_GOOD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=60\nsrun --kill-on-bad-exit=1 hostname\n"


def _lint(*words: str) -> int:
    return main(["lint", *words])


@pytest.mark.parametrize(
    "variables",
    [
        {"PATH": "/nowhere"},
        {"BASH_ENV": "own.sh"},
        {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "POSIX"},
    ],
)
def test_a_good_script_is_good_in_any_environment(tmp_path: Path, variables: dict[str, str]) -> None:
    (tmp_path / "own.sh").write_text("if\n")
    (tmp_path / "job.sh").write_text(f"{_GOOD}# é\n", encoding="utf-8")
    words = [sys.executable, "-m", "muster", "lint", "job.sh"]
    asked = run(words, env={**os.environ, **variables}, cwd=tmp_path)
    assert (asked.status, asked.stdout) == (0, "nothing was found\n"), asked.stderr


def test_a_good_script_ends_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.sh").write_text(_GOOD)
    assert _lint(str(tmp_path / "job.sh")) == 0
    assert "nothing was found" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("missing.sh", None, "there is no file"),
        ("binary", b"\x7fELF\0\0\0", "is not text"),
        ("large.sh", b"#!/bin/bash\n" + b"# x\n" * 600_000, "MB"),
        ("old.csh", b"#!/bin/csh\nset x = 1\n", "csh"),
        ("notes.md", b"# how to\n\n    sbatch job.sh\n", "document"),
        ("letter.txt", b"Dear all,\n", "neither a batch script"),
    ],
)
def test_what_is_no_script_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes | None, sentence: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert _lint(str(tmp_path / name)) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "\nhint: " in said


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("#!/bin/bash\r\n#SBATCH -N 2 -t 5\r\nsrun -K hostname\r\n", "dos-line-ends"),
        ("#SBATCH -N 2 -t 5\nsrun -K hostname\n", "no-interpreter"),
        ("#!/bin/bash\n#SBATCH -N 2 -t 5\nif true; then\n", "not-bash"),
        ("#!/bin/bash\n#SBATCH -t 5\necho hi\n#SBATCH -N 2\nsrun -K hostname\n", "directive-after-command"),
        ("#!/usr/bin/env python3\n#SBATCH -N 2\nimport os\nos.system('srun hostname'\n", "not-python"),
    ],
)
def test_what_is_broken_is_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, rule: str
) -> None:
    (tmp_path / "job").write_bytes(content.encode())
    assert _lint("--json", str(tmp_path / "job")) == 1
    assert rule in {each["rule"] for each in json.loads(capsys.readouterr().out)}


def test_a_here_document_in_a_here_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = _GOOD + "cat <<A\n$(cat <<B\ninner $SLURM_PROCID\nB\n)\nA\n"
    (tmp_path / "job.sh").write_text(text)
    assert _lint(str(tmp_path / "job.sh")) in {0, 1}
    assert capsys.readouterr().err == ""


def test_the_training_script_is_read_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.sh").write_text(_GOOD.replace("hostname", "python train.py"))
    (tmp_path / "train.py").write_text("import torch\n\nmodel = torch.nn.DataParallel(torch.nn.Linear(1, 1))\n")
    assert _lint("--fail-on", "slow", str(tmp_path / "job.sh")) == 1
    assert "train.py:3:9: slow: one process drives all GPUs" in capsys.readouterr().out


def test_a_reason_silences_a_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = _GOOD.replace("srun --kill-on-bad-exit=1", "srun").replace("hostname", "python train.py").replace("=1", "=2")
    (tmp_path / "job.sh").write_text(bad)
    assert _lint("--fail-on", "fragile", str(tmp_path / "job.sh")) == 1
    marked = bad.replace("srun python", "# muster: ignore[srun-survivors] the program ends all ranks\nsrun python")
    (tmp_path / "job.sh").write_text(marked)
    assert _lint("--fail-on", "fragile", str(tmp_path / "job.sh")) == 0
    capsys.readouterr()
    (tmp_path / "job.sh").write_text(marked.replace(" the program ends all ranks", ""))
    _lint("--json", str(tmp_path / "job.sh"))
    found = json.loads(capsys.readouterr().out)
    assert {each["rule"] for each in found} == {"bad-ignore", "srun-survivors"}
    (tmp_path / "job.sh").write_text(marked.replace("srun-survivors]", "srun-survivor]"))
    _lint(str(tmp_path / "job.sh"))
    assert "there is no rule 'srun-survivor'" in capsys.readouterr().out


def test_the_fix_is_written_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.sh"
    path.write_text(
        "#!/bin/bash\n#SBATCH -N 2 -n 8 -c 8 -t 50\nexport OMP_NUM_THREADS=8 NCCL_DEBUG=WARN\nsrun python train.py\n"
    )
    assert _lint("--fail-on", "fragile", str(path)) == 1
    capsys.readouterr()
    _lint("--fix", str(path))
    shown = capsys.readouterr()
    assert "\nsrun --kill-on-bad-exit=1 python train.py" in path.read_text()
    assert "-srun python train.py" in shown.err


def test_a_site_s_rules_are_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.sh"
    path.write_text(
        _GOOD.replace("--time=60", "--time=9-00:00:00").replace("--nodes=1", "--nodes=1 --partition=standard-g")
    )
    assert _lint("--site", "lumi", str(path)) == 1
    said = capsys.readouterr().out
    assert "[site-time-max]" in said
    assert "standard-g" in said


def test_sarif_names_rule_and_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.sh").write_text(_GOOD.replace("#SBATCH --time", "# SBATCH --time"))
    _lint("--format=sarif", "--select=style", str(tmp_path / "job.sh"))
    run = json.loads(capsys.readouterr().out)["runs"][0]
    ids = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} <= ids
    assert run["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1


def test_rules_are_listed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert _lint("--rules") == 0
    assert "port-fixed" in capsys.readouterr().out
    assert _lint("--rules", "port-fixed") == 0
    assert "source: " in capsys.readouterr().out
    assert _lint("--rules", "port-fixd") == 2
    assert "port-fixed" in capsys.readouterr().err


def test_a_python_script_needs_no_reader_of_bash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (tmp_path / "a.py").write_text("print(1)\n")
    (tmp_path / "job.sh").write_text(_GOOD)
    assert _lint(str(tmp_path / "a.py")) == 0
    assert _lint(str(tmp_path / "job.sh")) == 2
    assert "-m pip install tree-sitter tree-sitter-bash" in capsys.readouterr().err


@pytest.mark.parametrize(("machine", "compiled"), [("x86_64", False), ("aarch64", False), ("ppc64le", True)])
def test_where_there_is_no_wheel_the_reader_of_bash_is_compiled(
    machine: str, compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    system = os.uname()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("os.uname", lambda: os.uname_result((*system[:4], machine)))
    (tmp_path / "job.sh").write_text(_GOOD)
    assert _lint(str(tmp_path / "job.sh")) == 2
    assert ("needs a C compiler" in capsys.readouterr().err) is compiled


def test_a_fault_of_a_rule_hides_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = tmp_path / "bad.sh", tmp_path / "good.sh"
    good.write_text("#!/bin/bash\n#SBATCH -t a:b\ndate\n")
    bad.write_text("#!/bin/bash\n#SBATCH --time=60\n# trip\ndate\n")
    judge = look.lint_source

    def trip(source: SourceFile, *more: object) -> list[LintFinding]:
        if "trip" in source.text:
            raise IndexError("no such word")
        return judge(source, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(look, "lint_source", trip)
    result = look.lint_files([str(bad), str(good)])
    assert [each.path for each in result.unread] == [str(bad)]
    assert "a bug in Muster: IndexError: no such word" in result.unread[0].message
    assert [each.rule for each in result.findings] == ["directive-value"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("pl.Trainer(devices=4, num_nodes=2)", ""),
        (
            "pl.Trainer(devices=2, num_nodes=2)",
            "train.py tells Lightning 2 GPUs, and a node starts it 4 times for 4 GPUs",
        ),
        ("pl.Trainer(devices=4, num_nodes=3)", "train.py tells Lightning 3 nodes, and the job has 2"),
        ("pl.Trainer(devices=-1, num_nodes=NODES)", ""),
        ("other.Trainer(devices=2)", ""),
        ("pl.Trainer(devices=2", ""),
    ],
)
def test_the_numbers_in_a_script_beside_the_job_are_compared(tmp_path: Path, call: str, message: str) -> None:
    (tmp_path / "train.py").write_text(f"import pytorch_lightning as pl\nimport other\ntrainer = {call}\n")
    job = tmp_path / "job.sh"
    header = "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n#SBATCH --time=60\n"
    job.write_text(f"#!/bin/bash\n{header}srun -K python train.py\n")
    found = [each.message for each in look.lint_files([str(job)]).findings if each.rule == "size-told-differs"]
    assert [each.partition(" (not")[0] for each in found] == [message] * bool(message)
