"""What a rehearsal makes of what its lab showed, without a lab: one row for each condition that decides something."""

from __future__ import annotations

import errno
import os
import signal
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.errors import RequestError
from muster.facts import ImageFacts
from muster.job.request import Request
from muster.model.plan import Plan
from muster.probe import judge as judges
from muster.probe import text as probes
from muster.probe.judge import Point
from muster.runner import DEVNULL, PIPE, ProgramResult, start
from muster_lab import like, paths
from muster_lab.rehearse import adapt, cluster, verb
from muster_lab.rehearse.cluster import Performance, Written
from muster_lab.rehearse.own_words import Blame, OwnWords, judge_failure
from sites.profiles import bundled

_PLAN = plan("-N", "2", "-g", "2", "--", "python", "train.py", "--out=x")


@pytest.mark.parametrize(
    ("words", "own_python", "asked", "watches"),
    [
        ((), "/opt/python", False, True),
        ((), None, False, False),
        ((), "/opt/python", True, False),
        (("--hang", "5m"), "/opt/python", True, True),
    ],
)
def test_ranks_are_watched_unless_somebody_says_otherwise(
    words: tuple[str, ...], own_python: str | None, asked: bool, watches: bool
) -> None:
    facts = replace(FACTS, own_python=own_python)
    made = plan("-N", "2", *words, "--", "python", "t.py", facts=facts if words else FACTS)
    seen = adapt.watched(made, facts, asked=asked)
    assert (seen.hang is not None) is watches
    assert (seen == made) is not watches
    assert len(seen.prelude) == len(made.prelude) + watches
    assert not words or seen.hang == made.hang


@pytest.mark.parametrize(
    ("words", "text", "hint"),
    [
        (
            OwnWords(Blame.ENVIRONMENT, rank=3, module="x", lines=("l",)),
            "on rank 3: its Python has no module 'x'",
            True,
        ),
        (OwnWords(Blame.ENVIRONMENT, module="x"), "with status 7: its Python has no module 'x'", True),
        (OwnWords(Blame.SCRIPT, "ValueError: x\nmore", 3, ("l",)), "with status 7 on rank 3: ValueError: x", False),
        (OwnWords(Blame.SCRIPT), "with status 7: exit status 7", True),
    ],
)
def test_a_command_that_failed_is_judged_by_its_own_words(words: OwnWords, text: str, hint: bool) -> None:
    point = judge_failure("train", 7, words)
    assert not point.ok
    assert point.text.endswith(text)
    assert bool(point.hint) is hint
    assert point.quoted == words.lines


@pytest.mark.parametrize(
    ("own", "closed", "refused"), [(True, False, "own"), (False, True, "closed to you"), (False, False, None)]
)
def test_a_folder_that_the_hosts_do_not_see_is_refused(
    monkeypatch: pytest.MonkeyPatch, own: bool, closed: bool, refused: str | None
) -> None:
    monkeypatch.setattr(paths, "OWN_PLACES", (Path(_PLAN.working_directory),) if own else ())
    monkeypatch.setattr(verb, "_is_closed", lambda _: closed)
    with pytest.raises(RequestError, match=refused) if refused else nullcontext():
        verb._check_place(_PLAN)


@pytest.mark.parametrize(
    ("number", "closed"), [(0, False), (errno.EACCES, True), (errno.ENOENT, False), (errno.ENAMETOOLONG, False)]
)
@pytest.mark.parametrize("is_folder", [True, False])
def test_a_place_that_this_user_may_not_look_at_is_closed(
    monkeypatch: pytest.MonkeyPatch, number: int, closed: bool, is_folder: bool
) -> None:
    asked: list[str] = []

    def stat(path: Any) -> None:
        asked.append(str(path))
        if number:
            raise OSError(number, "no")

    place: Any = SimpleNamespace(is_dir=lambda: is_folder)
    with monkeypatch.context() as patched:
        patched.setattr(verb, "os", SimpleNamespace(stat=stat))
        assert verb._is_closed(place) is closed
    assert asked[0].endswith("/.") is is_folder


_IMAGE = replace(
    FACTS, image=ImageFacts(kind="sif", arch="x86_64", machine="x86_64", programs={"apptainer": "/usr/bin/apptainer"})
)


