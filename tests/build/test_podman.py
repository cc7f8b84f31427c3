"""A Containerfile that says more than a definition can is built by a real podman, and becomes what the site runs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from build.places import Ordinary, Place
from build.real_registry import PASSWORD, USER, RealRegistry, real_registry
from build.small_registry import SmallRegistry
from build.test_enroot import ENROOT
from muster.errors import RequestError
from muster_build.podman import bases_of, digests_of_context

# Two stages, a command as a list, a user: nothing of it has a counterpart in a definition.
MORE = """\
FROM {base} AS one
COPY word /opt/word
RUN cat /opt/word >/opt/made && echo made by $(id -u)
FROM {base}
COPY --from=one /opt/made /opt/made
RUN ["touch", "/opt/listed"]
ENV GREETING=hello
"""


@pytest.fixture(scope="module")
def closed(open_registry: SmallRegistry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    if shutil.which("podman") is None:
        pytest.skip("podman is missing")
    with real_registry(tmp_path_factory.mktemp("registry") / "closed", password=True) as registry:
        registry.push(open_registry.image)
        yield registry


def in_memory() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("muster-podman-*")}


def test_it_is_built_with_a_password_and_runs_and_nothing_of_podman_is_left(place: Place, closed: RealRegistry) -> None:
    before = in_memory()
    base = closed.image.removeprefix("docker://")
    (place.folder / "Containerfile").write_text(MORE.format(base=base))
    (place.folder / "word").write_text("carried")
    words = ("image", "--def", "Containerfile", "-o", "x.sif", "--login", USER, "--password-env", "WORD")
    refused = place.muster(*words, WORD="wrong")
    assert refused.status == 2
    assert "refuses the user me or the password" in refused.stderr
    built = place.muster(*words, WORD=PASSWORD)
    assert built.ok, built.stderr
    assert "made by 0" in built.stderr
    assert place.inside("x.sif", "cat", "/opt/made", "/opt/listed").stdout == "carried"
    assert "GREETING=hello\n" in place.inside("x.sif", "env").stdout
    record = json.loads((place.folder / "x.sif.json").read_text())
    assert record["bases"] == record["pulled"]
    assert re.fullmatch("sha256:[0-9a-f]{64}", record["pulled"][base])
    assert PASSWORD not in json.dumps(record) + built.stderr
    assert in_memory() == before
    assert "up to date" in place.muster(*words, WORD=PASSWORD).stderr
    (place.folder / "word").write_text("another")
    assert "was built from something else" in place.muster(*words, WORD=PASSWORD).stderr


def test_a_step_that_fails_leaves_nothing(place: Place, open_registry: SmallRegistry) -> None:
    before = in_memory()
    base = open_registry.image.removeprefix("docker://")
    (place.folder / "Containerfile").write_text(f'FROM {base}\nRUN ["no-such-program"]\n')
    failed = place.muster("image", "--def", "Containerfile", "-o", "x.sif")
    assert failed.status == 3
    assert "muster: error: a step of the definition failed\n" in failed.stderr
    assert place.left() == {"Containerfile"}
    assert in_memory() == before


def test_an_ordinary_user_builds_one_and_adds_to_it(user: Ordinary) -> None:
    """podman's files belong to subordinate ids, and are gone all the same."""
    before = in_memory()
    base = user.registry.image.removeprefix("docker://")
    (user.folder / "Containerfile").write_text(
        f'FROM {base}\nRUN ["touch", "/opt/listed"]\nRUN chown 5:7 /opt/listed\n'
    )
    (user.folder / "note").write_text("copied")
    copied = ("--copy", "note:/opt/note")
    built = user.muster("image", "--def", "Containerfile", *copied, "--sandbox", "-o", "box", ids=True)
    assert built.ok, built.stderr
    assert (user.folder / "box/opt/note").read_text() == "copied"
    assert (user.folder / "box/opt/listed").exists()
    assert in_memory() == before


def test_a_squashfs_is_imported_out_of_podmans_storage(place: Place, open_registry: SmallRegistry) -> None:
    """enroot is a stand-in that asks a real podman, by the words of enroot's grammar, for the image that it names."""
    base = open_registry.image.removeprefix("docker://")
    (place.folder / "Containerfile").write_text(f'FROM {base}\nRUN ["touch", "/opt/listed"]\n')
    program = place.folder / "bin/enroot"
    program.parent.mkdir()
    asks = 'case $5 in podman://*) podman image exists "${5#podman://}" || exit 65 ;; *) exit 64 ;; esac\n'
    program.write_text(ENROOT.replace('[ "$1 $2', f'{asks}[ "$1 $2', 1))
    program.chmod(0o755)
    # Where enroot is, there often is no Apptainer.
    path = f"{program.parent}:/usr/bin:/bin"
    made = place.program.with_name("mksquashfs")
    (program.parent / "mksquashfs").symlink_to(made)
    built = place.muster("image", "--def", "Containerfile", "-o", "x.sqsh", PATH=path, FAILS="whole")
    assert built.ok, built.stderr
    assert place.left() == {"bin", "Containerfile", "x.sqsh", "x.sqsh.json", "x.toml"}
    without = place.muster("image", "--def", "Containerfile", "-o", "y.sqsh", PATH=str(program.parent))
    assert (without.status, "podman is not on PATH" in without.stderr) == (2, True)


def test_without_podman_it_is_converted_or_refused(place: Place, open_registry: SmallRegistry) -> None:
    shown = place.folder / "bin"
    shown.mkdir()
    for name in ("unshare", "sh", "true", "env", "proot"):
        found = shutil.which(name)
        if found:
            (shown / name).symlink_to(found)
    path = f"{place.program.parent}:{shown}"
    base = open_registry.image.removeprefix("docker://")
    (place.folder / "Containerfile").write_text(f"FROM {base}\nRUN touch /opt/made\nENV GREETING=hello\n")
    (place.folder / "Containerfile.more").write_text(MORE.format(base=base))
    refused = place.muster("image", "--def", "Containerfile.more", "-o", "y.sif", PATH=path)
    assert refused.status == 2
    assert "line 1 of the Containerfile has no simple counterpart in a definition" in refused.stderr
    built = place.muster("image", "--def", "Containerfile", "-o", "x.sif", PATH=path)
    assert built.ok, built.stderr
    assert "GREETING=hello\n" in place.inside("x.sif", "env").stdout
    assert open_registry.digest in (place.folder / "x.sif.json").read_text()


def test_its_bases_are_read() -> None:
    text = "FROM a/b:1 AS one\nfrom --platform=linux/amd64 c\nFROM one\nFROM scratch\nFROM $X\nFROM a/b:1\n"
    assert bases_of(text) == ["a/b:1", "c"]


def test_what_it_copies_counts(tmp_path: Path) -> None:
    for name in ("one.py", "two.py", "other"):
        (tmp_path / name).write_text(name)
    file = tmp_path / "Containerfile"
    text = 'COPY *.py /opt/\nADD https://x/y /z\nCOPY --chown=1 ["other", "/o"]\nCOPY --from=a /b /c\n'
    assert {Path(name).name for name in digests_of_context(file, text)} == {"one.py", "two.py", "other"}
    with pytest.raises(RequestError, match="is not there"):
        digests_of_context(file, "COPY missing /x\n")
