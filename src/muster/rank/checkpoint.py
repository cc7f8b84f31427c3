"""Which checkpoint in a folder is the newest whole one: read from the files' own ends, without torch.

Known are torch.save and Lightning files, safetensors with and without an index, distributed checkpoints (DCP),
Hugging Face folders and DeepSpeed's. A file that is cut anywhere is half written; so is a folder that lacks what its
index, its metadata or the one before it has. Stands in the script of a job as text: `python -c TEXT DIR [LOOKS]` prints
`whole TIME PATH`, and `half PATH is not whole: WHY` for each newer one. LOOKS is a file that keeps what each look has:
what has appeared since the last one is newer, whatever the clock of its host says.
"""

import io
import json
import os
import pickle
import re
import struct
import sys
import time
import zipfile
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

_ZIPPED = (".pt", ".pth", ".ckpt", ".bin", ".npz", ".pkl.zip")
_UNFINISHED = re.compile(r"(\.tmp|\.part|\.incomplete|\.lock)$|^\.?tmp[-_.]", re.IGNORECASE)
_LONGEST_HEADER = 100 << 20
_DEEPEST = 3
# A host's clock may be so much ahead of this one's.
_AHEAD_S = 60.0


class SavedState(NamedTuple):
    """One checkpoint: a file or a folder."""

    path: str
    written: float
    """When its last file was written."""

    fault: str
    """Why it is not whole; empty: it is."""