@pytest.mark.parametrize(
    ("image", "has_program", "is_there", "lost"),
    [
        (False, True, True, None),
        (True, True, True, None),
        (True, True, False, "the image is not here"),
        (True, False, True, "no apptainer here"),
    ],
)
def test_an_image_that_cannot_run_here_is_left_out(
    monkeypatch: pytest.MonkeyPatch, image: bool, has_program: bool, is_there: bool, lost: str | None
) -> None:
    words = ("-N", "2", *(("--image", "/i/x.sif") if image else ()), "--", "python", "t.py")
    made = plan(*words, facts=_IMAGE)
    asked: list[Request] = []

    def plan_for(request: Request, *_: Any) -> Plan:
        asked.append(request)
        return plan("-N", "2", "--", "python", "t.py")

    monkeypatch.setattr(verb, "plan_for", plan_for)
    monkeypatch.setattr(verb, "_has_program", lambda _: has_program)
    monkeypatch.setattr(verb, "_exists", lambda _: is_there)
    bare, parts = verb._without_image(made, Request(command=("python",)), FACTS, words)
    assert [lost in part for part in parts if lost] == [True] * bool(lost)
    assert (bare is made) is (lost is None)
    assert len(asked) == bool(lost)
    assert not lost or all((each.name, each.value) != ("PYTHONPATH", None) for each in bare.variables)


@pytest.mark.parametrize(
    ("words", "kind", "gpu_type", "account"),
    [
        (("--site", "mine", "-p", "b", "-g", "2", "-A", "chem"), "y", "h100", "chem"),
        (("-p", "b", "-g", "2", "--gpu-type", "a100"), "z", "h100", None),
        (("-p", "b", "--gres", "gpu:a100:2"), "z", "h100", None),
        (("-g", "2"), "x", "h100", None),
        (("-g", "2", "-C", "fast"), "y", "h100", None),
        (("-g", "2", "--spares", "1"), "x", "h100", None),
    ],
)
def test_the_lab_of_a_rehearsal_has_the_nodes_of_its_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], kind: str, gpu_type: str | None,
    account: str | None,
) -> None:  # fmt: skip
    from muster_lab.spec import HostGroup, LabSpec

    nodes = "".join(
        f'[nodes.{name}]\ngpus = 4\ngpu_type = "{of}"\ncores = 8\nnodes = 9\n'
        for name, of in (("x", "v100"), ("y", "h100"), ("z", "a100"))
    )
    queues = '[partitions.a]\nnode = "x"\ndefault = true\n[partitions.b]\nnode = "y"\nother_nodes = ["z"]\n'
    selects = '[request.constraint]\ny = "fast"\n'
    (tmp_path / "mine.toml").write_text(f'muster_site = 1\nname = "mine"\ntitle = "t"\n{nodes}{queues}{selects}')
    typed = [word for word in words if word not in {"--site", "mine"}]
    made = plan("-N", "2", *typed, "--", "python", "t.py", site=str(tmp_path / "mine.toml"))
    asked: list[dict[str, Any]] = []

    def lab_like(profile: Any, **values: Any) -> LabSpec:
        asked.append(values)
        return LabSpec(name="x", groups=(HostGroup(count=2, gpus=4, gpu_type="h100"),))

    monkeypatch.setattr(like, "lab_like", lab_like)
    from muster.sites.load import load

    spec = verb._spec(load(str(tmp_path / "mine.toml")).profile, made)
    assert (asked[0]["kind"], asked[0]["account"], asked[0]["other_nodes"]) == (kind, account, 1)
    assert asked[0]["nodes"] == 2 + ("--spares" in words)
    assert spec.groups[0].gpu_type == gpu_type
    assert spec.copied_for == made.working_directory


