"""Known errors: each matches the line it was read from, not its neighbour, and says where it was read."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from muster.follow.known_causes import read_log
from muster.follow.signatures import Signature, signatures

ROOT = Path(__file__).resolve().parents[2]
ALL = signatures()
_PARSER: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")


def test_there_are_many_and_each_has_a_name_of_its_own() -> None:
    assert len(ALL) >= 80
    assert [name for name, times in Counter(each.id for each in ALL).items() if times > 1] == []
    families = {each.family for each in ALL}
    assert families >= {"NCCL", "CUDA", "ROCm", "Slurm", "Apptainer", "torch"}


@pytest.mark.parametrize("signature", ALL, ids=lambda each: each.id)
def test_it_matches_its_line_and_not_the_one_that_is_like_it(signature: Signature) -> None:
    assert signature.expression.search(signature.line)
    assert not signature.expression.search(signature.miss)
    assert signature.source.startswith("https://") or re.search(r"\d", signature.source), "an address, or a version"
    assert signature.cause
    assert signature.remedy


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("RuntimeError: CUDA error: out of memory", "torch-oom"),
        ("torch.AcceleratorError: CUDA error: out of memory", "torch-oom"),
    ],
)
def test_another_spelling_of_the_line_is_known(line: str, name: str) -> None:
    (cause,) = read_log([line.encode()]).causes
    assert cause.signature.id == name


@pytest.mark.parametrize("signature", ALL, ids=lambda each: each.id)
def test_a_log_with_that_line_alone_is_explained(signature: Signature) -> None:
    report = read_log([b"epoch 1", signature.line.encode(), b"epoch 2"])
    cause = report.causes[0]
    assert cause.line == 2
    # torch writes the second inside the first: either is right.
    assert cause.signature.id == {"torch-watchdog-thread": "torch-watchdog"}.get(signature.id, signature.id)


@pytest.mark.parametrize("signature", ALL, ids=lambda each: each.id)
def test_nothing_matches_without_one_of_its_words(signature: Signature) -> None:
    """The words are looked for first, so a pattern that could do without them would be passed over."""
    assert all(len(word) > 7 for word in signature.any_of), "short words are in every log"
    for word in signature.any_of:
        without = signature.line.replace(word, word[::-1])
        if all(other not in without for other in signature.any_of):
            assert not signature.expression.search(without)


@pytest.mark.parametrize("signature", ALL, ids=lambda each: each.id)
def test_a_hostile_line_costs_no_more_than_its_length(signature: Signature) -> None:
    """No repetition of a repetition: such a pattern takes for ever on a line that nearly matches."""
    assert not _repeats_a_repetition(_PARSER.parse(signature.pattern))


def _repeats_a_repetition(parsed: Any, *, inside: bool = False) -> bool:
    for kind, value in parsed:
        repeats = str(kind) in {"MAX_REPEAT", "MIN_REPEAT"} and value[1] > 1
        if repeats and inside:
            return True
        parts: dict[str, Any] = {
            "MAX_REPEAT": lambda value: [value[2]],
            "MIN_REPEAT": lambda value: [value[2]],
            "SUBPATTERN": lambda value: [value[3]],
            "BRANCH": lambda value: value[1],
        }
        within = parts.get(str(kind), lambda _: [])(value)
        if any(_repeats_a_repetition(part, inside=inside or repeats) for part in within):
            return True
    return False


def test_a_consequence_stands_behind_a_cause_that_comes_later() -> None:
    echo = next(each for each in ALL if each.id == "torch-watchdog")
    cause = next(each for each in ALL if each.id == "cuda-ecc")
    report = read_log([echo.line.encode(), cause.line.encode()])
    assert [each.signature.id for each in report.causes] == ["cuda-ecc", "torch-watchdog"]


def test_the_page_is_what_the_data_says() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts/make_known_errors.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
