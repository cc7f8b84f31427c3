"""What the watch says of ranks that stand: as a hang, or as ranks that may still go on; without ranks."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from muster.errors import SchedulerSilent
from muster.follow.hang_report import HANG_REPORT
from muster_check.stacks import hung
from muster_check.stacks.hung import Ranks, Watched
from muster_check.stacks.quiet import Standstill
from stacks.test_move import _OWN, _REDUCE, _look

_LOCK = {"waits": "futex_do_wait"}
_PIPE = {"waits": "pipe_read"}


def _answer(looks: range, other: dict[str, str], *, waits: bool) -> str:
    first = _REDUCE if waits else _OWN
    return "".join(
        f"@node 0 node1 {place} {100 + 10 * number}.0\n"
        f"{_look(number, first, held=1)}{_look(number, _OWN, rank=1, held=1, **other)}@done 0\n"  # type: ignore[arg-type]
        for place, number in enumerate(looks, 1)
    )


@pytest.mark.parametrize(
    ("other", "waits", "beside_output", "words"),
    [
        (_LOCK, True, False, "hang: no rank has gone on for 20 s: rank 1 on node1 waits for a lock"),
        (_PIPE, True, False, "quiet: no rank has gone on for 20 s: rank 1 on node1 waits at a pipe"),
        (_PIPE, True, True, "quiet: no rank has gone on for 20 s: rank 1 on node1 waits at a pipe"),
        (_PIPE, False, False, "quiet: no rank has gone on for 20 s: ranks 0-1 on node1"),
        (_PIPE, False, True, ""),  # lines still come, and nobody waits for it
    ],
)
def test_what_is_said_of_ranks_that_stand(
    other: dict[str, str],
    waits: bool,
    beside_output: bool,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [_answer(looks, other, waits=waits) for looks in (range(1), range(1, 5), range(5, 9))]
    monkeypatch.setattr(hung, "ask_here", lambda *_: _answer(range(3), other, waits=waits))
    monkeypatch.setattr(hung, "ask_job", lambda *_: answers.pop(0))
    said: list[str] = []
    ranks = Ranks(Watched("7", ("node1",), tmp_path, 20, said.append, beside_output), {})

    assert ranks.look(0, 20) == Standstill()
    found = ranks.look(1, 20)

    assert (said[:1] or [""])[0][: len(words) or None] == words
    assert (found is None) is (not words)
    assert (tmp_path / HANG_REPORT).exists() is bool(words)
    assert ("quiet: the ranks may still go on by themselves" in said) is words.startswith("quiet")
    if found is not None:
        assert found.ends_after_s == (20 if words.startswith("hang") else 300)
        later = ranks.look(2, 300)
        assert later is not None, "the look before it stopped the ranks, which is no sign of life"
        assert later.ends_after_s == found.ends_after_s


@pytest.mark.parametrize("is_alone", [True, False])
def test_what_cannot_be_seen_of_a_silent_job_is_said_once(
    is_alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch of `sleep` said nothing at all."""
    rank = "" if is_alone else _look(0, _OWN)
    program = f"@program {1 - is_alone} 2 node1 sleep\n"
    monkeypatch.setattr(hung, "ask_here", lambda *_: f"@node 0 node1 1 100.0\n{program}@done 0\n")
    monkeypatch.setattr(hung, "ask_job", lambda *_: f"@node 0 node1 1 100.0\n{rank}{program}@done 0\n")
    said: list[str] = []
    ranks = Ranks(Watched("7", ("node1",), tmp_path, 20, said.append), {})

    assert ranks.look(0, 20) == Standstill()
    found = ranks.look(1, 20)

    assert found is not None
    assert found.ends_after_s == inf
    sentence = "runs sleep, which is not Python: whether its work goes on cannot be seen"
    assert said[0].startswith("quiet: nothing was written for 20 s: ")
    assert said[0].endswith(sentence)
    assert sentence in (tmp_path / HANG_REPORT).read_text()
    ranks.look(2, 40)
    assert sum(sentence in line for line in said) == 1


def test_ranks_that_cannot_be_looked_at_end_no_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise SchedulerSilent("srun does not answer")

    monkeypatch.setattr(hung, "ask_here", refuse)
    monkeypatch.setattr(hung, "ask_job", refuse)
    ranks = Ranks(Watched("7", ("node1",), tmp_path, 20, lambda _: None), {})

    assert ranks.look(0, 20) == Standstill()
    found = ranks.look(1, 20)

    assert found is not None
    assert found.ends_after_s == inf
    assert "but the ranks cannot be looked at: srun does not answer" in found.sentence