@pytest.mark.parametrize(
    ("status", "stderr", "seen", "judged", "points", "said"),
    [
        (0, "", [1], True, ["sbatch takes", "judged", "failing"], ""),
        (0, "", [1], False, ["sbatch takes", "judged"], ""),
        (1, "no room\n", [1], True, ["sbatch takes", "the launch itself ended with status 1", "judged"], "no room"),
        (1, "", [1], True, ["sbatch takes", "the launch itself ended", "judged"], "the launch ended with status 1"),
        (1, "No module named 'torch'", [], True, ["sbatch takes", "started no rank"], "No module"),
        (1, "No module named 'torch'", [1], True, ["sbatch takes", "the launch itself ended", "judged"], "No module"),
    ],
)
def test_a_launch_is_probed_twice_if_it_is_right_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    status: int, stderr: str, seen: list[int], judged: bool, points: list[str], said: str,
) -> None:  # fmt: skip
    names: list[list[str]] = []
    failing: list[int] = []

    def probe(words: Any, *, names: Any, files: Any) -> str:
        all_names.append(list(names))
        return "true"

    all_names = names
    monkeypatch.setattr(probes, "probe", probe)
    monkeypatch.setattr(probes, "failing_probe", failing.append)
    monkeypatch.setattr(probes, "with_command", lambda made, command: made)
    monkeypatch.setattr(probes, "parse", lambda _: seen)
    monkeypatch.setattr(judges, "judge", lambda *_: [Point(ok=judged, text="judged")])
    monkeypatch.setattr(judges, "judge_exit", lambda _: Point(ok=True, text="failing"))
    place: Any = SimpleNamespace(probe=lambda made: ProgramResult((), status, "", stderr))
    found = verb._probed(place, _PLAN)
    assert len(found) == len(points)
    assert all(part in point.text for part, point in zip(points, found))
    assert [point.ok for point in found[:1]] == [True]
    assert failing == ([_PLAN.shape.ntasks - 1] if points[-1] == "failing" else [])
    assert not any(name.endswith("*") for name in names[0])
    err = capsys.readouterr().err
    assert (said in err) if said else not err


_GPU = "import torch\nmodel.cuda()\n"


