"""Every error ends in one sentence, a hint and a status, by its kind."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from muster.cli.app import _explain
from muster.errors import MachineLacks, MusterError, RequestError, SchedulerSilent, SiteError


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (RequestError("no", hint="do"), 2, "muster: error: no\n\nhint: do\n"),
        (MusterError("no", hint="do"), 2, "muster: error: no\n\nhint: do\n"),
        (SiteError("no", hint="do"), 3, "muster: error: no\n\nhint: do\n"),
        (SchedulerSilent("no", hint="do"), 3, "muster: error: no\n\nhint: do\n"),
        (MachineLacks("x", "no", hint="do"), 2, "muster: error: no\n\nhint: do\n"),
        (OSError(errno.ENOSPC, "x", "/f"), 2, "no space is left to write /f"),
        (OSError(errno.ENOSPC, "x"), 2, "no space is left to write the output"),
        (OSError(errno.EBADF, "x"), 2, "the standard output is closed"),
        (OSError(errno.EBADF, "bad", "/f"), 2, "muster: error: /f: bad"),
        (FileNotFoundError(errno.ENOENT, "is not there", "/f"), 2, "muster: error: /f: is not there"),
        (PermissionError(errno.EACCES, "denied", "/" + "f" * 300), 2, "f: denied"),
        (OSError(errno.EIO, "input"), 70, "OSError"),
        (ValueError("bad"), 70, "ValueError"),
    ],
)
def test_an_error_is_a_sentence_and_a_status(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    error: Exception,
    status: int,
    says: str,
) -> None:
    monkeypatch.delenv("MUSTER_TRACEBACK", raising=False)
    with pytest.raises(type(error)) as raised:
        raise error

    with (tmp_path / "output").open("w") as output:  # it is replaced where it has no space
        monkeypatch.setattr("sys.stdout", output)
        assert _explain(raised.value) == status
    assert says in capfd.readouterr().err


def test_a_file_that_cannot_be_used_has_its_traceback_where_it_is_asked_for(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_TRACEBACK", "1")
    with pytest.raises(PermissionError) as raised:
        raise PermissionError(errno.EACCES, "denied", "/f")

    assert _explain(raised.value) == 70
    assert "Traceback" in capfd.readouterr().err
