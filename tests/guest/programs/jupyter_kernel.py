"""A notebook: cells that use NCCL, that are interrupted and that fail, and a kernel that is started again."""
import os
import pathlib
import queue
import time

import jupyter_client


def say(*words):
    print(*words, flush=True)


def cell(code, interrupt_after_s=None):
    asked, begun, answers = client.execute(code), time.monotonic(), []
    while True:
        try:
            message = client.get_iopub_msg(timeout=0.2)
        except queue.Empty:
            if interrupt_after_s is not None and time.monotonic() - begun > interrupt_after_s:
                manager.interrupt_kernel()
                interrupt_after_s = None
            continue
        if message["parent_header"].get("msg_id") != asked:
            continue
        content = message["content"]
        if message["msg_type"] == "stream" and content["name"] == "stdout":
            answers.append(content["text"].strip())
        if message["msg_type"] == "error":
            answers.append(content["ename"])
        if message["msg_type"] == "status" and content["execution_state"] == "idle":
            break
    say(code.rpartition("\n")[2], "->", *answers)


manager = jupyter_client.KernelManager(kernel_name="python3")
manager.start_kernel(env=os.environ.copy())
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=60)
imports = ("import sys, time, threading\n"
           f"sys.path.insert(0, {str(pathlib.Path(__file__).resolve().parent)!r})\n"
           "import ctypes_nccl\n")
cell(imports + "print(ctypes_nccl.use())")
cell("time.sleep(60)", interrupt_after_s=0.5)
cell("print(ctypes_nccl.use())")
cell("1 / 0")
say("ready")
while not pathlib.Path(os.environ["E2E_MEET"], "go").exists():
    time.sleep(0.05)
cell("print(ctypes_nccl.use())")
cell("threading.Event().wait(60)", interrupt_after_s=0.5)
manager.restart_kernel()
client.wait_for_ready(timeout=60)
cell(imports + "print(ctypes_nccl.use())")
manager.shutdown_kernel()
say("finished")
