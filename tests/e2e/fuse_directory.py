#!/usr/bin/env python3
"""A directory as a file server gives it to one host: every operation goes through this program, which can be slow, hang
or fail.

    fuse_directory.py BACKING MOUNTPOINT CONTROL

Speaks the kernel's FUSE protocol by itself (root; no library). CONTROL is a file that is read before each operation:
    a number    that many milliseconds for each operation
    hang        no operation is answered any more, until the word has gone; whoever waits can be killed, as with NFS
    gone        every operation fails with EIO, as with a soft mount whose server is away
"""

import ctypes
import errno
import os
import select
import stat
import struct
import sys
import time

HEADER = struct.Struct("<IIQQIIIHH")  # of a request
ROOT = 1
MS_NOSUID_NODEV = 2 | 4
MOST_BYTES = 128 << 10
ATTRIBUTES = struct.Struct("<6Q10I")
ENTRY = struct.Struct("<4Q2I")

# The operations that the kernel may ask for; others are answered with ENOSYS, which it takes for "never ask again".
(LOOKUP, FORGET, GETATTR, SETATTR, MKDIR, UNLINK, RMDIR, RENAME, LINK, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC,
 FLUSH, INIT, OPENDIR,
 READDIR, RELEASEDIR, CREATE, INTERRUPT, BATCH_FORGET) = (1, 2, 3, 4, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 25,
                                                          26, 27, 28, 29, 35, 36, 42)
SILENT = (FORGET, BATCH_FORGET, INTERRUPT)


class Directory:
    def __init__(self, backing):
        self.paths = {ROOT: backing}
        self.numbers = {backing: ROOT}

    def number_of(self, path):
        if path not in self.numbers:
            number = len(self.paths) + 1
            self.paths[number], self.numbers[path] = path, number
        return self.numbers[path]

    def below(self, node, name):
        return os.path.join(self.paths[node], os.fsdecode(name.rstrip(b"\0")))

    def attributes(self, status):
        times = [int(value) for value in (status.st_atime, status.st_mtime, status.st_ctime)]
        parts = [value % 10**9 for value in (status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns)]
        return ATTRIBUTES.pack(status.st_ino, status.st_size, status.st_blocks, *times, *parts, status.st_mode,
                               status.st_nlink, status.st_uid,
                               status.st_gid, 0, 4096, 0)

    def entry(self, path):
        """Nothing is remembered by the kernel: it asks each time."""
        status = os.lstat(path)
        return ENTRY.pack(self.number_of(path), 0, 0, 0, 0, 0) + self.attributes(status)

    def answer(self, operation, node, body):
        path = self.paths.get(node)
        if operation == INIT:
            return struct.pack("<4I2H2I2H8I", 7, 31, MOST_BYTES, 0, 16, 12, MOST_BYTES, 1, 0, 0, *[0] * 8)
        if operation == LOOKUP:
            return self.entry(self.below(node, body))
        if operation == GETATTR:
            return struct.pack("<Q2I", 0, 0, 0) + self.attributes(os.lstat(path))
        if operation == SETATTR:
            which, size = struct.unpack_from("<I12xQ", body)
            if which & 8:
                os.truncate(path, size)
            if which & 1:
                os.chmod(path, stat.S_IMODE(struct.unpack_from("<I", body, 68)[0]))
            return struct.pack("<Q2I", 0, 0, 0) + self.attributes(os.lstat(path))
        if operation == MKDIR:
            made = self.below(node, body[8:])
            os.mkdir(made, struct.unpack_from("<I", body)[0])
            return self.entry(made)
        if operation in (UNLINK, RMDIR):
            gone = self.below(node, body)
            (os.unlink if operation == UNLINK else os.rmdir)(gone)
            self.numbers.pop(gone, None)
            return b""
        if operation == RENAME:
            into, = struct.unpack_from("<Q", body)
            old, new = (name for name in body[8:].split(b"\0") if name)
            old, new = self.below(node, old), self.below(into, new)
            os.rename(old, new)
            number = self.numbers.pop(old, None)
            if number is not None:
                self.paths[number], self.numbers[new] = new, number
            return b""
        if operation == LINK:
            made = self.below(node, body[8:])
            os.link(self.paths[struct.unpack_from("<Q", body)[0]], made)
            return self.entry(made)
        if operation in (OPEN, OPENDIR):
            flags, = struct.unpack_from("<I", body)
            return struct.pack("<Q2I", os.open(path, flags), 0, 0)
        if operation == CREATE:
            flags, mode, umask = struct.unpack_from("<3I", body)
            made = self.below(node, body[16:])
            handle = os.open(made, flags | os.O_CREAT, mode & ~umask)
            return self.entry(made) + struct.pack("<Q2I", handle, 0, 0)
        if operation == READ:
            handle, offset, size = struct.unpack_from("<2QI", body)
            return os.pread(handle, size, offset)
        if operation == WRITE:
            handle, offset, size = struct.unpack_from("<2QI", body)
            return struct.pack("<2I", os.pwrite(handle, body[40:40 + size], offset), 0)
        if operation == READDIR:
            _, offset, size = struct.unpack_from("<2QI", body)
            listed = b""
            for place, name in enumerate(sorted(os.listdir(path))[offset:], offset + 1):
                name = os.fsencode(name)
                one = struct.pack("<2Q2I", place, place, len(name), 0) + name
                one += b"\0" * (-len(one) % 8)
                if len(listed) + len(one) > size:
                    break
                listed += one
            return listed
        if operation in (RELEASE, RELEASEDIR):
            os.close(struct.unpack_from("<Q", body)[0])
            return b""
        if operation == STATFS:
            room = os.statvfs(path)
            return struct.pack("<5Q4I24x", room.f_blocks, room.f_bfree, room.f_bavail, room.f_files, room.f_ffree,
                               room.f_bsize, 255,
                               room.f_frsize, 0)
        if operation in (FSYNC, FLUSH):
            return b""
        raise OSError(errno.ENOSYS, "not served")


def mount(point):
    kernel = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={kernel},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"file-server", os.fsencode(point), b"fuse", MS_NOSUID_NODEV, options) != 0:
        sys.exit(f"no FUSE mount: {os.strerror(ctypes.get_errno())}")
    return kernel


def serve(backing, point, control):
    kernel, directory = mount(point), Directory(os.path.realpath(backing))
    while True:
        with open(control) as file:
            word = file.read().strip()
        # A request that was read could not be killed: while it hangs, none is.
        if word == "hang" or not select.select([kernel], [], [], 0.05)[0]:
            time.sleep(0.02 if word == "hang" else 0)
            continue
        try:
            request = os.read(kernel, MOST_BYTES + 4096)
        except (BlockingIOError, FileNotFoundError):  # somebody who was killed took it back
            continue
        _, operation, unique, node, *_ = HEADER.unpack_from(request)
        if operation in SILENT:
            continue
        try:
            if word == "gone" and operation != INIT:
                raise OSError(errno.EIO, "gone")
            if word.isdigit() and operation != INIT:
                time.sleep(int(word) / 1000)
            code, data = 0, directory.answer(operation, node, request[HEADER.size:])
        except OSError as why:
            code, data = -why.errno, b""
        try:
            os.write(kernel, struct.pack("<IiQ", 16 + len(data), code, unique) + data)
        except FileNotFoundError:
            pass


if __name__ == "__main__":
    serve(*sys.argv[1:])
