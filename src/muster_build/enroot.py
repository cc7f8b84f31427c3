"""Squashfs images for Pyxis and the Container Engine: enroot fetches and packs them, an EDF beside one names it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from muster.errors import CommandFailed
from muster.look.image_facts import look_at_path
from muster.units import toml_text
from muster_build.draft import remove
from muster_build.engine import Builder
from muster_build.registry import Login, hosts_that_ask
from muster_build.source import RegistryImage

Say = Callable[[str], None]


def import_words(registry: RegistryImage, digest: str) -> str:
    """Return the image as enroot writes it: the registry's host ends with #, the digest says which bytes."""
    return f"docker://{registry.host}#{registry.name}@{digest}"


def import_image(
    builder: Builder, draft: Path, words: str, say: Say, *, extra_environment: Mapping[str, str] | None = None
) -> None:
    """Fetch and pack it as `draft`, which enroot wants to end in .sqsh."""
    image_file = draft.with_name(f"{draft.name}.sqsh")
    try:
        builder.follow(
            [builder.program, "import", "--output", str(image_file), "--", words],
            say,
            extra_environment=extra_environment,
        )
        image_facts = look_at_path(image_file)
        if image_facts.kind != "squashfs" or image_facts.broken is not None:
            raise CommandFailed(
                [builder.program],
                0,
                "",
                f"enroot ended well and left no image: {image_facts.broken or image_facts.kind}",
                hint="its own message is above",
            )
        image_file.rename(draft)
    finally:
        image_file.unlink(missing_ok=True)


@contextmanager
def credentials(folder: Path, registry: RegistryImage | None, login: Login | None) -> Iterator[Mapping[str, str]]:
    """Yield the variables that tell enroot who pulls: a file of netrc's form, private, and removed with the block."""
    if registry is None or login is None:
        yield {}
        return
    place = folder / "enroot"
    place.mkdir(mode=0o700)
    lines = [f"machine {host} login {login.user} password {login.password}\n" for host in hosts_that_ask(registry)]
    try:
        with os.fdopen(os.open(place / ".credentials", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as content:
            content.writelines(lines)
        yield {"ENROOT_CONFIG_PATH": str(place)}
    finally:
        remove(place)


def edf_of(image: Path) -> str:
    """Return the smallest environment file that runs it: `muster run --image X.toml` and srun --environment read it."""
    return f"image = {toml_text(str(image).replace('$', '$$'))}\n"
