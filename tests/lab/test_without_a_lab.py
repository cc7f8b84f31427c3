"""What the lab reads, decides and says, without one that is up: one row for each condition that decides something."""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from muster.errors import CommandFailed, MachineLacks, RequestError, SiteError, UnknownName
from muster.runner import ProgramResult
from muster_lab import (
    apptainer,
    build,
    daemons,
    debian,
    faults,
    host,
    internet,
    kernel,
    labs,
    paths,
    registry,
    requirements,
    versions,
    view,
)  # fmt: skip
from muster_lab.spec import HostGroup, LabSpec

_SPEC = LabSpec(name="x", groups=(HostGroup(count=2),))


@pytest.mark.parametrize(
    ("looks", "status", "clock", "says"),
    [
        (1, None, [0.0], None),
        (3, None, [0.0], None),
        (9, 1, [0.0], "slurmd ended while the lab came up"),
        (9, None, [0.0, 11.0], "slurmd was not ready within 10 s"),
    ],
)
def test_a_daemon_is_waited_for_while_it_lives(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    looks: int,
    status: int | None,
    clock: list[float],
    says: str | None,
) -> None:
    monkeypatch.setattr(paths, "LOGS", tmp_path)
    times = iter(clock)
    now = [0.0]

    def monotonic() -> float:
        now[0] = next(times, now[0])
        return now[0]

    slept: list[float] = []
    monkeypatch.setattr(daemons, "time", SimpleNamespace(monotonic=monotonic, sleep=slept.append))
    left = iter(range(looks))
    daemon: Any = SimpleNamespace(poll=lambda: status)
    with pytest.raises(SiteError, match=says) if says else nullcontext():
        daemons.wait_until(lambda: next(left) == looks - 1, daemon, "slurmd", timeout_s=10)
    assert says or len(slept) == looks - 1


def test_the_last_words_of_a_daemon_are_five_of_each_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "LOGS", tmp_path)
    assert daemons.log_tail("slurmd") == "slurmd said nothing"
    (tmp_path / "slurmd.log").write_text("".join(f"{number}\n" for number in range(9)))
    (tmp_path / "other.log").write_text("x\n")
    assert daemons.log_tail("slurmd") == "the last words of slurmd:\n  4\n  5\n  6\n  7\n  8"


@pytest.mark.parametrize(
    ("target", "restored", "waited"),
    [
        ("all", ["controller", "node1", "node2"], {"node1", "node2"}),
        ("node2", ["node2"], {"node2"}),
        ("controller", ["controller"], set()),
        ("node9", None, None),
    ],
)
@pytest.mark.parametrize("answers", [True, False])
def test_what_is_named_is_restored_and_waited_for(
    monkeypatch: pytest.MonkeyPatch, target: str, restored: list[str] | None, waited: set[str] | None, answers: bool
) -> None:
    seen: list[str] = []
    usable: list[set[str]] = []
    monkeypatch.setattr(faults, "read_spec", lambda: _SPEC)
    monkeypatch.setattr(faults, "restore_controller", lambda: seen.append("controller"))
    monkeypatch.setattr(faults, "restore_host", lambda spec, name: seen.append(name))
    monkeypatch.setattr(faults, "controller_answers", lambda: answers)
    monkeypatch.setattr(build, "usable_hosts", lambda: usable[-1])

    def wait(ready: Any, *_: Any, **__: Any) -> None:
        assert waited is not None
        usable.append(waited)
        assert ready()
        usable.append(waited | {"more"})
        assert ready()
        usable.append(set())
        assert ready() is not bool(waited)

    monkeypatch.setattr(faults, "_wait", wait)
    with pytest.raises(UnknownName) if restored is None else nullcontext():
        faults.restore(target)
    assert seen == (restored or [])
    assert bool(usable) is (answers and restored is not None)


