#!/usr/bin/env python3
"""A second reader of rings and dumps, written from formats/FORMAT.md alone: it shares no line with the C++ one.

titan_decode.py [--work|--channels|--cuda-calls|--markers|--health|--call-sites|--stack-samples] FILE...

prints the collectives (or stream work, channels, CUDA calls, markers, readings of the machine, stacks of call sites,
samples of stacks) of each file as JSON Lines, in the fields of `titan-analyze show --json`.
"""
import json
import math
import struct
import sys

from titan_file import fnv1a64, unzstd

NONE64 = 0xFFFFFFFFFFFFFFFF
KINDS = {1: "all_reduce", 2: "reduce", 3: "broadcast", 4: "all_gather", 5: "reduce_scatter", 6: "all_to_all",
         7: "gather",
         8: "scatter", 9: "send", 10: "recv", 11: "put_signal", 12: "signal", 13: "wait_signal", 20: "comm_init",
         21: "comm_init_all", 22: "comm_split", 23: "comm_shrink", 24: "comm_grow", 25: "comm_finalize",
         26: "comm_destroy",
         27: "comm_abort", 28: "comm_revoke", 29: "comm_suspend", 30: "comm_resume", 31: "window_register",
         32: "window_deregister", 33: "buffer_register", 34: "buffer_deregister", 35: "dev_comm_create",
         36: "dev_comm_destroy", 37: "redop_create", 38: "redop_destroy", 39: "barrier", 40: "collective"}
DATATYPES = {0: "int8", 1: "uint8", 2: "int32", 3: "uint32", 4: "int64", 5: "uint64", 6: "float16", 7: "float32",
             8: "float64", 9: "bfloat16", 10: "float8e4m3", 11: "float8e5m2", 255: "none"}
ALGORITHMS = {1: "tree", 2: "ring", 3: "collnet_direct", 4: "collnet_chain", 5: "nvls", 6: "nvls_tree", 7: "pat"}
PROTOCOLS = {1: "ll", 2: "ll128", 3: "simple"}
REDUCTIONS = {0: "sum", 1: "prod", 2: "max", 3: "min", 4: "avg", 5: "premul_sum", 255: "none"}
STATES = {0: "none", 1: "entered", 2: "grouped", 3: "launching", 4: "enqueued", 5: "pending", 6: "started",
          7: "finished", 8: "failed", 9: "returned", 10: "captured"}
WORK = {1: "kernel", 2: "copy", 3: "memory_set", 4: "host_function", 5: "event_record", 6: "event_wait",
        7: "graph_launch", 8: "value_wait", 9: "value_write", 10: "stream_ordered_memory"}
MARKERS = {1: "step", 2: "span_begin", 3: "span_end", 4: "event", 5: "metric", 6: "label", 7: "attribute", 8: "error",
           9: "step_tag"}
LOSSES = ("late_updates", "communicators_untracked", "threads_untracked", "strings_dropped", "p2p_uncounted",
          "progress_skipped", "spans_too_deep", "unknown_communicators", "graphs_untracked", "ranges_dropped",
          "channels_dropped", "call_sites_dropped", "spans_dropped", "spans_unmatched", "marker_sites_dropped",
          "labels_dropped")
METRIC_REDUCTIONS = {1: "none", 2: "mean", 3: "sum", 4: "min", 5: "max", 6: "std", 7: "last"}
ROLES = {1: "kernel", 2: "send", 3: "recv"}
MARKS = {0: "off", 1: "events", 2: "timing", 3: "writes"}
CHANNEL_STATES = {0: "not_started", 1: "running", 2: "done", 3: "waits_for_gpu", 4: "waits_for_peer",
                  5: "waits_for_network"}


class Damaged(Exception):
    pass


def as_double(bits):
    """JSON has no numbers that are not finite: those are words."""
    value = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value if math.isfinite(value) else str(value)