@pytest.mark.parametrize(
    ("performance", "source", "blame", "point", "hidden"),
    [
        (Performance(0, "", ""), "", Blame.SCRIPT, (True, "ran to its end"), ""),
        (Performance(0, "", ""), _GPU, Blame.SCRIPT, (True, "ran to its end"), "does with a GPU (line 2"),
        (Performance(1, "", "", "all wait"), _GPU, Blame.SCRIPT, (False, "it hangs: all wait"), ""),
        (Performance(1, "", ""), "", Blame.SCRIPT, (False, "is broken"), ""),
        (Performance(1, "", ""), "", Blame.DEVICE, None, "it insists on a GPU (no GPU)"),
        (Performance(1, "", ""), _GPU, Blame.DEVICE, None, "it insists on a GPU (no GPU; line 2"),
    ],
)
def test_what_a_command_showed_is_a_point_or_is_hidden(
    monkeypatch: pytest.MonkeyPatch, performance: Performance, source: str, blame: Blame,
    point: tuple[bool, str] | None, hidden: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("muster_lab.rehearse.own_words.read_own_words", lambda *_: OwnWords(blame, "no GPU"))
    points: list[Point] = []
    not_shown: list[str] = []
    verb._add_performance(points, not_shown, performance, _PLAN, source)
    assert [each.ok for each in points] == ([] if point is None else [point[0]])
    assert point is None or point[1] in points[0].text
    assert len(not_shown) == bool(hidden)
    assert not hidden or hidden in not_shown[0]


@pytest.mark.parametrize(
    ("text", "alone"),
    [("x = 1\n", True), ("import torch.distributed as d\nd.init_process_group()\n", False), (None, False)],
)
def test_ranks_that_could_not_know_of_each_other_are_told(tmp_path: Path, text: str | None, alone: bool) -> None:
    if text is not None:
        (tmp_path / "train.py").write_text(text)
    made = replace(_PLAN, working_directory=str(tmp_path))
    assert len(list(verb._strangers(made, FACTS))) == alone
    assert verb._source(made) == (text or "")
    assert verb._source(replace(made, command=("true",))) == ""


@pytest.mark.parametrize(
    ("count", "lines"),
    [(0, []), (1, ["f00  1 bytes"]), (20, ["f00  1 bytes"]), (22, ["f02  3 bytes", "and 2 smaller files, 3 bytes"])],
)
def test_the_largest_files_that_would_be_written_are_told(
    capsys: pytest.CaptureFixture[str], count: int, lines: list[str]
) -> None:
    verb._tell_written([Written(f"/w/f{number:02}", number + 1) for number in range(count)], "/w")
    said = capsys.readouterr().err
    assert bool(said) is bool(count)
    assert all(line in said for line in lines)
    assert ("smaller files" in said) is (count > 20)


def test_a_file_elsewhere_and_one_that_is_removed_are_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    verb._tell_written([Written("/else/a", 1), Written("/w/b", None)], "/w")
    said = capsys.readouterr().err
    assert "  /else/a  1 bytes" in said
    assert "  b  removed" in said


@pytest.mark.parametrize(
    ("command", "hangs", "status", "hang"),
    [
        ("exit 3", None, 3, None),
        ("exit 3", [], 3, None),
        ("trap 'exit 5' TERM; while :; do sleep 0.01; done", [None, "all wait"], 5, "all wait"),
    ],
)
def test_ranks_that_hang_are_ended(
    monkeypatch: pytest.MonkeyPatch, command: str, hangs: list[str | None] | None, status: int, hang: str | None
) -> None:
    monkeypatch.setattr(cluster, "_LOOK_S", 0.2)
    told = iter(hangs or [])
    process = start(["bash", "-c", command], stdout=PIPE)
    assert process.stdout is not None
    with process.stdout:
        hang_of = None if hangs is None else lambda: next(told, None)
        assert cluster._status(process, hang_of) == (status, hang)


def test_a_signal_unwinds_a_rehearsal() -> None:
    old = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as left, cluster._signals_unwind():
        signal.raise_signal(signal.SIGTERM)
    assert left.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is old


@pytest.mark.parametrize("in_pieces", [True, False])
@pytest.mark.parametrize("has_reader", [True, False])
def test_a_stream_is_passed_on_and_its_end_is_kept(in_pieces: bool, has_reader: bool) -> None:
    (from_job, job), (reader, target) = os.pipe(), os.pipe()
    if not has_reader:
        os.close(reader)
    passed = cluster._Passed(os.fdopen(from_job, "rb"), target, in_pieces=in_pieces)
    os.write(job, b"one\ntwo")
    os.close(job)
    text = "one\ntwo\n" if in_pieces and has_reader else "one\ntwo"
    assert passed.text_at_end().rstrip("\n") == "one\ntwo"
    os.close(target)
    if has_reader:
        assert os.read(reader, 100).decode() == text
        os.close(reader)


def test_a_terminal_is_ours_if_it_can_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open(os.devnull, os.O_RDWR)
    monkeypatch.setattr(os, "open", lambda *_: opened)
    assert cluster._has_controlling_terminal()

    def refuse(*_: Any) -> int:
        raise OSError(errno.ENXIO, "no")

    monkeypatch.setattr(os, "open", refuse)
    assert not cluster._has_controlling_terminal()


@pytest.mark.parametrize(("words", "fabric"), [(("-N", "2"), True), (("-N", "1"), False)])
def test_the_fabric_is_not_shown_where_there_are_several_nodes(words: tuple[str, ...], fabric: bool) -> None:
    made = plan(*words, "--", "python", "t.py")
    assert any(text.startswith("the fabric") for text in adapt.not_shown(made, bundled("generic").profile)) is fabric


@pytest.mark.parametrize(
    ("most", "shape", "label"), [(1, (1, 1), False), (2, (2, 1), True), (3, (2, 1), True), (4, (2, 2), True)]
)
def test_few_ranks_are_spread_over_the_nodes(most: int, shape: tuple[int, int], label: bool) -> None:
    few = adapt.few_ranks(replace(_PLAN, label=True), most)
    assert (few.shape.nodes, few.shape.ntasks_per_node, few.label) == (*shape, label)
    assert not adapt.few_ranks(replace(_PLAN, label=False), most).label


@pytest.mark.parametrize(
    ("hang", "label", "launcher", "terminal", "ours", "pieces", "stdin"),
    [
        (False, True, "srun", False, False, False, None),
        (True, True, "mpirun", True, True, True, None),
        (False, False, "mpirun", True, False, False, DEVNULL),
        (False, True, "mpirun", False, False, True, None),
    ],
)
def test_the_command_itself_is_run_and_its_words_are_passed_on(
    monkeypatch: pytest.MonkeyPatch, hang: bool, label: bool, launcher: str, terminal: bool, ours: bool, pieces: bool,
    stdin: int | None,
) -> None:  # fmt: skip
    made = plan("-N", "2", *(("--hang", "5m") if hang else ()), "--", "true", facts=replace(FACTS, own_python="/p"))
    made = replace(made, label=label, launcher=launcher, hang=made.hang if hang else None)
    asked: list[Any] = []
    passed: list[bool] = []

    def begin(argv: Any, **options: Any) -> Any:
        asked.append(options["stdin"])
        return start(argv, **{**options, "stdin": None})

    class _Passed:
        def __init__(self, stream: Any, target: int, *, in_pieces: bool) -> None:
            passed.append(in_pieces)
            self.stream, self.target = stream, target

        def text_at_end(self) -> str:
            with self.stream:
                return f"{self.target}: {self.stream.read().decode()}"

    def status(process: Any, hang_of: Any) -> tuple[int, str | None]:
        return process.wait(), hang_of() if hang_of else None

    monkeypatch.setattr(cluster, "job_script", lambda _: "#!/bin/sh\necho out; echo err >&2; exit 3\n")
    monkeypatch.setattr(cluster.RehearsalLab, "_job", lambda _, __, words: list(words))
    monkeypatch.setattr(cluster.RehearsalLab, "_reports", lambda _: {"old"})
    monkeypatch.setattr(cluster.RehearsalLab, "_new_hang", lambda _, known: f"not {known}")
    monkeypatch.setattr(cluster, "start", begin)
    monkeypatch.setattr(cluster, "_Passed", _Passed)
    monkeypatch.setattr(cluster, "_status", status)
    monkeypatch.setattr(cluster, "_has_controlling_terminal", lambda: ours)
    monkeypatch.setattr(os, "isatty", lambda _: terminal)
    place = cluster.RehearsalLab("x", dict(os.environ))
    done = place.perform(replace(made, working_directory="/"), made)
    assert done == Performance(3, "1: out\n", "2: err\n", "not {'old'}" if hang else None)
    assert (asked, passed) == ([stdin], [pieces] * 2)


_FINE, _WRONG = Point(ok=True, text="fine"), Point(ok=False, text="wrong")


@pytest.mark.parametrize(
    ("points", "performance", "ranks", "status", "said", "unsaid"),
    [
        ([_FINE], Performance(0, "", ""), None, 0, "with 4 of 8 ranks", "not started"),
        ([_FINE], Performance(0, "", ""), 1, 0, "with 1 of 8 ranks", "work together"),
        ([_FINE], Performance(0, "", ""), 8, 0, "work together: nothing in train.py", "not started"),
        ([_FINE], Performance(7, "", "no"), None, 7, "ended with status 7", "work together"),
        ([_FINE], Performance(0, "", "", "all wait"), None, 1, "it hangs: all wait", "not started"),
        ([_FINE, _WRONG], Performance(9, "", ""), None, 1, "it was not started, because", "of 8 ranks"),
    ],
)
def test_a_rehearsal_ends_with_what_it_has_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    points: list[Point], performance: Performance, ranks: int | None, status: int, said: str, unsaid: str,
) -> None:  # fmt: skip
    (tmp_path / "train.py").write_text("x = 1\n")
    made = plan("-N", "2", "--ntasks-per-node", "4", "--", "python", "train.py")
    made = replace(made, working_directory=str(tmp_path))
    request = Request(command=("python", "train.py"))
    place = SimpleNamespace(perform=lambda *_: performance, written=list)
    monkeypatch.setattr(verb, "facts_and_request", lambda *_, **__: (FACTS, request))
    monkeypatch.setattr(verb, "plan_for", lambda *_: made)
    monkeypatch.setattr("muster.act.kept_cluster.know_cluster", lambda _: SimpleNamespace(facts=None))
    monkeypatch.setattr("muster.sites.load.choose_site", lambda *_: bundled("generic"))
    monkeypatch.setattr("muster.act.rank_library.make_rank_library", lambda _: None)
    monkeypatch.setattr(cluster, "rehearsal_lab", lambda *_: nullcontext(place))
    monkeypatch.setattr(verb, "_asked_of_sbatch", lambda *_: None)
    monkeypatch.setattr(verb, "_probed", lambda *_: list(points))
    launch: Any = SimpleNamespace(typed=())
    assert verb.rehearse(launch, is_asked=True, ranks=ranks, quiet=False) == status
    told = capsys.readouterr().err
    assert said in told
    assert unsaid not in told
    assert "2 hosts" in told
    monkeypatch.setattr(verb, "facts_and_request", lambda *_, **__: (FACTS, replace(request, here=True)))
    for asked, refusal in ((True, "--here has none"), (False, "--ranks belongs to --rehearse")):
        with pytest.raises(RequestError, match=refusal):
            verb.rehearse(launch, is_asked=asked, ranks=ranks, quiet=True)
