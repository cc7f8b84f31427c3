"""Images are built by a real Apptainer from a real registry; whatever fails leaves nothing that looks finished."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build.places import PASSWORD, Place
from build.small_registry import SmallRegistry, small_registry
from muster.errors import MusterError, RequestError
from muster.runner import PIPE, run, start
from muster_build.definition import compose, from_containerfile, parse_copy
from muster_build.engine import root_lacks_capabilities
from muster_build.source import parse_source

# The header of a .sif, whose data lie behind the end of the file.
_CUT_OFF = bytes(32) + b"SIF_MAGIC" + bytes(71) + struct.pack("<qq", 4096, 1 << 20)


def test_an_image_of_a_registry_is_pulled_by_its_digest_and_recorded(
    place: Place, open_registry: SmallRegistry
) -> None:
    built = place.muster("image", "--from", open_registry.image, "-o", "x.sif")
    assert (built.status, built.stdout) == (0, "x.sif\n"), built.stderr
    record = json.loads((place.folder / "x.sif.json").read_text())
    assert record["base"] == f"docker://{open_registry.host}/small@{open_registry.digest}"
    assert place.left() == {"x.sif", "x.sif.json"}
    assert place.inside("x.sif", "echo", "inside").stdout == "inside\n"


def test_the_same_again_is_up_to_date_and_another_asks(place: Place, open_registry: SmallRegistry) -> None:
    words = ("image", "--from", open_registry.image, "-o", "x.sif")
    assert place.muster(*words).status == 0
    before = (place.folder / "x.sif").stat().st_mtime_ns
    assert "up to date" in place.muster(*words).stderr
    moving = place.muster("image", "--from", f"docker://{open_registry.host}/small", "-o", "x.sif")
    assert "latest, which can change" in moving.stderr
    assert "up to date" in moving.stderr
    (place.folder / "note").write_text("new")
    other = (*words, "--copy", "note:/opt/note")
    refused = place.muster(*other)
    assert refused.status == 2
    assert "was built from something else" in refused.stderr
    assert (place.folder / "x.sif").stat().st_mtime_ns == before
    assert place.muster(*other, "--replace").status == 0
    assert place.inside("x.sif", "cat", "/opt/note").stdout == "new"


def test_a_sandbox_is_made_of_a_pulled_image_without_the_registry(place: Place, open_registry: SmallRegistry) -> None:
    assert place.muster("image", "--from", open_registry.image, "-o", "x.sif").status == 0
    asked = len(open_registry.asked)
    assert place.muster("image", "--from", "x.sif", "--sandbox", "-o", "box").status == 0
    assert len(open_registry.asked) == asked
    assert (place.folder / "box/bin/busybox").is_file()
    assert "is not a sandbox" in place.muster("shell", "x.sif").stderr


@pytest.mark.parametrize("way", ["variable", "stdin", "docker", "docker's folder"])
def test_a_password_comes_in_four_ways_and_is_written_nowhere(
    place: Place, closed_registry: SmallRegistry, way: str
) -> None:
    words = ["image", "--from", closed_registry.image, "-o", "x.sif"]
    if way.startswith("docker"):
        import base64

        folder = place.folder / (".docker" if way == "docker" else "elsewhere")
        folder.mkdir()
        entry = {"auth": base64.b64encode(f"me:{PASSWORD}".encode()).decode()}
        (folder / "config.json").write_text(json.dumps({"auths": {closed_registry.host: entry}}))
        built = place.muster(*words, **({} if way == "docker" else {"DOCKER_CONFIG": str(folder)}))
    elif way == "stdin":
        built = place.muster(*words, "--login", "me", "--password-stdin", stdin=f"{PASSWORD}\n")
    else:
        built = place.muster(*words, "--login", "me", "--password-env", "WORD", WORD=PASSWORD)
    assert built.status == 0, built.stderr
    assert PASSWORD not in built.stderr + built.stdout + (place.folder / "x.sif.json").read_text()
    assert PASSWORD not in place.inside("x.sif", "env").stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--login", "me", "--password-env", "WORD"), "refuses the user me or the password"),
        ((), "only to those who log in"),
        (("--login", "me"), "there is no password for me"),
        (("--password-stdin",), "a password is given, but no user"),
    ],
)
def test_a_wrong_password_is_one_sentence_and_leaves_nothing(
    place: Place, closed_registry: SmallRegistry, words: tuple[str, ...], sentence: str
) -> None:
    refused = place.muster("image", "--from", closed_registry.image, "-o", "x.sif", *words, WORD="wrong")
    assert refused.status == 2
    assert sentence in refused.stderr
    assert "wrong" not in refused.stderr
    assert "\nhint: " in refused.stderr
    assert place.left() == set()


def test_a_pull_that_is_cut_off_leaves_nothing_and_the_next_one_builds(place: Place, apptainer: Path) -> None:
    with small_registry(apptainer.with_name("busybox")) as registry:
        registry.cut_after = 1000
        words = ("image", "--from", registry.image, "-o", "x.sif")
        refused = place.muster(*words)
        assert refused.status == 3
        assert "the pull was cut off" in refused.stderr
        assert place.left() == set()
        registry.cut_after = None
        assert place.muster(*words).status == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])  # a person's, and a cancelled job's
def test_an_interrupted_build_leaves_nothing_that_looks_finished(
    place: Place, open_registry: SmallRegistry, number: signal.Signals
) -> None:
    argv = place.argv("image", "--from", open_registry.image, "-o", "x.sif")
    open_registry.may_send.clear()  # the build cannot end before the signal has come
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
    try:
        process = start(argv, env=place.environment(), cwd=place.folder, stdout=PIPE, stderr=PIPE)
        assert process.stderr is not None
        said = iter(process.stderr.readline, b"")
        assert any(b"Fetching OCI image" in line for line in said)
        process.send_signal(number)
        process.communicate(timeout=300)
    finally:
        open_registry.may_send.set()
        signal.signal(signal.SIGINT, heard)
    assert process.returncode == 128 + number
    assert place.left() == set()
    assert not list((place.folder / "cache").glob("build-*"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--from", "no-such.sif"), "there is no image"),
        (("--from", "cut.sif"), "shorter than it says"),
        (("--from", "empty.sif"), "it is empty"),
        (("--from", "docker-archive:nothing.tar"), "is not there"),
        (("--from", "docker://UPPER/case"), "is not the name of an image"),
        (("--from", "oras://x/y"), "oras:// is not a known source"),
        (("--from", "site:no-such"), "there is no image of"),
        ((), "no image to build from is named"),
        (("--from", "box", "--copy", "x:relative"), "is not SRC:DST"),
        (("--from", "box", "--copy", "missing:/opt/x"), "is not there"),
        (("--from", "box", "--def", "missing.def"), "cannot be read"),
    ],
)
def test_what_cannot_be_built_is_one_sentence_and_leaves_nothing(
    place: Place, words: tuple[str, ...], sentence: str
) -> None:
    (place.folder / "empty.sif").touch()
    (place.folder / "cut.sif").write_bytes(_CUT_OFF)
    (place.folder / "box/bin").mkdir(parents=True)
    before = place.left()
    refused = place.muster("image", *words, "-o", "x.sif")
    assert (refused.status, sentence in refused.stderr) == (2, True), refused.stderr
    assert "bug in Muster" not in refused.stderr
    assert place.left() == before


def test_what_the_engine_says_of_its_failure_is_printed_once(place: Place) -> None:
    (place.folder / "gone.def").write_text("Bootstrap: localimage\nFrom: /nonexistent.sif\n%post\n  true\n")
    result = place.muster("image", "--def", "gone.def", "-o", "x.sif")

    assert result.status == 3
    assert result.stderr.count("/nonexistent.sif") == 2, result.stderr  # one message of the engine names it twice
    assert "muster: error: apptainer built nothing: " in result.stderr


def test_a_directory_that_is_no_build_is_never_replaced(place: Place, open_registry: SmallRegistry) -> None:
    (place.folder / "project").mkdir()
    (place.folder / "project/train.py").write_text("precious")
    refused = place.muster("image", "--from", open_registry.image, "--sandbox", "-o", "project", "--replace")
    assert (refused.status, "it is not replaced" in refused.stderr) == (2, True), refused.stderr
    assert (place.folder / "project/train.py").read_text() == "precious"


def test_an_image_that_is_damaged_inside_is_one_sentence(place: Place, open_registry: SmallRegistry) -> None:
    assert place.muster("image", "--from", open_registry.image, "-o", "good.sif").status == 0
    content = bytearray((place.folder / "good.sif").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 100_000] = bytes(100_000)
    (place.folder / "bad.sif").write_bytes(content)
    before = place.left()
    refused = place.muster("image", "--from", "bad.sif", "--sandbox", "-o", "box")
    assert refused.status == 3
    assert "muster: error: the image to build from cannot be read\n\nhint: " in refused.stderr
    assert place.left() == before


def test_an_image_without_a_shell_is_built_and_no_command_runs_in_it(place: Place, apptainer: Path) -> None:
    for name in ("bin", "etc", "tmp", "proc", "sys", "dev", "var/tmp", "root"):
        (place.folder / "bare" / name).mkdir(parents=True)
    for name in ("passwd", "group", "hosts", "resolv.conf"):
        (place.folder / "bare/etc" / name).touch()
    shutil.copy2(apptainer.with_name("busybox"), place.folder / "bare/bin/echo")
    (place.folder / "more.def").write_text("%post\n    true\n")
    refused = place.muster("image", "--from", "bare", "--def", "more.def", "-o", "x.sif")
    assert refused.status == 3
    assert "muster: error: the image has no shell, so no command of a definition runs in it" in refused.stderr
    assert place.left() == {"bare", "more.def"}
    assert place.muster("image", "--from", "bare", "-o", "x.sif").status == 0
    assert place.inside("x.sif", "/bin/echo", "inside").stdout == "inside\n"


def test_what_a_killed_build_left_the_next_one_takes_away(place: Place, open_registry: SmallRegistry) -> None:
    argv = place.argv("image", "--from", open_registry.image, "--sandbox", "-o", "box")
    process = start(argv, env=place.environment(), cwd=place.folder, stdout=PIPE, stderr=PIPE, own_group=True)
    assert process.stderr is not None
    for line in process.stderr:
        if b"Starting build" in line:
            break
    process.kill()
    process.communicate(timeout=30)
    (place.folder / f".box.part-{platform.node()}-{process.pid}").mkdir(exist_ok=True)
    assert not (place.folder / "box").exists()
    assert place.muster("image", "--from", open_registry.image, "--sandbox", "-o", "box").status == 0
    assert place.left() == {"box", "box.json"}


def test_what_a_module_binds_into_images_that_run_is_not_for_builds(place: Place, open_registry: SmallRegistry) -> None:
    (place.folder / "more.def").write_text("%post\n    true\n")
    binds = {"APPTAINER_BIND": "/usr:/no/such/place", "APPTAINER_BINDPATH": "/usr:/none", "SINGULARITY_BIND": "/x:/y"}
    built = place.muster("image", "--from", open_registry.image, "--def", "more.def", "-o", "x.sif", **binds)
    assert built.ok, built.stderr


def test_another_that_cannot_be_proved_does_not_take_the_place(place: Place, open_registry: SmallRegistry) -> None:
    words = ("image", "--from", open_registry.image, "-o", "x.sif")
    assert place.muster(*words).status == 0
    before = (place.folder / "x.sif").read_bytes()
    # Its program is there and cannot run: only starting it shows that.
    (place.folder / "more.def").write_text("%post\n    rm /bin/true; echo broken >/bin/true; chmod 755 /bin/true\n")
    refused = place.muster(*words, "--def", "more.def", "--replace")
    assert refused.status == 3
    assert "the image was built, but it cannot be used" in refused.stderr
    assert (place.folder / "x.sif").read_bytes() == before
    assert place.left() == {"x.sif", "x.sif.json", "more.def"}


def test_a_missing_engine_is_named(place: Place, open_registry: SmallRegistry) -> None:
    without = str(Path(sys.executable).parent)
    refused = place.muster("image", "--from", open_registry.image, "-o", "x.sif", PATH=without)
    assert refused.status == 2
    assert "neither apptainer nor singularity is on PATH" in refused.stderr


def test_a_full_disk_is_one_sentence_and_leaves_nothing(place: Place, open_registry: SmallRegistry) -> None:
    words = place.argv("image", "--from", open_registry.image, "-o", "small/x.sif")
    (place.folder / "small").mkdir()
    inside = 'mount -t tmpfs -o size=600k none small || exit 77; "$@"; status=$?; ls -A small; exit $status'
    argv = ["unshare", "--mount", "--map-root-user", "sh", "-c", inside, "sh", *words]
    refused = run(argv, env=place.environment(), cwd=place.folder)
    if refused.status == 77:
        pytest.skip("no tmpfs may be mounted here")
    assert refused.status == 3, refused.stderr
    assert "no space is left to build" in refused.stderr
    assert refused.stdout == ""


def test_the_commands_of_a_definition_run_in_the_image(place: Place, open_registry: SmallRegistry) -> None:
    """Also where root has not all capabilities, as in most containers that builds run in."""
    (place.folder / "more.def").write_text("%post\n    echo made by $(id -u) >/made\n")
    built = place.muster("image", "--from", open_registry.image, "--def", "more.def", "-o", "x.sif")
    assert built.ok, built.stderr
    assert place.inside("x.sif", "cat", "/made").stdout == "made by 0\n"


def test_a_command_that_fails_leaves_nothing(place: Place, open_registry: SmallRegistry) -> None:
    (place.folder / "more.def").write_text("%post\n    exit 3\n")
    built = place.muster("image", "--from", open_registry.image, "--def", "more.def", "-o", "x.sif")
    assert built.status == 3
    assert "a step of the definition failed" in built.stderr
    assert place.left() == {"more.def"}


def test_capabilities_are_read_from_the_kernels_own_words(tmp_path: Path) -> None:
    status, last = tmp_path / "status", tmp_path / "last"
    last.write_text("40\n")
    status.write_text("CapEff:\t000001fffeffffff\n")
    assert root_lacks_capabilities(status, last) == (os.geteuid() == 0)
    status.write_text("CapEff:\t000001ffffffffff\n")
    assert not root_lacks_capabilities(status, last)
    assert not root_lacks_capabilities(tmp_path / "none", last)


def test_a_definition_goes_on_top_of_an_image() -> None:
    text = compose(
        "docker://h/n@sha256:0",
        copies=[parse_copy("a:/b")],
        requirements="/r.txt",
        definition="Bootstrap: x\n\n%post\n  true\n",
    )
    assert text.startswith("Bootstrap: docker\nFrom: h/n@sha256:0\n")
    assert "    a /b\n    /r.txt /opt/muster-build/requirements.txt\n" in text
    assert text.count("Bootstrap") == 1
    assert text.endswith("%post\n  true\n")


def test_a_simple_containerfile_becomes_a_definition() -> None:
    text = from_containerfile("# x\nFROM a/b:1\nCOPY x /y\nENV A=1\nWORKDIR /w\nRUN one && \\\n  two\n")
    assert text == (
        "Bootstrap: docker\nFrom: a/b:1\n\n%files\n    x /y\n\n%environment\n    export A=1\n\n"
        "%post\n    set -e\n    export A=1\n    mkdir -p /w && cd /w\n    one &&  two\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "FROM x AS y",
        "FROM scratch",
        "COPY --from=a /b /c",
        "ADD x /y",
        "USER me",
        'RUN ["a"]',
        "COPY a b /c",
        "ENV A 1",
        "ARG X",
    ],
)
def test_a_containerfile_that_says_more_is_refused_by_its_line(line: str) -> None:
    text = f"FROM a:1\n{line}\n" if not line.startswith("FROM") else line
    with pytest.raises(RequestError, match="has no simple counterpart"):
        from_containerfile(text)


@given(st.text())
def test_any_words_are_a_source_or_a_sentence(words: str) -> None:
    try:
        source = parse_source(words)
    except MusterError:
        return
    assert source.words == words
    assert source.registry or source.path or source.site_name
