"""Samples of PyTorch's Flight Recorder dumps, sound and hostile: (file name, bytes, part of what the reader must
say)."""
import json
import pickle
import struct

import fr_files

TWO63 = 1 << 63
READ, CYCLIC, DEEP, CUT, CODE = "read: ", "cyclic", "nested too deeply", "ends inside", "asks to run code"


def job(version="2.10"):
    """Two ranks: shared frames, two groups, coalesced calls, sends, unfinished calls."""
    made = fr_files.Job(2, version=version)
    made.group("1", "tp", [0, 1])
    made.everywhere("0", "all_reduce", [[16, 4]])
    made.everywhere("1", "all_gather", [[8]], [[16]])
    for rank in made.ranks:
        made.batch(rank, "0", [("send", 1 - rank, [[4]]), ("recv", 1 - rank, [[4]])])
        made.coalesced(rank, "1", [("reduce_scatter", [[8]], [[4]]), ("broadcast", [[2]], [[2]])])
    made.everywhere("0", "broadcast", [[4, 4], []], state="started", without=[0])
    made.everywhere("1", "all_reduce", [[2]], state="scheduled")
    if version == "2.11":
        made.everywhere("0", "all_to_all", [[4]], state="scheduled", input_split_sizes=[1, 3],
                        output_split_sizes=[1, 3])
    made.rank[0].extra["pg_status"] = {"0": {"last_enqueued_collective": 3, "last_started_collective": 2,
                                             "last_completed_collective": 2}}
    return made


def dump(rank=1, as_json=False, **changes):
    return {**job().dump(rank, as_json), **changes}


def with_entries(change, as_json=False):
    """Each entry of a dump, changed: change(number, entry)."""
    made = dump(as_json=as_json)
    made["entries"] = [{**entry, **change(number, entry)} for number, entry in enumerate(made["entries"])]
    return made


def hostile_dumps(as_json):
    """What is hostile in its values, in either encoding: (name, dump, expected)."""
    def changed(change):
        return with_entries(change, as_json)

    yield "version-1", dump(version="1.9"), "older"
    yield "version-3", dump(version="3.0"), "newer"
    yield "version-of-2-63", dump(version=f"2.{TWO63}"), "not a version"
    yield "rank-of-2-40", dump(rank=1) | {"rank": 1 << 40}, "no rank of any job"
    yield "rank-twice-in-a-group", dump() | {"pg_config":
                                             {"0": {"name": "0", "desc": "", "ranks": "[0, 0, 1, 1, 0]"}}}, READ
    yield "group-of-rank-2-63", dump() | {
        "pg_config": {"0": {"name": "0", "desc": "", "ranks": f"[0, {TWO63}]"}}}, "no ranks of any job"
    yield "group-that-is-no-dict", dump() | {"pg_config": {"0": [1, 2]}}, "a list where a dict belongs"
    yield "entries-that-are-no-dicts", dump() | {"entries": [[], 1, None]}, "where a dict belongs"
    yield "no-entries", dump() | {"entries": []}, READ
    yield "sequence-of-2-63", changed(lambda number, _: {"collective_seq_id": TWO63}), "number of 64 bits"
    yield "sequence-of-2-63-less-1", changed(lambda number,
                                             _: {"collective_seq_id": TWO63 - 1, "p2p_seq_id": TWO63 - 1,
                                                 "record_id": TWO63 - 1}), READ
    yield "sequence-negative", changed(lambda number,
                                       _: {"collective_seq_id": -TWO63, "p2p_seq_id": -1, "pg_id": -TWO63}), READ
    yield "sizes-of-2-63", changed(lambda number, _: {"input_sizes": [[TWO63]]}), "number of 64 bits"
    yield "sizes-that-overflow", changed(lambda number,
                                         _: {"input_sizes": [[TWO63 - 1] * 8], "output_sizes": [[1 << 62, 3]]}), READ
    yield "sizes-negative", changed(lambda number, _: {"input_sizes": [[-1]]}), "negative size"
    yield "clocks-backwards", changed(lambda number, _: {
        "time_created_ns": 1_795_000_000_000_000_000 - number * 10**9,
        "time_discovered_started_ns": 1_794_000_000_000_000_000,
        "time_discovered_completed_ns": 1}), READ
    yield "clock-of-2-63-less-1", changed(lambda number, _: {"time_created_ns": TWO63 - 1}), "after the year"
    yield "clock-of-2-62", changed(lambda number,
                                   _: {"time_created_ns": 1 << 62, "time_discovered_completed_ns": 1 << 62,
                                       "timeout_ms": 1 << 62}), READ
    yield "time-before-1970", changed(lambda number, _: {"time_created_ns": -1}), "before 1970"
    yield "same-record-again-and-again", changed(lambda number,
                                                 _: {"record_id": 1, "collective_seq_id": 1,
                                                     "process_group": ("0", "default_pg")}), READ
    yield "sequences-in-random-order", changed(lambda number,
                                               _: {"collective_seq_id": number * 7919 % 13,
                                                   "p2p_seq_id": number * 31 % 5}), READ
    yield "peers-that-are-no-ranks", changed(lambda number,
                                             _: {"profiling_name": "nccl:send 2147483647->4294967296",
                                                 "is_p2p": True}), READ
    yield "names-without-sense", changed(lambda number,
                                         _: {"profiling_name": [":", "", "nccl:", "->", "nccl:send ->",
                                                                "nccl:recv 0<-"][number % 6]}), "no profiling_name"
    yield "more-words-than-tensors", changed(lambda number,
                                             _: {"input_dtypes": ["Float"] * 99,
                                                 "output_dtypes": ["\x1b[31m" * 3]}), READ
    splits = [[1, 3], [TWO63 - 1, TWO63 - 1], [], [4] * 1000, [-1, 5], [[2], [2]], "2,2", [TWO63, 0]]
    yield "splits-without-sense", changed(lambda number, _: {
        "profiling_name": "nccl:all_to_all", "input_sizes": [[4]], "output_sizes": [[4]],
        "input_split_sizes": splits[number % 8], "output_split_sizes": splits[(number + 1) % 8]}), READ
    yield "states-without-sense", changed(lambda number, _: {"state": "\0"}), READ


