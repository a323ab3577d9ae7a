"""Reads a Perfetto trace with the definitions that Perfetto publishes (PyPI's `perfetto`), and prints what is in it as
JSON: tracks, slices, instants, values, and what breaks Perfetto's rules.

    .venv/bin/python read_perfetto.py FILE      status 77: the package is not installed
"""
import collections
import json
import sys

try:
    from google.protobuf.unknown_fields import UnknownFieldSet
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(77)

BEGIN, END, INSTANT, COUNTER = (perfetto.TrackEvent.Type.Value("TYPE_" + name)
                                for name in ("SLICE_BEGIN", "SLICE_END", "INSTANT", "COUNTER"))


def unknown_fields(message):
    """Numbers of fields that the definitions do not have, in it and all that it holds."""
    found = [field.field_number for field in UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in (value if isinstance(value, collections.abc.Iterable) else [value]):
                found += unknown_fields(inner)
    return found


class Reader:
    def __init__(self):
        self.tracks, self.open, self.newest = {}, collections.defaultdict(list), {}
        self.names, self.keys, self.texts = {}, {}, {}
        self.found = {"tracks": self.tracks, "slices": [], "instants": [], "values": [], "problems": []}

    def problem(self, text):
        self.found["problems"].append(text)

    def packet(self, packet):
        for number in unknown_fields(packet):
            self.problem(f"unknown field {number}")
        if packet.trusted_packet_sequence_id == 0:
            self.problem("a packet without a sequence")
        for known, told in ((self.names, packet.interned_data.event_names),
                            (self.keys, packet.interned_data.debug_annotation_names)):
            known.update((entry.iid, entry.name) for entry in told)
        self.texts.update((entry.iid, entry.str.decode())
                          for entry in packet.interned_data.debug_annotation_string_values)
        if packet.HasField("track_descriptor"):
            self.track(packet.track_descriptor)
        if packet.HasField("track_event"):
            self.event(packet.timestamp, packet.track_event)

    def track(self, track):
        if track.uuid in self.tracks or track.uuid == 0:
            self.problem(f"track {track.uuid} is described twice, or has no number")
        if track.HasField("process"):
            name = track.process.process_name
        else:
            name = track.name
            if track.parent_uuid not in self.tracks:
                self.problem(f"track {name} lies in none")
        self.tracks[track.uuid] = {"name": name, "process": track.parent_uuid or track.uuid,
                                   "counter": track.HasField("counter")}

    def told(self, event):
        if event.name_iid not in self.names:
            self.problem("a name that was never told")
        arguments = {}
        for annotation in event.debug_annotations:
            kind = annotation.WhichOneof("value")
            value = getattr(annotation, kind)
            arguments[self.keys[annotation.name_iid]] = self.texts[value] if kind == "string_value_iid" else value
        return {"name": self.names.get(event.name_iid), "arguments": arguments, "flows": list(event.flow_ids)}

    def event(self, at_ns, event):
        track = event.track_uuid
        if track not in self.tracks:
            self.problem(f"an event of track {track}, which is not described")
            return
        of_its_kind = track, event.type == INSTANT
        if at_ns < self.newest.get(of_its_kind, 0):
            self.problem(f"time goes back on track {track}")
        self.newest[of_its_kind] = at_ns
        if (event.type == COUNTER) != self.tracks[track]["counter"]:
            self.problem(f"an event of type {event.type} on track {self.tracks[track]}")
        if event.type == BEGIN:
            self.open[track].append({"track": track, "begin_ns": at_ns, "depth": len(self.open[track]),
                                     **self.told(event)})
        elif event.type == END:
            if not self.open[track]:
                self.problem(f"an end without a begin on track {track}")
                return
            ended = self.open[track].pop()
            self.found["slices"].append({**ended, "end_ns": at_ns})
        elif event.type == INSTANT:
            self.found["instants"].append({"track": track, "at_ns": at_ns, **self.told(event)})
        elif event.type == COUNTER:
            self.found["values"].append({"track": track, "at_ns": at_ns, "value": event.double_counter_value})
        else:
            self.problem(f"an event of type {event.type}")

    def finish(self):
        for track, still_open in self.open.items():
            if still_open:
                self.problem(f"{len(still_open)} slices of track {track} never end")
        return self.found


def main():
    trace = perfetto.Trace()
    with open(sys.argv[1], "rb") as file:
        trace.ParseFromString(file.read())
    reader = Reader()
    for packet in trace.packet:
        reader.packet(packet)
    json.dump(reader.finish(), sys.stdout)


if __name__ == "__main__":
    main()
