"""Guards the #SBATCH lines: the real sbatch, without any daemon, reads back what was meant."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.errors import RequestError
from muster.runner import run
from muster.slurm.directives import format_directive, format_header

# sbatch reads all directives before it looks for a controller; nobody listens on port 1.
_CONF = """\
ClusterName=none
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=1
AuthType=auth/none
MessageTimeout=1
NodeName=node1
PartitionName=p Nodes=node1
"""
HOSTILE = (
    "plain",
    "two words",
    "it's",
    'say "x"',
    "back\\slash",
    "\\",
    "$HOME $(id) `id`",
    "# no comment",
    "a#b",
    " both ends ",
    "a;b|c&d",
    "ünï ☃",
    "--looks=like an option",
    "'",
    '"',
    "%j-%x",
    "~/*?[a]",
    "trailing\\",
)


@pytest.fixture(scope="module")
def sbatch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a slurm.conf that lets sbatch read a script and get no further."""
    if shutil.which("sbatch") is None:
        pytest.skip("sbatch is missing: apt-get install slurm-client")
    folder = tmp_path_factory.mktemp("sbatch")
    (folder / "slurm.conf").write_text(_CONF)
    return folder


def read_back(folder: Path, *lines: str) -> dict[str, str]:
    """The options that sbatch found in a script with these lines."""
    script = folder / "job.sh"
    script.write_text("\n".join(["#!/bin/sh", *lines, "true", ""]))
    environment = {"PATH": "/usr/bin:/bin", "SLURM_CONF": str(folder / "slurm.conf"), "LC_ALL": "C.UTF-8"}
    # A generic resource that nobody knows makes it stop before it would wait for a controller.
    said = run(["sbatch", "-v", "--test-only", "--gres=nothing:1", str(script)], env=environment, timeout_s=60).stderr
    return {found[1]: found[2] for found in re.finditer(r"^sbatch: ([a-z-]+?) +: (.*)$", said, re.MULTILINE)}


@pytest.mark.parametrize("value", HOSTILE)
def test_sbatch_reads_the_value_that_was_meant(sbatch: Path, value: str) -> None:
    assert read_back(sbatch, format_directive("comment", value))["comment"] == value


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    value=st.text(
        st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f"), min_size=1, max_size=30
    )
)
def test_sbatch_reads_any_value_that_was_meant(sbatch: Path, value: str) -> None:
    try:
        line = format_directive("comment", value)
    except RequestError:
        return  # a control character; refused, not changed
    assert read_back(sbatch, line)["comment"] == value


def test_a_flag_without_a_value_and_lines_below_it_are_read(sbatch: Path) -> None:
    found = read_back(sbatch, format_directive("exclusive", None), format_directive("account", "physics"))
    assert found["account"] == "physics"
    assert "exclusive" in found


@pytest.mark.parametrize("value", ["two\nlines", "a\rb", "tab\tbed", "bell\a", "null\0", "\x7f", "\x1b[31m"])
def test_a_control_character_is_refused(value: str) -> None:
    with pytest.raises(RequestError, match="control character"):
        format_directive("comment", value)


def test_options_of_one_subject_share_a_line_and_are_read_as_they_were(sbatch: Path) -> None:
    options = [("nodes", "2"), ("account", "a b"), ("ntasks-per-node", "4"), ("time", "00:10:00"), ("exclusive", None)]
    lines = format_header(options)
    assert lines == ["#SBATCH --nodes=2 --ntasks-per-node=4 --exclusive", '#SBATCH --account="a b" --time=00:10:00']
    found = read_back(sbatch, *lines)
    assert (found["account"], found["nodes"], found["ntasks-per-node"]) == ("a b", "2", "4")
    assert "exclusive" in found


def test_a_line_of_the_header_ends_before_it_is_too_long(sbatch: Path) -> None:
    names = ["nodes", "ntasks-per-node", "mem", "gres", "cpus-per-task"]
    lines = format_header((name, "7" * 40) for name in names)
    assert all(len(line) <= 120 for line in lines)
    assert [word.partition("=")[0] for line in lines for word in line.split()[1:]] == [f"--{name}" for name in names]
