"""Which facts are looked for, and where a host rules something out: one row for each condition that decides it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from act.test_kept_cluster import Slurm
from launch.plans import FACTS
from muster.errors import RequestError
from muster.job.options import parse, request_from
from muster.job.request import Request
from muster.look.ask_cluster import Silence, ask_cluster
from muster.look.first_word import notes_on_command
from muster.look.gather import gather_facts
from muster.look.image_facts import _real_paths, look_at_image
from muster.look.nccl import look_at_nccl
from muster.look.place import refuse_in_every_rank
from muster.look.probe import settings_notes
from muster.look.python_script import _knows_of_ranks
from muster.look.table import _check_columns
from muster.model.plan import Engine
from muster.sites.load import load
from sites.profiles import HEAD, bundled, written


def _request(*words: str) -> Request:
    values, origins, command = parse([*words, "--", "python", "t.py"])
    return request_from({}, values, origins, command)


@pytest.mark.parametrize(
    ("text", "knows"),
    [
        ("print(torch)", False),
        ("exec(text)", True),
        ("__import__('os')", True),
        ("open(text)", False),
        ("print('RANK')", True),
        ("print('four', 3, b'RANK')", False),
        ("from torch import distributed", True),
        ("from torch import nn", False),
        ("from other import distributed", False),
        ("os.environ", True),
        ("os.name", False),
        ("def f(rank): pass", True),
        ("def f(size): pass", False),
        ("work('the rank of it')", True),
        ("work('the size of it')", False),
    ],
)
def test_a_script_that_may_know_of_ranks(text: str, knows: bool) -> None:
    assert _knows_of_ranks(ast.parse(text)) is knows


@pytest.mark.parametrize(
    ("environment", "refused"),
    [
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4"}, True),
        ({"SLURM_STEP_NUM_TASKS": "4"}, False),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, False),
        ({"SLURM_PROCID": "0"}, False),
    ],
)
def test_a_run_in_each_of_several_ranks_is_refused(environment: dict[str, str], refused: bool) -> None:
    if refused:
        with pytest.raises(RequestError, match="each of them would start the whole run"):
            refuse_in_every_rank(environment, on_terminal=False)
    else:
        refuse_in_every_rank(environment, on_terminal=False)


def test_settings_further_up_are_told_and_those_that_are_not_there_are_not(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    facts = replace(FACTS, working_directory=str(tmp_path / "a/b"), home=str(tmp_path), environment={})
    for name, told in (("a/b/muster.toml", 0), ("a/muster.toml", 1)):
        (tmp_path / name).touch()
        texts = [note.text for note in settings_notes(facts) if str(tmp_path) in note.text]
        assert len(texts) == told, texts
        (tmp_path / name).unlink()


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (["lr;size"], "the columns are separated by ';'"),
        (["lr;size", "more"], "'lr;size' cannot be a column"),
        (["lr", "lr"], "there are two columns lr"),
    ],
)
def test_the_columns_of_a_table_have_names(columns: list[str], says: str) -> None:
    with pytest.raises(RequestError, match=says):
        _check_columns(columns, "t.csv:1")


_OLD_NCCL = (
    '[modules]\nload = ["nccl/2.18.3"]\n[[environment]]\nname = "A"\nvalue = "1"\nreason = "r"\n'
    'when = { nccl_below = "2.21" }\n'
)


@pytest.mark.parametrize(
    ("profile", "words", "version"),
    [
        (_OLD_NCCL, (), "2.18.3"),
        (_OLD_NCCL, ("--image", "x.sif"), None),
        (_OLD_NCCL.replace("nccl/2.18.3", "cuda"), ("--module", "nccl/2.19"), "2.19"),
        (_OLD_NCCL.partition("[[")[0], (), None),
    ],
)
def test_the_version_of_nccl_is_that_of_the_modules(
    tmp_path: Path, profile: str, words: tuple[str, ...], version: str | None
) -> None:
    site = load(str(written(tmp_path, HEAD + profile)))
    assert look_at_nccl(_request(*words), site, replace(FACTS, python=None)).nccl == version


@pytest.mark.parametrize("words", [("--stage-env", "--venv", "env"), ("--stage", "data"), ("--stage-out", "out"), ()])
def test_what_is_to_be_staged_is_looked_at(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "env").mkdir()
    facts = replace(FACTS, working_directory=str(tmp_path))
    seen = gather_facts(_request(*words), bundled("generic"), facts, Engine.SLURM)
    assert (seen.staging is not None) is bool(words)
    assert seen.staging is None or not seen.staging.relocatable


@pytest.mark.parametrize(("script", "refused"), [("t.py", "t.py, line 1: invalid syntax"), ("tool", None)])
def test_a_script_of_python_is_read_by_its_ending(tmp_path: Path, script: str, refused: str | None) -> None:
    (tmp_path / script).write_text("x = \n")
    with pytest.raises(RequestError, match=refused) if refused else nullcontext():
        assert list(notes_on_command([sys.executable, script], tmp_path, {"PATH": "/nowhere"})) == []


@pytest.mark.parametrize(("newest", "kept"), [("", False), ("newest = '{}/x-*.sif'\n", True)])
def test_an_image_of_the_site_is_the_newest_where_the_site_says_so(tmp_path: Path, newest: str, kept: bool) -> None:
    (tmp_path / "x-1.sif").touch()
    text = f"{HEAD}[images.x]\npath = '{tmp_path}/x-1.sif'\nreason = 'r'\n{newest.format(tmp_path)}"
    seen = look_at_image(_request("--image", "site:x", "--chdir", "below"), load(str(written(tmp_path, text))), FACTS)
    assert seen.image is not None
    assert (seen.image.kept is not None) is kept


class _Told(Slurm):
    """Slurm's clients, with other words of scontrol's."""

    def __init__(self, replaced: Sequence[tuple[str, str]], enforced: str) -> None:
        super().__init__(accounting=True)
        self.enforce(enforced)
        for old, new in replaced:
            self.answers["scontrol"] = self.answers["scontrol"].replace(old, new)


@pytest.mark.parametrize(
    ("replaced", "enforced", "programs", "asked"),
    [
        ([], "none", ("sacctmgr",), ["scontrol", "sacctmgr"]),
        ([], "limits", ("sacctmgr",), ["scontrol", "sacctmgr", "sacctmgr"]),
        ([], "limits", (), ["scontrol"]),
        ([("slurmdbd", "none")], "limits", ("sacctmgr",), ["scontrol"]),
        ([("PartitionName=main", "Partition=main")], "none", ("sacctmgr",), ["scontrol"]),
        ([("= tinker", "= ")], "none", ("sacctmgr",), ["scontrol"]),
    ],
)
def test_slurm_is_asked_for_what_it_can_tell(
    tmp_path: Path, replaced: list[tuple[str, str]], enforced: str, programs: tuple[str, ...], asked: list[str]
) -> None:
    for name in programs:
        (tmp_path / name).touch(mode=0o755)
    slurm: Any = _Told(replaced, enforced)
    known = ask_cluster("ada", {"PATH": str(tmp_path)}, slurm)
    assert slurm.asked == asked
    is_silent = bool(replaced) and "slurmdbd" not in replaced[0]
    assert isinstance(known, Silence) is is_silent


def test_a_path_that_is_not_there_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "loop").symlink_to("loop")
    paths = [str(tmp_path / name) for name in ("real", "link", "loop", "gone")]
    assert _real_paths(paths) == dict.fromkeys(paths[:2], paths[0])
