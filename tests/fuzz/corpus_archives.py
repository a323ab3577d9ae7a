"""Archives of records, sound and hostile: (file name, bytes, part of what the reader must say)."""
import bz2
import gzip
import io
import json
import lzma
import pickle
import tarfile
import zipfile

from corpus_flight_recorder import job

WRITTEN_S = 1_795_000_001
TWO = "read: 2 processes"


def dumps(as_json=False):
    made = job()
    for rank in made.ranks:
        dump = made.dump(rank, as_json)
        data = json.dumps(dump).encode() if as_json else pickle.dumps(dump, 2)
        yield f"nccl_trace_rank_{rank}", data


def tar(files, style=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=style) as archive:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), WRITTEN_S
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(files, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files:
            archive.writestr(zipfile.ZipInfo(name, (2026, 11, 22, 3, 0, 0)), data, method)
    return out.getvalue()


def with_size(archive, size):
    """The first member of a tar claims another size; the sum of its header is right."""
    header = bytearray(archive[:512])
    header[124:136] = f"{size:011o}\0".encode() if size < 8**11 else b"\x80" + size.to_bytes(11, "big")
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    return bytes(header) + archive[512:]


def links():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE,
                                       tarfile.CHRTYPE)):
            info = tarfile.TarInfo(f"nccl_trace_rank_{number}")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    return out.getvalue()


def archive_samples(own_dumps, own_ring, own_bomb):
    good = list(dumps())
    plain = tar(good)
    yield "plain.tar", plain, TWO
    for style, name in ((tarfile.USTAR_FORMAT, "ustar"), (tarfile.GNU_FORMAT, "gnu")):
        yield f"{name}.tar", tar(good, style), TWO
    yield "json.tar.gz", gzip.compress(tar(dumps(as_json=True)), mtime=0), TWO
    yield "plain.tar.bz2", bz2.compress(plain), TWO
    yield "plain.tar.xz", lzma.compress(plain), TWO
    yield "deflated.zip", zipped(good), TWO
    yield "stored.zip", zipped(good, zipfile.ZIP_STORED), TWO
    yield "in-directories.tar", tar((f"../../node{rank}/{name}", data) for rank, (name, data) in enumerate(good)), TWO
    yield "beside-other-files.tar", tar([("README", b"hello"), *good, ("model.bin", bytes(9999))]), TWO
    own = [(f"demo/0/rank0000{rank}.0.titan", own_dumps[f"mixed-rank{rank}"]) for rank in range(3)]
    yield "own-dumps.tar.gz", gzip.compress(tar(own), mtime=0), "read: 3 processes"
    yield "own-and-others.zip", zipped([*own, *good]), "read: 5 processes"
    yield "own-ring.tar", tar([("1.ring", own_ring)]), "read: 1 processes"
    yield "own-broken.tar", tar([("rank00000.1.titan", b"TITN"), *good]), "rank00000.1.titan: "
    yield "own-bomb.tar", tar([("a.titan", own_bomb)]), "a.titan: "
    yield "one-broken.tar", tar([*good, ("nccl_trace_rank_2", good[0][1][:500])]), "nccl_trace_rank_2"
    yield "no-dumps.zip", zipped([("README", b"hello")]), "no dump, ring or Flight Recorder file"
    yield "links.tar", links(), "no dump, ring or Flight Recorder file"
    yield "empty.tar", b"", "not a readable archive"
    yield "cut.tar", plain[:len(plain) // 2], "read"
    yield "cut.tar.gz", gzip.compress(plain, mtime=0)[:400], "not a readable archive"
    yield "no-archive.zip", b"PK\3\4" + bytes(range(256)), "not a readable archive"
    yield "size-of-2-62.tar", with_size(plain, 1 << 62), "unpacks to far more"
    yield "size-of-4-gib.tar", with_size(plain, (1 << 32) - 1), "unpacks to far more"
    yield "bomb.tar.gz", gzip.compress(gzip.compress(tar([("nccl_trace_rank_0", bytes(96 << 20))]), mtime=0),
                                       mtime=0), "unpacks to far more"
    yield "bomb-of-a-dump.zip", zipped(
        [("nccl_trace_rank_0", b'{"pg_config":' + b" " * (96 << 20))]), "unpacks to far more"
