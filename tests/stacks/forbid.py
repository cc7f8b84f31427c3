"""Runs a program that may look into no process: the kernel refuses it ptrace and process_vm_readv, as by ptrace_scope.

python forbid.py PROGRAM WORDS…
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

_NUMBERS = {"x86_64": (101, 310), "aarch64": (117, 270)}
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _EPERM = 0x7FFF0000, 0x00050001
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2


def forbid() -> None:
    """Have the kernel refuse the two calls to this process and to all that it starts."""
    steps = [(_LOAD, 0, 0, 0)]
    for number in _NUMBERS[platform.machine()]:
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    steps.append((_RETURN, 0, 0, _ALLOW))
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(program)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or prctl(_SECCOMP, _FILTER, ctypes.byref(head), 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel takes no filter")


if __name__ == "__main__":
    forbid()
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606  # the caller's own program
