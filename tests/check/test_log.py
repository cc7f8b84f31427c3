"""A log of any kind and size: the first cause is named with its line and rank, and nothing else is needed."""

from __future__ import annotations

import io
import json
import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from muster.check.log import read_log

MUSTER = [sys.executable, "-m", "muster", "check", "--log"]
ECC = b"torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered"
WATCHDOG = b"[rank0]: [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1) ran for 600061 ms"


def told(path: Path | str, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*MUSTER, str(path), *words], input=given, capture_output=True, timeout=60, check=False)


def test_the_first_cause_is_named_with_line_rank_and_remedy(tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    log.write_bytes(b"0: epoch 1\n1: " + WATCHDOG + b"\n3: " + ECC + b"\n2: " + WATCHDOG + b"\n")
    done = told(log)
    assert done.returncode == 1
    first, where, hint = done.stdout.decode().splitlines()[:3]
    assert first == "first: the GPU's memory is faulty"
    assert where.strip().startswith("line 3, rank 3: torch.AcceleratorError")
    assert "leave the node out (--exclude)" in hint
    assert b"after it: a collective did not end in time" in done.stdout


def test_json_has_the_documented_keys(tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    log.write_bytes(ECC + b"\n")
    document = json.loads(told(log, "--json").stdout)
    assert set(document) == {"lines", "causes", "transports", "findings"}
    assert document["causes"][0]["id"] == "cuda-ecc"
    assert document["causes"][0]["source"]


def test_a_log_without_a_known_error_says_so(tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    log.write_text("all is well\n")
    done = told(log)
    assert done.returncode == 0
    assert done.stdout.startswith(b"none of 1")


def test_standard_input_is_read() -> None:
    assert told("-", given=ECC + b"\n").returncode == 1


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 0),
        (bytes(range(256)) * 1000, 0),
        (bytes(range(256)) * 1000 + b"\n" + ECC + b"\n", 1),
        (b"\x1b[31m" + ECC + b"\x1b[0m\r\n", 1),
        (b"x" * 3_000_000 + b"\n" + ECC, 1),
        ("Schleife über Größen: \udcff".encode(errors="surrogateescape") + b"\n" + ECC, 1),
        (ECC.replace(b" ", b"\r"), 0),
    ],
    ids=["empty", "binary", "binary-and-an-error", "colours", "one-long-line", "not-utf8", "progress-bars"],
)
def test_whatever_a_log_holds_it_is_read(tmp_path: Path, content: bytes, status: int) -> None:
    log = tmp_path / "out.log"
    log.write_bytes(content)
    done = told(log)
    assert done.returncode == status, done.stderr
    assert b"Traceback" not in done.stderr
    assert not any(byte < 32 for byte in done.stdout.replace(b"\n", b"")), "no control character reaches the terminal"


@pytest.mark.parametrize(("name", "says"), [("missing.log", b"No such file"), (".", b"Is a directory")])
def test_what_is_no_file_is_refused_with_a_hint(tmp_path: Path, name: str, says: bytes) -> None:
    done = told(tmp_path / name)
    assert done.returncode == 2
    assert says in done.stderr
    assert b"hint: " in done.stderr


def test_an_option_of_a_run_beside_a_log_is_refused(tmp_path: Path) -> None:
    done = told(tmp_path / "x", "-N", "2")
    assert done.returncode == 2


def test_memory_is_bounded_whatever_the_size(tmp_path: Path) -> None:
    """A sparse gigabyte, and the error behind it: read with less memory than the file has."""
    log = tmp_path / "out.log"
    with log.open("wb") as file:
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + ECC + b"\n")
    done = subprocess.run(
        [*MUSTER, str(log)],
        capture_output=True,
        timeout=300,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20)),
    )
    assert done.returncode == 1, done.stderr
    assert b"the GPU's memory is faulty" in done.stdout


def test_an_error_across_the_border_of_two_pieces_is_found() -> None:
    for around in range(1, 120):
        filling = b"x" * ((1 << 20) - around) + b"\n" if around > 1 else b""
        assert read_log(io.BytesIO(filling + ECC + b"\n")).causes


def test_a_thousand_ranks_that_complain_are_one_line() -> None:
    lines = [b"%d: %s" % (rank, WATCHDOG) for rank in range(1024)]
    random.Random(4).shuffle(lines)  # noqa: S311
    report = read_log([*lines, b"7: " + ECC])
    assert [each.signature.id for each in report.causes] == ["cuda-ecc", "torch-watchdog"]
    assert "1000+ times" in "\n".join(report.lines())
