"""Images come from a registry as sites run it, and from archives as skopeo writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from build.places import Place
from build.real_registry import PASSWORD, USER, RealRegistry, real_registry
from build.small_registry import SmallRegistry
from muster.runner import checked, run
from muster_build.registry import Login, manifest_digest
from muster_build.source import parse_source

LOGIN = ("--login", USER, "--password-env", "WORD")


@pytest.fixture(scope="session")
def archive(open_registry: SmallRegistry, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small image as `docker save` writes it, and beside it as an archive of OCI's."""
    folder = tmp_path_factory.mktemp("archives")
    if not Path("/usr/bin/skopeo").exists():
        pytest.skip("skopeo is missing")
    for form in ("docker-archive", "oci-archive"):
        target = f"{form}:{folder / form}.tar:carried:1"
        source = open_registry.image
        checked(run(["skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", source, target]))
    return folder / "docker-archive.tar"


@pytest.fixture(scope="session", params=["htpasswd", "token"])
def registry(
    request: pytest.FixtureRequest, archive: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealRegistry]:
    folder = tmp_path_factory.mktemp("registry") / request.param
    with real_registry(folder, password=request.param == "htpasswd", token=request.param == "token") as made:
        made.push(f"docker-archive:{archive}")
        yield made


def test_what_is_pulled_is_what_the_registry_has_and_no_process_is_told_the_password(
    place: Place, registry: RealRegistry
) -> None:
    trace = place.folder.with_name("trace")
    traced = ["strace", "--follow-forks", "--trace=execve,execveat", "--string-limit=9999", "--output", str(trace)]
    argv = [*traced, *place.argv("image", "--from", registry.image, "-o", "x.sif", *LOGIN)]
    built = run(argv, env=place.environment(WORD=PASSWORD), cwd=place.folder, timeout_s=120)
    assert built.ok, built.stderr
    record = (place.folder / "x.sif.json").read_text()
    asked = ["skopeo", "inspect", "--tls-verify=false", f"--creds={USER}:{PASSWORD}", registry.image]
    digest = json.loads(checked(run(asked)).stdout)["Digest"]
    assert json.loads(record)["base"] == f"docker://{registry.host}/real/small@{digest}"
    assert place.inside("x.sif", "echo", "inside").stdout == "inside\n"
    # The engine is among those that were started; what strace shows of each is its arguments, not its environment.
    started = trace.read_text()
    assert '"build"' in started
    kept = [each.read_text(errors="replace") for each in (place.folder / ".apptainer").rglob("*") if each.is_file()]
    for text in (started, record, built.stdout, built.stderr, *kept):
        assert PASSWORD not in text


@pytest.mark.parametrize(
    ("image", "login", "word", "sentence"),
    [
        ("real/small:1", LOGIN, "wrong", "refuses the user me or the password"),
        ("real/small:1", (), "", "only to those who log in"),
        ("real/small:2", LOGIN, PASSWORD, "has no image"),
        ("real/large:1", LOGIN, PASSWORD, "has no image"),
    ],
)
def test_what_it_refuses_is_one_sentence_and_leaves_nothing(
    place: Place, registry: RealRegistry, image: str, login: tuple[str, ...], word: str, sentence: str
) -> None:
    words = ("image", "--from", f"docker://{registry.host}/{image}", "-o", "x.sif", *login)
    refused = place.muster(*words, WORD=word)
    assert refused.status == 2, refused.stderr
    assert sentence in refused.stderr
    assert refused.stderr.count("muster: error: ") == 1
    assert "\nhint: " in refused.stderr
    assert "Traceback" not in refused.stderr
    assert place.left() == set()


def test_one_with_tls_is_pulled_from_on_this_machine_too(place: Place, archive: Path, tmp_path: Path) -> None:
    with real_registry(tmp_path.with_name("tls"), password=True, tls=True) as registry:
        registry.push(f"docker-archive:{archive}")
        words = ("image", "--from", registry.image, "-o", "x.sif", *LOGIN)
        refused = place.muster(*words, WORD=PASSWORD)
        assert refused.status == 3
        assert "is not signed by an authority that this machine trusts\n\nhint: if your site" in refused.stderr
        built = place.muster(*words, WORD=PASSWORD, SSL_CERT_FILE=str(registry.authority))
        assert built.ok, built.stderr


@pytest.mark.parametrize("form", ["docker-archive", "oci-archive"])
@pytest.mark.parametrize("kind", ["sif", "sandbox"])
def test_an_archive_that_was_carried_here_becomes_an_image(place: Place, archive: Path, form: str, kind: str) -> None:
    carried = archive.with_name(f"{form}.tar")
    sandbox = ("--sandbox",) if kind == "sandbox" else ()
    built = place.muster("image", "--from", f"{form}:{carried}", *sandbox, "-o", "x")
    assert built.ok, built.stderr
    assert place.inside("./x", "echo", "inside").stdout == "inside\n"
    record = json.loads((place.folder / "x.json").read_text())
    assert record["from"] == f"{form}:{carried}"
    assert record["base_content"]


@pytest.mark.parametrize("content", ["half", "no archive"])
@pytest.mark.parametrize("form", ["docker-archive", "oci-archive"])
def test_a_broken_archive_is_one_sentence_and_leaves_nothing(
    place: Place, archive: Path, form: str, content: str
) -> None:
    whole = archive.with_name(f"{form}.tar").read_bytes()
    (place.folder / "carried.tar").write_bytes(whole[: len(whole) // 2] if content == "half" else b"no archive\n")
    refused = place.muster("image", "--from", f"{form}:carried.tar", "-o", "x.sif")
    assert refused.status == 2
    assert "carried.tar cannot be read: " in refused.stderr
    assert "\nhint: carry it here again" in refused.stderr
    assert place.left() == {"carried.tar"}


def test_an_archive_of_the_other_kind_is_named(place: Place, archive: Path) -> None:
    refused = place.muster("image", "--from", f"oci-archive:{archive}", "-o", "x.sif")
    assert refused.status == 2
    assert "is not a valid oci-archive: it has no index.json" in refused.stderr
    assert place.left() == set()


def test_a_store_that_one_is_sent_on_to_sees_no_password() -> None:
    seen: list[str | None] = []
    digest = f"sha256:{'0' * 64}"

    class Answers(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            seen.append(self.headers.get("Authorization"))
            self.send_response(307 if len(seen) == 1 else 200)
            self.send_header("Location", f"http://127.0.0.1:{store.server_port}/stored")
            self.send_header("Docker-Content-Digest", digest)
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()  # what urllib asks for after a redirection, in some versions of Python

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's own name for it
            pass

    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Answers) as front,
        ThreadingHTTPServer(("127.0.0.1", 0), Answers) as store,
    ):
        threads = [Thread(target=server.handle_request, daemon=True) for server in (front, store)]
        for thread in threads:
            thread.start()
        asked = parse_source(f"docker://127.0.0.1:{front.server_port}/a/b:1").registry
        assert asked is not None
        assert manifest_digest(asked, Login(USER, PASSWORD)) == digest
    assert seen[0] is not None
    assert seen[1:] == [None]
