"""A Containerfile built by podman, where it is: every instruction means what its own tool says it means.

Its storage lies in memory, as sites without a writable local disk want it, and is gone with the build. Commands run
with chroot's isolation, which asks for no cgroups and no network of their own, so it is the same on a login node, in a
job and in a container.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from muster.runner import Runner, checked, run
from muster_build.draft import digest_of_path, remove
from muster_build.engine import Builder
from muster_build.registry import Login, manifest_digest
from muster_build.source import RegistryImage, parse_source

if TYPE_CHECKING:
    from typing_extensions import TypeGuard

Say = Callable[[str], None]

_NAME = "localhost/muster-build:1"
_MEMORY = Path("/dev/shm")  # noqa: S108  # where the sites that have podman put its storage


class Built(msgspec.Struct, frozen=True):
    """An image in podman's storage, for as long as that is there."""

    name: str
    identity: str
    """podman's own id of it, a digest."""

    bases: Mapping[str, str]
    """What FROM names → the digest that was pulled."""

    environment: Mapping[str, str]
    """In which podman, and enroot through it, finds that storage."""

    program: str
    folder: Path

    def save(self, builder: Builder, say: Say) -> Path:
        """Save the image as `docker save` would, and return the file."""
        archive = self.folder / "built.tar"
        words = [self.program, "save", "--quiet", "--format", "docker-archive", "--output", str(archive), self.name]
        builder.follow(words, say, environment=self.environment)
        return archive


def is_containerfile(file: Path | None) -> TypeGuard[Path]:
    """Return whether a file has the name of a Containerfile, as podman and docker know it."""
    return file is not None and file.name.startswith(("Containerfile", "Dockerfile"))


def finds_podman(environment: Mapping[str, str]) -> str | None:
    """Return where it is."""
    return shutil.which("podman", path=environment.get("PATH"))


@contextmanager
def built_by_podman(
    builder: Builder, program: str, file: Path, say: Say, *, start: RegistryImage | None, login: Login | None
) -> Iterator[Built]:
    """Build `file` in its own directory, from `start` where that is to stand for what its FROM names."""
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else builder.cache
    folder = Path(tempfile.mkdtemp(prefix="muster-podman-", dir=place))
    try:
        text = file.read_text()
        registry = start or first_registry(text)
        environment = _environment(builder.environment, folder, (registry.host, login) if registry and login else None)
        said_to = folder / "id"
        say(f"podman builds {file}; its storage lies in {folder} and goes with the build")
        words = ["build", "--isolation", "chroot", "--tag", _NAME, "--iidfile", str(said_to), "--file", str(file)]
        words += [f"--from={start.host}/{start.name}{_which(start)}"] if start else []
        words += ["--tls-verify=false"] if registry and registry.is_plain_http else []
        builder.follow([program, *words, str(file.absolute().parent)], say, environment=environment)
        pulled = bases_of(text) if start is None else [f"{start.host}/{start.name}{_which(start)}"]
        bases = {base: _digest(program, base, environment) for base in pulled}
        yield Built(_NAME, said_to.read_text().strip(), bases, environment, program, folder)
    finally:
        _take_away(program, folder, builder.environment)