@pytest.mark.parametrize(("slurm", "ids"), [("system", None), ("system", (1, 2)), ("bookworm", None)])
@pytest.mark.parametrize("way_out", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_a_lab_is_made_or_nothing_of_it_is_left(
    monkeypatch: pytest.MonkeyPatch, slurm: str, ids: Any, way_out: bool, fails: bool
) -> None:
    seen: list[Any] = []
    spec: Any = SimpleNamespace(name="x", slurm=slurm, internet=way_out)
    process = SimpleNamespace(pid=7, end=lambda: seen.append("end"))
    records: Any = SimpleNamespace(record=lambda *words: seen.append(words))
    monkeypatch.setattr(versions, "prepared_root", lambda *_, **__: SimpleNamespace(version="24"))
    monkeypatch.setattr(versions, "cache_folder", lambda _: Path("/c"))
    monkeypatch.setattr(build, "system_version", lambda: "22")
    monkeypatch.setattr("muster_lab.first.begin", lambda ranges: process)
    monkeypatch.setattr(labs, "inside", lambda pid, act: act())

    def made(*words: Any, ordinary_user: bool) -> None:
        seen.append(ordinary_user)
        if fails:
            raise SiteError("x", hint="y")

    monkeypatch.setattr(build, "build", made)
    monkeypatch.setattr(internet, "connect", lambda pid: seen.append("way out"))
    with pytest.raises(SiteError) if fails else nullcontext():
        labs._make(spec, ids, records, {"HOME": "/h"}, lambda _: None)
    version = "22" if slurm == "system" else "24"
    ended = ["end"] if fails else [*(["way out"] if way_out else []), ("x", 7, version)]
    assert seen == [ids is not None, *ended]


@pytest.mark.parametrize(("answers", "controller", "state"), [(True, "up", "idle"), (False, "stopped", "unknown")])
def test_the_status_of_a_lab_is_what_its_controller_tells(
    monkeypatch: pytest.MonkeyPatch, answers: bool, controller: str, state: str
) -> None:
    monkeypatch.setattr(labs, "read_spec", lambda: _SPEC)
    monkeypatch.setattr(faults, "controller_answers", lambda: answers)
    monkeypatch.setattr(build, "host_states", lambda: {"node1": "idle"})
    monkeypatch.setattr(faults, "conditions", lambda _: {"node1": [], "node2": ["cut-link"]})
    told = labs._look()
    assert (told["controller"], [each["state"] for each in told["hosts"]]) == (controller, [state, "unknown"])


@pytest.mark.parametrize("way_out", [True, False])
def test_what_is_faked_of_the_network_is_told(monkeypatch: pytest.MonkeyPatch, way_out: bool) -> None:
    entry = SimpleNamespace(name="x", pid=7, version="22")
    monkeypatch.setattr(labs, "LabRegistry", lambda _: SimpleNamespace(find=lambda name: entry))
    monkeypatch.setattr(labs, "inside", lambda *_: {"internet": way_out})
    monkeypatch.setattr(labs, "memory_mib", lambda _: 12.34)
    told = labs.status("x", {})
    assert told["faked"][-1] == (labs._OPEN if way_out else labs._CLOSED)
    assert told["memory_mib"] == 12.3


def test_a_place_can_be_written_if_the_folder_that_is_there_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch(0o755)
    (tmp_path / "link").symlink_to("nowhere")
    assert registry._can_be_written(tmp_path)
    assert registry._can_be_written(tmp_path / "a/b")
    assert not registry._can_be_written(tmp_path / "file/a")
    assert not registry._can_be_written(tmp_path / "link/a")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert not registry._can_be_written(tmp_path)
    monkeypatch.setattr(Path, "exists", lambda _: (_ for _ in ()).throw(PermissionError()))
    assert not registry._can_be_written(tmp_path)


@pytest.mark.parametrize(
    ("is_dir", "uid", "access", "own"),
    [(True, 5, True, True), (False, 5, True, False), (True, 6, True, False), (True, 5, False, False)],
)
def test_the_folder_of_a_session_is_used_if_it_is_ones_own(
    monkeypatch: pytest.MonkeyPatch, is_dir: bool, uid: int, access: bool, own: bool
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "getuid", lambda: 5)
        patched.setattr(os, "access", lambda *_: access)
        patched.setattr(Path, "is_dir", lambda _: is_dir)
        patched.setattr(Path, "stat", lambda _: SimpleNamespace(st_uid=uid))
        folder = str(registry._private_folder())
    assert folder == ("/run/user/5/muster" if own else "/tmp/muster-5")


@pytest.mark.parametrize(
    ("mode", "stranger", "ok"), [(0o700, 0, True), (0o720, 0, False), (0o702, 0, False), (0o700, 1, False)]
)
def test_a_folder_that_others_can_write_holds_no_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, stranger: int, ok: bool
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own").chmod(mode)
    uid = os.getuid() + stranger
    monkeypatch.setattr(os, "getuid", lambda: uid)
    with nullcontext() if ok else pytest.raises(RequestError, match="is not yours alone"):
        registry._make_private(tmp_path / "own")
        registry._make_private(tmp_path / "new") if not stranger else None


@pytest.mark.parametrize(
    ("directory", "project"),
    [
        ("/home/ada", None),
        ("/tmp", None),
        ("/tmp/project/sub", "/tmp/project"),
        ("/tmp/other/sub", "/tmp/other/sub"),
        ("/tmp/project", "/tmp/project"),
    ],
)
def test_the_project_that_all_hosts_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str, project: str | None
) -> None:
    monkeypatch.setattr(paths, "MACHINE", tmp_path)
    (tmp_path / "tmp/project" / view._MARKS[0]).mkdir(parents=True)
    assert view.project_of(Path(directory)) == (None if project is None else Path(project))
    assert view.project_of(paths.STATE / "a") is None


