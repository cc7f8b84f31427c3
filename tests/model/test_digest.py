"""Guards that a digest follows what a launch does, and nothing that is said about it."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from launch.plans import plan
from muster.model.digest import DIGESTED, LEFT_OUT, digest_of
from muster.model.plan import Note, Plan, Reason, Shape
from muster.model.words import Fragment, Hidden, Template


def test_every_field_of_the_plan_counts_or_is_left_out_for_a_reason() -> None:
    names = {field.name for field in msgspec.structs.fields(Plan)}

    assert set(DIGESTED) | set(LEFT_OUT) == names
    assert not set(DIGESTED) & set(LEFT_OUT)
    assert len(set(DIGESTED)) == len(DIGESTED)
    assert all(LEFT_OUT.values())


def test_words_of_the_user_are_never_cut() -> None:
    """They were where they held the text of an unused field: the second job was taken for the first."""
    one = plan("-N", "2", "--", "python", "t.py", "--cfg", "lr=1")
    other = plan("-N", "2", "--", "python", "t.py", "--cfg", "lr=1, finish=None")

    assert digest_of(one) != digest_of(other)


def test_another_spelling_of_the_same_launch_has_the_same_digest() -> None:
    assert digest_of(plan("-N", "2", "--", "x")) == digest_of(plan("--nodes=2", "--", "x"))


@pytest.mark.parametrize(
    "changed",
    [
        lambda made: replace(made, notes=(Note("by night"),)),
        lambda made: replace(made, launcher_reason=Reason("because")),
        lambda made: replace(made, shape=replace(made.shape, reasons=(("nodes", Reason("other words")),))),
        lambda made: replace(
            made, directives=tuple(replace(each, reason=Reason("other words")) for each in made.directives)
        ),
    ],
)
def test_what_is_said_about_a_launch_is_no_part_of_it(changed) -> None:  # type: ignore[no-untyped-def]
    made = plan("-N", "2", "--", "x")

    assert digest_of(changed(made)) == digest_of(made)


_OTHERS = {
    "command": ("y",),
    "version": "9",
    "working_directory": "/other",
    "cpu_flags": ("avx512f",),
    "may_be_alone": True,
    "grace_s": 77,
    "visibility": "one",
    "python": "python9",
}


@pytest.mark.parametrize("field", _OTHERS)
def test_another_value_is_another_launch(field: str) -> None:
    made = plan("-N", "2", "--", "x")

    assert digest_of(replace(made, **{field: _OTHERS[field]})) != digest_of(made)


def test_a_text_is_no_template_and_no_fragment_of_the_same_letters() -> None:
    made = plan("-N", "2", "--", "x")
    words = ("{job_id}", Fragment("{job_id}"), Template("{job_id}"), Hidden("{job_id}"))

    assert len({digest_of(replace(made, command=(word,))) for word in words}) == len(words)


def test_a_hidden_value_is_in_no_digest() -> None:
    made = plan("-N", "2", "--", "x")

    assert digest_of(replace(made, command=(Hidden("a"),))) == digest_of(replace(made, command=(Hidden("b"),)))


def test_a_new_field_of_a_part_changes_no_digest_while_it_has_its_default() -> None:
    class NewShape(Shape, frozen=True):
        sockets: int = 2

    NewShape.__name__ = "Shape"
    made = plan("-N", "2", "--", "x")
    values = msgspec.structs.asdict(made.shape)

    assert digest_of(replace(made, shape=NewShape(**values))) == digest_of(made)
    assert digest_of(replace(made, shape=NewShape(**values, sockets=4))) != digest_of(made)
