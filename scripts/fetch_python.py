"""A Python of another version, fetched from a Debian suite and made to run here beside the machine's own.

    scripts/fetch_python.py VERSION FOLDER

Prints the path of the interpreter. What stands in FOLDER from an earlier call is used again. Nothing is installed.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from muster.runner import checked, run
from muster_lab.debian import Apt, mirror_of, open_to_all, patch

# Version → the Debian suite that has it.
SUITES = {"3.9": "bullseye", "3.11": "bookworm", "3.13": "trixie", "3.14": "unstable"}


def main(version: str, folder: str) -> int:
    """Exit status: 0 if the interpreter answers."""
    target = Path(folder).resolve() / version
    if not interpreter_in(target, version).exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            lay_out(version, Path(work), target)
    print(interpreter_in(target, version))
    checked(run([str(interpreter_in(target, version)), "-c", "import ctypes, ssl, zlib"]))
    return 0


def interpreter_in(target: Path, version: str) -> Path:
    """Return the path of the interpreter below a folder."""
    return target / f"usr/bin/python{version}"


def lay_out(version: str, work: Path, target: Path) -> None:
    """Fetch the interpreter with its libraries, and bind them to each other by their paths."""
    apt = Apt(work / "apt", SUITES[version], mirror_of(run), run)
    apt.update()
    names = [f"python{version}", f"libpython{version}-stdlib"]
    if version == "3.9":  # pip needs it; later Pythons have none
        names.append("python3-distutils")
    said = apt.ask("install", "--simulate", "--no-install-recommends", *names)
    chosen = dict(re.findall(r"^Inst (\S+) \((\S+)", said, flags=re.MULTILINE))
    wanted = {name: version_of for name, version_of in chosen.items() if re.match(r"(lib|python|zlib|openssl)", name)}
    root = work / "root"
    for file in apt.download(wanted):
        checked(run(["dpkg-deb", "--extract", str(file), str(root)]))
    bind(root, target, version)
    open_to_all(root)
    root.rename(target)


def bind(root: Path, target: Path, version: str) -> None:
    """Write into the programs where their libraries are, and into the interpreter which libc loads them."""
    gathered = root / "libraries"
    gathered.mkdir()
    for file in [*root.glob("lib/*/*.so*"), *root.glob("usr/lib/*/*.so*")]:
        if (found := file.resolve()).is_file() and not (gathered / file.name).exists():
            shutil.copy2(found, gathered / file.name)
    program = interpreter_in(root, version)
    modules = list(root.glob(f"usr/lib/python{version}/lib-dynload/*.so"))
    patch(run, ["--force-rpath", "--set-rpath", f"{target}/libraries"], [program, *modules])
    loader = Path(checked(run(["patchelf", "--print-interpreter", str(program)])).stdout.strip())
    patch(run, ["--set-interpreter", f"{target}/libraries/{loader.name}"], [program])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
