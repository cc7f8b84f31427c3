"""A build as a job: what its node has to be told, and how that is told to nobody else.

A job starts with a clean environment, and what a job is given as words or as a script can be read by everybody on the
cluster. So the few variables that a build needs, and the password, go in a file beside what is built, which only its
owner can read and the job removes as soon as it has read it.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from muster.errors import RequestError
from muster.runner import DEVNULL, end_group, start

PASSWORD = "MUSTER_BUILD_PASSWORD"  # noqa: S105  # the name of a variable

# Slurm kills what does not heed its SIGTERM half a minute later.
_PATIENCE_S = 40.0
_NEEDED = re.compile(
    r"PATH|LD_LIBRARY_PATH|XDG_CACHE_HOME|(?:https?|no|all)_proxy|SSL_CERT_(?:FILE|DIR)|(?:REQUESTS|CURL)_CA_BUNDLE"
    r"|PIP_\w+|(?:APPTAINER|SINGULARITY)_(?:CACHEDIR|TMPDIR)|ENROOT_\w+",
    re.IGNORECASE,
)


@contextmanager
def handed_over(target: Path, environment: Mapping[str, str], extra_environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield a file with what the job needs of `environment`, and with `more`; gone when the block ends."""
    if not target.parent.is_dir():
        raise RequestError(f"the directory {target.parent} is not there", hint="make it, or give another place")
    needed_environment = {name: value for name, value in environment.items() if _NEEDED.fullmatch(name)}
    file = target.with_name(f".{target.name}.job-{os.getpid()}")
    file.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as content:
            json.dump({**needed_environment, **extra_environment}, content)
        yield file
    finally:
        file.unlink(missing_ok=True)


def follow(argv: Sequence[str]) -> int:
    """Run what starts the job to its end. Ctrl-C is passed on, and answered when the job is gone."""
    process = start(argv, stdin=DEVNULL, own_group=True)
    try:
        return process.wait()
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
        return 128 + signal.SIGINT
    finally:
        end_group(process, grace_s=_PATIENCE_S)


def take_over(file: Path) -> dict[str, str]:
    """Return, in the job, what was handed over, and remove the file."""
    try:
        document = json.loads(file.read_text())
        file.unlink()
    except (OSError, ValueError) as error:
        raise RequestError(
            f"the job cannot read its order: {error}", hint="work in a folder that the compute nodes see too"
        ) from None
    return dict(document)
