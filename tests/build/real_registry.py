"""Debian's docker-registry on loopback: open, with a password (htpasswd), or with tokens that a server here signs."""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from muster.runner import checked, end_group, run, start

USER, PASSWORD = "me", "open-sesame"  # of registries that live as long as their test
# bcrypt of the password: the registry reads no other kind.
_HTPASSWD = "me:$2b$05$abcdefghijklmnopqrstuutXu9KzOt.1yBoZUeFWoT/914/JfszCO\n"
_SERVICE, _ISSUER = "real-registry", "tests"


@dataclass(frozen=True)
class RealRegistry:
    """A registry that is up, and what it wrote of what it was asked."""

    port: int
    log: Path
    authority: Path | None
    """The certificate that its own is signed by itself with; None: it speaks http."""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def image(self) -> str:
        return f"docker://{self.host}/real/small:1"

    def push(self, archive: str, name: str = "real/small:1") -> None:
        """What a person with skopeo would do."""
        words = ["copy", "--src-tls-verify=false", "--dest-tls-verify=false", f"--dest-creds={USER}:{PASSWORD}"]
        checked(run(["skopeo", "--insecure-policy", *words, archive, f"docker://{self.host}/{name}"]))


@contextmanager
def real_registry(
    folder: Path, *, password: bool = False, token: bool = False, tls: bool = False
) -> Iterator[RealRegistry]:
    """One of its own, with its storage in `folder`."""
    folder.mkdir()
    with ExitStack() as stack:
        authority = _certificate(folder) if tls or token else None
        port = _free_port()
        settings: dict[str, object] = {
            "version": 0.1,
            "log": {"accesslog": {"disabled": False}},
            "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
            "http": {"addr": f"127.0.0.1:{port}", "secret": "of no use to anybody"},
        }
        if tls:
            settings["http"] = {
                **settings["http"],  # type: ignore[dict-item]
                "tls": {"certificate": str(folder / "certificate.pem"), "key": str(folder / "key.pem")},
            }
        if password:
            (folder / "htpasswd").write_text(_HTPASSWD)
            settings["auth"] = {"htpasswd": {"realm": "real", "path": str(folder / "htpasswd")}}
        if token:
            address = stack.enter_context(_token_server(folder))
            settings["auth"] = {
                "token": {
                    "realm": f"http://{address}/token",
                    "service": _SERVICE,
                    "issuer": _ISSUER,
                    "rootcertbundle": str(folder / "certificate.pem"),
                }
            }
        (folder / "settings.yml").write_text(json.dumps(settings))  # JSON is YAML
        log = folder / "log"
        with log.open("ab") as file:
            words = ["docker-registry", "serve", str(folder / "settings.yml")]
            try:
                process = start(words, stdout=file, stderr=file, own_group=True)
            except Exception as error:  # noqa: BLE001  # a machine without it
                pytest.skip(f"docker-registry is missing: {error}")
        stack.callback(end_group, process)
        _wait_for(port, log)
        yield RealRegistry(port, log, authority if tls else None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, log: Path) -> None:
    for _ in range(400):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"the registry does not come up: {log.read_text()}")


def _certificate(folder: Path) -> Path:
    """For loopback, and for the address by which a lab's hosts reach this machine."""
    made = folder / "certificate.pem"
    names = "subjectAltName=IP:127.0.0.1,IP:10.0.2.2,DNS:localhost"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tests", "-addext", names]
    checked(run(["openssl", *words, "-keyout", str(folder / "key.pem"), "-out", str(made)]))
    return made


@contextmanager
def _token_server(folder: Path) -> Iterator[str]:
    """Gives a token for what is asked to whoever knows the password."""
    expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            if self.headers.get("Authorization") != expected:
                self._say(401, {"errors": [{"code": "UNAUTHORIZED"}]})
            else:
                self._say(200, {"token": _token(folder, asked.get("scope", []))})

        def _say(self, status: int, content: object) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's own name for it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _token(folder: Path, scopes: list[str]) -> str:
    """A JSON web token, signed with the key whose certificate the registry trusts."""
    der = ssl.PEM_cert_to_DER_cert((folder / "certificate.pem").read_text())
    now = int(time.time())
    access = []
    for scope in scopes:
        kind, name, actions = scope.split(":")
        access.append({"type": kind, "name": name, "actions": actions.split(",")})
    parts = [
        {"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(der).decode()]},
        {
            "iss": _ISSUER,
            "sub": USER,
            "aud": _SERVICE,
            "nbf": now - 10,
            "iat": now - 10,
            "exp": now + 600,
            "jti": os.urandom(8).hex(),
            "access": access,
        },
    ]
    text = ".".join(_safe(json.dumps(part).encode()) for part in parts)
    words = ["openssl", "dgst", "-sha256", "-sign", str(folder / "key.pem"), "-out", str(folder / "signature")]
    checked(run(words, stdin=text))
    return f"{text}.{_safe((folder / 'signature').read_bytes())}"


def _safe(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
