"""What is made from the profiles is current, and the commands on it run."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.cli.app import main
from muster.sites import schema
from muster.sites.heads import SearchPath
from muster.sites.load import load
from muster.sites.tell import lines
from muster_lab.like import lab_like

from .profiles import FILLED, NAMES, SITES, bundled
from .published_jobs import SCRIPTS

ROOT = Path(__file__).resolve().parents[2]


def script() -> Any:
    spec = importlib.util.spec_from_file_location("make_site_pages", ROOT / "scripts" / "make_site_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made() -> dict[Path, str]:
    """Return every file and its text."""
    files: dict[Path, str] = script().made()
    return files


# Before 3.10 `None | str` is written down as `str | None`, and the schema has them in that order.
@pytest.mark.skipif(sys.version_info < (3, 10), reason="by design: the pages are made by newer Pythons")
def test_each_file_is_what_the_script_makes(made: dict[Path, str]) -> None:
    other = [path.name for path, text in made.items() if path.read_text() != text]
    assert not other, "run scripts/make_site_pages.py"


def test_every_site_and_every_document_has_a_page(made: dict[Path, str]) -> None:
    assert {path.stem for path in made if path.parent.name == "sites"} == {*NAMES, "README"}
    assert len([path for path in made if path.parent.name == "by-hand"]) == 5


@pytest.mark.parametrize("name", SITES)
def test_the_plan_that_the_page_shows_can_be_made(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "sites" / f"{name}.md").read_text()
    commands = re.findall(r"^(muster plan .*)$", text, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    assert "#SBATCH" in capsys.readouterr().out


def test_links_of_the_pages_lead_somewhere(made: dict[Path, str]) -> None:
    for path, text in made.items():
        for target in re.findall(r"\]\(([^)]+)\)", text):
            if path.suffix == ".md" and "://" not in target:
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_key_of_the_schema_is_in_the_published_one() -> None:
    published = json.loads((ROOT / "docs" / "reference" / "profile.schema.json").read_text())
    for name in schema.__all__:
        kind = getattr(schema, name)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            keys = {field.encode_name for field in msgspec.structs.fields(kind)}
            assert set(published["$defs"][name]["properties"]) == keys
            assert published["$defs"][name]["additionalProperties"] is False
    assert published["$defs"]["SiteVariable"]["properties"]["required"]["description"].startswith("True: without it")


def test_the_worked_example_of_adding_a_site_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """CONTRIBUTING's profile loads, every value of it has a document, and the commands beside it run."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (tmp_path / "muster" / "sites").mkdir(parents=True)
    (tmp_path / "muster" / "sites" / "tinker.toml").write_text(text.partition("```toml\n")[2].partition("```")[0])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    site = load("tinker", SearchPath(site_wide=None, user=tmp_path / "muster"))
    for line in lines(site):
        assert line.origin.source is not None or line.key in {"name", "title", "summary", "trust"}, line.key
    assert lab_like(site.profile, name="like").cluster == "tinker"
    commands = [
        line.strip().partition("  #")[0]
        for line in text.splitlines()
        if "--site tinker" in line or "show tinker --why" in line
    ]
    plans = [command for command in commands if " run " not in command and "`" not in command]
    assert len(plans) == 2
    for command in plans:
        assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    assert "#SBATCH --gres=gpu:a100:4" in capsys.readouterr().out


@pytest.mark.parametrize("name", FILLED)
def test_what_only_the_profile_asserts_is_listed_as_such(name: str) -> None:
    text = (ROOT / "docs" / "sites" / f"{name}.md").read_text().partition("## Checked independently, and not")[2]
    table, _, alone = text.partition("\n## ")[0].partition("Limits that only this profile asserts")
    assert len([each for each in SCRIPTS if each.site == name and each.at in table]) >= 3
    has_limits = any(queue.time_max for queue in bundled(name).profile.partitions.values())
    assert bool(alone) or not has_limits


def test_no_page_shows_a_value_that_is_none(made: dict[Path, str]) -> None:
    assert [path.name for path, text in made.items() if path.suffix == ".md" and re.search(r": None\b", text)] == []
