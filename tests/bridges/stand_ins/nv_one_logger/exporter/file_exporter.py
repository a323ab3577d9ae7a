import json


class FileExporter:
    def __init__(self, file_path):
        self._path = file_path
        self._file = None

    def initialize(self):
        self._file = open(self._path, "w", encoding="utf-8")

    def _write(self, kind, name):
        self._file.write(json.dumps({"type": kind, "name": name}) + "\n")
        self._file.flush()

    def export_start(self, span):
        self._write("start", span.name_str)

    def export_stop(self, span):
        self._write("stop", span.name_str)

    def export_event(self, event, span):
        self._write("event", event.name_str)

    def export_error(self, event, span):
        self._write("application_error", event.name_str)

    def export_telemetry_data_error(self, error):
        self._write("telemetry_data_error", error.name_str)

    def close(self):
        self._file.close()