@pytest.mark.parametrize(
    ("project", "is_there", "shown", "bound"),
    [
        (None, True, "", False),
        ("/tmp/a", False, "", False),
        ("/tmp/a", True, "/tmp/a\n", False),
        ("/tmp/a", True, "/tmp/b\n", True),
    ],
)
def test_a_folder_is_shown_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: str | None, is_there: bool, shown: str, bound: bool
) -> None:
    monkeypatch.setattr(paths, "MACHINE", tmp_path)
    monkeypatch.setattr(paths, "SHOWN", tmp_path / "shown")
    (tmp_path / "shown").write_text(shown)
    if is_there:
        (tmp_path / "tmp/a").mkdir(parents=True)
    seen: list[Any] = []
    monkeypatch.setattr(view, "project_of", lambda _: project and Path(project))
    monkeypatch.setattr(view, "_bind_in_worlds", lambda *words: seen.append(words))
    view.show(Path("/tmp/a/b"), [5, 6])
    assert seen == ([(Path("/tmp/a"), (1, 5, 6))] if bound else [])
    assert view.read_shown() == shown.split() + ["/tmp/a"] * bound


def test_what_was_written_is_told_under_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "MACHINE", Path("/lab/machine"))
    (tmp_path / "upper/sub/__pycache__").mkdir(parents=True)
    (tmp_path / "upper/sub/__pycache__/x.pyc").touch()
    (tmp_path / "upper/sub/a").write_text("four")
    (tmp_path / "upper/gone").touch()
    real = Path.lstat
    removed = SimpleNamespace(st_mode=stat.S_IFCHR, st_rdev=0, st_size=0)
    monkeypatch.setattr(Path, "lstat", lambda path: removed if path.name == "gone" else real(path))
    for place, top in (("/lab/machine/tmp/x", "/tmp/x"), ("/home", "/home")):
        (tmp_path / "place").write_text(place)
        told = {each["path"]: each["size"] for each in view._of_layer(tmp_path)}
        assert told == {f"{top}/sub/a": 4, f"{top}/gone": None}
    removed.st_rdev = 1
    assert all(each["size"] is not None for each in view._of_layer(tmp_path))


def test_mounts_that_are_reached_are_told_with_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ("/ / rw - ext4 a rw", r"/ /a\040b rw shared:1 - tmpfs none rw", "/ /gone rw - nfs x rw")
    lines = "".join(f"{number} 0 8:{number} {row}\n" for number, row in enumerate(rows))
    monkeypatch.setattr(Path, "read_text", lambda _: lines)
    monkeypatch.setattr(view, "_exists", lambda place: str(place) != "/gone")
    assert list(view.mounts()) == [("/", "ext4"), ("/a b", "tmpfs")]


