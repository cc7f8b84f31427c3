"""From a fresh clone to a trained model, where people really sit: as root and not, below /tmp, without a home …

    scripts/try_environments.py [NAME…]        (all; as root, some minutes each)

Each environment gets a clone of its own, and `make demo` in it. A table says how long each took; the words of what
failed stand above it. It makes an ordinary user of its own and removes it.
"""

from __future__ import annotations

import contextlib
import os
import pty
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
USER = "muster-demo"
LIMIT_S = 300


class Tried(NamedTuple):
    """How one environment did."""

    name: str
    install_s: float
    demo_s: float
    status: int
    words: str
    processor_s: float = 0.0
    """Of all processes that have ended; a cluster's daemons, which outlive their parents, are not in it."""


def processor_s() -> float:
    """Return the processor time of all children: a busy machine changes it less than the time of day."""
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def main(names: Sequence[str]) -> int:
    """Exit status: 0 if every environment trained its model in five minutes."""
    chosen = {name: ENVIRONMENTS[name] for name in names or ENVIRONMENTS}
    rows = []
    for name, start in chosen.items():
        print(f"{name} …", flush=True)
        with place(name) as folder:
            before_s = processor_s()
            rows.append(start(name, folder)._replace(processor_s=processor_s() - before_s))
        row = rows[-1]
        if row.status:
            print(row.words)
    for row in rows:
        verdict = "ok" if not row.status else f"status {row.status}"
        times = f"install {row.install_s:5.0f} s   demo {row.demo_s:5.0f} s   processor {row.processor_s:5.0f} s"
        print(f"{row.name:<22} {times}   {verdict}")
    return int(any(row.status or row.install_s + row.demo_s > LIMIT_S for row in rows))


@contextlib.contextmanager
def place(name: str) -> Iterator[Path]:
    """A clone that is gone at the end; its folder's name has a space where that is what is tried."""
    parent = "/tmp" if name == "tmp" else "/var/tmp"  # noqa: S108  # the one that a lab's hosts have of their own, the other not
    folder = Path(tempfile.mkdtemp(dir=parent, prefix="a folder " if name == "spaces" else "muster-"))
    folder.chmod(0o755)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder / "muster")], check=True)
    try:
        yield folder / "muster"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def demo(
    name: str,
    folder: Path,
    before: Sequence[str] = (),
    unset: Sequence[str] = (),
    between: Sequence[str] = (),
    **more: str,
) -> Tried:
    """Install, then run the demo, each behind the words of `before`, the demo behind those of `between` too."""
    environment = {key: value for key, value in {**os.environ, **more}.items() if key not in unset}
    began = time.monotonic()
    status, words = run([*before, "make", "-C", str(folder), ".venv/.demo-ready"], environment)
    installed = time.monotonic()
    if not status:
        status, words = run([*before, *between, "make", "-C", str(folder), "demo"], environment)
    return Tried(name, installed - began, time.monotonic() - installed, status, words)


def run(argv: Sequence[str], environment: dict[str, str]) -> tuple[int, str]:
    """Return how a program ended, and what it said."""
    done = subprocess.run(
        argv,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return done.returncode, done.stdout


def narrow(name: str, folder: Path) -> Tried:
    """On a terminal of 40 columns; its words are what was drawn."""
    installed = demo(name, folder, between=["true"])
    began, drawn = time.monotonic(), bytearray()

    def read(descriptor: int) -> bytes:
        part = os.read(descriptor, 65536)
        drawn.extend(part)
        return part

    command = f"stty cols 40 rows 24; exec make -C '{folder}' demo"
    silent = os.open(os.devnull, os.O_WRONLY)
    kept = os.dup(1)
    os.dup2(silent, 1)
    try:
        status = os.waitstatus_to_exitcode(pty.spawn(["sh", "-c", command], read, lambda _: b""))
    finally:
        os.dup2(kept, 1)
    return installed._replace(demo_s=time.monotonic() - began, status=status, words=drawn.decode(errors="replace"))


def as_user(name: str, folder: Path) -> Tried:
    """As an ordinary user with subordinate ids, as useradd gives them."""
    subprocess.run(["useradd", "--create-home", USER], check=True)
    try:
        subprocess.run(["chown", "-R", USER, str(folder.parent)], check=True)
        return demo(name, folder, before=["runuser", "-u", USER, "--"], HOME=f"/home/{USER}", USER=USER)
    finally:
        subprocess.run(["userdel", "--remove", USER], check=False, capture_output=True)


def without_writable_home(name: str, folder: Path) -> Tried:
    """A home that cannot be written, even by root."""
    home = folder.parent / "home"
    home.mkdir()
    closed = 'mount --bind "$HOME" "$HOME" && mount -o remount,bind,ro "$HOME" && exec "$@"'
    before = ["unshare", "--mount", "sh", "-c", closed, "sh"]
    return demo(name, folder, before, ["XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"], HOME=str(home))


def without_network(name: str, folder: Path) -> Tried:
    """After the install there is no network but the loopback interface."""
    return demo(name, folder, between=["unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"])


def with_python(version: str) -> Callable[[str, Path], Tried]:
    """The login side is the one file under another Python; the ranks have the environment with torch."""

    def start(name: str, folder: Path) -> Tried:
        installed = demo(name, folder, between=["true"])
        own = folder / ".venv/bin/python"
        python = run([str(own), str(folder / "scripts/fetch_python.py"), version, str(folder.parent)], dict(os.environ))
        run([str(own), "-m", "pip", "install", "--quiet", "hatchling"], dict(os.environ))
        made = run([str(own), str(folder / "scripts/make_dist.py")], dict(os.environ))
        if python[0] or made[0]:
            return installed._replace(status=1, words=python[1] + made[1])
        words = f"{python[1].split()[-1]} {folder}/dist/muster.pyz"
        return demo(name, folder, DEMO_MUSTER=words)._replace(install_s=installed.install_s)

    return start


ENVIRONMENTS: dict[str, Callable[[str, Path], Tried]] = {
    "root": demo,
    "user": as_user,
    "tmp": demo,
    "spaces": demo,
    "no-home": lambda name, folder: demo(name, folder, unset=["HOME", "XDG_STATE_HOME"]),
    "read-only-home": without_writable_home,
    "dumb": lambda name, folder: demo(name, folder, TERM="dumb"),
    "40-columns": narrow,
    "python-3.9": with_python("3.9"),
    "python-3.14": with_python("3.14"),
    "no-network": without_network,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
