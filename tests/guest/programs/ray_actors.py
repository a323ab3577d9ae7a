"""Two actors, each a rank of its own, as programs that serve models have them. argv: Ray's directory."""
import os
import pathlib
import sys
import time

import ray


def say(*words):
    print(*words, flush=True)


@ray.remote
class Rank:
    def __init__(self, rank, here):
        os.environ.update(RANK=str(rank), WORLD_SIZE="1")
        sys.path.insert(0, here)

    def work(self):
        import ctypes_nccl
        return os.environ["RANK"], ctypes_nccl.use()

    def fail(self):
        raise ValueError("an error of the actor")

    def leave(self):
        ray.actor.exit_actor()


here = str(pathlib.Path(__file__).resolve().parent)
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100_000_000,
         _temp_dir=sys.argv[1])
actors = [Rank.remote(0, here), Rank.remote(1, here)]
say(*[ray.get(actor.work.remote()) for actor in actors])
try:
    ray.get(actors[1].fail.remote())
except ValueError:
    say("its error came")
say("ready")
while not pathlib.Path(os.environ["E2E_MEET"], "go").exists():
    time.sleep(0.05)
say(*[ray.get(actor.work.remote()) for actor in actors])
for actor in actors:
    try:
        ray.get(actor.leave.remote())
    except ray.exceptions.RayActorError:
        say("an actor left")
ray.shutdown()
say("finished")
