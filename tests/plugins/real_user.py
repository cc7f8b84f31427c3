"""An ordinary user of this machine, made with useradd for a test and removed after it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import msgspec
import pytest

from muster.runner import ProgramResult, checked, run

__all__ = ["RealUser", "real_user"]

ROOT = Path(__file__).resolve().parents[2]
_OTHERS = ("msgspec", "tomli", "typing_extensions")


@dataclass(frozen=True)
class RealUser:
    """The user: a name, a home that is theirs, and a Python that they may start, which has Muster."""

    name: str
    home: Path
    python: str

    def argv(self, *words: str) -> list[str]:
        """`words`, typed by the user."""
        return ["runuser", "-u", self.name, "--", *words]

    def muster(self, *words: str) -> list[str]:
        return self.argv(self.python, "-m", "muster", *words)

    def bring_torch(self) -> None:
        """Let the user's Python find the torch of the tests, where it lies; skip where the user may not go there."""
        torch = find_spec("torch")
        if torch is None or torch.origin is None:
            pytest.skip("the tests' Python has no torch")
        folder = Path(torch.origin).parent.parent
        packages = next((self.home / "venv/lib").glob("python*/site-packages"))
        (packages / "torch.pth").write_text(f"{folder}\n")
        if not self.run(self.argv(self.python, "-c", "from torch import distributed")).ok:
            pytest.skip(f"the torch in {folder} is closed to other users")

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        own = {"HOME": str(self.home), "USER": self.name, "LOGNAME": self.name}
        path = f"{self.home}/venv/bin:{os.environ['PATH']}"
        return {**own, "PATH": path, **(more or {})}

    def run(self, words: Sequence[str], *, cwd: Path | None = None, timeout_s: float = 240) -> ProgramResult:
        return run(words, env=self.environment(), cwd=cwd or self.home, timeout_s=timeout_s)

    def owns(self, folder: Path) -> None:
        """Make the folder, and all in it, the user's."""
        checked(run(["chown", "-R", f"{self.name}:", str(folder)]))


@contextmanager
def real_user() -> Iterator[RealUser]:
    """Make the user, with a copy of Muster in the home: the checkout may lie where nobody but root may go."""
    if os.geteuid() != 0:
        pytest.skip("by design: only root can make a user")
    if shutil.which("useradd") is None or shutil.which("runuser") is None:
        pytest.skip("this machine lacks useradd or runuser")
    home = Path(mkdtemp(dir="/var/tmp", prefix="muster-user-"))
    name = f"mu{os.getpid()}"
    home.chmod(0o755)
    try:
        checked(run(["useradd", "--no-create-home", "--home-dir", str(home), "--shell", "/bin/sh", name]))
        _bring_software(home / "software")
        checked(run([_python_of(name), "-m", "venv", "--without-pip", str(home / "venv")], env={}))
        packages = next((home / "venv/lib").glob("python*/site-packages"))
        (packages / "software.pth").write_text(f"{home}/software\n")
        user = RealUser(name, home, str(home / "venv/bin/python"))
        user.owns(home)
        yield user
    finally:
        run(["userdel", name])
        shutil.rmtree(home, ignore_errors=True)


def _bring_software(folder: Path) -> None:
    installed = Path(msgspec.__file__).parent.parent
    for source in [*(ROOT / "src").glob("muster*"), *(installed / name for name in _OTHERS)]:
        if source.is_dir():
            shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))


def _python_of(name: str) -> str:
    """Return a Python of this version that the user may start: the tests' own may lie in a closed home."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    candidates = [f"{sys.base_prefix}/bin/{version}", f"/usr/bin/{version}", f"/usr/local/bin/{version}"]
    for python in candidates:
        if Path(python).exists() and run(["runuser", "-u", name, "--", python, "-c", ""], cwd="/").ok:
            return python
    pytest.skip(f"this machine has no {version} that another user may start")
