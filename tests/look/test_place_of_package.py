"""Guards where the ranks' library is found, by a number of the place in which Muster lies; and who asks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

from muster.look import probe


def test_a_place_that_the_locale_cannot_read_has_the_same_number(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for place in ("/opt/ü/muster", "/opt/\udcc3\udcbc/muster"):  # under LC_ALL=POSIX Python has the bytes as they are
        monkeypatch.setattr(probe, "_PACKAGE", Path(place))
        found.append(probe._rank_library({}, "/home/ann"))
    assert found[0] == found[1]
    assert found[0].startswith("/home/ann/.local/share/muster/rank-library/")


def test_a_user_whom_nobody_lists_has_a_number_and_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nobody(uid: int) -> NoReturn:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr("pwd.getpwuid", find_nobody)
    facts = probe.look({"PATH": "/usr/bin:/bin"})
    assert (facts.user, facts.home) == (str(os.getuid()), "/")
    assert probe.look({"HOME": "/scratch/me"}).home == "/scratch/me"
