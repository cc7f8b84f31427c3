"""Rehearse many scripts at one site, typed by whoever starts this, over one lab.

    python rehearse_many.py SITE FOLDER HANG < scripts.json > answers.json

The lab and its probes are made once; all else is `muster run --rehearse` from its words to its exit status, each in a
process of its own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

SITES = {
    "generic": ("-N", "2", "-t", "30"),
    "lumi": ("-A", "project_465000000", "-N", "2", "-t", "30"),
    "clariden": ("-N", "2", "-t", "30"),
    "leonardo": ("-A", "phys", "-N", "2", "-t", "30"),
    "horeka": ("-N", "2", "-t", "30", "--mem", "100G"),
}


def rehearse_all(site: str, folder: Path, scripts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return status and stderr of each rehearsal."""
    from muster_lab.rehearse import cluster, verb

    real_lab, real_probes = cluster.rehearsal_lab, verb._probed
    with ExitStack() as stack:
        kept: dict[str, Any] = {}

        @contextmanager
        def one_lab(*words: Any) -> Iterator[Any]:
            if "lab" not in kept:
                kept["lab"] = stack.enter_context(real_lab(*words))
            yield kept["lab"]

        def probes(place: Any, plan: Any) -> Any:
            if "points" not in kept:
                kept["points"] = real_probes(place, plan)
            return list(kept["points"])

        for room, name, stand_in in ((cluster, "rehearsal_lab", one_lab), (verb, "_probed", probes)):
            setattr(room, name, stand_in)
        return [
            _rehearsed(site, folder, script, first=not place) for place, script in enumerate([scripts[0], *scripts])
        ][1:]


def _rehearsed(site: str, folder: Path, script: dict[str, Any], *, first: bool) -> dict[str, Any]:
    """Rehearse one script; the first makes the lab, in this process, with a command that does nothing."""
    from muster.cli.app import main

    for name, text in {**script["helpers"], "train.py": script["text"]}.items():
        (folder / name).write_text(text)
    argv = ["true"] if first else script["argv"]
    words = [
        "run",
        "--rehearse",
        "--site",
        site,
        *SITES[site],
        "--ranks",
        "2",
        "--hang",
        f"{script['seconds']}s",
        "--",
        *argv,
    ]
    said = folder.parent / f"said.{os.getpid()}"
    child = 0 if first else os.fork()
    if child == 0:
        descriptors = [os.dup(1), os.dup(2)]
        target = os.open(said, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        os.dup2(target, 1)
        os.dup2(target, 2)
        try:
            status = main(words)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 70
        sys.stdout.flush()
        sys.stderr.flush()
        if not first:
            os._exit(status)
        for number, descriptor in enumerate(descriptors, 1):
            os.dup2(descriptor, number)
        if status:
            raise RuntimeError(said.read_text())
        return {}
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"status": status, "said": said.read_text(errors="replace")}


if __name__ == "__main__":
    os.chdir(sys.argv[2])
    os.environ["PWD"] = sys.argv[2]
    json.dump(rehearse_all(sys.argv[1], Path(sys.argv[2]), json.load(sys.stdin)), sys.stdout)