class _Half(Exception):
    """A file or folder is not whole."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)


def newest_whole(folder: str) -> Optional[str]:
    """Return the path of the newest whole checkpoint in `folder`; None: there is none."""
    return next((checkpoint.path for checkpoint in find_checkpoints(folder) if not checkpoint.fault), None)


def find_checkpoints(folder: str, looks: str = "") -> List[SavedState]:
    """Return all checkpoints of a folder, the newest first; of one that is a checkpoint itself, that.

    `looks` is the file that keeps at which look each was there first; empty: no file does.
    """
    if os.path.isfile(folder) or _has_signs(folder):
        return [_judge(folder)]
    paths = [os.path.join(folder, name) for name in _names(folder)]
    own_paths = [path for path in paths if not os.path.islink(path) and (_reader(path) or _is_checkpoint(path))]
    appeared = _looked_at(own_paths, looks) if looks else {}
    checkpoints = sorted(
        _without_future(list(map(_judge, own_paths)), time.time()),
        key=lambda checkpoint: (appeared.get(checkpoint.path, 0), checkpoint.written, _number(checkpoint.path)),
        reverse=True,
    )
    return _without_unnamed(folder, _complete(checkpoints))


def _looked_at(paths: Sequence[str], looks: str) -> Dict[str, int]:
    """Return at which look each path was there first as it is now, and write it down for the next look."""
    try:
        with open(looks, encoding="utf-8") as file:
            before = json.load(file)
    except (OSError, ValueError):
        before = {}
    now = {}  # type: Dict[str, int]
    appeared = {}  # type: Dict[str, int]
    for path in paths:
        files = list(_files(path))
        words = "%s %r %d" % (path, max(map(_changed, files), default=0.0), sum(map(_size, files)))
        appeared[path] = now[words] = before.get(words, max(before.values(), default=-1) + 1)
    try:
        with open(looks + ".new", "w", encoding="utf-8") as file:
            json.dump(now, file)
        os.replace(looks + ".new", looks)
    except (OSError, ValueError):  # the disk is full: the next look goes by the clock
        pass
    return appeared


def _without_future(checkpoints: Sequence[SavedState], now: float) -> List[SavedState]:
    """Return the checkpoints; those of a clock that is ahead have a time by their number, among their likes."""
    trusted = [checkpoint for checkpoint in checkpoints if checkpoint.written <= now + _AHEAD_S]
    result = []
    for each in checkpoints:
        if each not in trusted:
            stem = _stem(each.path)
            likes = [other for other in trusted if _stem(other.path) == stem]
            lower = [other.written for other in likes if _number(other.path) < _number(each.path)]
            first = min((other.written for other in likes), default=now)
            each = each._replace(written=max(lower) if lower else first - 1 if likes else now)  # noqa: PLW2901
        result.append(each)
    return result


def _stem(path: str) -> str:
    """Return a name without its numbers."""
    return re.sub("[0-9]+", "", os.path.basename(path))


def _names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _number(path: str) -> int:
    """Return the last number in a name: its step."""
    numbers = re.findall(r"[0-9]{1,15}", os.path.basename(path))
    return int(numbers[-1]) if numbers else -1


def _has_signs(folder: str) -> bool:
    """Return whether a folder says itself that it is one checkpoint."""
    signs = (".metadata", ".metadata.tmp", "trainer_state.json", "meta.pt")
    return any(name in signs or name.endswith((".distcp", ".index.json")) for name in _names(folder))


def _is_checkpoint(folder: str) -> bool:
    """Return whether a folder among others is a checkpoint: by its own signs, or by what lies in it and its number."""
    if not os.path.isdir(folder):
        return False
    if _has_signs(folder):
        return True
    names = _names(folder)
    has_parts = any(_reader(os.path.join(folder, name)) or _is_checkpoint(os.path.join(folder, name)) for name in names)
    ranks = any(re.search(r"rank|shard|_states|-of-", name) for name in names)
    return has_parts and (ranks or bool(re.search(r"[0-9]", os.path.basename(folder))))


def _judge(path: str) -> SavedState:
    """Judge one file or folder: return whether it is whole."""
    files = list(_files(path))
    newest_s = max((_written(file) for file in files), default=_written(path))
    try:
        if os.path.isdir(path):
            _check_folder(path, files)
        else:
            _check_file(path)
    except _Half as half:
        return SavedState(path, newest_s, str(half))
    except (OSError, ValueError, KeyError, TypeError, EOFError, IndexError, struct.error) as error:
        return SavedState(path, newest_s, "it cannot be read (%s)" % type(error).__name__)
    return SavedState(path, newest_s, "")


def _files(path: str, depth: int = 0) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
    elif depth <= _DEEPEST:
        for name in _names(path):
            yield from _files(os.path.join(path, name), depth + 1)


def _written(path: str) -> float:
    """Return when a file was written: a time that its writer has set is not after the last change of its inode."""
    try:
        state = os.stat(path)
        return min(state.st_mtime, state.st_ctime)
    except OSError:
        return 0.0


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _check_folder(folder: str, files: Sequence[str]) -> None:
    names = {os.path.relpath(path, folder) for path in files}
    for path in files:
        if _UNFINISHED.search(os.path.basename(path)):
            raise _Half("%s is still being written" % os.path.relpath(path, folder))
    if not any(map(_reader, files)):
        raise _Half("nothing is in it yet")
    for name in sorted(names):
        if name.endswith(".distcp") and os.path.join(os.path.dirname(name), ".metadata") not in names:
            raise _Half(".metadata is missing")
    trainer = re.match(r"checkpoint-[0-9]+$", os.path.basename(folder)) and _OF_TRAINER & names
    if trainer and "trainer_state.json" not in names:
        raise _Half("trainer_state.json is missing")
    for path in files:
        if _reader(path):
            _check_file(path)


_OF_TRAINER = {"training_args.bin", "optimizer.pt", "scheduler.pt"}


def _check_file(path: str) -> None:
    reader = _reader(path)
    if reader is None:
        raise _Half("it is not known what it is")
    try:
        reader(path)
    except _Half as half:
        raise _Half("%s: %s" % (os.path.basename(path), half)) from None
    except (OSError, ValueError, KeyError, TypeError, EOFError, IndexError, struct.error) as error:
        raise _Half("%s cannot be read (%s)" % (os.path.basename(path), type(error).__name__)) from None


def _reader(path: str) -> Any:
    """Return the test whether such a file is whole; None: not a part of a known checkpoint."""
    name = os.path.basename(path)
    if os.path.isdir(path):
        return None
    if name == ".metadata":
        return _check_metadata
    if name.endswith(".index.json"):
        return _check_index
    if name.endswith(".safetensors"):
        return _check_safetensors
    if name == "trainer_state.json":
        return _check_json
    return _check_zip if name.endswith(_ZIPPED) else None


def _check_json(path: str) -> None:
    with open(path, encoding="utf-8") as file:
        json.load(file)


def _check_zip(path: str) -> None:
    """Refuse an archive whose directory does not end where the file does: torch.save writes it last."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        file.seek(max(0, size - 22))
        end = file.read(22)
    if size < 22 or not end.startswith(b"PK\x05\x06"):
        raise _Half("its end is missing")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            start = archive.start_dir
    except (zipfile.BadZipFile, NotImplementedError):
        raise _Half("its end is missing") from None
    if not entries or min(entry.header_offset for entry in entries):
        raise _Half("its beginning is missing")  # of another archive, which lies in this one
    if any(entry.header_offset + entry.compress_size > start for entry in entries):
        raise _Half("a part of it is missing")
    with open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            raise _Half("its beginning is missing")


def _check_safetensors(path: str) -> None:
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        if length > _LONGEST_HEADER:
            raise _Half("its header is none")
        header = json.loads(file.read(length).decode("utf-8"))
    ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
    if os.path.getsize(path) != 8 + length + max(ends, default=0):
        raise _Half("a part of it is missing")


def _check_index(path: str) -> None:
    with open(path, encoding="utf-8") as file:
        shards = set(json.load(file)["weight_map"].values())
    for shard in sorted(shards):
        shard_path = os.path.join(os.path.dirname(path), shard)
        if not os.path.isfile(shard_path):
            raise _Half("%s is missing" % shard)


