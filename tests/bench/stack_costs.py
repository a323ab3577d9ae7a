"""How long a dump takes for the stacks of all threads, by their number: from the first question to the last unwound
stack. The threads themselves are held only while their stacks are copied."""
import json
import subprocess
import tempfile

from instruction_counts import environment
from machine_costs import row

ROUNDS = 5
BUDGET_MS = {200: 100}  # threads -> ms


def milliseconds(client, analyzer, library, stand_ins, threads):
    with tempfile.TemporaryDirectory() as directory:
        env = environment(directory, library, RANK="0", WORLD_SIZE="1", THREADS=str(threads),
                          LD_LIBRARY_PATH=stand_ins, E2E_MEET=directory)
        subprocess.run([str(client), "many"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        stacks = subprocess.run([str(analyzer), "stacks", env["TITANTRACE_DIR"], "--json", "--no-rings"], check=True,
                                capture_output=True, text=True)
    process, = json.loads(stacks.stdout)["processes"]
    unwound = sum(thread["outcome"] == "unwound" for thread in process["threads"])
    if unwound < threads:
        raise RuntimeError(f"only {unwound} of {threads} threads answered in time")
    return process["took_ns"] / 1e6


def stack_costs(client, analyzer, library, stand_ins):
    return [row(f"stacks of {threads:,} threads",
                min(milliseconds(client, analyzer, library, stand_ins, threads) for _ in range(ROUNDS)),
                BUDGET_MS.get(threads), "ms") for threads in (10, 200, 1000)]
