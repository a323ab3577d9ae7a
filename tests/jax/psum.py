"""A data-parallel JAX program of several processes: each step loads a batch, and sums it over all devices.

    psum.py PROCESS PROCESSES DEVICES_OF_EACH PORT [FAULT]

FAULT is a mistake of process 1 in step 2.
"""
import os
import signal
import sys
import time

import jax
import numpy as np
from jax._src import hardware_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

STEPS, STEP_OF_FAULT, CULPRIT = 4, 2, 1

# JAX looks for /dev/nvidia0 before it starts the plugin. The simulated node has no devices in /dev.
hardware_utils.has_visible_nvidia_gpu = lambda: True

process, processes, local = (int(word) for word in sys.argv[1:4])
port = sys.argv[4]
fault = sys.argv[5] if len(sys.argv) > 5 and process == CULPRIT else "none"


def over_all_devices(body, out):
    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("data"), out_specs=out))


def load(step):
    if step == STEP_OF_FAULT and fault == "loader":
        time.sleep(10_000)
    return jax.make_array_from_process_local_data(NamedSharding(mesh, P("data")),
                                                  np.full(4 * local, process + 1, np.float32))


# On one real GPU, which all processes share (tests/gpu).
shared = os.environ.get("PSUM_SHARED_DEVICE")
jax.distributed.initialize(f"localhost:{port}", processes, process,
                           local_device_ids=range(process * local, (process + 1) * local) if shared is None
                           else [int(shared)])
mesh = Mesh(np.array(jax.devices()), ("data",))
total = over_all_devices(lambda batch: jax.lax.psum(batch, "data"), P())
gathered = over_all_devices(lambda batch: jax.lax.all_gather(batch, "data"), P("data"))
# Kernels compute nothing here, but they are compiled, loaded and launched as on a GPU.
halved = jax.jit(lambda batch: batch / 2)

for step in range(STEPS):
    batch = load(step)
    if step == STEP_OF_FAULT and fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if step == STEP_OF_FAULT and fault == "gather":
        gathered(batch).block_until_ready()
    halved(batch).block_until_ready()
    sums = total(batch)
    print(f"step {step}: {[np.asarray(shard.data).tolist() for shard in sums.addressable_shards]}", flush=True)