def _environment(environment: Mapping[str, str], folder: Path, login: tuple[str, Login] | None) -> dict[str, str]:
    """Return podman's environment: root's reads a file, an ordinary user's looks where its directories are."""
    for name in ("data", "run", "tmp"):
        (folder / name).mkdir(mode=0o700)
    settings = folder / "storage.conf"
    root, transient = folder / "data/containers/storage", folder / "run/containers"
    settings.write_text(f'[storage]\ndriver = "overlay"\ngraphroot = "{root}"\nrunroot = "{transient}"\n')
    own_environment = {
        "CONTAINERS_STORAGE_CONF": str(settings),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "TMPDIR": str(folder / "tmp"),
    }
    if login is not None:
        host, user = login
        secret = folder / "auth.json"
        with os.fdopen(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as content:
            json.dump({"auths": {host: {"auth": user.header.removeprefix("Basic ")}}}, content)
        own_environment["REGISTRY_AUTH_FILE"] = str(secret)
    return {**environment, **own_environment}


def _digest(program: str, base: str, environment: Mapping[str, str], runner: Runner = run) -> str:
    words = [program, "image", "inspect", "--format", "{{.Digest}}", base]
    return checked(runner(words, env=environment)).stdout.strip()


def _take_away(program: str, folder: Path, environment: Mapping[str, str], runner: Runner = run) -> None:
    """Remove what podman stored: an ordinary user's belongs to subordinate ids, root's may still be mounted."""
    if os.geteuid() == 0:
        mount_points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for place in sorted((place for place in mount_points if place.startswith(f"{folder}/")), reverse=True):
            runner(["umount", "--lazy", place], env=environment)
    else:
        data = {"XDG_DATA_HOME": str(folder / "data"), "XDG_RUNTIME_DIR": str(folder / "run")}
        runner([program, "unshare", "rm", "-rf", str(folder)], env={**environment, **data}, timeout_s=600)
    if folder.exists():
        remove(folder)


def bases_of(text: str) -> list[str]:
    """Return what its FROMs name in registries: neither scratch nor an earlier stage, nor what a variable says."""
    stages, bases = {"scratch"}, []
    for line in re.findall(r"^[ \t]*FROM[ \t]+(.+?)[ \t]*$", text, re.MULTILINE | re.IGNORECASE):
        words = [word for word in line.split() if not word.startswith("--")]
        if words and words[0] not in stages and "$" not in words[0]:
            bases.append(words[0])
        if len(words) == 3 and words[1].lower() == "as":
            stages.add(words[2])
    return list(dict.fromkeys(bases))


def _which(registry: RegistryImage) -> str:
    return f"@{registry.digest}" if registry.digest else f":{registry.tag}"


def first_registry(text: str) -> RegistryImage | None:
    """Return where the first base is from: the registry that a login is for."""
    return next((parse_source(f"docker://{base}").registry for base in bases_of(text)), None)


def digests_of_bases(text: str, start: RegistryImage | None, login: Login | None, say: Say) -> dict[str, str]:
    """Return what each base means today; one without a tag, or with latest, is named."""
    digests: dict[str, str] = {}
    for base in bases_of(text) if start is None else [f"{start.host}/{start.name}{_which(start)}"]:
        registry = parse_source(f"docker://{base}").registry
        assert registry is not None  # noqa: S101  # docker:// is a registry's
        if registry.is_moving:
            say(f"warning: FROM {base} has no tag but latest, which can change: the pulled digest is recorded")
        digests[base] = manifest_digest(registry, login)
    return digests


def digests_of_context(file: Path, text: str) -> dict[str, str]:
    """Return the digests of everything that COPY and ADD take from beside the Containerfile."""
    folder = file.absolute().parent
    digests: dict[str, str] = {}
    for line in re.findall(r"^[ \t]*(?:COPY|ADD)[ \t]+(.+?)[ \t]*$", text, re.MULTILINE | re.IGNORECASE):
        for word in _sources(line):
            relative_path = word.strip("/")
            for path in (
                [folder]
                if relative_path in {"", "."}
                else sorted(folder.glob(relative_path)) or [folder / relative_path]
            ):
                digests[str(path)] = digest_of_path(path)
    return digests


def _sources(line: str) -> Sequence[str]:
    line = re.sub(r"^(?:--\S+\s+)+", lambda flags: "--from" if "--from=" in flags[0] else "", line)
    if line.startswith(("--from", "<<")):
        return ()
    words = [str(word) for word in json.loads(line)] if line.startswith("[") else line.split()
    return [word for word in words[:-1] if "://" not in word]