class _Anything:
    """Stands for every class of a pickle: nothing of it is run."""

    def __init__(self, *words: Any, **arguments: Any) -> None:
        self.words = words

    def __call__(self, *words: Any) -> "_Anything":
        return self

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, tuple):
            state = {name: value for part in state if isinstance(part, dict) for name, value in part.items()}
        self.__dict__.update(state if isinstance(state, dict) else {"state": state})

    def append(self, value: Any) -> None:
        """Append as a list does."""
        self.words = (*self.words, value)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set an item as a mapping does."""
        self.words = (*self.words, (key, value))

    def __hash__(self) -> int:
        return id(self)


class _PickleReader(pickle.Unpickler):
    """Reads a pickle without its classes."""

    def find_class(self, module: str, name: str) -> Any:
        """Return an empty class in the place of a class that a checkpoint names; an OrderedDict is read as a dict."""
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        return type(str(name), (_Anything,), {})

    def persistent_load(self, pid: Any) -> Any:
        """Return nothing in the place of a tensor's storage, which is not read."""
        return None


def _check_metadata(path: str) -> None:
    """Check a distributed checkpoint by its own list of what lies where; it is written last."""
    with open(path, "rb") as file:
        text = file.read()
    try:
        places = _PickleReader(io.BytesIO(text)).load().storage_data
    except Exception as error:  # noqa: BLE001  # of a pickle that is cut, anything may come
        raise _Half("it is cut (%s)" % type(error).__name__) from None
    ends: Dict[str, int] = {}
    for place in places.values():
        ends[place.relative_path] = max(ends.get(place.relative_path, 0), place.offset + place.length)
    for name, end in sorted(ends.items()):
        data_path = os.path.join(os.path.dirname(path), name)
        if not os.path.isfile(data_path):
            raise _Half("%s is missing" % name)
        if os.path.getsize(data_path) < end:
            raise _Half("a part of %s is missing" % name)


def _complete(checkpoints: Sequence[SavedState]) -> List[SavedState]:
    """Mark as not whole a folder that lacks a kind of file that the one before it has: its writer did not end.

    Fewer files of a kind may come of fewer ranks: then only the newest is in doubt.
    """
    result: List[SavedState] = []
    stem, wanted_names = "", set()  # type: str, Set[str]
    folders = [checkpoint for checkpoint in checkpoints if os.path.isdir(checkpoint.path) and not checkpoint.fault]
    for each in reversed(checkpoints):
        judged = each
        if each in folders:
            names = {os.path.relpath(path, each.path) for path in _files(each.path) if _reader(path)}
            missing = _missing(wanted_names, names, any_counts=each is folders[0])
            if missing:
                judged = each._replace(fault="%s is missing, which %s has" % (missing[0], stem))
            else:
                stem, wanted_names = os.path.basename(each.path), names
        result.append(judged)
    return result[::-1]


def _missing(wanted_names: Set[str], names: Set[str], *, any_counts: bool) -> List[str]:
    """Return the files that should be there; shards that an index or the metadata lists have been looked at."""
    has_list = any(name.endswith((".metadata", ".index.json")) for name in names)
    kinds = {re.sub("[0-9]+", "", name) for name in names}
    missing = sorted(name for name in wanted_names - names if not (has_list and re.search(r"-of-|[.]distcp$", name)))
    return [name for name in missing if any_counts or re.sub("[0-9]+", "", name) not in kinds]


def _without_unnamed(folder: str, checkpoints: List[SavedState]) -> List[SavedState]:
    """Return the checkpoints without those newer than the one that DeepSpeed's `latest` names: they are not done."""
    try:
        with open(os.path.join(folder, "latest"), encoding="utf-8") as file:
            tag = file.read().strip()
    except (OSError, ValueError):
        return checkpoints
    latest = next((checkpoint for checkpoint in checkpoints if os.path.basename(checkpoint.path) == tag), None)
    if latest is None:
        return checkpoints
    newer = [
        checkpoint
        for checkpoint in checkpoints
        if checkpoint.written > latest.written and checkpoint.path != latest.path
    ]
    return [
        checkpoint._replace(fault=checkpoint.fault or "`latest` does not name it yet")
        if checkpoint in newer
        else checkpoint
        for checkpoint in checkpoints
    ]


def main(words: Sequence[str]) -> int:
    """Print the newest whole checkpoint of a folder, and what is newer and not whole."""
    for checkpoint in find_checkpoints(*words[:2]):
        if not checkpoint.fault:
            print("whole %.6f %s" % (checkpoint.written, checkpoint.path))
            break
        print("half %s is not whole: %s" % (checkpoint.path, checkpoint.fault))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