def test_a_link_out_of_a_folder_of_libraries_becomes_the_file(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (tmp_path / "elsewhere.so").write_text("far")
    (source / "libnear.so.1").write_text("near")
    (source / "libnear.so").symlink_to("libnear.so.1")
    (source / "libfar.so").symlink_to("../elsewhere.so")
    (source / "ld-linux.so.2").touch()
    (source / "readme").touch()
    debian._take_libraries(source, tmp_path / "a/target")
    taken = {path.name: path.is_symlink() for path in (tmp_path / "a/target").iterdir()}
    assert taken == {"libnear.so.1": False, "libnear.so": True, "libfar.so": False, "ld-linux.so.2": False}
    assert (tmp_path / "a/target/libfar.so").read_text() == "far"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.ENOSPC, "x"), "room"),
        (OSError(errno.EACCES, "x"), "cache"),
        (OSError(errno.EIO, "x"), None),
        (CommandFailed(["dpkg"], 1, "No space left on device"), "room"),
        (CommandFailed(["dpkg"], 1, "no such package"), None),
    ],
)
def test_a_full_disk_is_told_whoever_ran_into_it(tmp_path: Path, error: Exception, kind: str | None) -> None:
    with pytest.raises(MachineLacks if kind else type(error)) as told, versions._room_told(tmp_path):
        raise error
    assert getattr(told.value, "program", getattr(told.value, "what", kind)) in {kind, None} or kind is None


@pytest.mark.parametrize(("fetched", "asked"), [(True, 0), (False, 1)])
def test_apptainer_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetched: bool, asked: int) -> None:
    seen: list[Path] = []

    def fetch(work: Path, *_: Any) -> Path:
        seen.append(work)
        (work / "packages" / apptainer.APPTAINER).parent.mkdir(parents=True)
        (work / "packages" / apptainer.APPTAINER).touch()
        return work / "packages"

    monkeypatch.setattr(apptainer, "check_tools", lambda: None)
    monkeypatch.setattr(apptainer, "_fetch", fetch)
    cache = tmp_path / "a/b"
    if fetched:
        fetch(cache, None).rename(cache / "packages")
        seen.clear()
    for _ in range(2):
        assert apptainer.prepared_apptainer(cache, lambda _: None) == cache / "packages"
    assert len(seen) == asked


@pytest.mark.parametrize(
    ("is_up", "usable", "error"), [(True, {"a", "b"}, False), (True, {"a"}, None), (False, set(), True)]
)
def test_a_lab_is_ready_when_slurm_would_use_all_hosts(
    monkeypatch: pytest.MonkeyPatch, is_up: bool, usable: set[str], error: bool | None
) -> None:
    monkeypatch.setattr(host, "is_up", lambda _: is_up)
    monkeypatch.setattr(build, "usable_hosts", lambda: usable)
    monkeypatch.setattr(daemons, "log_tail", lambda name: name)
    looked: list[bool] = []
    monkeypatch.setattr(daemons, "wait_until", lambda ready, *_, **__: looked.append(ready()))
    with pytest.raises(SiteError, match="a ended while") if error else nullcontext():
        build.wait_for_hosts(["a", "b"], None)  # type: ignore[arg-type]
    assert looked == ([] if error else [error is False])


@pytest.mark.parametrize(
    ("kinds", "same", "joined"),
    [(("mnt",), True, ["mnt"]), (("user", "mnt"), True, ["mnt"]), (("user", "mnt"), False, ["user", "mnt"])],
)
def test_a_user_namespace_that_is_ones_own_is_not_entered(
    monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, ...], same: bool, joined: list[str]
) -> None:
    names = [kernel.Namespace[name] for name in kinds]
    seen: list[str] = []
    monkeypatch.setattr(kernel, "_inode", lambda pid, kind: 1 if same or pid == "self" else 2)
    monkeypatch.setattr(kernel, "join", lambda _, kind: seen.append(kind.name))
    monkeypatch.setattr(os, "open", lambda *_: 99)
    monkeypatch.setattr(os, "close", lambda _: None)
    combined = names[0]
    for name in names[1:]:
        combined |= name
    kernel.enter(7, combined)
    assert seen == joined


