"""What enroot is asked, by its own grammar; and that only what it has really made takes the image's place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from build.places import PASSWORD, Place
from build.small_registry import SmallRegistry
from muster.older import tomllib
from muster_build.enroot import edf_of, import_words
from muster_build.source import parse_source

# The form with a host and a digest, by enroot 4's doc/cmd/import.md and the expression that reads it in src/docker.sh.
GRAMMAR = re.compile(r"docker://([^#/@]+)#([a-z0-9/._-]+)@(sha256:[0-9A-Za-z]+)")
ENROOT = """\
#!/bin/sh
# Stands in for enroot, which is in no distribution that is at hand: makes what it would, or fails as it would.
[ "$1" != version ] || exit 0
[ "$1 $2 $4" = "import --output --" ] || exit 64
if [ -n "$KEEPS" ]; then
  cp "$ENROOT_CONFIG_PATH/.credentials" "$KEEPS"
  echo "$ENROOT_CACHE_PATH $ENROOT_TEMP_PATH" >"$KEEPS.places"
fi
case $FAILS in
'') { printf 'hsqs'; head -c 5000 /dev/zero; } >"$3"; echo "[INFO] Fetching image manifest" >&2 ;;
whole) mksquashfs "$(dirname "$0")" "$3" -quiet -no-progress >/dev/null ;;
half) echo "[ERROR] Not enough space left in /tmp" >&2; echo part >"$3"; exit 1 ;;
esac
"""


@pytest.mark.parametrize(
    "words", ["docker://ubuntu:24.04", "docker://nvcr.io/nvidia/pytorch:26.02-py3", "docker://host.example:5000/a/b_c"]
)
def test_the_words_are_of_enroots_grammar(words: str) -> None:
    registry = parse_source(words).registry
    assert registry is not None
    found = GRAMMAR.fullmatch(import_words(registry, "sha256:" + "ab" * 32))
    assert found is not None
    assert (found[1], found[2]) == (registry.host, registry.name)


def test_the_environment_file_is_toml_of_which_nothing_is_expanded() -> None:
    assert tomllib.loads(edf_of(Path('/scratch/$me/a "b" \x7f.sqsh'))) == {"image": '/scratch/$$me/a "b" \x7f.sqsh'}


def built(place: Place, registry: SmallRegistry, *words: str, fails: str = "") -> tuple[int, str]:
    program = place.folder / "bin" / "enroot"
    program.parent.mkdir()
    program.write_text(ENROOT)
    program.chmod(0o755)
    path = f"{program.parent}:{place.program.parent}:/usr/bin:/bin"
    done = place.muster("image", "--from", registry.image, "-o", "x.sqsh", *words, PATH=path, FAILS=fails)
    return done.status, done.stderr


def test_an_image_is_there_with_its_record_and_its_environment_file(place: Place, open_registry: SmallRegistry) -> None:
    status, said = built(place, open_registry, fails="whole")
    assert status == 0, said
    assert place.left() == {"bin", "x.sqsh", "x.sqsh.json", "x.toml"}
    assert json.loads((place.folder / "x.sqsh.json").read_text())["base"].endswith(open_registry.digest)
    assert tomllib.loads((place.folder / "x.toml").read_text()) == {"image": str(place.folder / "x.sqsh")}


def test_who_pulls_is_told_in_a_file_that_goes_and_what_is_fetched_stays_out_of_the_home(
    place: Place, closed_registry: SmallRegistry, tmp_path: Path
) -> None:
    """By doc/cmd/import.md: netrc's form, in .credentials below ENROOT_CONFIG_PATH."""
    program = place.folder / "bin" / "enroot"
    program.parent.mkdir()
    program.write_text(ENROOT)
    program.chmod(0o755)
    path = f"{program.parent}:{place.program.parent}:/usr/bin:/bin"
    kept = tmp_path.with_name("kept")
    words = ("image", "--from", closed_registry.image, "-o", "x.sqsh", "--login", "me", "--password-env", "WORD")
    done = place.muster(*words, "--cache", "cache/ours", PATH=path, FAILS="whole", WORD=PASSWORD, KEEPS=str(kept))
    assert done.ok, done.stderr
    assert kept.read_text() == f"machine 127.0.0.1 login me password {PASSWORD}\n"
    ours = str(place.folder / "cache/ours")
    assert all(each.startswith(ours) for each in kept.with_name("kept.places").read_text().split())
    assert not list((place.folder / "cache").rglob(".credentials"))


def test_a_half_made_image_is_not_there(place: Place, open_registry: SmallRegistry) -> None:
    status, said = built(place, open_registry, fails="half")
    assert status == 3
    assert "enroot built nothing: [ERROR] Not enough space left in /tmp" in said
    assert place.left() == {"bin"}


def test_an_enroot_that_makes_nothing_is_not_believed(place: Place, open_registry: SmallRegistry) -> None:
    status, said = built(place, open_registry, fails="silently")
    assert status == 3
    assert "left no image" in said
    assert place.left() == {"bin"}


@pytest.mark.parametrize("words", [("--sandbox",), ("--copy", "bin:/opt")])
def test_what_enroot_does_not_do_is_refused(place: Place, open_registry: SmallRegistry, words: tuple[str, ...]) -> None:
    status, said = built(place, open_registry, *words)
    assert status == 2
    assert "can only convert an image of a registry" in said


def test_without_enroot_the_way_is_said(place: Place, open_registry: SmallRegistry) -> None:
    done = place.muster("image", "--from", open_registry.image, "-o", "x.sqsh")
    assert done.status == 2
    assert "enroot is not on PATH" in done.stderr
