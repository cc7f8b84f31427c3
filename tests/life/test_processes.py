"""What a rank's host tells of its own processes."""

from __future__ import annotations

import os
from subprocess import PIPE, Popen

from muster.life.asking import descendants


def test_the_processes_below_one_are_its_children_and_theirs() -> None:
    with Popen(["sh", "-c", "sleep 30 & echo $!; wait"], stdout=PIPE, text=True) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        try:
            assert descendants(child.pid) == [grandchild]
            below = descendants(os.getpid())
            assert below.index(child.pid) < below.index(grandchild)
            assert os.getpid() not in below
        finally:
            os.kill(grandchild, 9)
            child.wait()
