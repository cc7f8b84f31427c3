"""Which known name is offered for one that is not known."""

from __future__ import annotations

import pytest

from muster.errors import nearest_hint, nearest_name


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [("hor", "HoreKa"), ("lumy", "lumi"), ("le", "leonardo"), ("l", None), ("", None), ("zzzz", None)],
)
def test_a_name_that_begins_like_one_or_is_close_is_offered(typed: str, nearest: str | None) -> None:
    assert nearest_name(typed, ["HoreKa", "lumi", "leonardo"]) == nearest


def test_one_letter_is_no_sign_of_a_name() -> None:
    assert nearest_name("h", ["HoreKa", "lumi"]) is None
    assert nearest_hint("h", ["HoreKa", "lumi"]) == "known: HoreKa, lumi"
    assert nearest_hint("h", []) == "there are none"
