"""`muster.pyz`: what its start does wherever it is called, with an archive of a few lines in the place of Muster."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = f"cp{sys.version_info[0]}{sys.version_info[1]}-{os.uname().machine}"
ENTRY = "import msgspec, sys\n\n\ndef main():\n    print(msgspec.NAME, __file__, *sys.argv[1:])\n    return 7\n"


def module(path: Path) -> ModuleType:
    """Return a script of the project as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def one_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive as `make dist` writes it, whose Muster is a few lines, and whose compiled part names itself."""
    make_dist = module(ROOT / "scripts" / "make_dist.py")
    parts = {f"compiled/{tag}/msgspec.py": f"NAME = {tag!r}\n".encode() for tag, _ in make_dist.variants()}
    parts |= {f"compiled/{each}/bin/spy": f"#!/bin/sh\necho {each}\n".encode() for each in make_dist.PROCESSORS}
    content = {"muster/__init__.py": b"", "muster/cli/__init__.py": b"", "muster/cli/app.py": ENTRY.encode(), **parts}
    content["muster/cli/silence.py"] = b"import sys\nprint(__name__, *sys.argv[1:])\n"
    path = tmp_path_factory.mktemp("dist with a space") / "muster.pyz"
    make_dist.write_one_file(path, content)
    return path


def call(
    one_file: Path, *words: str, python: str = sys.executable, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the archive with nothing in the environment but PATH and what is given."""
    environment = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run([python, one_file, *words], capture_output=True, text=True, env=environment, check=False)


