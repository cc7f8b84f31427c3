"""How Muster was installed, and the command that adds a package there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muster.look.installation import PROCESSORS_WITH_WHEELS, Installer, installation
from muster.older import tomllib

ROOT = Path(__file__).parents[2]
UV_VENV = "home = /usr/bin\nimplementation = CPython\nuv = 0.9.8\n"
PIP_VENV = "home = /usr/bin\nversion = 3.11.2\ncommand = /usr/bin/python3 -m venv /home/u v = 1\n"


@pytest.mark.parametrize(
    ("file", "text", "installer", "command"),
    [
        ("pyvenv.cfg", PIP_VENV, Installer.PIP, "'/env/my python' -m pip install a 'b>=2'"),
        ("nothing", "", Installer.PIP, "'/env/my python' -m pip install a 'b>=2'"),
        ("pipx_metadata.json", "{}", Installer.PIPX, "pipx inject muster-hpc a 'b>=2'"),
        ("uv-receipt.toml", "[tool]\n", Installer.UV, "uv pip install --python '/env/my python' a 'b>=2'"),
        ("pyvenv.cfg", UV_VENV, Installer.UV, "uv pip install --python '/env/my python' a 'b>=2'"),
    ],
)
def test_each_installer_has_its_own_command(
    file: str, text: str, installer: Installer, command: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(text)
    found = installation(tmp_path, "/env/my python", tmp_path / "site-packages")
    assert (found.installer, found.command_to_add("a", "b>=2")) == (installer, command)


def test_what_is_added_to_the_one_file_lies_where_it_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "muster-one-file").touch()
    (tmp_path / "uv-receipt.toml").touch()  # the Python that runs it may be anybody's
    found = installation(tmp_path, "python3", tmp_path)
    assert found.installer is Installer.ONE_FILE
    assert found.command_to_add("x") == f"python3 -m pip install --target {tmp_path} x"


def test_the_processors_with_wheels_are_those_that_pip_gives_every_part() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    marked = {each.partition(">")[0]: re.findall(r"platform_machine == '(\w+)'", each) for each in wanted}
    for name in ("py-spy", "tree-sitter", "tree-sitter-bash"):
        assert tuple(marked[name]) == PROCESSORS_WITH_WHEELS
    assert marked["msgspec"] == []


def test_no_sentence_tells_to_install_the_name_of_this_project_from_an_index() -> None:
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "packaging/one_file.py"]
    text = "\n".join(file.read_text() for file in files)
    assert len(files) > 300
    assert re.findall(r"(?:pip|uv tool|pipx) install '?muster(?:-hpc)?\b[^_/.\n]*", text) == []
