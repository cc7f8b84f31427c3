"""Settings run things as you: only your own and root's are read, up to the project's top, and what is read is said."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.act.preflight import _check_file
from muster.act.rank_library import make_rank_library
from muster.errors import RequestError
from muster.ownership import Trust, nearest
from muster.runner import ProgramResult
from muster.sites.heads import heads_in
from plugins.forked import run_muster

OTHER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="by design: only root gives files away")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory of mine in one of mine."""
    folder = tmp_path / "project" / "deep"
    folder.mkdir(parents=True)
    for each in (tmp_path, folder.parent, folder):
        each.chmod(0o755)
    return folder


@pytest.fixture
def muster(project: Path) -> Callable[..., ProgramResult]:
    """`muster` typed in the project, by somebody whose home holds nothing."""

    def start(*words: str, **more: str) -> ProgramResult:
        environment = {**os.environ, "HOME": str(project.parent / "home"), **more}
        environment.pop("XDG_CONFIG_HOME", None)
        return run_muster(words, cwd=project, env=environment)

    return start


def _settings(folder: Path, evil: Path) -> Path:
    file = folder / "muster.toml"
    file.write_text(f'node-prologue = "touch {evil}"\n')
    file.chmod(0o644)
    return file


_LAUNCH = ("run", "--here", "--", "true")


def _open_to_all(file: Path) -> None:
    file.parent.chmod(0o1777)


def _file_of_another(file: Path) -> None:
    os.chown(file, OTHER, OTHER)


def _directory_of_another(file: Path) -> None:
    os.chown(file.parent, OTHER, OTHER)


def _written_by_all(file: Path) -> None:
    file.chmod(0o666)


def _a_link_into_tmp(file: Path) -> None:
    place = file.parent / "open"
    place.mkdir()
    file.rename(place / "there.toml")
    file.symlink_to(place / "there.toml")
    place.chmod(0o777)


@pytest.mark.parametrize(
    "hand_over",
    [
        _open_to_all,
        pytest.param(_file_of_another, marks=needs_root),
        pytest.param(_directory_of_another, marks=needs_root),
        _written_by_all,
        _a_link_into_tmp,
    ],
)
@pytest.mark.parametrize("further_up", [False, True])
def test_what_somebody_else_could_have_written_runs_nothing(
    project: Path, muster: Callable[..., ProgramResult], hand_over: Callable[[Path], None], *, further_up: bool
) -> None:
    evil = project / "evil"
    file = _settings(project.parent if further_up else project, evil)
    hand_over(file)

    done = muster(*_LAUNCH)

    assert done.status == 0
    assert not evil.exists()
    assert f"warning: {file} is not used: " in done.stderr
    assert "\n\nhint: " in done.stderr


def test_what_is_mine_runs_and_from_further_up_it_is_said(project: Path, muster: Callable[..., ProgramResult]) -> None:
    file = _settings(project.parent, project / "mine")

    done = muster(*_LAUNCH)

    assert (project / "mine").exists()
    assert f"muster: settings of {file} are used\n" in done.stderr
    assert "settings of" not in muster("run", "--quiet", *_LAUNCH[1:]).stderr


def test_a_directory_that_is_named_safe_is(project: Path, muster: Callable[..., ProgramResult]) -> None:
    _open_to_all(_settings(project, project / "mine"))

    done = muster(*_LAUNCH, MUSTER_SAFE_DIRECTORY=f"/nowhere:{project}")

    assert (project / "mine").exists()
    assert "warning" not in done.stderr


@pytest.mark.parametrize("hand_over", [_open_to_all, _written_by_all])
def test_a_layer_of_a_site_is_no_exception(
    project: Path, muster: Callable[..., ProgramResult], hand_over: Callable[[Path], None]
) -> None:
    file = project / "muster-site.toml"
    file.write_text('[[environment]]\nname = "EVIL"\nvalue = "1"\nreason = "none"\n')
    file.chmod(0o644)
    assert "EVIL" in muster("plan", "--site", "generic", "--", "true").stdout
    hand_over(file)

    done = muster("plan", "--site", "generic", "--", "true")

    assert "EVIL" not in done.stdout
    assert f"{file} is not used" in done.stderr


