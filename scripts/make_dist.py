"""`make dist`: a wheel, an sdist, recipes, wheels of single packages, and `muster.pyz`, one file without pip.

What the one file bundles, with licences, is listed in BUNDLED.md: beside it, and in it.

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
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from part_wheels import write_part_wheels

ROOT = Path(__file__).resolve().parent.parent
START = ROOT / "packaging" / "one_file.py"
RECIPES = ("conda-forge/recipe.yaml", "spack/package.py", "easybuild/muster-hpc.eb", "lmod/muster-hpc.lua")
MINORS = range(9, 15)
PROCESSORS = ("x86_64", "aarch64")
COMPILED = ("msgspec", "tree-sitter", "tree-sitter-bash")
PROGRAM = "py-spy"
PURE = ("rich", "eval_type_backport", "tomli")
_LICENCE = re.compile(r"/(?:licen[cs]e|copying|notice)[^/]*$", re.IGNORECASE)
BUNDLED = """\
# What muster.pyz bundles

Each package as its authors released it, unchanged; one with compiled parts is there for each Python and processor.
The texts of the licences lie in the archive: `unzip -p muster.pyz PATH`.

| package | version | licence | text |
|---|---|---|---|
{lines}"""
# Where a wheel holds its programs, and the files beside them.
_PLACES = ((re.compile(r"^[^/]+\.data/scripts/"), "bin/"), (re.compile(r"^[^/]+\.data/data/"), ""))
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
        content = {**content_of(wheel), **dependencies(Path(work))}
    bundled = list_of_bundled(content)
    (target / "BUNDLED.md").write_text(bundled, encoding="utf-8")
    write_one_file(target / "muster.pyz", {**content, "BUNDLED.md": bundled.encode()})
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
        return {folder + placed(name): archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def placed(name: str) -> str:
    """Return where pip would put a file of a wheel, below one folder."""
    for pattern, place in _PLACES:
        name = pattern.sub(place, name)
    return name


def dependencies(work: Path) -> dict[str, bytes]:
    """Return what Muster needs beside itself: the pure parts once, the others for each processor or Python."""
    wanted: list[tuple[str, Path, Sequence[str], list[str]]] = [
        ("", work / "pure", PURE, ["--python-version", "3.9", "--platform", "any"])
    ]
    wanted += [(f"compiled/{tag}/", work / tag, COMPILED, [*words, "--no-deps"]) for tag, words in variants()]
    wanted += [
        (f"compiled/{processor}/", work / processor, (PROGRAM,), [*platforms(processor), "--no-deps"])
        for processor in PROCESSORS
    ]
    with ThreadPoolExecutor(4) as several:  # pip mostly waits for the index
        wheels = list(several.map(lambda each: downloaded(*each[1:]), wanted))
    return {
        name: text
        for (folder, *_), found in zip(wanted, wheels)
        for wheel in found
        for name, text in content_of(wheel, folder).items()
    }


def list_of_bundled(content: Content) -> str:
    """Return a table of the packages in these files: versions, licences, and where the licences' texts lie."""
    packages: dict[str, list[tuple[str, Message]]] = defaultdict(list)
    for name, text in content.items():
        if name.endswith(".dist-info/METADATA"):
            fields = message_from_bytes(text)
            packages[str(fields["Name"])].append((name.removesuffix("METADATA"), fields))
    lines = []
    for name in sorted(packages, key=str.lower):
        versions = ", ".join(sorted({str(fields["Version"]) for _, fields in packages[name]}))
        licences = {licence_of(fields) for _, fields in packages[name]} - {""}
        folder = min(folder for folder, _ in packages[name])
        texts = sorted(each for each in content if each.startswith(folder) and _LICENCE.search(each))
        if len(licences) != 1 or not texts:
            sys.exit(f"{name} {versions}: no licence, or several, or no text of one: {licences}, {texts}")
        lines.append(f"| {name} | {versions} | {licences.pop()} | {', '.join(f'`{each}`' for each in texts)} |\n")
    return BUNDLED.format(lines="".join(lines))


def licence_of(fields: Message) -> str:
    """Return the licence that a package names: as an expression, as a word, or as a classifier."""
    classifiers = [str(each).split(" :: ")[-1] for each in fields.get_all("Classifier", []) if "License ::" in each]
    words = (fields["License-Expression"], fields["License"], *classifiers)
    return next((str(word) for word in words if word and "\n" not in str(word)), "")


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