def test_it_takes_the_part_for_this_python_from_a_private_folder(one_file: Path, tmp_path: Path) -> None:
    done = call(one_file, "a b", "--c", HOME=str(tmp_path))
    assert done.returncode == 7, done.stderr
    name, path, *words = done.stdout.split(maxsplit=2)
    assert (name, words) == (HERE, ["a b --c\n"])
    folder = tmp_path / ".local/share/muster/one-file"
    assert Path(path).is_relative_to(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    (unpacked,) = folder.iterdir()
    assert (unpacked / "muster-one-file").exists()
    spied = subprocess.run([unpacked / "bin/spy"], capture_output=True, text=True, check=True)
    assert spied.stdout.strip() == os.uname().machine
    before = unpacked.stat().st_ino
    assert call(one_file, HOME=str(tmp_path)).returncode == 7
    assert [each.stat().st_ino for each in folder.iterdir()] == [before]


@pytest.mark.wide
def test_it_is_a_command_and_twenty_at_once_unpack_it_once(one_file: Path, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "XDG_DATA_HOME": str(tmp_path)}
    running = [subprocess.Popen([one_file], env=environment, stdout=subprocess.DEVNULL) for _ in range(20)]
    assert {each.wait() for each in running} == {7}
    assert len(list((tmp_path / "muster/one-file").iterdir())) == 1


def test_a_job_starts_a_module_of_what_was_unpacked_also_where_home_is_another(one_file: Path, tmp_path: Path) -> None:
    assert call(one_file, HOME=str(tmp_path)).returncode == 7
    (unpacked,) = (tmp_path / ".local/share/muster/one-file").iterdir()
    words = [sys.executable, "-I", str(unpacked), "-m", "muster.cli.silence", "4711", "a b"]
    done = subprocess.run(words, capture_output=True, text=True, env={"HOME": "/proc"}, cwd="/", check=False)
    assert (done.stdout, done.stderr) == ("__main__ 4711 a b\n", "")
    again = subprocess.run(
        [sys.executable, unpacked, "x"], capture_output=True, text=True, env={"HOME": "/"}, check=False
    )
    assert (again.returncode, again.stdout.split()[0]) == (7, HERE)


def test_without_a_home_that_can_be_written_it_lies_in_the_temporary_folder(one_file: Path, tmp_path: Path) -> None:
    done = call(one_file, HOME="/proc", TMPDIR=str(tmp_path))
    assert done.returncode == 7, done.stderr
    assert str(tmp_path / f"muster-one-file-{os.geteuid()}") in done.stdout


def test_a_folder_that_others_can_write_is_not_used(one_file: Path, tmp_path: Path) -> None:
    for folder in (tmp_path / "muster/one-file", tmp_path / f"muster-one-file-{os.geteuid()}"):
        folder.mkdir(parents=True)
        folder.chmod(0o777)
    done = call(one_file, XDG_DATA_HOME=str(tmp_path), TMPDIR=str(tmp_path))
    assert done.returncode == 3
    assert "somebody else can write there" in done.stderr
    assert "hint: set XDG_DATA_HOME" in done.stderr


def test_a_python_without_compiled_parts_is_told_which_there_are(one_file: Path, tmp_path: Path) -> None:
    start = (ROOT / "packaging/one_file.py").read_text().replace("@TAGS@", "cp38-vax cp37-vax")
    script = tmp_path / "start.py"
    script.write_text(start)
    done = call(script)
    assert done.returncode == 3
    assert f"no compiled parts for {HERE}; it has cp38-vax, cp37-vax" in done.stderr


def test_an_old_python_becomes_a_newer_one_on_path_or_is_told(one_file: Path, tmp_path: Path) -> None:
    start = "sys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')"
    pretend = f"import sys, runpy\nsys.version_info = (3, 6, 8)\n{start}"
    old = tmp_path / "old.py"
    old.write_text(pretend)
    words = [sys.executable, str(old), str(one_file), "x"]
    alone = subprocess.run(words, capture_output=True, text=True, env={"PATH": str(tmp_path)}, check=False)
    assert alone.returncode == 3
    assert "Muster needs Python 3.9 or newer; this is 3.6" in alone.stderr
    newer = tmp_path / "python3.12"
    newer.write_text('#!/bin/sh\necho "newer: $@"\n')
    newer.chmod(0o755)
    found = subprocess.run(words, capture_output=True, text=True, env={"PATH": str(tmp_path)}, check=False)
    assert found.stdout == f"newer: {one_file} x\n"


def test_the_start_is_read_by_every_python() -> None:
    words = ["--no-config-file", "--target=2.7-", "--target=3.2-", "--no-tips", "--quiet", "--violations"]
    vermin = Path(sys.executable).with_name("vermin")
    if not vermin.exists():
        pytest.skip("vermin is in the project's own environment")
    done = subprocess.run([vermin, *words, ROOT / "packaging/one_file.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def wheel_of(name: str, version: str, **fields: str) -> dict[str, bytes]:
    """Return the files of a package that say what it is."""
    lines = [
        f"Name: {name}",
        f"Version: {version}",
        *(f"{key.replace('_', '-')}: {text}" for key, text in fields.items()),
    ]
    folder = f"{name}-{version}.dist-info"
    return {f"{folder}/METADATA": "\n".join([*lines, "", "words"]).encode(), f"{folder}/licenses/LICENSE": b"do"}


def test_what_it_bundles_is_listed_with_licences_and_a_package_without_one_stops_the_build() -> None:
    make_dist = module(ROOT / "scripts" / "make_dist.py")
    one = wheel_of("one", "1.0", License_Expression="MIT")
    two = {f"compiled/cp39-x86_64/{name}": text for name, text in wheel_of("two", "2.0", License="BSD").items()}
    newer = {f"compiled/cp314-x86_64/{name}": text for name, text in wheel_of("two", "2.1", License="BSD").items()}
    table = make_dist.list_of_bundled({**one, **two, **newer, "one/__init__.py": b""})
    assert "| one | 1.0 | MIT | `one-1.0.dist-info/licenses/LICENSE` |\n" in table
    assert "| two | 2.0, 2.1 | BSD | `compiled/cp314-x86_64/two-2.1.dist-info/licenses/LICENSE` |\n" in table
    with pytest.raises(SystemExit, match="three 3"):
        make_dist.list_of_bundled({**one, **wheel_of("three", "3")})
    with pytest.raises(SystemExit, match=r"one 1\.0: no licence"):
        make_dist.list_of_bundled({name: text for name, text in one.items() if "METADATA" in name})
