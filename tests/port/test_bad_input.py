"""What is no batch script, or a strange one: a sentence or a row, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cli.app import main

_GOOD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=5\nsrun python a.py\n"
_CASES = {
    "document": ("# Notes\nrun srun by hand\n", "job.md", 2, "is a document"),
    "nothing": ("", "job.sh", 2, "neither a batch script"),
    "prose": ("Dear all,\nsee you on Monday.\n", "job.sh", 2, "neither a batch script"),
    "here-document": (
        "#!/bin/bash\nsbatch <<'EOF'\n#!/bin/bash\n#SBATCH -N 2\nsrun python a.py\nEOF\n",
        "job.sh",
        2,
        "sbatch gets the text behind line 2",
    ),
    "no ranks": ("#!/bin/bash\necho hello\n", "job.sh", 2, "starts nothing that has ranks"),
    "csh": ("#!/bin/csh\nsrun python a.py\n", "job.csh", 2, "csh script"),
    "broken": (_GOOD + "if [ x\n", "job.sh", 1, "Muster cannot read this bash"),
    "broken lines": (_GOOD + "echo @(b|c)\n" * 9, "job.sh", 1, "bash, nor lines 6, 7, 8, 9, 10, 11, 12 and 1 more:"),
    "open quote": (_GOOD + 'echo "x\n', "job.sh", 1, "Muster cannot read this bash"),
    "no shebang": (_GOOD.partition("\n")[2], "job.sh", 0, "(no #!)"),
    "windows": (_GOOD.replace("\n", "\r\n"), "job.sh", 0, "Windows line ends"),
    "nested": (_GOOD + "cat <<A\n$(cat <<B\nsrun x\nB\n)\nA\n", "job.sh", 0, "cat"),
    "late": (_GOOD + "#SBATCH --mem=1G\n", "job.sh", 0, "Slurm never read it"),
    "python batch": ("#!/usr/bin/env python\n#SBATCH --nodes=1 --gpus-per-node=2\nimport os\n", "a.py", 0, "python "),
    "python": ("import os\n", "a.py", 2, "a Python script without #SBATCH lines"),
    "a header alone": ("#!/bin/bash\n#SBATCH -N 2\n", "job.sh", 1, "the script starts no ranks"),
    "odd sizes": ("#!/bin/bash\n#SBATCH --nodes=2-x --gres=gpu: --mem=lots -c abc\nsrun python a.py\n", "job.sh", 1, "--mem"),
    "deep": (_GOOD + "x $(" + "(" * 3000 + ")" * 3001 + "\n", "job.sh", 2, "nested too deeply"),
    "huge number": (f"#!/bin/bash\n#SBATCH --nodes={'9' * 400}\nsrun python a.py\n", "job.sh", None, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", _CASES)
@pytest.mark.parametrize("more", [(), ("--site", "lumi"), ("--json",)])
def test_strange_input_ends_in_words(
    name: str, more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, file, status, said = _CASES[name]
    path = tmp_path / file
    path.write_bytes(text.encode())
    found = main(["port", str(path), *more])
    told = "".join(capsys.readouterr())
    assert "Traceback" not in told
    assert found in {0, 1, 2}
    if status is not None and not (more and status < 2):
        assert found == status
        assert said in told


@pytest.mark.parametrize("data", [b"\x7fELF\0\0\0", b"srun \0 x", bytes(range(256)) * 40])
def test_a_binary_is_a_sentence(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.out").write_bytes(data)
    assert main(["port", str(tmp_path / "a.out")]) == 2
    assert "is not text" in capsys.readouterr().err


def test_ten_megabytes_are_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "big.sh").write_text("#!/bin/bash\n" + "srun python x.py\n" * 600_000)
    assert main(["port", str(tmp_path / "big.sh")]) == 2
    assert "not a script that a person wrote" in capsys.readouterr().err


def test_wrong_words_are_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.sh").write_text(_GOOD)
    assert main(["port"]) == 2
    assert main(["port", str(tmp_path / "none.sh")]) == 2
    assert main(["port", str(tmp_path / "job.sh"), "--site", "nosuch"]) == 2
    assert main(["port", str(tmp_path / "job.sh"), "--site", "lumi", "--from", "nosuch"]) == 2
    assert main(["port", str(tmp_path / "job.sh"), "--as", "script"]) == 2
    assert "Traceback" not in "".join(capsys.readouterr())


def test_a_refusal_is_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The partition bench of LUMI is open on request only, and the script names it for LUMI itself."""
    (tmp_path / "job.sh").write_text(_GOOD.replace("--time=5", "--time=5\n#SBATCH --partition=bench"))
    assert main(["port", str(tmp_path / "job.sh"), "--site", "lumi", "--from", "lumi"]) == 1
    assert "the plan refuses it: bench is not open" in capsys.readouterr().err
