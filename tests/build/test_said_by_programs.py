"""What registries, engines and files of logins say is read by a table: a real server answers, and no image is built."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from muster.errors import RequestError, SiteError
from muster_build.engine import _failed_step, _failure
from muster_build.pins import pins_of_requirements
from muster_build.registry import Login, _keeps_passwords, hosts_that_ask, login_from_file, manifest_digest
from muster_build.source import RegistryImage

_DIGEST = "sha256:" + "a" * 64


class _Answers(BaseHTTPRequestHandler):
    """Asks for what the server's `wants` says, and then tells the digest."""

    def do_HEAD(self) -> None:
        server: Any = self.server
        who = self.headers.get("Authorization", "")
        server.asked.append((self.path, who, self.headers.get("Accept", "")))
        status, headers = server.wants(self.path, who)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        server: Any = self.server
        server.asked.append((self.path, self.headers.get("Authorization", ""), ""))
        content = json.dumps(server.token).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's own name for it
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    made: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    made.asked, made.token = [], {"token": "t1"}
    made.wants = lambda _path, _who: (200, {"Docker-Content-Digest": _DIGEST})
    thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def _image(server: Any, **words: Any) -> RegistryImage:
    return RegistryImage(f"127.0.0.1:{server.server_port}", "a/b", "1", **words)


def _unless(who: str, status: int, challenge: str) -> Callable[[str, str], tuple[int, dict[str, str]]]:
    """Refuse everybody who does not say this."""
    headers = {"WWW-Authenticate": challenge} if challenge else {}
    return lambda _, said: (200, {"Docker-Content-Digest": _DIGEST}) if said == who else (status, headers)


_ME = Login("me", "secret")
_BASIC = "Basic " + base64.b64encode(b"me:secret").decode()


def test_a_digest_that_is_known_is_not_asked_for(server: Any) -> None:
    assert manifest_digest(_image(server, digest="sha256:b"), None) == "sha256:b"
    assert server.asked == []


def test_a_registry_that_asks_for_nothing_is_told_the_password_on_this_machine_alone(server: Any) -> None:
    assert manifest_digest(_image(server), None) == _DIGEST
    assert manifest_digest(_image(server), _ME) == _DIGEST
    assert [row[:2] for row in server.asked] == [("/v2/a/b/manifests/1", ""), ("/v2/a/b/manifests/1", _BASIC)]
    assert "application/vnd.oci.image.index.v1+json" in server.asked[0][2]


@pytest.mark.parametrize("challenge", ['Basic realm="x"', 'basic realm="x"'])
def test_a_registry_that_wants_a_password_gets_it(server: Any, challenge: str) -> None:
    server.wants = _unless(_BASIC, 401, challenge)

    assert manifest_digest(_image(server), _ME) == _DIGEST
    for login in (None, Login("me", "wrong")):
        with pytest.raises(RequestError, match="only to those who log in" if login is None else "refuses the user me"):
            manifest_digest(_image(server), login)


@pytest.mark.parametrize(("name", "token"), [("token", "t1"), ("access_token", "t2")])
def test_a_registry_that_wants_a_token_gets_one(server: Any, name: str, token: str) -> None:
    realm = f"http://127.0.0.1:{server.server_port}/token"
    server.token = {name: token}
    server.wants = _unless(f"Bearer {token}", 401, f'Bearer realm="{realm}",service="s",scope="repository:a/b:pull"')

    assert manifest_digest(_image(server), None) == _DIGEST
    asked = [row[:2] for row in server.asked]
    assert asked[1] == ("/token?service=s&scope=repository%3Aa%2Fb%3Apull", "")
    server.asked.clear()
    assert manifest_digest(_image(server), _ME) == _DIGEST
    assert server.asked[1][1] == _BASIC


@pytest.mark.parametrize(
    ("status", "challenge", "says"),
    [
        (404, "", "the registry has no image"),
        (401, "", "refuses the user me or the password"),
        (403, 'Basic realm="x"', "refuses the user me or the password"),
        (500, "", "500"),
    ],
)
def test_another_refusal_is_a_sentence_and_nobody_is_asked_again(
    server: Any, status: int, challenge: str, says: str
) -> None:
    server.wants = _unless("nobody", status, challenge)

    with pytest.raises((RequestError, SiteError), match=says):
        manifest_digest(_image(server), _ME)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("address", "keeps"),
    [
        ("https://auth.example.org/token", True),
        ("http://auth.example.org/token", False),
        ("http://127.0.0.1:5000/token", True),
        ("http://localhost/token", True),
        ("ftp://127.0.0.1/token", False),
        ("http://[::1/token", False),
        ("", False),
    ],
)
def test_a_password_goes_to_https_or_stays_on_this_machine(address: str, keeps: bool) -> None:
    assert _keeps_passwords(address) is keeps


def test_an_answer_without_a_digest_is_no_answer_of_a_registry(server: Any) -> None:
    for headers in ({}, {"Docker-Content-Digest": "md5:0"}):
        server.wants = lambda _path, _who, headers=headers: (200, headers)

        with pytest.raises(SiteError, match="does not say which image a/b is"):
            manifest_digest(_image(server), None)


