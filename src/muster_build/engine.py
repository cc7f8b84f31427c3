"""Apptainer or SingularityCE as a builder: its words, its places, and what its complaints mean."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from muster.errors import CommandFailed, MachineLacks, RequestError
from muster.runner import DEVNULL, PIPE, STDOUT, Runner, end_group, run, start
from muster_build.commands import Way, choose_way, look_for_means, without_commands
from muster_build.draft import remove
from muster_build.progress import follow_lines
from muster_build.proot import proot_words

Say = Callable[[str], None]

# What the engine says → our sentence, our hint.
_COMPLAINTS: Sequence[tuple[str, str, str]] = (
    (
        r"no space left on device|disk quota exceeded",
        "no space is left to build",
        ("--cache DIR names a roomier place; the image itself needs room where -o points"),
    ),
    (
        r"unauthorized|authentication required|access denied|incorrect username or password",
        "the registry refuses the user or the password",
        "--login USER with --password-env NAME or --password-stdin",
    ),
    (
        r"manifest unknown|not found: manifest|name unknown",
        "the registry has no such image",
        "check its name and tag",
    ),
    (
        r"unexpected EOF|connection reset|i/o timeout|unexpected end of (?:file|JSON)|digest invalid|did not match",
        "the pull was cut off",
        "build again: what is in the cache already is not fetched again",
    ),
    (
        r"certificate signed by unknown authority|x509: ",
        "the certificate of the registry is not signed by an authority that this machine trusts",
        "if your site has its own authority, set SSL_CERT_FILE to the file with its certificate",
    ),
    (
        r"no such host|connection refused|TLS handshake",
        "the registry does not answer",
        (
            "if this machine cannot reach the registry, save the image elsewhere with docker save, and give "
            "--from docker-archive:FILE"
        ),
    ),
    (
        r"image format not recognized|could not open image|corrupt|bad superblock|unable to read SIF|uncompress",
        "the image to build from cannot be read",
        "pull, copy or build the image again",
    ),
    (
        r"failed to lchown",
        "the directory to build from has files of other users, but you have no subordinate ids to copy them with",
        "build from a .sif, or from a directory whose files are yours",
    ),
    (
        r"--fakeroot|user namespace|operation not permitted",
        "the engine may not do here what the definition asks for",
        "its own message is above; try it on a compute node: --job",
    ),
)

_STEP_FAILED = (
    "a step of the definition failed",
    "its own message is above; --job tries it on a compute node, which may allow more",
)
_LAST_WORD = "FATAL:"
_FAKEROOT_DOES_NOT_FIT = re.compile(r"faked|libfakeroot|fakeroot: error|fakeroot bindpoints")

# In a user namespace of its own whoever makes it has all capabilities there.
_LAST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")
_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")

_ENGINES = ("APPTAINER", "SINGULARITY")
# What a module or a user sets for images that run: paths which the image to be built need not have yet.
_OF_A_RUN = re.compile(
    r"(?:APPTAINER|SINGULARITY)_(?:BIND|BINDPATH|MOUNT|CONTAINLIBS|NV|NVCCLI|ROCM|OVERLAY\w*|FUSEMOUNT)"
)


class Builder(msgspec.Struct, frozen=True):
    """A program that builds images, and where it keeps what it fetches."""

    program: str
    cache: Path
    environment: Mapping[str, str]

    def build(
        self, target: Path, source: str, say: Say, *, flags: Sequence[str] = (), runs_commands: bool = False
    ) -> None:
        """Build `target` from `source`, what it says passed on; `target` is whole only when this returns."""
        if not runs_commands:
            self.follow([self.program, "build", *flags, str(target), source], say)
            return
        lacks = root_lacks_capabilities()
        abilities = look_for_means(self.environment, version=self.version(), lacks_capabilities=lacks)
        way = choose_way(abilities)
        if way is not Way.ROOT:
            say(f"the commands of the definition run as root of the image by {way.value}")
        if way is Way.PROOT and not abilities.is_singularity_ce:  # which calls it itself
            self._build_by_proot(target, Path(source), say, flags)
            return
        own_namespace = _NAMESPACE if way is Way.OWN_NAMESPACE else ()
        extra_options = ["--fakeroot"] if way is Way.SUBORDINATE_IDS and abilities.is_singularity_ce else []
        extra_options += ["--ignore-fakeroot-command"] if way is Way.ROOT_ALONE else []
        try:
            self.follow([*own_namespace, self.program, "build", *extra_options, *flags, str(target), source], say)
        except CommandFailed as error:
            if way is not Way.FAKEROOT or not abilities.proot or not _FAKEROOT_DOES_NOT_FIT.search(error.stderr):
                raise
            remove(target)
            say("the image cannot run this machine's fakeroot: its commands run under proot instead")
            self._build_by_proot(target, Path(source), say, flags)

    def _build_by_proot(self, target: Path, definition: Path, say: Say, flags: Sequence[str]) -> None:
        """Build all but the commands into a directory, run the commands there, and make an image of the directory."""
        rest, shell, text = without_commands(definition.read_text())
        (definition.parent / "rest.def").write_text(rest)
        script = definition.parent / "post.sh"
        script.write_text(text)
        box = target if "--sandbox" in flags else definition.parent / "box"
        fetch = [flag for flag in flags if flag != "--sandbox"]
        self.follow([self.program, "build", "--sandbox", *fetch, str(box), str(definition.parent / "rest.def")], say)
        argv, environment = proot_words(self.environment, box, shell, script)
        self.follow(argv, say, environment=environment)
        if box != target:
            self.follow([self.program, "build", str(target), str(box)], say)
            remove(box)

    def follow(
        self,
        argv: Sequence[str],
        say: Say,
        *,
        environment: Mapping[str, str] | None = None,
        extra_environment: Mapping[str, str] | None = None,
    ) -> None:
        """Run a program that builds, with a scratch directory of its own; what it says is passed on.

        `environment` replaces this process's environment, `more` is added to it.
        """
        self.cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        work = Path(tempfile.mkdtemp(prefix="build-", dir=self.cache))
        try:
            own_environment = self._environment(work) if environment is None else environment
            self._build(argv, {**own_environment, **(extra_environment or {})}, say)
        finally:
            remove(work)

    def _build(self, argv: Sequence[str], environment: Mapping[str, str], say: Say) -> None:
        output_lines: list[str] = []
        last_words: list[str] = []
        # Together, in their order: what the commands of a definition say is on both.
        process = start(argv, env=environment, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, own_group=True)
        try:
            for line in follow_lines(process, say):
                output_lines.append(line)
                if _LAST_WORD in line:  # the sentence of the failure may be the same words
                    last_words.append(line)
                else:
                    say(line)
            status = process.wait()
        finally:
            end_group(process, grace_s=5.0)
        if status == 0:
            for line in last_words:
                say(line)
            return
        failure, quoted_line = _failure(self.program if argv[0] == _NAMESPACE[0] else argv[0], status, output_lines)
        for line in last_words:
            if line != quoted_line:
                say(line)
        raise failure

    def _environment(self, work: Path) -> dict[str, str]:
        """Cache and scratch off the home directory, under the programs' names for them."""
        places = {"CACHEDIR": str(self.cache), "TMPDIR": str(work)}
        names = {f"{engine}_{name}": value for engine in _ENGINES for name, value in places.items()}
        enroot = {"ENROOT_CACHE_PATH": str(self.cache), "ENROOT_TEMP_PATH": str(work)}
        return {**self.environment, **names, **enroot, "TMPDIR": str(work)}

    def prove(self, image: Path, runner: Runner = run) -> None:
        """Prove that the engine reads the image and starts a program in it; warn of an image without `true`."""
        start_it = ["--no-home", "--cleanenv", str(image), "true"]
        for words in (["inspect", str(image)], ["exec", *start_it]):
            result = runner([self.program, *words], env=self.environment, cwd="/", timeout_s=600)
            if words[0] == "exec" and not result.ok and "/dev/fuse" in result.stderr:  # closed to users here
                result = runner(
                    [self.program, "exec", "--unsquash", *start_it], env=self.environment, cwd="/", timeout_s=600
                )
            if not result.ok and "executable file not found" not in result.stderr:
                last = (result.stderr.strip().splitlines() or ["it said nothing"])[-1]
                raise CommandFailed(
                    [self.program],
                    result.status,
                    "",
                    f"the image was built, but it cannot be used: {last}",
                    hint=f"nothing was put in place; {self.program} {words[0]} is what failed",
                )

    def version(self, runner: Runner = run) -> str:
        """Return the version that the engine reports."""
        word = "version" if Path(self.program).name == "enroot" else "--version"
        return runner([self.program, word], env=self.environment).stdout.strip()