def test_a_fork_ends_with_what_its_function_returns_and_goes_by_a_signal() -> None:
    def fail() -> int:
        raise ValueError("no")

    def status(child: Callable[[], int]) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(kernel.fork(child), 0)[1])

    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
    assert (status(lambda: 5), status(fail)) == (5, 70)
    assert status(lambda: signal.getsignal(signal.SIGINT) is signal.SIG_DFL) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert status(lambda: signal.getsignal(signal.SIGINT) is signal.SIG_IGN) == 1
    signal.signal(signal.SIGINT, heard)


def test_what_is_detached_has_a_session_and_a_log_of_its_own(tmp_path: Path) -> None:
    kept, lost = os.pipe()

    def child() -> int:
        kernel.detach(keep=[kept], log=tmp_path / "log")
        os.write(1, b"out ")
        os.write(2, b"err")
        open_ones = [number for number in (kept, lost) if Path(f"/proc/self/fd/{number}").exists()]
        return 7 if (open_ones, Path.cwd(), os.getsid(0), os.read(0, 1)) == ([kept], Path("/"), os.getpid(), b"") else 1

    old_mask = os.umask(0)
    assert os.waitstatus_to_exitcode(os.waitpid(kernel.fork(child), 0)[1]) == 7
    os.umask(old_mask)
    assert (tmp_path / "log").read_text() == "out err"
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o644
    for number in (kept, lost):
        os.close(number)


@pytest.mark.parametrize("uid", [0, 5])
@pytest.mark.parametrize(("way_out", "note"), [(True, None), (False, "elsewhere")])
@pytest.mark.parametrize("fails", [True, False])
def test_what_a_lab_needs_is_looked_for_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch, uid: int, way_out: bool, note: str | None, fails: bool
) -> None:
    seen: list[Any] = []

    def make(*words: Any) -> str:
        seen.append(words[1])
        if fails:
            raise KeyboardInterrupt
        return "process"

    records = SimpleNamespace(note=note, reserve=lambda _: None, forget=lambda _: seen.append("forgotten"))
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(requirements, "check_programs", lambda _, *, ordinary_user: seen.append(ordinary_user))
    monkeypatch.setattr(internet, "check_way_out", lambda: seen.append("way out"))
    monkeypatch.setattr(labs, "_id_ranges", lambda: "ids")
    monkeypatch.setattr(labs, "LabRegistry", lambda _: records)
    monkeypatch.setattr(labs, "_make", make)
    with pytest.raises(KeyboardInterrupt) if fails else nullcontext():
        assert labs.up_for_now(LabSpec(internet=way_out), {}, seen.append) == "process"  # type: ignore[comparison-overlap]
    ids = "ids" if uid else None
    assert seen == [uid != 0, *["way out"] * way_out, *([note] if note else []), ids, *["forgotten"] * fails]


def _packages(folder: Path, *names: str, text: bytes = b"\x7fELF") -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text + name.encode())
    return folder


