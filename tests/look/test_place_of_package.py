"""Guards where the ranks' library is found: its folder has a number of the place in which Muster lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.look import probe


def test_a_place_that_the_locale_cannot_read_has_the_same_number(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for place in ("/opt/ü/muster", "/opt/\udcc3\udcbc/muster"):  # under LC_ALL=POSIX Python has the bytes as they are
        monkeypatch.setattr(probe, "_PACKAGE", Path(place))
        found.append(probe._rank_library({}, "/home/ann"))
    assert found[0] == found[1]
    assert found[0].startswith("/home/ann/.local/share/muster/rank-library/")