def root_lacks_capabilities(status: Path = Path("/proc/self/status"), last: Path = _LAST_CAPABILITY) -> bool:
    """Return whether we are root without all of its powers: Apptainer asks for every one before it runs %post."""
    try:
        match = re.search(r"^CapEff:\s*([0-9a-f]+)$.*", status.read_text(), re.MULTILINE)
        all_capabilities = (1 << (int(last.read_text()) + 1)) - 1
    except (OSError, ValueError):
        return False
    return os.geteuid() == 0 and match is not None and int(match[1], 16) != all_capabilities


def find_builder(
    environment: Mapping[str, str], cache: Path | None, uid: int, *, names: Sequence[str] = ("apptainer", "singularity")
) -> Builder:
    """Return the engine on PATH, with the cache that is asked for, of the engine's variable, or on the node's disk."""
    for name in names:
        program = shutil.which(name, path=environment.get("PATH"))
        if program is not None:
            cache_folder = environment.get("ENROOT_CACHE_PATH" if name == "enroot" else f"{name.upper()}_CACHEDIR")
            own_environment = {word: value for word, value in environment.items() if not _OF_A_RUN.fullmatch(word)}
            return Builder(
                program,
                cache or (Path(cache_folder) if cache_folder else _own_folder(environment, uid) / name),
                own_environment,
            )
    if "enroot" in names:
        raise MachineLacks(
            "enroot",
            "enroot is not on PATH, but a .sqsh needs it",
            hint="build on a node that has it (--job), or make a .sif, which Pyxis does not read",
        )
    raise MachineLacks(
        "apptainer",
        "this machine has no program that builds images: neither apptainer nor singularity is on PATH",
        hint="load the module that has it, or build on a node that does: --job",
    )


