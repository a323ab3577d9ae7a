"""Programs of strangers as our hosts: each runs without and with the preload, and must end the same way.

A program of programs/ is an ordinary user of CUDA and NCCL that knows nothing of the tracer. It is given the name of a
scenario, may say "ready" (client::ready) when a dump would find it at its worst, and goes on when the file "go" appears
in $E2E_MEET.
"""
import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

IDENTITY = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}

Both = collections.namedtuple("Both", "plain traced")


def program(name):
    return harness.BUILD / "tests" / "guest" / f"guest-{name}"


def script(name):
    return pathlib.Path(__file__).resolve().parent / "programs" / name


class Case(harness.Case):
    ranks = 1  # how many dump when one is asked for

    def host(self, argv, preload, dumps, limit_s=30, **settings):
        """One run in a place of its own; with the preload, `dumps` are asked for, one after the other, once the program
        is ready."""
        self.place = self.new_place()
        if not dumps:
            self.place.go()
        env = self.place.env(preload=preload, **{**IDENTITY, **settings})
        if not dumps:
            return self.place.run(argv, env, limit_s)
        ran = self.place.start(argv, env)
        ran.wait_says("ready", limit_s)
        for number in range(1, dumps + 1) if preload else ():
            self.ask_dump(ran, number)
        self.place.go()
        ran.wait(limit_s)
        return ran

    def wait_ready(self, ran, limit_s):
        try:
            ran.wait_says("ready", limit_s)
        except AssertionError:
            self.skip_where_refused(ran)
            raise

    def skip_where_refused(self, ran):
        """A program ends with 77 where the machine does not let it do what it is about; its last words tell why."""
        if ran.status == harness.SKIPPED:
            self.skipTest(ran.stdout.strip().rpartition("\n")[2])

    def ask_dump(self, ran, number=1):
        """Asks as a user would, without a signal, and waits until the process has `number` dumps of it."""
        asked = self.place.tool("titan-dump", *self.whom_to_ask(ran), "--ring-dir", self.place.rings)
        self.assertEqual(asked.status, 0, asked.report())
        self.assertEqual(len(self.place.dump_files()), number * self.ranks)

    def whom_to_ask(self, ran):
        return [ran.pid]

    def both(self, argv, dumps=0, limit_s=30, **settings):
        """Without and with the preload: the same status and the same words, and no dump that nobody asked for."""
        plain = self.host(argv, False, dumps, limit_s, **settings)
        self.skip_where_refused(plain)
        self.assertNotEqual(plain.stdout, "", "a program that says nothing proves nothing")
        traced = self.host(argv, True, dumps, limit_s, **settings)
        self.assertEqual((traced.status, traced.stdout), (plain.status, plain.stdout))
        self.assertEqual(len(self.place.dump_files()), dumps * self.ranks, traced.stderr)
        return Both(plain, traced)
