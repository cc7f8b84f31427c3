"""The facts of a published script are held to the script itself: no line that decides something may be left out."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path

import pytest

from .differences import Script, published
from .profiles import SITES

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from hold_published import missing_lines, text_of

TEXT = """\
#!/bin/bash
#SBATCH --nodes=2 --exclusive
#SBATCH -J name
#SBATCH --tasks-per-node=8
source /usr/local/gib/scripts/set_nccl_env.sh
export NCCL_NET=gIB OWN=1
module load cuda/12
module list
source env/bin/activate
export MASTER_PORT=29500
"""


def script(**facts: object) -> Script:
    return Script(name="x", at="a/b @1234567, x.sh", kind="site", dated=dt.date(2026, 1, 1), ask=(), **facts)  # type: ignore[arg-type]


def test_each_line_that_decides_something_is_asked_for() -> None:
    missing = [line.partition(": ")[0] for line in missing_lines(script(), TEXT, "x.sh")]
    assert missing == [
        *("nodes", "ntasks-per-node", "/usr/local/gib/scripts/set_nccl_env.sh"),
        *("NCCL_NET", "OWN", "cuda/12"),
    ]


def test_a_fact_or_a_reason_holds_a_line() -> None:
    held = script(
        directives={"nodes": "2", "ntasks-per-node": "8"},
        commands=(". /usr/local/gib/scripts/set_nccl_env.sh",),
        environment={"NCCL_NET": "gIB"},
        modules=("load cuda/12",),
        left_out={"OWN": "a variable of the author's own program"},
    )
    assert missing_lines(held, TEXT, "x.sh") == []


def test_of_a_page_the_block_is_taken_that_has_most_facts() -> None:
    page = f"# Page\n\n```bash\nexport OTHER=1\n```\n\n```bash\n{TEXT}```\n"
    held = script(directives={"nodes": "2", "ntasks-per-node": "8"}, environment={"NCCL_NET": "gIB", "OWN": "1"})
    assert [line.partition(": ")[0] for line in missing_lines(held, page, "page.md")] == [
        *("/usr/local/gib/scripts/set_nccl_env.sh", "cuda/12"),
    ]


def test_the_text_is_that_of_the_commit(tmp_path: Path) -> None:
    clone = tmp_path / "a+b"
    for argv in (
        ["git", "init", "-q", str(clone)],
        ["sh", "-c", f"echo first > {clone}/x.sh"],
        ["git", "-C", str(clone), "add", "x.sh"],
        ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"],
    ):
        subprocess.run(argv, check=True)
    assert text_of(script(), tmp_path) == ("x.sh", "first\n")  # an unknown commit: the newest one
    assert text_of(script(), tmp_path / "elsewhere") is None


@pytest.mark.parametrize("site", SITES)
def test_what_is_left_out_has_a_reason(site: str) -> None:
    for each in published(site).script:
        assert all(len(reason.split()) >= 3 for reason in each.left_out.values())


def test_the_script_of_the_cluster_toolkit_has_the_lines_that_make_it_work() -> None:
    """They were left out once, and a job without them goes over TCP."""
    (ultra, mega) = published("clustertoolkit").script
    assert ". /usr/local/gib/scripts/set_nccl_env.sh" in ultra.commands
    assert any("nccl-env-profile.sh" in command for command in mega.commands)
    assert "LD_LIBRARY_PATH" in ultra.environment
