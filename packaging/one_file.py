"""The start of `muster.pyz`: finds a Python that is new enough, unpacks itself once, and runs.

It unpacks into a folder of your own, $XDG_DATA_HOME/muster/one-file (~/.local/share/…): compiled parts and files that
jobs read cannot be loaded from an archive. Any Python reads this file, so that an old one is told in a sentence.
"""

import os
import stat
import sys

BUILD = "@BUILD@"  # make dist writes what tells this archive from every other
TAGS = "@TAGS@"
OLDEST, NEWEST = 9, 14
NO_PROGRAM = 3


def main():
    """Run Muster; its exit status."""
    if sys.version_info < (3, OLDEST):
        start_with_newer_python()
    # What is unpacked already is started as a folder: by Muster itself, and by a job, for one of its modules.
    was_unpacked = os.path.exists(os.path.join(archive(), "muster-one-file"))
    folder = archive() if was_unpacked else unpacked()
    sys.path[:] = [folder] + [place for place in sys.path if place != archive()]
    if sys.argv[1:2] == ["-m"]:
        import runpy

        del sys.argv[:2]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        return 0
    from muster.cli.app import main as muster

    return muster()


def archive():
    """Return the path of this archive."""
    return os.path.dirname(os.path.abspath(__file__))


def start_with_newer_python():
    """Become the newest Python on PATH that will do; else say what is missing and leave."""
    for folder_and_minor in [
        (folder, minor)
        for minor in range(NEWEST, OLDEST - 1, -1)
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)
    ]:
        python = os.path.join(folder_and_minor[0], "python3.%d" % folder_and_minor[1])
        if os.access(python, os.X_OK):
            os.execv(python, [python, archive()] + sys.argv[1:])
    leave(
        "Muster needs Python 3.%d or newer; this is %d.%d, and there is no newer one on PATH"
        % ((OLDEST,) + tuple(sys.version_info[:2])),
        "load one (module avail python), then type it again",
    )


def unpacked():
    """Return the folder that holds what is in this archive, for this Python and this processor."""
    tag = "cp%d%d-%s" % (sys.version_info[0], sys.version_info[1], os.uname()[4])
    if tag not in TAGS.split():
        leave(
            "this file has no compiled parts for %s; it has %s" % (tag, TAGS.replace(" ", ", ")),
            "use one of these Pythons, or pip install Muster's folder or wheel with this one",
        )
    name = "%s-%s" % (BUILD, tag)
    problems = []
    for parent in (own_folder(), temporary_folder()):
        try:
            folder = os.path.join(parent, name)
            make_private(parent)
            if not os.path.isdir(folder):
                unpack(parent, folder, tag)
            return folder
        except OSError as error:
            problems.append("%s: %s" % (parent, error.strerror or error))
    leave(
        "there is no place to unpack into: " + "; ".join(problems),
        "set XDG_DATA_HOME to a directory that you can write and the compute nodes can see",
    )


def own_folder():
    """Return the folder that lasts: jobs that wait read from it."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(data, "muster", "one-file")


def temporary_folder():
    """Return the folder for those who have no home that can be written."""
    return os.path.join(os.environ.get("TMPDIR") or "/tmp", "muster-one-file-%d" % os.geteuid())  # noqa: S108


def make_private(folder):
    """Make a folder that nobody else can write; refuse one that somebody else has made."""
    if not os.path.isdir(folder):
        os.makedirs(folder, 0o700)
    found = os.lstat(folder)
    is_link = stat.S_ISLNK(found.st_mode)
    if is_link or found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OSError("somebody else can write there")


def unpack(parent, folder, tag):
    """Lay everything out beside, and give it its name when it is whole."""
    import shutil
    import tempfile
    import zipfile

    processor = tag.partition("-")[2]
    draft = tempfile.mkdtemp(dir=parent, prefix=".draft-")
    try:
        with zipfile.ZipFile(archive()) as content:
            for name in content.namelist():
                words = name.split("/")
                if words[0] != "compiled":
                    content.extract(name, draft)
                elif words[1] in (tag, processor):
                    path = content.extract(name, draft)
                    os.chmod(path, content.getinfo(name).external_attr >> 16)
        for part in (tag, processor):
            compiled = os.path.join(draft, "compiled", part)
            for name in os.listdir(compiled) if os.path.isdir(compiled) else []:
                os.rename(os.path.join(compiled, name), os.path.join(draft, name))
        try:
            os.rename(draft, folder)
        except OSError:  # another process was first
            if not os.path.isdir(folder):
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def leave(message, hint):
    """Say what is the matter, and end."""
    sys.stderr.write("muster: error: %s\n\nhint: %s\n" % (message, hint))
    sys.exit(NO_PROGRAM)


if __name__ == "__main__":
    sys.exit(main())