def nested_pickle(opening, closing, depth):
    return b"\x80\x02" + opening * depth + closing * depth + b"."


def doubled(levels):
    """A list of two references to a list of two references to ...: 2^levels values in a few bytes a level."""
    data = b"]q\0"
    for level in range(levels):
        data += b"0](h" + bytes([level]) + b"h" + bytes([level]) + b"eq" + bytes([level + 1])
    return data


def text(words):
    return b"U" + bytes([len(words)]) + words.encode()


def memo_bomb():
    """Thousands of entries that are one entry with a thousand frames."""
    frame = b"}(" + text("name") + text("f") + text("line") + b"K\1u"
    entry = b"}(" + text("profiling_name") + text("nccl:all_reduce") + text(
        "frames") + b"](" + frame + b"q\0" + b"h\0" * 1000 + b"eu"
    return b"\x80\x02}(" + text("version") + text("2.10") + text(
        "entries") + b"](" + entry + b"q\1" + b"h\1" * 4000 + b"eu."


def pickle_samples():
    for minor in range(4, 12):
        protocol = 2 + minor % 4
        yield f"version-2.{minor}-protocol-{protocol}.pickle", pickle.dumps(job(f"2.{minor}").dump(minor % 2),
                                                                            protocol), READ
    good = pickle.dumps(dump(), 2)
    for protocol in (0, 1):
        yield f"protocol-{protocol}.pickle", pickle.dumps(dump(), protocol), READ
    yield "dump-of-the-other-rank.pickle", pickle.dumps(dump(0), 4), READ
    yield "dump-in-a-list.pickle", pickle.dumps([dump()], 2), "no Flight Recorder dump"
    for name, made, expected in hostile_dumps(as_json=False):
        yield f"{name}.pickle", pickle.dumps(made, 2), expected
    yield "bytes-as-names.pickle", pickle.dumps(dump(version=b"2.4"), 4), "bytes where a text belongs"
    yield "set.pickle", pickle.dumps(dump(pg_config={1, 2}), 4), "EMPTY_SET"
    yield "empty.pickle", b"", "without the end"
    yield "cut-in-half.pickle", good[:len(good) // 2], "without the end"
    yield "newer-protocol.pickle", b"\x80\x06" + good[2:], "newer protocol"
    yield "global.pickle", b"cos\nsystem\n(S'true'\ntR.", CODE
    yield "reduce-behind-a-dump.pickle", good[:-1] + b"cos\nsystem\n(S'true'\ntR.", CODE
    yield "stack-global.pickle", pickle.dumps(print, 4), CODE
    yield "persistent-id.pickle", b"\x80\x02K\1Q.", CODE
    yield "list-in-itself.pickle", b"]q\0h\0a.", CYCLIC
    yield "dict-in-itself.pickle", b"}q\0U\1ah\0s.", CYCLIC
    yield "lists-in-each-other.pickle", b"]q\0(]q\1(h\0ee.", CYCLIC
    yield "tuple-in-its-list.pickle", b"]q\0\x85q\1" + b"0h\0h\1a.", CYCLIC
    yield "deep-lists.pickle", nested_pickle(b"]", b"a", 1000), DEEP
    yield "marks-only.pickle", b"(" * 5000, DEEP
    yield "tuples-without-end.pickle", b"N" + b"\x85" * 5000 + b".", DEEP
    yield "doubled-70-times.pickle", b"\x80\x02" + doubled(70) + b".", DEEP
    yield "doubled-60-times-as-entries.pickle", b"\x80\x02}(" + text("version") + text("2.10") + text(
        "entries") + doubled(60) + b"u.", "where a dict belongs"
    yield "entries-all-one.pickle", memo_bomb(), "more values than its size can hold"
    yield "memo-of-2-32.pickle", b"Nr\xff\xff\xff\xff.", "far above the count"
    yield "memo-that-grows-by-its-slack.pickle", b"N" + b"".join(b"r" + struct.pack("<I", 4096 + i)
                                                                 for i in range(500)) + b".", "no Flight Recorder dump"
    yield "memo-never-written.pickle", b"j\0\0\0\x80.", "never remembered"
    for name, opcode in (("text", b"\x8d"), ("bytes", b"\x8e"), ("bytearray", b"\x96"), ("frame", b"\x95")):
        yield f"{name}-of-2-63.pickle", b"\x80\x04" + opcode + struct.pack("<Q", TWO63) + b"abc.", CUT
    yield "text-of-2-32.pickle", b"X\xff\xff\xff\xffabc.", CUT
    yield "number-of-2-31-bytes.pickle", b"\x8b\0\0\0\x80abc.", CUT
    yield "numbers-of-255-bytes.pickle", b"\x80\x02](" + (b"\x8a\xff" + b"\xff"
                                                          * 255) * 8 + b"e.", "no Flight Recorder dump"
    yield "number-big-endian.pickle", pickle.dumps(dump(version="2.10"), 2).replace(b"X\4\0\0\0", b"X\0\0\0\4"), CUT
    yield "line-of-digits.pickle", b"I" + b"9" * 5000 + b"\n.", "no Flight Recorder dump"
    yield "escapes.pickle", b"S'" + b"\\x41\\n\\\\" * 500 + b"'\n.", "no Flight Recorder dump"
    yield "unicode-escapes.pickle", b"V" + b"\\ud800\\udfff\\U0010ffff" * 200 + b"\n.", "no Flight Recorder dump"
    yield "pop-below-nothing.pickle", b"0000.", "nothing on the stack"


def as_json(made):
    return json.dumps(made, separators=(",", ":")).encode()


def json_samples():
    for minor in range(4, 12):
        yield f"version-2.{minor}.json", as_json(job(f"2.{minor}").dump(minor % 2, as_json=True)), READ
    good = as_json(dump(as_json=True))
    yield "indented.json", json.dumps(dump(as_json=True), indent=2).encode(), READ
    yield "dump-in-a-list.json", b"[" + good + b"]", "no Flight Recorder dump"
    for name, made, expected in hostile_dumps(as_json=True):
        yield f"{name}.json", as_json(made), expected
    yield "empty.json", b"", "invalid JSON"
    yield "cut-in-half.json", good[:len(good) // 2], "invalid JSON"
    yield "two-dumps.json", good + good, "invalid JSON"
    yield "utf-16.json", good.decode().encode("utf-16-be")[:4000], "invalid JSON"
    yield "byte-order-mark.json", b"\xef\xbb\xbf" + good, READ
    yield "utf-8-broken.json", good.replace(b"default_pg", b"default\xff\xc0\x80"), "invalid JSON"
    yield "surrogates-alone.json", good.replace(b"default_pg", b"\\ud800\\ud800"), "invalid JSON"
    yield "zeros-in-texts.json", good.replace(b"default_pg", b"\\u0000\\u001b[2J"), READ
    yield "keys-twice.json", good.replace(b'{"version"', b'{"entries":[],"version":"9.9","version"'), READ
    yield "deep-lists.json", b'{"version":"2.4","entries":' + b"[" * 5000, DEEP
    yield "deep-dicts.json", b'{"a":' * 5000, DEEP
    yield "number-of-2-64.json", good.replace(b'"record_id":0',
                                              b'"record_id":18446744073709551616'), "number of 64 bits"
    yield "number-of-1e999.json", good.replace(b'"record_id":0', b'"duration_ms":1e999'), "invalid JSON"
    yield "number-of-5000-digits.json", good.replace(b'"record_id":0', b'"record_id":' + b"9" * 5000), "invalid JSON"
    yield "fractions-for-numbers.json", good.replace(b'"record_id":0', b'"record_id":-0.5e-300'), "a fraction where"
    yield "not-a-number.json", good.replace(b'"record_id":0', b'"record_id":NaN'), "invalid JSON"
    yield "name-of-12-kb.json", good.replace(b"default_pg", b"\\u001b" * 2000, 1), READ
