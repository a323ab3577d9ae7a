"""Threads beside the main one: one reads batches ahead, one gathers and saves the state while training goes on."""
import queue
import threading
import time

import torch
import torch.distributed as dist
from common import parsed, start
from mistakes import mistake


def read(wrong):
    if wrong == "read":
        time.sleep(10_000)
    return torch.zeros(64)


def read_ahead(options, batches):
    for step in range(options.steps):
        wrong = mistake(options, step)
        batches.put((read(wrong), wrong))


def write(wrong):
    if wrong == "write":
        time.sleep(10_000)


class Saver(threading.Thread):
    def __init__(self, device, group):
        super().__init__(daemon=True)
        self.device, self.group, self.orders = device, group, queue.Queue()
        self.start()

    def run(self):
        torch.cuda.set_device(self.device)
        state = torch.ones(128, device=self.device)
        with torch.cuda.stream(torch.cuda.Stream()):
            while True:
                wrong = self.orders.get()
                if wrong != "gather":
                    dist.all_reduce(state, group=self.group)
                    torch.cuda.current_stream().synchronize()
                write(wrong)
                self.orders.task_done()


def main():
    options = parsed()
    device = start()
    saver = Saver(device, dist.new_group(group_desc="saving"))
    batches = queue.Queue(maxsize=2)
    threading.Thread(target=read_ahead, args=(options, batches), daemon=True).start()
    for _ in range(options.steps):
        batch, wrong = batches.get()
        value = batch.to(device)
        dist.all_reduce(value)
        value.tolist()
        saver.orders.join()  # the save of the step before
        saver.orders.put(wrong)
    saver.orders.join()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
