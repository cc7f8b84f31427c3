"""`make dist`: a wheel, an sdist, recipes, wheels of single packages, and `muster.pyz`, one file without pip.

    scripts/make_dist.py [FOLDER]      (dist)

The one file carries Muster, what it is drawn with, and for x86_64 and aarch64 py-spy and the compiled parts of Python
3.9 to 3.14: all that pip installs. The same sources and dependencies give the same bytes.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from part_wheels import write_part_wheels

ROOT = Path(__file__).resolve().parent.parent
START = ROOT / "packaging" / "one_file.py"
RECIPES = ("conda-forge/recipe.yaml", "spack/package.py", "easybuild/muster-hpc.eb")
MINORS = range(9, 15)
PROCESSORS = ("x86_64", "aarch64")
COMPILED = ("msgspec", "tree-sitter", "tree-sitter-bash")
PROGRAM = "py-spy"
PURE = ("rich", "eval_type_backport", "tomli")
_SCRIPTS = re.compile(r"^[^/]+\.data/scripts/")  # where a wheel holds its programs
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # of a zip file

Content = Mapping[str, bytes]


def main(folder: str = "dist") -> int:
    """Exit status: 0 when all of them are there."""
    target = (ROOT / folder).resolve()
    target.mkdir(parents=True, exist_ok=True)
    for old in [*target.glob("muster_hpc-*"), *target.glob("muster.pyz"), *target.glob("parts/*.whl")]:
        old.unlink()
    called("-m", "hatchling", "build", "-d", str(target))
    (wheel,) = target.glob("*.whl")
    with tempfile.TemporaryDirectory() as work:
        write_one_file(target / "muster.pyz", {**content_of(wheel), **dependencies(Path(work))})
    write_recipes(target / "recipes", next(target.glob("*.tar.gz")))
    (target / "parts").mkdir(exist_ok=True)
    write_part_wheels(wheel, target / "parts")
    for made in sorted([*target.glob("muster*"), *target.glob("parts/*.whl")]):
        if made.is_file():
            print(f"{made}  {made.stat().st_size / 1e6:.1f} MB")
    return 0


def write_recipes(folder: Path, sdist: Path) -> None:
    """Write the recipes for conda-forge, Spack and EasyBuild with the version and the checksum of this sdist."""
    version = sdist.name.removesuffix(".tar.gz").rpartition("-")[2]
    checksum = hashlib.sha256(sdist.read_bytes()).hexdigest()
    for recipe in RECIPES:
        text = (ROOT / "packaging" / recipe).read_text().replace("@VERSION@", version).replace("@SHA256@", checksum)
        target = folder / recipe
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def called(*words: str) -> None:
    """Run this Python with these words in the project; its own words only if it fails."""
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")


def content_of(wheel: Path, folder: str = "") -> dict[str, bytes]:
    """Return what a wheel holds, by its path below `folder`."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            f"{folder}{_SCRIPTS.sub('bin/', name)}": archive.read(name)
            for name in archive.namelist()
            if not name.endswith("/")
        }


def dependencies(work: Path) -> dict[str, bytes]:
    """Return what Muster needs beside itself: the pure parts once, the others for each processor or Python."""
    parts: dict[str, bytes] = {}
    for wheel in downloaded(work / "pure", PURE, ["--python-version", "3.9", "--platform", "any"]):
        parts |= content_of(wheel)
    for tag, words in variants():
        for wheel in downloaded(work / tag, COMPILED, [*words, "--no-deps"]):
            parts |= content_of(wheel, f"compiled/{tag}/")
    for processor in PROCESSORS:
        words = [*platforms(processor), "--no-deps"]
        for wheel in downloaded(work / processor, [PROGRAM], words):
            parts |= content_of(wheel, f"compiled/{processor}/")
    return parts


def variants() -> Iterator[tuple[str, list[str]]]:
    """Yield each Python and processor: its name in the file, and pip's words for it."""
    for minor in MINORS:
        for processor in PROCESSORS:
            yield f"cp3{minor}-{processor}", ["--python-version", f"3.{minor}", *platforms(processor)]


def platforms(processor: str) -> list[str]:
    """Return pip's words for the Linux of every cluster on this processor."""
    names = ("manylinux2014", "manylinux_2_17", "manylinux_2_5", "manylinux1")
    return [word for name in names for word in ("--platform", f"{name}_{processor}")]


def downloaded(folder: Path, names: Sequence[str], words: Sequence[str]) -> list[Path]:
    """Return the wheels that pip brings for these names."""
    pip = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    called(*pip, "--dest", str(folder), *words, *names)
    return sorted(folder.glob("*.whl"))


def write_one_file(path: Path, content: Content) -> None:
    """Write the archive that a Python runs, and a shell too."""
    tags = " ".join(tag for tag, _ in variants())
    build = digest(content)
    start = START.read_text().replace("@BUILD@", build).replace("@TAGS@", tags)
    whole = {**content, "__main__.py": start.encode(), "muster-one-file": build.encode()}
    with path.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(whole):
                entry = zipfile.ZipInfo(name, _FIRST_DAY)
                mode = 0o755 if "/bin/" in name else 0o644
                entry.external_attr, entry.compress_type = mode << 16, zipfile.ZIP_DEFLATED
                archive.writestr(entry, whole[name])
    path.chmod(0o755)


def digest(content: Content) -> str:
    """Return a few letters that tell this content from every other, the start among it."""
    whole = hashlib.sha256(START.read_bytes())
    for name in sorted(content):
        whole.update(f"{name}\0{len(content[name])}\0".encode() + content[name])
    return whole.hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
