"""--stacks-ready in an image: a rank there shows its stack by itself, and the image's own paths stay as they are."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from muster.runner import end_group, start
from muster_check.stacks.ask import StackQuestion, ask_here, jobs_here
from stacks.answers import read_answers

from .conftest import Images, words_with_torch

MUSTER = str(Path(sys.executable).with_name("muster"))

_SCRIPT = """\
import os
import time

own = "/opt/muster-ranks/muster/rank/ready"
assert os.environ["PYTHONPATH"].split(":")[:2] == [own, "/opt/python-of-the-image"], os.environ["PYTHONPATH"]


def load():
    time.sleep(600)


print("begins", flush=True)
load()
"""


def test_a_rank_in_an_image_shows_its_stack(images: Images, shared_directory: Path) -> None:
    (shared_directory / "wait.py").write_text(_SCRIPT)
    before = set(jobs_here())
    words = ["--ntasks-per-node", "2", "--stacks-ready", *words_with_torch(images.sandbox)]
    command = [MUSTER, "run", "--here", *words, "--", sys.executable, "wait.py"]
    with (shared_directory / "output").open("wb") as output:
        environment = {**os.environ, "PATH": images.path}
        process = start(command, cwd=shared_directory, env=environment, stdout=output, stderr=output, own_group=True)
    try:
        while (shared_directory / "output").read_text().count("begins") < 2:
            assert process.poll() is None, (shared_directory / "output").read_text()
            time.sleep(0.02)
        jobs = set(jobs_here()) - before
        stacks = [each for job in jobs for each in read_answers(ask_here(job, StackQuestion(None)))]
    finally:
        end_group(process, grace_s=20)
    assert [(each.rank, each.frames[0].function, each.frames[0].line) for each in stacks] == [
        (0, "load", 9),
        (1, "load", 9),
    ]
