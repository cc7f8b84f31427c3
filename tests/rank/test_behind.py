"""Guards that the Muster of an environment comes before the one that a launch binds into it, and that nothing changes
where there is none.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from muster import _IN_IMAGES, __version__
from muster.plan.mounts import LIBRARY
from muster.rank.behind import own_package
from muster.runner import run

PACKAGE = Path(__file__).parents[2] / "src/muster"
SHOW = "import muster, muster.rank.contract as c; print(muster.__version__, muster.__file__, c.__file__, muster.world)"


def bound_into(folder: Path) -> Path:
    """The package as an image has it, but for its place."""
    shutil.copytree(PACKAGE / "rank", folder / "bound/muster/rank", ignore=shutil.ignore_patterns("__pycache__"))
    text = (PACKAGE / "__init__.py").read_text().replace(_IN_IMAGES, str(folder / "bound/muster"))
    (folder / "bound/muster/__init__.py").write_text(text)
    return folder / "bound"


def shown(*folders: Path) -> list[str]:
    path = ":".join(map(str, folders))
    result = run([sys.executable, "-S", "-c", SHOW], env={"PYTHONPATH": path})
    assert result.ok, result.stderr
    return result.stdout.split()


def test_the_place_is_the_one_that_the_plan_binds() -> None:
    assert f"{LIBRARY}/muster" == _IN_IMAGES


def test_alone_the_bound_one_is_imported(tmp_path: Path) -> None:
    bound = bound_into(tmp_path)

    assert shown(bound)[1] == f"{bound}/muster/__init__.py"


def test_the_environments_own_comes_first_also_behind_it(tmp_path: Path) -> None:
    bound = bound_into(tmp_path)
    own = tmp_path / "own/muster"
    shutil.copytree(PACKAGE / "rank", own / "rank", ignore=shutil.ignore_patterns("__pycache__"))
    (own / "__init__.py").write_text((PACKAGE / "__init__.py").read_text().replace(__version__, "0.0.1"))
    version, package, part, *_ = shown(bound, own.parent)

    assert (version, package, part) == ("0.0.1", f"{own}/__init__.py", f"{own}/rank/contract.py")


def test_a_folder_of_that_name_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "muster").mkdir()

    assert own_package("/opt/elsewhere/muster", [str(tmp_path), "", "/not/there"]) is None