@pytest.mark.parametrize(
    ("challenge", "hosts"),
    [
        ("", ("127.0.0.1",)),
        ('Bearer realm="https://auth.example.org/token",service="s"', ("127.0.0.1", "auth.example.org")),
        ('Bearer realm="https://auth.example.org:5000/token"', ("127.0.0.1", "auth.example.org")),
        ('Bearer realm="http://127.0.0.1:99/token"', ("127.0.0.1",)),
        ('Basic realm="small"', ("127.0.0.1",)),
    ],
)
def test_the_hosts_that_want_to_know_who_pulls(server: Any, challenge: str, hosts: tuple[str, ...]) -> None:
    server.wants = _unless("nobody", 401, challenge)

    assert hosts_that_ask(_image(server)) == hosts
    assert [row[0] for row in server.asked] == ["/v2/"]


_AUTH = {"auth": base64.b64encode(b"ada:x:y").decode()}
_DOCKER_HUB = RegistryImage("docker.io", "library/a", "1")
_OTHER = RegistryImage("reg.example.org", "a", "1")


@pytest.mark.parametrize(
    ("image", "document", "login"),
    [
        (_OTHER, {"auths": {"reg.example.org": _AUTH}}, Login("ada", "x:y")),
        (_OTHER, {"auths": {"https://reg.example.org": _AUTH}}, Login("ada", "x:y")),
        (_OTHER, {"auths": {"reg.example.org": {}, "https://reg.example.org": _AUTH}}, Login("ada", "x:y")),
        (_OTHER, {"auths": {"reg.example.org": {}}}, None),
        (_OTHER, {"auths": {"https://index.docker.io/v1/": _AUTH}}, None),
        (_DOCKER_HUB, {"auths": {"https://index.docker.io/v1/": _AUTH}}, Login("ada", "x:y")),
        (_OTHER, {"auths": []}, None),
        (_OTHER, {"credsStore": "desktop"}, None),
        (_OTHER, {"auths": {"reg.example.org": {"auth": "no"}}}, None),
        (_OTHER, [], None),
    ],
)
def test_a_login_that_docker_has_kept_is_found(
    tmp_path: Path, image: RegistryImage, document: object, login: Login | None
) -> None:
    own, other = tmp_path / "home/.docker", tmp_path / "elsewhere"
    for folder in (own, other):
        folder.mkdir(parents=True)
    (own / "config.json").write_text(json.dumps(document))

    assert login_from_file(image, {}, tmp_path / "home") == login
    assert login_from_file(image, {"DOCKER_CONFIG": str(other)}, tmp_path / "home") is None
    assert login_from_file(image, {"DOCKER_CONFIG": str(own)}, tmp_path / "nobody") == login


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("ERROR: No matching distribution found for torch==9", "pip finds no torch==9"),
        ("/usr/bin/python3: No module named pip", "the image has no python3 with pip"),
        ("sh: 1: python3: not found", "the image has no python3 with pip"),
        ("bash: line 1: python3: command not found", "the image has no python3 with pip"),
        ("FATAL: stat /bin/sh: no such file or directory", "the image has no shell"),
        ("exec /bin/bash: not found", "the image has no shell"),
        ("OSError: [Errno 28] No space left on device", "no space is left to build"),
        ("write: Disk quota exceeded", "no space is left to build"),
        ("make: *** [all] Error 2", "a step of the definition failed"),
    ],
)
def test_what_a_step_could_not_do_is_read_from_its_words(output: str, says: str) -> None:
    assert _failed_step(output)[0].startswith(says)


@pytest.mark.parametrize(
    ("program", "lines", "says", "quoted"),
    [
        ("/opt/apptainer", ["FATAL:   unauthorized"], "the registry refuses the user", ""),
        ("/opt/apptainer", ["no space left on device", "FATAL:   bad gateway"], "apptainer built nothing: bad gateway",
         "FATAL:   bad gateway"),
        ("/opt/apptainer", ["no space left on device"], "no space is left to build", ""),
        ("/opt/apptainer", ["FATAL: a", "INFO: b", "FATAL: c", "bye"], "apptainer built nothing: c", "FATAL: c"),
        ("/opt/apptainer", ["a", "b"], "apptainer built nothing: b", ""),
        ("/opt/apptainer", [], "apptainer built nothing: it said nothing", ""),
        ("/opt/apptainer", ["make: no", "FATAL: while running %post section: exit status 2"],
         "a step of the definition failed", ""),
        ("/opt/podman", ["sh: python3: not found", 'Error: building at STEP "RUN x": while running runtime'],
         "the image has no python3 with pip", ""),
        ("/opt/proot", ["FATAL: unauthorized"], "a step of the definition failed", ""),
        ("/opt/podman", ["Error: manifest unknown"], "the registry has no such image", ""),
    ],
)  # fmt: skip
def test_why_an_engine_built_nothing(program: str, lines: list[str], says: str, quoted: str) -> None:
    failure, quoted_line = _failure(program, 1, lines)

    assert failure.message.startswith(says)
    assert quoted_line == quoted


def test_the_pins_of_a_requirements_file_are_its_packages() -> None:
    text = "# a\n\n-r other.txt\n--index-url x\nTorch_Vision==1.0 # b\nnumpy\na[x]~=2\nb==1.* ; python_version<'3'\n"
    text += "c @ https://h/c.whl#sha256=0\nd==1 \\\n    --hash=sha256:0\n"

    assert [(pin.name, pin.level) for pin in pins_of_requirements(text)] == [
        ("torch-vision", "version"),
        ("numpy", "unpinned"),
        ("a", "unpinned"),
        ("b", "unpinned"),
        ("c", "build"),
        ("d", "build"),
    ]