def read_dump(data):
    magic, major, _minor, header_bytes, _reserved, check = struct.unpack_from("<8sHHIQQ", data)
    if magic != b"TITANDMP" or major != 1 or check != fnv1a64(data[:24]):
        raise Damaged("not a dump of major version 1")
    image = bytearray()
    offset = header_bytes
    while True:
        kind, stored_check, stored, raw, ring_offset, check = struct.unpack_from("<IIQQQQ", data, offset)
        if check != fnv1a64(data[offset:offset + 32]):
            raise Damaged("bad section header")
        if kind == 0:
            return bytes(image)
        offset += 40
        if stored_check != fnv1a64(data[offset:offset + stored]) & 0xFFFFFFFF:
            raise Damaged("bad section")
        if kind == 2:
            bytes_of_ring = unzstd(data[offset:offset + stored], raw)
            if len(bytes_of_ring) != raw:
                raise Damaged("section of another size")
            image.extend(bytes(max(0, ring_offset + raw - len(image))))
            image[ring_offset:ring_offset + raw] = bytes_of_ring
        offset += stored


class Numbers:
    """Varints and fields, one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def signed(self):
        coded = self.number()
        return coded >> 1 ^ -(coded & 1)

    def take(self, count):
        self.at += count
        return self.data[self.at - count:self.at]

    def fields(self):
        while self.at < len(self.data):
            tag = self.number()
            yield tag, Numbers(self.take(self.number()))


def signed64(value):
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def journal_markers(columns, count):
    """The columns of section 10, as one dictionary for each marker."""
    markers = [{} for _ in range(count)]
    for key in ("kind", "depth", "detail", "name", "text", "site"):
        for marker in markers:
            marker[key] = columns.number()
    for key in ("thread", "step", "ticks"):
        before = 0
        for marker in markers:
            before = marker[key] = (before + columns.signed()) % (1 << 64)

    def near(other):
        coded = columns.number()
        if coded == 0:
            return 0
        return (other + ((coded - 1) >> 1 ^ -((coded - 1) & 1))) % (1 << 64)

    newest = 0
    for marker in markers:
        marker["span"] = near(newest) % (1 << 32)
        newest = marker["span"] if marker["kind"] in (2, 4) else newest
    bits = lambda: int.from_bytes(columns.number().to_bytes(8, "little"), "big")
    begun, step, relative = {}, 0, 0
    for marker in markers:
        if marker["kind"] == 1:
            step = marker["value"] = (step + columns.signed()) % (1 << 64)
        elif marker["kind"] == 2:
            begun[marker["span"] % 256] = (marker["span"], marker["ticks"])
            marker["value"] = near(marker["span"])
        elif marker["kind"] == 3:
            span, ticks = begun.get(marker["span"] % 256, (None, 0))
            marker["value"] = ((ticks if span == marker["span"] else marker["ticks"]) + columns.signed()) % (1 << 64)
        else:
            marker["value"] = bits()
    for marker in markers:
        if marker["kind"] == 1:
            relative = marker["extra"] = (relative + columns.signed()) % (1 << 64)
        else:
            marker["extra"] = bits() if marker["kind"] == 5 else columns.number()
        marker["step"] = signed64(marker["step"])
    return markers


def coarse(number, bits):
    if number < 1 << bits:
        return number
    shift = (number >> bits - 1) - 1
    return (number - (shift << bits - 1)) << shift


def journal_step_calls(content, texts):
    """Tag 7, as one dictionary for each row."""
    communicators = [(content.number(), content.signed(), texts[content.number()]) for _ in range(content.number())]
    rows = [{} for _ in range(content.number())]
    for row in rows:
        place = content.number()
        row["communicator"], row["size"], row["name"] = communicators[place - 1] if place else (0, -1, "")
    step = entered = 0
    for row in rows:
        step = row["step"] = step + content.signed()
    for key in ("op", "calls", "bytes", "timed_calls"):
        for row in rows:
            row[key] = content.number()
    for key in ("host_ticks", "device_ticks", "longest_ticks"):
        for row in rows:
            row[key] = coarse(content.number(), 9)
    for row in rows:
        coded = content.number()
        apart = coarse(coded >> 1, 14)
        entered = row["entered_ticks"] = (entered + (-apart if coded & 1 else apart)) % (1 << 64)
    return rows


def journal_health(content, texts):
    rows, step, ticks = [], 0, 0
    real = lambda: as_double(int.from_bytes(content.number().to_bytes(8, "little"), "big"))
    for _ in range(content.number()):
        row = {"name": texts[content.number()], "readings": content.number(), "least": real(), "greatest": real()}
        for key in ("first_step", "last_step", "least_step", "greatest_step"):
            step = row[key] = step + content.signed()
        for key in ("first_ticks", "last_ticks"):
            ticks = row[key] = ticks + content.signed()
        rows.append(row)
    return rows


def journal_index(fields):
    """Of each block that follows: what the index says of it."""
    processes, rows = [], []
    for tag, content in fields:
        if tag == 1:
            for _ in range(content.number()):
                boot_id = content.take(content.number()).decode(errors="replace")
                processes.append((boot_id, content.signed(), content.number()))
        elif tag == 2:
            ticket = call = step = 0
            add = lambda number: (number + content.signed()) % (1 << 64)
            for _ in range(content.number()):
                row = {"process": processes[content.number()], "size": content.number()}
                row["first_ticket"] = ticket = add(ticket)
                row["markers"] = content.number()
                call = add(call)
                row["calls"] = call, add(call)
                step = add(step)
                row["steps"] = signed64(step), signed64(add(step))
                rows.append(row)
    return rows


def check_indexed(block, row, size):
    steps = [marker["step"] for marker in block["markers"]] + block["steps"]
    steps += [signed64(marker["value"]) for marker in block["markers"] if marker["kind"] == 1]
    said = {"process": block["process"], "size": size, "first_ticket": block["first_ticket"],
            "markers": len(block["markers"]), "calls": block["calls"],
            "steps": (min(steps), max(steps)) if steps else ((1 << 63) - 1, -1 << 63)}
    if said != row:
        raise Damaged(f"the index says {row} of a block that is {said}")


def journal_block(fields):
    block = {"texts": [""], "markers": [], "steps": [], "step_calls": [], "health": []}
    count = 0
    for tag, content in fields:
        if tag == 1:
            block["pid"], block["rank"] = (struct.unpack_from("<i", content.data, at)[0] for at in (64, 88))
            boot_id = content.data[168:208].split(b"\0")[0].decode(errors="replace")
            block["process"] = (boot_id, block["pid"], struct.unpack_from("<Q", content.data, 72)[0])
        elif tag == 2:
            block["first_ticket"], count = content.number(), content.number()
            block["calls"] = content.number(), content.number()
        elif tag == 3:
            for _ in range(content.number()):
                block["texts"].append(content.take(content.number()).decode(errors="replace"))
        elif tag == 4:
            block["sites"] = [(content.number(), content.number()) for _ in range(content.number())]
        elif tag == 5:
            block["markers"] = journal_markers(content, count)
        elif tag == 6:
            step = 0
            for _ in range(content.number()):
                step = step + content.signed()
                block["steps"].append(step)
                for _ in range(7):
                    content.number()
        elif tag == 7:
            block["step_calls"] = journal_step_calls(content, block["texts"])
        elif tag == 8:
            block["health"] = journal_health(content, block["texts"])
    return block


def read_journal(data):
    """Blocks as dictionaries: rank, pid, first_ticket, markers with their texts."""
    magic, major, _minor, offset, _reserved, check = struct.unpack_from("<8sHHIQQ", data)
    if magic != b"TITNJRNL" or major != 1 or check != fnv1a64(data[:24]):
        raise Damaged("not a journal of major version 1")
    indexed = []
    while offset < len(data):
        kind, stored_check, stored, raw, _none, check = struct.unpack_from("<IIQQQQ", data, offset)
        if check != fnv1a64(data[offset:offset + 32]) or kind not in (1, 2):
            raise Damaged("bad section header")
        offset += 40
        if stored_check != fnv1a64(data[offset:offset + stored]) & 0xFFFFFFFF:
            raise Damaged("bad section")
        fields = Numbers(unzstd(data[offset:offset + stored], raw)).fields()
        offset += stored
        if kind == 2:
            if indexed:
                raise Damaged("fewer blocks than the index says")
            indexed = journal_index(fields)
            continue
        block = journal_block(fields)
        if indexed:
            check_indexed(block, indexed.pop(0), 40 + stored)
        yield block


class Ring:
    def __init__(self, image):
        self.image = image
        if image[:8] != b"TITANRNG" or struct.unpack_from("<HHI", image, 8)[::2] != (1, 0x01020304):
            raise Damaged("not a ring of major version 1")
        file_bytes = struct.unpack_from("<Q", image, 24)[0]
        self.image = image + bytes(max(0, min(file_bytes, 1 << 30) - len(image)))
        self.rank = struct.unpack_from("<i", image, 88)[0]
        count = min(12, struct.unpack_from("<I", image, 20)[0])
        self.regions = {}
        for i in range(count):
            kind, stride, offset, elements, _ = struct.unpack_from("<IIQQQ", image, 872 + 32 * i)
            head = struct.unpack_from("<Q", image, 3328 + 64 * i)[0]
            self.regions[kind] = (stride, offset, elements, head)
        for i in range(8):
            kind, stride, offset, elements, _ = struct.unpack_from("<IIQQQ", image, 2984 + 32 * i)
            if kind != 0:
                head = struct.unpack_from("<Q", image, 3264)[0] if kind == 16 else elements
                self.regions[kind] = (stride, offset, elements, head)

    def text(self, number):
        if number == 0 or 6 not in self.regions or 7 not in self.regions:
            return ""
        stride, offset, count, _ = self.regions[6]
        if number > count:
            return ""
        start, length = struct.unpack_from("<II", self.image, offset + (number - 1) * stride + 8)
        heap = self.regions[7]
        if length == 0 or start + length - 1 > heap[2]:
            return ""
        return self.image[heap[1] + start:heap[1] + start + length - 1].decode(errors="replace")

    def slots(self, kind):
        if kind not in self.regions:
            return
        stride, offset, count, head = self.regions[kind]
        for ticket in range(max(0, head - count), head):
            place = offset + (ticket % count) * stride
            if struct.unpack_from("<Q", self.image, place)[0] == 2 * ticket + 2:
                yield ticket, place

    def work(self, ticket, place):
        (_, entered, stream, item, amount, _r, name, thread, call, kind, flags, _r16) = struct.unpack_from(
            "<6QIIIBBH", self.image, place)
        return {"rank": self.rank, "ticket": ticket, "work": WORK.get(kind, ""), "stream": stream, "object": item,
                "amount": amount, "name": self.text(name), "call": self.text(call), "thread": thread, "flags": flags,
                "entered_ticks": entered or None}

    def cuda_call(self, ticket, place):
        (_, entered, returned, item, step, name, thread, result, span) = struct.unpack_from(
            "<4QqIIiI", self.image, place)
        return {"rank": self.rank, "ticket": ticket, "call": self.text(name), "object": item, "thread": thread,
                "result": result, "step": step, "span": self.text(span), "entered_ticks": entered or None,
                "returned_ticks": returned or None}

    def marker(self, ticket, place):
        (_, ticks, value, step, name, text, thread, kind, depth, detail, span, site, extra) = struct.unpack_from(
            "<3QqIIIBBBxIIQ", self.image, place)
        kind = MARKERS.get(kind, "")
        number = {"step": value, "metric": as_double(value)}
        if kind == "attribute":
            number[kind] = {2: struct.unpack("<q", struct.pack("<Q", value))[0], 3: as_double(value)}.get(detail)
        more = {"span_begin": {"parent": value, "task": extra}, "event": {"task": extra},
                "metric": {"reduction": METRIC_REDUCTIONS.get(detail, ""), "weight": as_double(extra)}}
        if kind == "step" and detail != 0:
            more[kind] = {"relative_step": struct.unpack("<q", struct.pack("<Q", extra))[0]}
        return {"rank": self.rank, "ticket": ticket, "marker": kind, "name": self.text(name),
                "value": number.get(kind), "text": self.text(text), "span": span, **more.get(kind, {}),
                "called_at": self.site(site), "begun_ticks": value or None if kind == "span_end" else None,
                "depth": depth, "step": step, "thread": thread, "ticks": ticks or None}

    def site(self, number):
        """Of a place that was told; native ones need the files of the program."""
        if number == 0 or 14 not in self.regions:
            return ""
        stride, offset, _, _ = self.regions[14]
        key, place = struct.unpack_from("<QI", self.image, offset + (number - 1) * stride)
        return self.text(place) if key >> 63 else None

    def health(self, ticket, place):
        (_, ticks, since_ticks, since_step, value, first, name) = struct.unpack_from("<3Qq2dI", self.image, place)
        return {"rank": self.rank, "ticket": ticket, "name": self.text(name), "value": value, "first_value": first,
                "since_step": since_step, "since_ticks": since_ticks or None, "ticks": ticks or None}

    def labels(self):
        """The newest value of each label, from the table."""
        stride, offset, count, _ = self.regions.get(15, (0, 0, 0, 0))
        rows = [struct.unpack_from("<QQI", self.image, offset + row * stride) for row in range(count)]
        return {self.text(key): self.text(value) for key, _, value in rows if key}

    def losses(self):
        return dict(zip(LOSSES, struct.unpack_from(f"<{len(LOSSES)}Q", self.image, 616)))

    def open_spans(self):
        """Name and task of each span that was open, as it began."""
        stride, offset, count, _ = self.regions.get(13, (0, 0, 0, 0))
        rows = [struct.unpack_from("<IIQQI", self.image, offset + row * stride) for row in range(count)]
        return [(self.text(name), task) for number, _, _, task, name in sorted(rows, key=lambda row: row[2]) if number]

    def channel(self, ticket, place):
        (_, collective, started, updated, steps, done, peer, channel, role, state) = struct.unpack_from(
            "<4QIIiHBB", self.image, place)
        return {"rank": self.rank, "ticket": ticket, "collective": collective, "channel": channel,
                "role": ROLES.get(role, ""), "channel_state": CHANNEL_STATES.get(state, ""), "peer": peer,
                "steps": steps,
                "steps_done": done, "started_ticks": started or None, "updated_ticks": updated or None}

    def entry(self, ticket, place):
        (_, communicator, sequence, elements, send, receive, stream, group, step, entered, returned, started,
         finished, _related) = struct.unpack_from("<8Qq5Q", self.image, place)
        (_row, thread, span, stack, peer, comm_rank, device, group_index, kind, datatype, reduction, flags, state, _r,
         result, _color) = struct.unpack_from("<IIIIiiiIHBBHBBii", self.image, place + 112)
        (launch, replay, graph, channels, channels_started, channels_finished, _launches, algorithm,
         protocol) = struct.unpack_from("<QQI4HBB", self.image, place + 160)
        sites = self.call_site(stack)
        return {"rank": self.rank, "ticket": ticket, "communicator": f"{communicator:016x}",
                "seq": None if sequence == NONE64 else sequence, "op": KINDS.get(kind, f"operation {kind}"),
                "count": elements, "datatype": DATATYPES.get(datatype, f"datatype {datatype}"),
                "reduction": REDUCTIONS.get(reduction, f"reduction {reduction}"), "peer": peer, "comm_rank": comm_rank,
                "state": STATES.get(state, ""), "result": result, "step": step, "span": self.text(span),
                "stream": stream,
                "group": group, "group_index": group_index, "thread": thread, "device": device, "send_buffer": send,
                "receive_buffer": receive, "flags": flags, "entered_ticks": entered or None,
                "returned_ticks": returned or None, "gpu_started_ticks": started or None,
                "gpu_finished_ticks": finished or None, "launch": launch,
                "marks": self.marks(launch, flags), "replay": replay, "graph": graph,
                "channels": channels, "channels_started": channels_started, "channels_finished": channels_finished,
                "algorithm": ALGORITHMS.get(algorithm, ""), "protocol": PROTOCOLS.get(protocol, ""),
                **sites}

    def marks(self, launch, flags):
        """What shows the call's progress on the GPU: under a budget, its flag says it."""
        method, = struct.unpack_from("<I", self.image, 592)
        budget, = struct.unpack_from("<I", self.image, 3240)
        if budget and launch:
            return "writes" if flags & 128 else "events"
        return MARKS.get(method, "") if launch else "off"

    def site_table(self, table, row, stride_wanted):
        """Where that row of a table of section 3.13 lies; None where there is none."""
        _, region, _, _ = self.regions[12]
        offset, stride, count = struct.unpack_from("<QII", self.image, region + 64 + 16 * table)
        return region + offset + row * stride if 0 <= row < count and stride >= stride_wanted else None

    def site_text(self, number):
        place = self.site_table(3, number - 1, 16)
        heap = self.site_table(4, 0, 1)
        start, length = struct.unpack_from("<II", self.image, place + 8) if place else (0, 0)
        return self.image[heap + start:heap + start + length - 1].decode(errors="replace") if length else ""

    def frame(self, row):
        number = struct.unpack_from("<I", self.image, self.site_table(2, row, 4))[0] & 0x7FFFFFFF
        place = self.site_table(1, number - 1, 32)
        key, address, file, function, line, published = (
            struct.unpack_from("<QQIIiB", self.image, place) if place else (0, 0, 0, 0, 0, 0))
        return (address, self.site_text(file), line, self.site_text(function)) if published else (0, "", 0, "")

    def call_site(self, stack):
        """What an entry with that stack says beside its own fields; nothing in rings without call sites."""
        if 12 not in self.regions:
            return {}
        place = self.site_table(0, stack - 1, 32)
        _hash, uses, first, native, python, published, flags = (
            struct.unpack_from("<QQIHHBB", self.image, place) if place else (0,) * 7)
        native, python = (native, python) if published else (0, 0)
        frames = [self.frame(row) for row in range(first, first + native + python)]
        return {"stack": stack, "native_frames": [frame[0] for frame in frames[:native]],
                "python_frames": [{"file": file, "line": line, "function": function}
                                  for _, file, line, function in frames[native:]]}

    def call_sites(self):
        """Every stack with the number of its uses."""
        _, region, _, _ = self.regions.get(12, (0, 0, 0, 0))
        _header, kinds, python, native, dropped = struct.unpack_from("<IIIIQ", self.image,
                                                                     region) if region else (0,) * 5
        uses = []
        for row in range(struct.unpack_from("<I", self.image, region + 64 + 12)[0] if region else 0):
            hash_, used = struct.unpack_from("<QQ", self.image, self.site_table(0, row, 32))
            if hash_:
                uses.append(used)
        return {"rank": self.rank, "kinds": kinds, "python": self.site_text(python) if region else "",
                "native": self.site_text(native) if region else "", "dropped": dropped, "uses": uses}


    def stack_samples(self):
        """Each sample of section 3.15, oldest first, with its stack."""
        stride, region, count, _ = self.regions.get(17, (1, 0, 0, 0))
        images = [region + number * (count // 2) for number in range(2)] if region else []
        begun = [place for place in images if self.image[place:place + 8] == b"TITNTACK"]
        for place in sorted(begun, key=lambda image: struct.unpack_from("<Q", self.image, image + 16)[0]):
            tables = [struct.unpack_from("<QII", self.image, place + 56 + 16 * table) for table in range(8)]

            def row(table, number, form):
                offset, row_bytes, rows = tables[table]
                at = place + offset + number * row_bytes
                return struct.unpack_from(form, self.image, at) if number < rows else None

            def text(offset):
                begin = place + tables[3][0] + offset
                return self.image[begin:self.image.index(0, begin)].decode(errors="replace")

            for number in range(tables[6][2]):
                ticks, step, stack, _ = row(6, number, "<QqII")
                tid, _name, _outcome, first, frames, first_python, python = row(0, stack, "<iIB47xIIII")
                yield {"rank": self.rank, "ticks": ticks, "step": step, "thread": tid,
                       "native_frames": [row(1, first + i, "<Q")[0] for i in range(frames)],
                       "python_frames": [{"file": text(file), "line": line, "function": text(function)}
                                         for file, function, line in (row(4, first_python + i, "<IIi")
                                                                      for i in range(python))]}


def lines(what, paths):
    """What is printed of these files with that option; "": their collectives."""
    for path in paths:
        with open(path, "rb") as file:
            data = file.read()
        ring = Ring(read_dump(data) if data[:8] == b"TITANDMP" else data)
        if what in ("--call-sites", "--stack-samples"):
            for line in [ring.call_sites()] if what == "--call-sites" else ring.stack_samples():
                yield json.dumps(line, separators=(",", ":"), ensure_ascii=False)
            continue
        kind, read = {"": (1, ring.entry), "--cuda-calls": (2, ring.cuda_call), "--markers": (3, ring.marker),
                      "--health": (16, ring.health), "--work": (9, ring.work), "--channels": (11, ring.channel)}[what]
        for ticket, place in ring.slots(kind):
            yield json.dumps(read(ticket, place), separators=(",", ":"), ensure_ascii=False)


def main():
    what = sys.argv[1] if sys.argv[1:2] and sys.argv[1].startswith("--") else ""
    for line in lines(what, sys.argv[2 if what else 1:]):
        print(line)


if __name__ == "__main__":
    main()
