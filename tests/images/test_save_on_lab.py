"""`--save-before` reaches ranks in images, and only them: the engine around a rank handles every signal there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugins.labs import MUSTER, Lab

from .conftest import Images

pytestmark = pytest.mark.lab

_RANK = """\
trap 'echo "saved by $RANK in $FROM_IMAGE"; exit 0' USR1
while :; do sleep 0.1; done
"""


@pytest.mark.parametrize("launcher", ["srun", pytest.param("mpirun", marks=pytest.mark.long)])
@pytest.mark.parametrize("form", ["sif", pytest.param("sandbox", marks=pytest.mark.long)])
def test_ranks_in_an_image_are_told(lab: Lab, images: Images, shared_directory: Path, form: str, launcher: str) -> None:
    words = ("-N", "2", "--ntasks-per-node", "2", "-t", "1", "--save-before", "52s", "--launcher", launcher)
    image = ("--image", str(images.form(form)))

    result = lab.exec(
        [MUSTER, "run", "--quiet", *words, *image, "--", "sh", "-c", _RANK],
        cwd=shared_directory,
        env={"PATH": images.path},
    )

    assert result.status == 0, result.stderr
    assert "muster: 4 of 4 ranks got SIGUSR1 before the time limit" in result.stderr
    assert sorted(result.stdout.splitlines()) == [f"{rank}: saved by {rank} in image" for rank in range(4)]
