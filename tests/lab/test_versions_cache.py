"""Guards the cache of other Slurm versions: what is there is whole, and whatever goes wrong leaves nothing half-made.

The tests marked `versions` fetch from the machine's own mirror.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from muster.errors import CommandFailed, MachineLacks, MusterError, UnknownName
from muster.runner import ProgramResult, run
from muster_lab.debian import Fetched, check_tools
from muster_lab.versions import SUITES, SlurmRoot, _ready, _write_manifest, cache_folder, damaged, prepared_root


def quiet(_: str) -> None:
    """Progress that no test reads."""


def leftovers(cache: Path) -> list[str]:
    """Everything in the cache but the locks, which are empty files."""
    return sorted(file.name for file in cache.iterdir() if not file.name.endswith(".lock")) if cache.is_dir() else []


@pytest.fixture
def small_root(tmp_path: Path) -> SlurmRoot:
    """A made root of three files, as the cache keeps it."""
    folder = tmp_path / "24.11"
    (folder / "usr/bin").mkdir(parents=True)
    (folder / "usr/bin/srun").write_text("a program")
    (folder / "usr/bin/sbatch").write_text("another")
    (folder / "usr/bin/link").symlink_to("../bin")
    _write_manifest(
        Fetched(folder, "24.11.5-4", "/usr/lib/plugins", "trixie", "file:/nowhere", {"slurmctld": "24.11.5-4"})
    )
    found = _ready(folder)
    assert found is not None
    return found


def test_a_version_that_is_not_known_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"25\.05") as caught:
        prepared_root("25.05", cache=tmp_path, say=quiet)
    assert caught.value.known == tuple(SUITES)


@pytest.mark.parametrize(
    ("missing", "package"), [("apt-get", "--slurm system"), ("dpkg-deb", "--slurm system"), ("patchelf", "patchelf")]
)
def test_a_missing_tool_is_named_with_what_mends_it(missing: str, package: str, tmp_path: Path) -> None:
    with pytest.raises(MachineLacks) as caught:
        check_tools(find=lambda program: None if program == missing else f"/usr/bin/{program}", keyring=tmp_path)
    assert package in (caught.value.hint or "")


def test_missing_keys_are_named_with_what_mends_it(tmp_path: Path) -> None:
    with pytest.raises(MachineLacks) as caught:
        check_tools(find=lambda program: f"/usr/bin/{program}", keyring=tmp_path / "none.gpg")
    assert (caught.value.hint or "").endswith("apt-get install debian-archive-keyring")


def test_what_was_made_is_taken_from_the_cache_without_a_word(small_root: SlurmRoot) -> None:
    said: list[str] = []
    assert prepared_root("24.11", cache=small_root.folder.parent, say=said.append) == small_root
    assert said == []
    assert damaged(small_root) == []


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "usr/bin/srun").write_text("a programme"),
        lambda folder: (folder / "usr/bin/srun").unlink(),
        lambda folder: (folder / "usr/bin/link").unlink(),
        lambda folder: os.utime(folder / "usr/bin/srun", ns=(0, 0)),
        lambda folder: shutil.rmtree(folder / "usr/bin"),
        lambda folder: (folder / "manifest.json").write_text("{"),
        lambda folder: (folder / "manifest.json").write_text("[]"),
        lambda folder: (folder / "manifest.json").write_text('{"files": {}}'),
        lambda folder: (folder / "manifest.json").unlink(),
    ],
    ids=[
        "grown",
        "gone",
        "link gone",
        "touched",
        "emptied",
        "manifest cut",
        "manifest a list",
        "manifest bare",
        "manifest gone",
    ],
)
def test_a_root_that_was_changed_is_not_used(harm: object, small_root: SlurmRoot) -> None:
    harm(small_root.folder)  # type: ignore[operator]
    assert _ready(small_root.folder) is None


def test_a_byte_changed_behind_size_and_time_is_found_by_the_full_check(small_root: SlurmRoot) -> None:
    program = small_root.folder / "usr/bin/srun"
    times = program.stat()
    program.write_text("A program")
    os.utime(program, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert _ready(small_root.folder) is not None
    assert damaged(small_root) == ["usr/bin/srun"]


class Machine:
    """Runs programs for real, but the machine's package sources name `mirror`, or none."""

    def __init__(self, mirror: str | None) -> None:
        self.mirror = mirror

    def __call__(self, argv: Sequence[str], **options: object) -> ProgramResult:
        if "indextargets" in argv:
            return ProgramResult(tuple(argv), 0, f"{self.mirror} Debian Debian\n" if self.mirror else "", "")
        return run(argv, **options)  # type: ignore[arg-type]


@pytest.fixture
def tools() -> None:
    """Skip a test where this machine lacks what fetching needs: then nothing is tried."""
    try:
        check_tools()
    except MachineLacks as lack:
        reason = "" if shutil.which("apt-get") else "by design: "  # fetching is for Debian and Ubuntu
        pytest.skip(f"{reason}{lack.message}")


