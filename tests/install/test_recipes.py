"""The recipes of packaging/ ask for what pyproject.toml asks for, and their own tools read them."""

from __future__ import annotations

import ast
import re
import subprocess
import venv
from pathlib import Path

import pytest

from muster.older import tomllib

from .test_one_file import ROOT, module

PACKAGING = ROOT / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = "1.2.3"
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # SHA-256 of a file of no bytes


def asked(text: str) -> tuple[str, str]:
    """Return the name and the oldest version of `name>=version; marker`."""
    name, version = re.findall(r"^([\w.-]+)>=([\d.]+)", text)[0]
    return name, version


NEEDED = dict(asked(each) for each in PROJECT["dependencies"])
EXTRAS = {extra: dict(map(asked, names)) for extra, names in PROJECT["optional-dependencies"].items()}


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the recipes as `make dist` writes them for an sdist."""
    folder = tmp_path_factory.mktemp("recipes")
    sdist = folder / "muster_hpc-1.2.3.tar.gz"
    sdist.write_bytes(b"")
    module(ROOT / "scripts" / "make_dist.py").write_recipes(folder, sdist)
    return folder


def test_nothing_is_left_to_be_filled_in(recipes: Path) -> None:
    texts = {path.name: path.read_text() for path in recipes.rglob("*") if path.is_file() and path.suffix != ".gz"}
    assert sorted(texts) == ["muster-hpc.eb", "muster-hpc.lua", "package.py", "recipe.yaml"]
    assert {name: found for name, text in texts.items() if (found := re.findall(r"@\w+@", text))} == {}
    assert all(VERSION in text for text in texts.values())
    without_checksum = {name for name, text in texts.items() if EMPTY not in text}
    assert without_checksum == {"muster-hpc.lua"}  # it names a folder, not a file to fetch


def test_conda_forge_asks_for_the_same() -> None:
    text = (PACKAGING / "conda-forge/recipe.yaml").read_text()
    run = text.partition("\n  run:\n")[2].partition("\n  run_constraints:")[0]
    wanted = dict(re.findall(r"- ([\w-]+) >=([\d.]+)", run))
    wanted["tree-sitter"] = wanted.pop("tree_sitter")  # conda-forge's name of the Python binding
    assert wanted.pop("python") == PROJECT["requires-python"].removeprefix(">=")
    assert wanted == NEEDED
    assert PROJECT["scripts"] == {"muster": "muster.cli.app:main"}
    assert "- muster = muster.cli.app:main" in text


def test_spack_asks_for_the_same() -> None:
    text = (PACKAGING / "spack/package.py").read_text()
    found = {
        word.value.partition("@")[0]: word.value.partition("@")[2].rstrip(":")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "depends_on"
        for word in node.args
        if isinstance(word, ast.Constant) and isinstance(word.value, str)
    }
    wanted = {name: version for each in (NEEDED, *EXTRAS.values()) for name, version in each.items()}
    named = {f"py-{name}": version for name, version in wanted.items()}  # also py-spy: Spack's name is py-py-spy
    build = PROJECT["requires-python"].removeprefix(">=")
    assert found == {"python": build, "py-hatchling": "1.27", **named}


def test_easybuild_brings_what_its_bundle_lacks() -> None:
    text = (PACKAGING / "easybuild/muster-hpc.eb").read_text()
    tree = ast.parse(text)
    brought = set(re.findall(r"^    \('([\w-]+)', '[\d.]+', \{", text, flags=re.MULTILINE))
    # eval-type-backport and tomli are for older Pythons than its own.
    assert brought | {"rich"} == {name for name in NEEDED if name not in {"eval-type-backport", "tomli"}}
    assert "# rich and what it needs" in text
    names = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert {"easyblock", "name", "version", "homepage", "description", "toolchain", "moduleclass"} <= names


CONDA = """
import sys
from rattler_build import Stage0Recipe
recipe = Stage0Recipe.from_yaml(open(sys.argv[1]).read())
print(*(each.recipe.package.name for each in recipe.render()))
"""
EASYBUILD = """
import sys
from easybuild.tools.options import set_up_configuration
set_up_configuration(args=["--allow-use-as-root-and-accept-consequences"], silent=True)
from easybuild.framework.easyconfig.parser import EasyConfigParser
recipe = EasyConfigParser(sys.argv[1]).get_config_dict()
print(recipe["name"], recipe["version"], *(each[0] for each in recipe["exts_list"]))
"""


@pytest.mark.long
def test_their_own_tools_read_them(recipes: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["recipes"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *tools], check=True)
    assert said(python, CONDA, recipes / "conda-forge/recipe.yaml") == "muster-hpc"
    assert (
        said(python, EASYBUILD, recipes / "easybuild/muster-hpc.eb")
        == "muster-hpc 1.2.3 msgspec py-spy tree-sitter tree-sitter-bash muster-hpc"
    )


def said(python: Path, program: str, recipe: Path) -> str:
    """Return the last line that a program prints of a recipe."""
    done = subprocess.run([python, "-c", program, recipe], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]
