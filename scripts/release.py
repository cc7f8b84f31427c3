"""`make release`: check, build and tag the version of src/muster/__init__.py; uploading is a person's step.

    scripts/release.py [--tests TARGET]      (test)

All of it happens in a fresh clone of this commit, so nothing that lies about here comes in. The clone gets the date in
the changelog, the tests, the packages, a trial of each package in a new environment, the notes and the tag; only when
all of that held, the commit and the tag come back into this repository, and the packages into dist/.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHANGELOG = "CHANGELOG.md"
NEXT = "## Unreleased\n\n### What changes for you\n"
NOTHING = "Nothing yet.\n"
IDENTITY = ("user.name", "user.email")
_VERSION = re.compile(r'^__version__ = "(\d+\.\d+\.\d+)"$', re.MULTILINE)


def main(words: Sequence[str]) -> int:
    """Make the release; exit status 1 with a sentence where it cannot be made."""
    parser = argparse.ArgumentParser(prog="make release")
    parser.add_argument("--tests", metavar="TARGET", default="test")
    target = parser.parse_args(words).tests
    version = version_of((ROOT / "src/muster/__init__.py").read_text(encoding="utf-8"))
    tag = f"v{version}"
    changelog = dated(
        (ROOT / CHANGELOG).read_text(encoding="utf-8"), version, datetime.now(tz=timezone.utc).date().isoformat()
    )
    refuse_unready(tag)
    clone = ROOT / ".cache" / f"release-{version}"
    shutil.rmtree(clone, ignore_errors=True)
    git("clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone), folder=ROOT)
    for key in IDENTITY:
        git("config", key, git("config", key, folder=ROOT), folder=clone)
    (clone / CHANGELOG).write_text(changelog, encoding="utf-8")
    git("commit", "--quiet", "--all", "--message", f"Version {version}", folder=clone)
    step(f"make {target}, in a fresh clone", "make", target, folder=clone)
    step("make dist", "make", "dist", folder=clone)
    try_packages(clone / "dist", version)
    notes = notes_of(changelog, version, clone / "dist", target)
    (clone / "dist/NOTES.md").write_text(notes, encoding="utf-8")
    git("tag", "--annotate", "--cleanup=verbatim", "--file", str(clone / "dist/NOTES.md"), tag, folder=clone)
    git("fetch", "--quiet", "--no-tags", str(clone), "HEAD", folder=ROOT)
    git(
        "merge", "--quiet", "--ff-only", "FETCH_HEAD", folder=ROOT
    )  # before the tag: it fails if something was committed here
    git("fetch", "--quiet", str(clone), f"refs/tags/{tag}:refs/tags/{tag}", folder=ROOT)
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    shutil.copytree(clone / "dist", ROOT / "dist")
    shutil.rmtree(clone)
    print(farewell(version))
    return 0


def version_of(text: str) -> str:
    """Return the version that the package's first file names."""
    match = _VERSION.search(text)
    if match is None:
        sys.exit("src/muster/__init__.py names no version of three numbers")
    return match[1]


def dated(changelog: str, version: str, day: str) -> str:
    """Return the changelog with what is unreleased under this version and day, and an empty section above it."""
    head, found, rest = changelog.partition("## Unreleased\n")
    if not found or f"\n## {version} " in changelog:
        sys.exit(f"{CHANGELOG} has no section 'Unreleased', or has version {version} already: raise the version first")
    if NOTHING in rest.partition("\n## ")[0]:
        sys.exit(f"{CHANGELOG}: it has no section of this version")
    return f"{head}{NEXT}{NOTHING}\n## {version} — {day}\n{rest}"


def refuse_unready(tag: str) -> None:
    """End where this working tree holds changes, the tag is there, or git does not know who makes the release."""
    if git("status", "--porcelain", folder=ROOT):
        sys.exit("there are changes that are not committed\n\nhint: commit them, or put them away with git stash")
    if git("tag", "--list", tag, folder=ROOT):
        sys.exit(f"the tag {tag} is there already\n\nhint: raise __version__ in src/muster/__init__.py")
    for key in IDENTITY:
        if not subprocess.run(["git", "config", key], cwd=ROOT, capture_output=True, check=False).stdout.strip():
            sys.exit(f"git has no {key} for the tag\n\nhint: git config {key} …")


def try_packages(dist: Path, version: str) -> None:
    """Install the wheel and the sdist each in a new environment, and run them and the one file."""
    commands = {}
    for package in (*dist.glob("*.whl"), *dist.glob("*.tar.gz")):
        folder = dist.parent / ".cache" / f"tried-{package.suffix[1:]}"
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        step(f"pip install {package.name}, in a new environment", *pip, str(package), folder=dist)
        commands[package.name] = [str(folder / "bin/muster")]
    commands["muster.pyz"] = [sys.executable, "-I", str(dist / "muster.pyz")]
    (dist.parent / ".cache/tried.sh").write_text("#!/bin/bash\n#SBATCH --nodes=1 --time=5\nhostname\n")
    for name, command in commands.items():
        step(f"{name}: muster run", *command, "run", "--here", "--", "true", folder=dist)
        step(f"{name}: muster lint", *command, "lint", str(dist.parent / ".cache/tried.sh"), folder=dist)
        said = subprocess.run([*command, "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
        if said.strip() != f"muster {version}":
            sys.exit(f"{name}: muster --version says {said.strip()!r}")


def notes_of(changelog: str, version: str, dist: Path, target: str) -> str:
    """Return the notes of a release: its part of the changelog, what was checked, and the digest of each file."""
    section = changelog.partition(f"\n## {version} ")[2].partition("\n")[2].partition("\n## ")[0].strip()
    files = sorted(path for path in dist.iterdir() if path.is_file())
    sums = "\n".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in files)
    return (
        f"Muster {version}\n\n{section}\n\n### Checked\n`make {target}` in a fresh clone; the wheel, the sdist and "
        f"muster.pyz were installed and run with Python {'.'.join(map(str, sys.version_info[:3]))}.\n\n"
        f"### SHA-256\n{sums}\n"
    )


def farewell(version: str) -> str:
    """Return what is left for a person to do."""
    return f"""
version {version} is built in dist/, and tagged v{version} here; nothing has left this machine. What a person does now:
  read dist/NOTES.md
  git push --follow-tags
  twine upload dist/*.whl dist/*.tar.gz
  attach dist/muster.pyz, dist/BUNDLED.md and dist/recipes to the release, with dist/NOTES.md as its text
  raise __version__ in src/muster/__init__.py"""


def step(title: str, *words: str, folder: Path) -> None:
    """Run a command after saying what it is; its words and its questions are seen as they come."""
    print(f"--- {title}", flush=True)
    clean = {key: value for key, value in os.environ.items() if key not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}}
    status = subprocess.run(words, cwd=folder, env=clean, check=False).returncode
    if status:
        sys.exit(f"\nno release: {title} ended with status {status}, in {folder}; nothing has changed in {ROOT}")


def git(*words: str, folder: Path) -> str:
    """Return what git says; end with its sentence where it fails."""
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