def _own_folder(environment: Mapping[str, str], uid: int) -> Path:
    """Return this user's folder on the node's own disk: made, or proved to be this user's."""
    folder = Path(environment.get("TMPDIR") or "/tmp") / f"muster-{uid}"  # noqa: S108  # the node's own
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise RequestError(
            f"the cache {folder} cannot be made: {error.strerror}", hint="name another place with --cache DIR"
        ) from None
    # A link is one that all may write, to whatever it leads.
    if status.st_uid != uid or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise RequestError(
            f"{folder} can be written by other users, who could change what is built from it",
            hint="remove it if you can, or name another place with --cache DIR",
        )
    return folder


def _failed_step(output: str) -> tuple[str, str]:
    """Return what a command of a definition could not do, if Muster wrote the command or its message is plain."""
    missing = re.search(r"No matching distribution found for (\S+)", output)
    if missing:
        return (
            f"pip finds no {missing[1]} for the image's Python and machine",
            "muster build lock --wheelhouse on a connected machine brings it; else look at name and version",
        )
    if re.search(r"No module named pip|python3: (?:not found|command not found)", output):
        return (
            "the image has no python3 with pip, which --pip needs",
            "start from an image that has, or bring pip by --def",
        )
    if re.search(r"(?:stat|exec) \S*/(?:sh|bash)\b.*(?:no such file|not found)", output, re.IGNORECASE):
        return (
            "the image has no shell, so no command of a definition runs in it",
            "start from an image that has one, or add files alone: --copy",
        )
    if re.search(r"no space left on device|disk quota exceeded", output, re.IGNORECASE):
        return (
            "no space is left to build",
            "--cache DIR names a roomier place; the image itself needs room where -o points",
        )
    return _STEP_FAILED


def _failure(program: str, status: int, output_lines: Sequence[str]) -> tuple[CommandFailed, str]:
    """Return the error of a build, and the line of the output that its sentence quotes; empty: it quotes none."""
    whole = "\n".join(output_lines[-40:])
    # What commands in the image say is theirs: of an engine's own complaint only its own lines count.
    text = "\n".join(line for line in output_lines[-40:] if re.search("FATAL|ERROR|^Error:", line)) or whole
    if Path(program).name == "proot" or re.search("while running %post|building at STEP .RUN", text):
        return CommandFailed([program], status, whole, *_failed_step(whole)), ""
    for pattern, sentence, hint in _COMPLAINTS:
        if re.search(pattern, text, re.IGNORECASE):
            return CommandFailed([program], status, whole, sentence, hint), ""
    fatal_lines = [line for line in output_lines if _LAST_WORD in line]
    last_line = output_lines[-1] if output_lines else "it said nothing"
    words = fatal_lines[-1].partition(_LAST_WORD)[2].strip() if fatal_lines else last_line
    hint = "the lines above are all that it said; --job tries it on a compute node, which may allow more"
    failure = CommandFailed([program], status, whole, f"{Path(program).name} built nothing: {words}", hint)
    return failure, fatal_lines[-1] if fatal_lines else ""