@pytest.mark.usefixtures("tools")
def test_sources_without_debian_are_told_and_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(MachineLacks, match="no mirror of Debian"):
        prepared_root("24.11", cache=tmp_path, say=quiet, runner=Machine(None))
    assert leftovers(tmp_path) == []


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("release", ["Suite: trixie\nCodename: trixie\n", None], ids=["unsigned", "empty"])
def test_a_mirror_that_debian_did_not_sign_is_refused_and_leaves_nothing(release: str | None, tmp_path: Path) -> None:
    dists = tmp_path / "mirror/dists/trixie"
    dists.mkdir(parents=True)
    if release is not None:
        (dists / "Release").write_text(release)
        (dists / "InRelease").write_text(release)
    cache = tmp_path / "cache"
    with pytest.raises(CommandFailed, match="apt-get"):
        prepared_root("24.11", cache=cache, say=quiet, runner=Machine(f"file:{tmp_path}/mirror/"))
    assert leftovers(cache) == []


@pytest.mark.usefixtures("tools")
def test_what_a_killed_process_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".24.11-draft-killed/apt").mkdir(parents=True)
    (tmp_path / ".26.05-draft-another").mkdir()
    with pytest.raises(MachineLacks):
        prepared_root("24.11", cache=tmp_path, say=quiet, runner=Machine(None))
    assert leftovers(tmp_path) == [".26.05-draft-another"]


@pytest.mark.usefixtures("tools")
def test_a_cache_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MachineLacks) as caught:
        prepared_root("24.11", cache=tmp_path / "file" / "slurm", say=quiet)
    assert "XDG_CACHE_HOME" in (caught.value.hint or "")


def test_the_cache_lies_where_the_desktop_standard_says() -> None:
    assert cache_folder({"HOME": "/home/ann"}) == Path("/home/ann/.cache/muster/slurm")
    assert cache_folder({"HOME": "/home/ann", "XDG_CACHE_HOME": "/big"}) == Path("/big/muster/slurm")


PREPARE = """
import sys
from pathlib import Path
from muster.errors import MusterError
from muster_lab.versions import prepared_root
def say(text):
    print(text, file=sys.stderr, flush=True)
try:
    print(prepared_root("24.11", cache=Path(sys.argv[1]), say=say).version)
except MusterError as error:
    sys.exit(f"{type(error).__name__}: {error.message}")
"""


def preparing(cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PREPARE, str(cache)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.versions
@pytest.mark.parametrize("size_mb", [12, 60, 80], ids=lambda size: f"{size}MB")
def test_a_disk_that_fills_up_is_told_and_left_empty(size_mb: int, tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    as_root = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--map-auto", "--mount"]
    mount = f'mount -t tmpfs -o size={size_mb}m tmpfs "$1" || exit 99'
    script = f'{mount}; "$2" -c "$3" "$1/cache"; echo "$?"; ls -A "$1/cache"'
    done = subprocess.run(
        [*as_root, "sh", "-c", script, "sh", str(place), sys.executable, PREPARE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["1", ".24.11.lock"], done.stdout + done.stderr
    assert "MachineLacks: no space is left under" in done.stderr


@pytest.mark.versions
@pytest.mark.parametrize("line", ["reading", "fetching", "unpacking", "making it run"])
def test_an_interruption_leaves_nothing(line: str, tmp_path: Path) -> None:
    process = preparing(tmp_path)
    assert process.stderr is not None
    while not process.stderr.readline().startswith(line):
        pass
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode != 0
    assert leftovers(tmp_path) == []


@pytest.mark.versions
def test_the_next_one_makes_it_after_one_was_killed(tmp_path: Path) -> None:
    process = preparing(tmp_path)
    assert process.stderr is not None
    while not process.stderr.readline().startswith("unpacking"):
        pass
    process.kill()
    process.communicate()
    assert [name.startswith(".24.11-draft-") for name in leftovers(tmp_path)] == [True]
    deadline = time.monotonic() + 60
    while True:
        try:
            root = prepared_root("24.11", cache=tmp_path, say=quiet)
            break
        except MusterError:
            # The killed one's dpkg may still write for a moment.
            assert time.monotonic() < deadline
    assert leftovers(tmp_path) == ["24.11"]
    assert damaged(root) == []


@pytest.mark.versions
def test_two_at_once_make_one(tmp_path: Path) -> None:
    both = [preparing(tmp_path), preparing(tmp_path)]
    said = [process.communicate() for process in both]
    assert len({out for out, _ in said}) == 1
    assert [process.returncode for process in both] == [0, 0]
    assert sum("fetching" in err for _, err in said) == 1
    assert leftovers(tmp_path) == ["24.11"]