def test_a_profile_of_somebody_else_is_no_site(project: Path, muster: Callable[..., ProgramResult]) -> None:
    folder = project.parent / "home/.config/muster/sites"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('muster_site = 1\nname = "mine"\ntitle = "t"\nsummary = "s"\n')
    assert muster("site", "show", "mine").status == 0
    folder.chmod(0o777)

    assert "no site named 'mine'" in muster("site", "show", "mine").stderr


@pytest.mark.parametrize("top", [".git", "home"])
def test_the_search_ends_at_the_top_of_the_project_and_at_home(tmp_path: Path, top: str) -> None:
    project = tmp_path / "project"
    start = project / "a" / "b"
    start.mkdir(parents=True)
    if top == ".git":
        (project / ".git").mkdir()
    home = project if top == "home" else tmp_path / "elsewhere"
    (tmp_path / "muster.toml").touch()
    assert nearest("muster.toml", start, home) is None

    (project / "muster.toml").touch()
    assert nearest("muster.toml", start, home) == str(project / "muster.toml")


@pytest.mark.parametrize(
    ("make", "what"), [(Path.mkdir, "not a file"), (lambda path: path.symlink_to(path), "a link that leads to no file")]
)
def test_a_settings_file_that_is_no_file_is_refused(tmp_path: Path, make: Callable[[Path], None], what: str) -> None:
    make(tmp_path / "muster.toml")
    with pytest.raises(RequestError, match=f"{tmp_path}/muster.toml is {what}"):
        nearest("muster.toml", tmp_path, tmp_path)


def test_the_search_ends_at_the_border_of_a_file_system() -> None:
    """/proc is one of its own everywhere."""
    assert nearest("etc/passwd", Path("/proc/self"), Path("/nowhere")) is None


def test_a_group_of_one_is_the_owner_and_a_larger_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "muster.toml"
    file.touch()
    file.chmod(0o664)
    tmp_path.chmod(0o755)
    monkeypatch.setattr("muster.ownership._is_own_group", lambda gid, uid: True)
    assert Trust().refusal(file) is None
    monkeypatch.setattr("muster.ownership._is_own_group", lambda gid, uid: False)
    assert Trust().refusal(file) == f"{file} can be written by its group"


def test_the_folder_of_a_link_that_is_named_without_one_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (mine := tmp_path / "mine").mkdir(mode=0o755)
    (mine / "file").touch()
    (open_folder := tmp_path / "open").mkdir()
    (open_folder / "link").symlink_to(mine / "file")
    open_folder.chmod(0o777)
    monkeypatch.chdir(open_folder)
    assert Trust().refusal("link") == ". can be written by everybody"


@pytest.mark.parametrize("harm", ["another link", "open folder"])
def test_the_rank_library_is_mine_alone(tmp_path: Path, harm: str) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    if harm == "another link":
        (folder / "muster").symlink_to(tmp_path)
    else:
        folder.chmod(0o777)

    with pytest.raises(RequestError, match="rank library is not safe"):
        make_rank_library(str(folder))


@needs_root
def test_a_closed_working_directory_is_a_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    child = os.fork()
    if child == 0:
        is_said = False
        try:
            os.setuid(OTHER)
            nearest("muster.toml", closed, Path("/"))
        except RequestError as error:
            is_said = f"{closed} is closed to you" in error.message
        finally:
            os._exit(not is_said)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_folder_whose_names_are_closed_to_us_is_one_without_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("closed").mkdir()
    Path("closed/a.toml").touch()
    Path("closed").chmod(0o311)
    user = os.geteuid()
    if user == 0:  # who may read everything
        os.seteuid(OTHER)
    try:
        assert list(heads_in("closed", "user")) == []
        with pytest.raises(RequestError, match=r"there is no file b\.toml"):
            _check_file("closed/b.toml", "b.toml", executable=False)
    finally:
        os.seteuid(user)
        Path("closed").chmod(0o755)