@pytest.mark.parametrize("beside", [True, False])
def test_apptainer_runs_on_its_own_libc_from_where_it_is_put(tmp_path: Path, beside: bool) -> None:
    lib = "usr/lib/x86_64-linux-gnu"
    loader = f"{lib}/ld-linux-x86-64.so.2" if beside else "usr/lib64/ld-linux-x86-64.so.2"
    programs = ("usr/bin/apptainer", "usr/bin/mksquashfs", f"{lib}/apptainer/bin/starter")
    packages = _packages(tmp_path / "packages", *programs, "usr/bin/other", loader)
    _packages(packages, "etc/apptainer/apptainer.conf", text=b"# binary path = \nroot default capabilities = full\n")
    asked: list[Sequence[str]] = []

    def runner(argv: Sequence[str], **_: Any) -> ProgramResult:
        asked.append(argv)
        return ProgramResult(tuple(argv), 0, "", "")

    target = tmp_path / "there"
    assert apptainer.relocated(packages, target, runner) == target / "usr/bin/apptainer"
    interpreter, rpath = str(target / loader), str(target / lib)
    words = ["--set-interpreter", interpreter, "--force-rpath", "--set-rpath", rpath]
    assert [list(argv) for argv in asked] == [["patchelf", *words, *(str(target / name) for name in programs)]]
    own = {name: (target / name).stat().st_ino != (packages / name).stat().st_ino for name in (*programs, loader)}
    assert own == {**dict.fromkeys(programs, True), loader: False}  # a copy of what is patched, a link to the others
    settings = (target / "usr/etc/apptainer/apptainer.conf").read_text()
    assert settings.startswith(f"binary path = {target}/usr/bin:/usr/local/sbin:")
    assert "\nroot default capabilities = no\n" in settings
    assert (target / "usr/lib/etc/apptainer").is_dir()
    assert (target / "usr/lib/var/lib/apptainer/mnt/session").is_dir()


@pytest.mark.parametrize("has_loader", [True, False])
def test_a_fetched_slurm_is_laid_out_and_bound_to_its_own_libraries(tmp_path: Path, has_loader: bool) -> None:
    lib, plugins = "usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/slurm-wlm"
    loader = "ld-linux-x86-64.so.2"
    unpacked = {
        "slurm-client_1.deb": ["usr/bin/srun", "usr/sbin/slurmd-wlm", f"{plugins}/mpi_pmix.so"],
        "libc6_1.deb": [f"{lib}/libc.so.6", "usr/lib64/" + loader, *([f"{lib}/{loader}"] if has_loader else [])],
    }
    asked: list[list[str]] = []
    said: list[str] = []

    def runner(argv: Sequence[str], **_: Any) -> ProgramResult:
        asked.append(list(argv))
        answers = {
            "indextargets": "http://other Ubuntu Ubuntu\nhttp://mirror Debian Debian\n",
            "--simulate": "Inst slurmctld (24.11.5-4 x)\nInst libc6 (2 x)\nInst perl (5 x)\nInst libx-perl (1 x)\n",
            "--print-uris": "'http://a' a 1000000 x\n'http://b' b 2600000 x\n",
            "--print-interpreter": f"/lib64/{loader}\n",
        }
        if "download" in argv and "--print-uris" not in argv:
            _packages(tmp_path / "apt/archives", *unpacked)
        if argv[0] == "dpkg-deb":
            _packages(Path(argv[-1]), *unpacked[Path(argv[-2]).name])
        return ProgramResult(tuple(argv), 0, next((text for word, text in answers.items() if word in argv), ""), "")

    made = debian.fetch("trixie", tmp_path, said.append, runner)
    assert (made.version, made.plugins, made.mirror) == ("24.11.5-4", f"/{plugins}", "http://mirror")
    assert dict(made.packages) == {"slurmctld": "24.11.5-4", "libc6": "2"}
    assert any(text.endswith("2 packages, 4 MB") for text in said)
    root = made.folder
    assert (root / "usr/sbin/slurmd").readlink() == Path("slurmd-wlm")
    own = root / debian.LIBRARIES.removeprefix("/")
    assert {path.name for path in own.iterdir()} == {"libc.so.6", loader}
    assert (own / loader).read_text().endswith(f"{lib if has_loader else 'usr/lib64'}/{loader}")
    assert list((tmp_path / "apt/archives").glob("*.deb")) == []
    rpath, *_, interpreter = [argv for argv in asked if argv[0] == "patchelf"]
    files = {Path(word).name for word in rpath if word.startswith(str(root))}
    assert files == {"srun", "slurmd-wlm", "mpi_pmix.so"}
    assert {Path(word).name for word in interpreter if word.startswith(str(root))} == {"srun", "slurmd-wlm"}
