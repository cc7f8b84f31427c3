"""Ask a registry which image a name means today, before anything is pulled; and how one logs in to it.

A password lives in this process and in the environment of the engine; it is in no argument, file or message.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

import msgspec

from muster.errors import RequestError, SiteError
from muster_build.source import RegistryImage

_PATIENCE_S = 30.0
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


class Login(msgspec.Struct, frozen=True):
    """Who pulls. Printed, it shows no password."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.user!r}, …)"

    @property
    def header(self) -> str:
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    def environment(self) -> dict[str, str]:
        """Return what Apptainer and SingularityCE read."""
        return {
            f"{engine}_DOCKER_{part}": value
            for engine in ("APPTAINER", "SINGULARITY")
            for part, value in (("USERNAME", self.user), ("PASSWORD", self.password))
        }


def login_from_file(registry: RegistryImage, environment: Mapping[str, str], home: Path) -> Login | None:
    """Return what `docker login` or `podman login` has kept for this registry; a helper program is not asked."""
    folder = Path(environment.get("DOCKER_CONFIG") or home / ".docker")
    hosts = {registry.host, f"https://{registry.host}"}
    if registry.host == "docker.io":
        hosts |= {"https://index.docker.io/v1/", "index.docker.io"}
    try:
        logins = json.loads((folder / "config.json").read_text())["auths"]
        encoded_login = next(logins[host]["auth"] for host in hosts if "auth" in logins.get(host, {}))
        user, _, password = base64.b64decode(encoded_login).decode().partition(":")
    except (OSError, ValueError, KeyError, TypeError, StopIteration, AttributeError, binascii.Error):
        return None
    return Login(user, password)


def manifest_digest(registry: RegistryImage, login: Login | None) -> str:
    """Return the digest that the registry gives to this name now."""
    if registry.digest is not None:
        return registry.digest
    answer = _answer(registry, login, f"manifests/{registry.tag}")
    digest = answer.get("Docker-Content-Digest")
    if not digest or not digest.startswith("sha256:"):
        raise SiteError(
            f"{registry.host} does not say which image {registry.name} is",
            hint="check the name: this may not be a registry",
        )
    return str(digest)


def hosts_that_ask(registry: RegistryImage) -> tuple[str, ...]:
    """Return the hosts, without ports, that want to know who pulls: the registry, and who gives out its tokens."""
    hosts = [registry.host]
    try:
        _ask(f"{registry.url.partition('/v2/')[0]}/v2/", {})
    except urllib.error.HTTPError as error:
        realm = re.search(r'realm="(https?://[^"]+)"', error.headers.get("WWW-Authenticate", ""))
        hosts += [urllib.parse.urlsplit(realm[1]).netloc] if realm else []
    return tuple(dict.fromkeys(host.rpartition(":")[0] if re.search(r":\d+$", host) else host for host in hosts))


def _answer(registry: RegistryImage, login: Login | None, path: str, *, scheme: str | None = None) -> Any:
    usual, _, rest = registry.url.partition(":")
    url = f"{scheme or usual}:{rest}/{path}"
    headers = {"Accept": ", ".join(_MANIFESTS)}
    if login is not None and registry.is_plain_http:
        headers["Authorization"] = login.header
    try:
        return _ask(url, headers)
    except urllib.error.HTTPError as error:
        if error.code == 400 and url.startswith("http:"):
            # On this machine too a registry may speak TLS, and says so with this status.
            return _answer(registry, login, path, scheme="https")
        challenge = error.headers.get("WWW-Authenticate", "")
        if error.code != 401 or not challenge:
            raise _refusal(registry, login, error.code) from None
        return _ask_again(registry, login, url, headers, challenge)


class _ForgetsWhoAsks(urllib.request.HTTPRedirectHandler):
    """Registries send one on to a store of somebody else's, who is to see no password and no token."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        next_request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if next_request is not None and next_request.host != req.host:
            next_request.remove_header("Authorization")
        return next_request


def _ask(url: str, headers: Mapping[str, str], *, method: str = "HEAD") -> Any:
    request = urllib.request.Request(url, headers=dict(headers), method=method)  # noqa: S310  # http or https only
    try:
        with urllib.request.build_opener(_ForgetsWhoAsks).open(request, timeout=_PATIENCE_S) as answer:
            return json.load(answer) if method == "GET" else answer.headers
    except urllib.error.HTTPError:
        raise
    except (OSError, HTTPException, ValueError) as error:
        host = urllib.parse.urlsplit(url).netloc
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise SiteError(
                f"the certificate of the registry {host} is not signed by an authority that this machine trusts",
                hint="if your site has its own authority, set SSL_CERT_FILE to the file with its certificate",
            ) from None
        raise SiteError(
            f"the registry {host} does not answer: {reason}",
            hint="if this machine cannot reach the registry, save the image elsewhere with docker save, and give "
            "--from docker-archive:FILE",
        ) from None


def _ask_again(
    registry: RegistryImage, login: Login | None, url: str, headers: Mapping[str, str], challenge: str
) -> Any:
    """Ask again with what the registry asked for: a password, or a token that a password or nobody's name gets."""
    try:
        if challenge.lower().startswith("basic"):
            if login is None:
                raise _refusal(registry, login, 401)
            return _ask(url, {**headers, "Authorization": login.header})
        token = _token(challenge, login)
        return _ask(url, {**headers, "Authorization": f"Bearer {token}"})
    except urllib.error.HTTPError as error:
        raise _refusal(registry, login, error.code) from None


def _token(challenge: str, login: Login | None) -> str:
    query = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = query.pop("realm", "")
    if not _keeps_passwords(realm):
        raise SiteError("the registry wants the password sent to an address without https", hint="use another registry")
    headers = {} if login is None else {"Authorization": login.header}
    token_answer = _ask(f"{realm}?{urllib.parse.urlencode(query)}", headers, method="GET")
    return str(token_answer.get("token") or token_answer.get("access_token"))


def _keeps_passwords(realm: str) -> bool:
    """Return whether nobody on the way reads what is sent there: by https, or on this machine.

    Whole names are compared.
    """
    try:
        parts = urllib.parse.urlsplit(realm)
    except ValueError:
        return False
    is_loopback = parts.hostname in {"127.0.0.1", "localhost", "::1"}
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback)


def _refusal(registry: RegistryImage, login: Login | None, status: int) -> RequestError | SiteError:
    reference = f"{registry.host}/{registry.name}:{registry.tag}"
    if status in {401, 403}:
        if login is None:
            return RequestError(
                f"{registry.host} gives {registry.name} only to those who log in, or has no such image",
                hint="--login USER, the password in a variable (--password-env NAME) or on stdin (--password-stdin)",
            )
        return RequestError(
            f"{registry.host} refuses the user {login.user} or the password",
            hint="try the same with docker login; many registries want a token in place of the password",
        )
    if status == 404:
        return RequestError(f"the registry has no image {reference}", hint="check its name and its tag")
    if status == 429:
        return SiteError(
            f"{registry.host} refuses for now: too many pulls", hint="log in with --login USER, or wait an hour"
        )
    return SiteError(f"{registry.host} answered {status} to a question for {reference}", hint="try again in a minute")
