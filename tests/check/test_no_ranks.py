"""What a launch that brought no ranks says of itself is read by a table; the first thing that explains it counts."""

from __future__ import annotations

from typing import Any

import pytest

from muster.errors import RequestError, SiteError
from muster_check.job import _of_launch

_REFUSED = "muster: error: no such partition\n\nhint: muster queues\n"
_OTHER = "muster: error: also this\n"
_AWAY = "python: can't open file '/w/muster-runs/check-1.pyz': [Errno 2] No such file or directory\n"
_TASK = "srun: error: n2: task 3: Exited with exit code 2\nsrun: error: n1: tasks 0-1: Exited with exit code 2\n"
_UNREACHED = "srun: error: Task launch for StepId=7.0 failed on node n3: Communication connection failure\n"


@pytest.mark.parametrize(
    ("text", "status", "kind"),
    [
        (_REFUSED, 2, RequestError),
        (_REFUSED, 3, SiteError),
        (_REFUSED, 1, None),
        (_REFUSED + _OTHER, 2, None),
        (_REFUSED + "srun: error: x\n", 2, None),
        (_REFUSED + "muster: rank 1 ended\n", 2, None),
    ],
)
def test_one_refusal_is_the_verbs_own(text: str, status: int, kind: type[Exception] | None) -> None:
    if kind is None:
        findings = _of_launch(text, status, (), in_time=True)
        assert (findings[0].what, findings[0].evidence, findings[0].remedy) == (
            "start",
            "no such partition",
            "muster queues",
        )
        return
    with pytest.raises(kind, match="no such partition"):
        _of_launch(text, status, (), in_time=True)


@pytest.mark.parametrize(
    ("text", "what", "evidence", "hosts"),
    [
        (_AWAY, "shared directory", "the working directory is another one, or not there, on a node", ()),
        (_AWAY + _TASK, "shared directory", "the working directory is another one, or not there, on n1, n2",
         ("n1", "n2")),
        (_UNREACHED, "meeting", "Slurm could not start the ranks of n3: communication connection failure", ("n3",)),
        (_OTHER + _AWAY, "start", "also this", ()),
        ("a\n\nb\nsrun: error: c\n", "start", "the launch ended with status 1: b", ()),
        ("b\nmuster: first: rank 0 on n1: exit status 1\n", "start", "the launch ended with status 1: b", ()),
        ("srun: error: c\n", "start", "the launch ended with status 1: srun: error: c", ()),
        ("", "start", "the launch ended with status 1: ", ()),
    ],
)  # fmt: skip
def test_what_explains_a_launch_without_ranks(text: str, what: str, evidence: str, hosts: tuple[str, ...]) -> None:
    (finding,) = _of_launch(text, 1, (), in_time=True)

    assert (finding.what, finding.evidence, tuple(finding.hosts)) == (what, evidence, hosts)


def test_a_launch_that_brought_ranks_says_nothing_of_itself_and_one_without_a_word_says_how_long() -> None:
    documents: Any = ({},)

    assert _of_launch(_REFUSED, 2, documents, in_time=True) == []
    (finding,) = _of_launch("", 0, (), in_time=False)
    assert finding.evidence.startswith("the launch said nothing for ")
    (finding,) = _of_launch(_OTHER, 1, (), in_time=True)
    assert finding.remedy == "see above"
