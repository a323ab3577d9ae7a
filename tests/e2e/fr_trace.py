"""PyTorch's own fr_trace, asked again and again: importing PyTorch takes two seconds, so that one process imports it,
and each question is answered by a fork of that."""

import ast
import atexit
import json
import pathlib
import subprocess
import tempfile
import threading

SERVER = """
import json, os, pickle, sys, traceback
from torch.distributed.flight_recorder import fr_trace


def answer(directory, prefix, database, said):
    with open(said, "w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    fr_trace.main([directory, "-p", prefix, "-o", database])
    _, matched = pickle.load(open(database, "rb"))
    print([(call.collective_name, call.pass_check, call.pg_desc) for call in matched.collectives], flush=True)


print(flush=True)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        try:
            answer(*json.loads(line))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitpid(pid, 0)[1], flush=True)
"""


class FrTrace:
    """Of one Python that has PyTorch. Any thread may ask."""

    def __init__(self, python):
        self.python = python
        self.lock = threading.Lock()
        self.server = None

    def ask(self, directory, prefix):
        """What fr_trace says of the files, and the calls that it matched: name, whether they passed, group."""
        with self.lock, tempfile.TemporaryDirectory() as place:
            if self.server is None:
                self.server = subprocess.Popen([self.python, "-c", SERVER], stdin=subprocess.PIPE,
                                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                atexit.register(self.server.kill)
                self.server.stdout.readline()
            said = pathlib.Path(place) / "said"
            print(json.dumps([str(directory), prefix, str(pathlib.Path(place) / "database"), str(said)]),
                  file=self.server.stdin, flush=True)
            status = int(self.server.stdout.readline())
            text = said.read_text()
        assert status == 0, f"fr_trace ended with status {status}: {text}"
        return text, ast.literal_eval(text.splitlines()[-1])
