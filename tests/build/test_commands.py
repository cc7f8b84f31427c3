"""The commands of a definition, and pip, as root of an image: by whoever builds, with what their machine gives them."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import zipfile
from pathlib import Path

import pytest

from build.places import Ordinary, Place
from build.small_python import glibc_system, python_system
from build.small_registry import SmallRegistry
from muster.errors import CommandFailed, MachineLacks, RequestError
from muster.runner import PIPE, end_group, start
from muster_build.commands import Means, Way, choose_way, without_commands
from muster_build.draft import is_up_to_date
from muster_build.engine import Builder
from muster_build.progress import _written, follow_lines

_OWNER = "%post\n    echo made by $(id -u) >/made\n    touch /theirs\n    chown 5:7 /theirs\n    ls -ln /theirs\n"


def only_root_takes_ids_away(*, ids: bool) -> None:
    if not ids and os.geteuid() != 0:
        pytest.skip("by design: the user who runs the tests has the ids that they have")


@pytest.mark.parametrize(
    ("ids", "hidden", "says", "owner"),
    [
        (True, (), "your subordinate ids", "5 +7"),
        (False, (), "cannot run this machine's fakeroot: its commands run under proot", "0 +0"),
        (False, ("fakeroot",), "proot: you have no subordinate ids", "0 +0"),
    ],
    ids=["subordinate-ids", "fakeroot-that-does-not-fit", "proot"],
)
def test_an_ordinary_users_commands_run_as_root_of_the_image(
    user: Ordinary, ids: bool, hidden: tuple[str, ...], says: str, owner: str
) -> None:
    only_root_takes_ids_away(ids=ids)
    (user.folder / "more.def").write_text(_OWNER)
    words = ("image", "--from", user.registry.image, "--def", "more.def", "-o", "x.sif")
    built = user.muster(*words, ids=ids, hidden=hidden)
    assert built.ok, built.stderr
    assert says in built.stderr
    assert re.search(rf"-rw\S+ +1 {owner} .*/theirs", built.stderr), built.stderr
    assert user.inside("x.sif", "cat", "/made") == "made by 0\n"


def test_fakeroot_serves_where_it_fits_the_image(user: Ordinary) -> None:
    only_root_takes_ids_away(ids=False)
    system = glibc_system(user.folder / "system")
    if os.geteuid() == 0:
        for path in (system, *system.rglob("*")):
            os.chown(path, 20001, 20001, follow_symlinks=False)
    (user.folder / "more.def").write_text(_OWNER)
    built = user.muster("image", "--from", "system", "--def", "more.def", "--sandbox", "-o", "box", ids=False)
    assert built.ok, built.stderr
    assert "by fakeroot: you have no subordinate ids here" in built.stderr
    assert re.search(r"-rw\S+ 1 5 7 .*/theirs", built.stderr), built.stderr


def test_a_command_that_fails_under_proot_leaves_nothing(user: Ordinary) -> None:
    only_root_takes_ids_away(ids=False)
    (user.folder / "more.def").write_text("%post\n    echo connection refused by nobody\n    exit 3\n")
    words = ("image", "--from", user.registry.image, "--def", "more.def", "--sandbox", "-o", "box")
    failed = user.muster(*words, ids=False, hidden=("fakeroot",))
    assert failed.status == 3
    assert "muster: error: a step of the definition failed\n" in failed.stderr
    assert {path.name for path in user.folder.iterdir()} == {"more.def", "programs"}


def test_a_place_that_is_not_the_users_is_named(user: Ordinary) -> None:
    refused = user.muster("image", "--from", user.registry.image, "-o", "/usr/x.sif", ids=True)
    if os.access("/usr", os.W_OK) and os.geteuid() != 0:
        pytest.skip("by design: this user may write everywhere")
    assert (refused.status, "nothing can be written in /usr: " in refused.stderr) == (2, True), refused.stderr


def wheel(folder: Path) -> None:
    """smallpackage 1.2, which says a word."""
    folder.mkdir()
    head = "smallpackage-1.2.dist-info"
    files = {
        "smallpackage/__init__.py": "word = 'found'\n",
        f"{head}/METADATA": "Metadata-Version: 2.1\nName: smallpackage\nVersion: 1.2\n",
        f"{head}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    hashes = {name: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()) for name, text in files.items()}
    lines = [f"{name},sha256={hashes[name].decode().rstrip('=')},{len(text)}\n" for name, text in files.items()]
    files[f"{head}/RECORD"] = "".join([*lines, f"{head}/RECORD,,\n"])
    with zipfile.ZipFile(folder / "smallpackage-1.2-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


@pytest.mark.wide
def test_pip_installs_into_an_image_from_a_wheelhouse(place: Place) -> None:
    python_system(place.folder / "system")
    wheel(place.folder / "wheels")
    (place.folder / "good.txt").write_text("smallpackage\n")
    offline = ("--wheelhouse", "wheels", "--offline", "--sandbox")
    built = place.muster("image", "--from", "system", "--pip", "good.txt", *offline, "-o", "box")
    assert built.ok, built.stderr
    assert "not pinned, so the next build may install other versions: smallpackage" in built.stderr
    assert place.inside("box", "python3", "-c", "import smallpackage; print(smallpackage.word)").stdout == "found\n"
    assert not (place.folder / "box/opt/muster-build/wheels").exists()
    without = place.muster("image", "--from", "system", "--wheelhouse", "wheels", "-o", "y")
    assert (without.status, "--wheelhouse goes with --pip" in without.stderr) == (2, True)


def test_what_says_nothing_for_a_while_is_spoken_for() -> None:
    script = (
        "printf 'one\\rtwo\\n\\033[31mthree\\033[0m'; head -c 3000000 /dev/zero >/dev/null; sleep 1; echo; printf four"
    )
    process = start(["sh", "-c", script], stdout=PIPE, own_group=True)
    said: list[str] = []
    assert list(follow_lines(process, said.append, silence_s=0.2)) == ["one", "two", "three", "four"]
    end_group(process)
    assert _written(process.pid) == "", "a process that cannot be looked at may have written much"
    assert said
    assert all(line.startswith("still at work after ") for line in said)


# What a real Apptainer and a real pip said.
_PIP_SAID = """\
ERROR: Could not find a version that satisfies the requirement no-such-package==3 (from versions: none)
ERROR: No matching distribution found for no-such-package==3
FATAL:   While performing build: while running engine: while running %post section: exit status 1
"""


def test_a_package_that_pip_does_not_find_is_named(tmp_path: Path) -> None:
    program = tmp_path / "engine"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{_PIP_SAID}END\nexit 255\n")
    program.chmod(0o755)
    builder = Builder(str(program), tmp_path / "cache", os.environ)
    with pytest.raises(CommandFailed, match="pip finds no no-such-package==3 for the image's Python") as failed:
        builder.follow([str(program)], lambda _: None)
    assert "build lock --wheelhouse" in str(failed.value.hint)


def test_an_image_without_pip_is_named(place: Place, open_registry: SmallRegistry) -> None:
    (place.folder / "r.txt").write_text("smallpackage==1.2\n")
    failed = place.muster("image", "--from", open_registry.image, "--pip", "r.txt", "-o", "x.sif")
    assert failed.status == 3
    assert "muster: error: the image has no python3 with pip, which --pip needs" in failed.stderr
    assert place.left() == {"r.txt"}


@pytest.mark.parametrize(
    ("means", "way"),
    [
        (Means(uid=0), Way.ROOT),
        (Means(uid=0, lacks_capabilities=True), Way.OWN_NAMESPACE),
        (Means(uid=5, subordinate_ids=True, fakeroot=True, proot=True), Way.SUBORDINATE_IDS),
        (Means(uid=5, fakeroot=True, proot=True), Way.FAKEROOT),
        (Means(uid=5, proot=True), Way.PROOT),
        (Means(uid=5), Way.ROOT_ALONE),
        (Means(uid=5, namespaces=False, subordinate_ids=True, fakeroot=True, proot=True), Way.PROOT),
        (Means(uid=5, is_singularity_ce=True, subordinate_ids=True), Way.SUBORDINATE_IDS),
        (Means(uid=5, is_singularity_ce=True, fakeroot=True, proot=True), Way.PROOT),
    ],
)
def test_the_best_way_that_is_there_is_taken(means: Means, way: Way) -> None:
    assert choose_way(means) is way


@pytest.mark.parametrize(
    "means",
    [
        Means(uid=5, namespaces=False),
        Means(uid=5, is_singularity_ce=True),
        Means(uid=5, namespaces=False, fakeroot=True),
    ],
)
def test_where_there_is_none_the_way_to_one_is_said(means: Means) -> None:
    with pytest.raises(MachineLacks, match="nothing here makes an ordinary user that") as lacking:
        choose_way(means)
    assert "proot" in str(lacking.value.hint)


def test_a_definition_without_its_commands() -> None:
    head, foot = "Bootstrap: docker\nFrom: a\n\n%files\n  x /y\n", "%environment\n  export A=1\n"
    text = f"{head}%post -c /bin/bash -e\n  one\n  two\n{foot}"
    rest, shell, commands = without_commands(text)
    assert rest == head + foot
    assert (shell, commands) == (["/bin/bash", "-e"], "\n  one\n  two\n")
    assert without_commands("%post\n  one\n")[1:] == (["/bin/sh", "-e"], "\n  one\n")


@pytest.mark.parametrize("text", ["%setup\n%post\n", "%post\n%post\n", "Stage: a\n%post\n", "%post\n {{ x }}\n"])
def test_what_proot_cannot_do_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="proot runs one %post"):
        without_commands(text)


@pytest.mark.parametrize(("has_record", "is_empty"), [(True, False), (False, True), (False, False)])
def test_replace_takes_only_a_folder_that_was_built(tmp_path: Path, *, has_record: bool, is_empty: bool) -> None:
    target, record = tmp_path / "env", tmp_path / "env.json"
    target.mkdir()
    if not is_empty:
        (target / "thesis.tex").touch()
    if has_record:
        record.write_text('{"inputs": "of something else"}')

    if has_record or is_empty:
        assert not is_up_to_date(target, record, "these", replace=True)
    else:
        for replace in (True, False):  # no word of --replace, which does not replace it
            with pytest.raises(RequestError, match="a directory that Muster did not build") as refused:
                is_up_to_date(target, record, "these", replace=replace)
            assert refused.value.hint == "give another name"
    if has_record or is_empty:
        subject = "was built from something else" if has_record else "exists, but no record says"
        with pytest.raises(RequestError, match=subject):
            is_up_to_date(target, record, "these", replace=False)
