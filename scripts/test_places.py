"""`make test-places`: the tests as a person runs them, in six places where a person may clone. As root; hours.

    scripts/test_places.py [--target test|test-fast|demo] [PLACE…]

    closed    root's own home, closed to everybody else, as in each container image
    ordinary  the home of an ordinary user, who is made for it and removed again
    tmp       /tmp, of which each host of a lab has its own
    spaces    a folder with spaces and a letter beyond ASCII
    used      a home that was much used: odd settings, locks, variables of a job and of Python
    again     the second time in the clone of `tmp`

Each place is a fresh clone of the last commit with an environment of its own. What a target says lies in
.cache/test-places; the table at the end has a line for each place.
"""

from __future__ import annotations

import argparse
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".cache" / "test-places"
USER = "muster-places"
PLACES = ("closed", "ordinary", "tmp", "spaces", "used", "again")

# What a much used account has.
FILES = {
    ".config/muster/config.toml": 'site = "lumi"\naccount = "project_1"\ntime = "00:10:00"\nlauncher = "torchrun"\n',
    ".cache/torch_extensions/lock": "",
    ".cache/torch_extensions/py311_cpu/deepspeed/lock": "",
    ".triton/cache/lock": "",
    ".gitconfig": "[commit]\n\tgpgsign = true\n[core]\n\tpager = less\n",
    # What a module of the person's shadows.
    "packages/muster/__init__.py": "raise ImportError('the muster of PYTHONPATH')\n",
    "packages/torch.py": "raise ImportError('the torch of PYTHONPATH')\n",
}
VARIABLES = {
    "MUSTER_SITE": "lumi",
    "MUSTER_WIREUP": "telepathy",
    "MUSTER_GPUS": "3",
    "SLURM_JOB_ID": "4711",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_NTASKS": "8",
    "SLURM_PROCID": "3",
    "SBATCH_ACCOUNT": "a",
    "SALLOC_PARTITION": "b",
    "SRUN_CPUS_PER_TASK": "4",
    "RANK": "3",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "elsewhere",
    "MASTER_PORT": "29500",
    "OMPI_COMM_WORLD_RANK": "2",
    "PMI_RANK": "2",
    "OMP_NUM_THREADS": "5",
    "NCCL_DEBUG": "INFO",
    "CUDA_VISIBLE_DEVICES": "2",
    "PYTHONWARNINGS": "default",
    "COLUMNS": "40",
    "NO_COLOR": "1",
    "TMPDIR": "/var/tmp",  # noqa: S108  # a folder that hosts of a lab have too
}


@dataclass(frozen=True)
class Place:
    """A clone, who runs the tests there, and with which variables."""

    name: str
    clone: Path
    prefix: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def main() -> int:
    """Exit status: 0 if the target passed in each place."""
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("--target", default="test", help="what make is asked for; default: test")
    words.add_argument("places", nargs="*", metavar="PLACE", help=f"default: {' '.join(PLACES)}")
    options = words.parse_args()
    wanted = options.places or list(PLACES)
    unknown = [name for name in wanted if name not in PLACES]
    if unknown:
        print(f"test-places: there is no place {unknown[0]}\n\nhint: {' '.join(PLACES)}", file=sys.stderr)
        return 2
    if os.geteuid() != 0:
        print(
            "test-places: only root can make a user and a closed home\n\nhint: sudo make test-places", file=sys.stderr
        )
        return 2
    if "again" in wanted and "tmp" not in wanted:
        wanted.insert(wanted.index("again"), "tmp")
    LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="muster-places-", dir="/var/tmp") as folder:
        places = Places(Path(folder))
        try:
            results = [run_in(places.make(name), options.target) for name in PLACES if name in wanted]
        finally:
            places.remove()
    print(f"\n{'place':<10} {'result':<10} {'minutes':>7}  last line")
    for name, status, minutes, line in results:
        print(f"{name:<10} {f'status {status}' if status else 'passed':<10} {minutes:>7.1f}  {line}")
    return 1 if any(status for _, status, _, _ in results) else 0


class Places:
    """The clones that were made, and all that has to go again."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)
        self.folder = folder
        self.made: dict[str, Place] = {}
        self.outside: list[Path] = []

    def make(self, name: str) -> Place:
        """Clone into a place."""
        if name == "again":
            return Place(name, self.made["tmp"].clone)
        self.made[name] = getattr(self, f"_{name}")()
        return self.made[name]

    def remove(self) -> None:
        """Remove the user, and what lies outside the folder."""
        for folder in self.outside:
            shutil.rmtree(folder, ignore_errors=True)
        if "ordinary" in self.made:
            subprocess.run(["userdel", "--remove", USER], stderr=subprocess.DEVNULL, check=False)

    def _closed(self) -> Place:
        return Place("closed", clone(self._outside(pwd.getpwuid(0).pw_dir) / "muster"))

    def _tmp(self) -> Place:
        folder = self._outside("/tmp")  # noqa: S108  # the place is the subject
        folder.chmod(0o755)
        return Place("tmp", clone(folder / "muster"))

    def _spaces(self) -> Place:
        return Place("spaces", clone(self.folder / "with spaces ü" / "muster"))

    def _used(self) -> Place:
        return Place("used", clone(self.folder / "used"), variables=use(self.folder / "home"))

    def _ordinary(self) -> Place:
        """Closed to everybody but the user, as Ubuntu makes homes; with the PATH of a login."""
        home = self.folder / USER
        subprocess.run(["useradd", "--create-home", "--home-dir", str(home), "--shell", "/bin/sh", USER], check=True)
        home.chmod(0o700)
        folder = clone(home / "muster")
        subprocess.run(["chown", "-R", f"{USER}:", str(folder)], check=True)
        login = {"HOME": str(home), "USER": USER, "LOGNAME": USER}
        return Place(
            "ordinary", folder, ("runuser", "-u", USER, "--", "env", "PATH=/usr/local/bin:/usr/bin:/bin"), login
        )

    def _outside(self, above: str) -> Path:
        self.outside.append(Path(tempfile.mkdtemp(prefix="muster-places-", dir=above)))
        return self.outside[-1]


def clone(folder: Path) -> Path:
    """Clone the last commit."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


def use(home: Path) -> dict[str, str]:
    """Make a home that was much used; its variables."""
    for name, text in FILES.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        os.utime(file, (0, 0))  # a lock that its process left long ago
    return {**VARIABLES, "HOME": str(home), "PYTHONPATH": str(home / "packages")}


def run_in(place: Place, target: str) -> tuple[str, int, float, str]:
    """Make the target in a place: name, status, minutes, last line."""
    print(f"{place.name}: make {target} in {place.clone}", flush=True)
    log = LOGS / f"{place.name}.log"
    began = time.monotonic()
    with log.open("wb") as words:
        argv = [*place.prefix, "make", "-C", str(place.clone), target]
        status = subprocess.run(
            argv,
            env={**os.environ, **place.variables},
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            check=False,
        ).returncode
    lines = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith("make")]
    return place.name, status, (time.monotonic() - began) / 60, lines[-1] if lines else ""


if __name__ == "__main__":
    sys.exit(main())
