"""Runs a program under a filter that answers EPERM to some system calls: deny_call.py CALL[,CALL] PROGRAM
[ARGUMENT...]."""
import ctypes
import errno
import os
import platform
import struct
import sys

NUMBERS = {"x86_64": (0xC000003E, {"process_vm_readv": 310}), "aarch64": (0xC00000B7, {"process_vm_readv": 270})}
SET_NO_NEW_PRIVILEGES, SET_SECCOMP, MODE_FILTER = 38, 22, 2
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM

architecture, numbers = NUMBERS[platform.machine()]
denied = [numbers[name] for name in sys.argv[1].split(",")]
steps = [(LOAD, 0, 0, 4), (JUMP_EQUAL, 1, 0, architecture), (RETURN, 0, 0, ALLOW), (LOAD, 0, 0, 0)]
for number in denied:
    steps += [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE)]
steps.append((RETURN, 0, 0, ALLOW))
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
program = struct.pack("@HP", len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(SET_SECCOMP, MODE_FILTER, program, 0, 0):
    sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[2], sys.argv[2:])
