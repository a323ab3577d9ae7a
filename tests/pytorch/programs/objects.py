"""Objects sent between ranks as bytes over NCCL, and flags that are computed on the GPU, agreed on and read back."""
import torch
import torch.distributed as dist
from common import parsed, start
from mistakes import mistake


def object_collectives(rank, size, step, wrong):
    own = {"rank": rank, "loss": [0.5] * (rank + step)}
    seen = [None] * size
    if wrong != "skip":
        dist.all_gather_object(seen, own)
        assert [entry["rank"] for entry in seen] == list(range(size)), seen
    settings = [{"rate": 0.1}, f"step {step}"] if rank == 0 else [None, None]
    dist.broadcast_object_list(settings, src=0)
    assert settings == [{"rate": 0.1}, f"step {step}"], settings
    seen = [None] * size if rank == 0 else None
    dist.gather_object(own, seen, dst=0)
    assert rank > 0 or [len(entry["loss"]) for entry in seen] == [other + step for other in range(size)], seen
    mine = [None]
    dist.scatter_object_list(mine, [f"for rank {other}" for other in range(size)] if rank == 0 else None, src=0)
    assert mine == [f"for rank {rank}"], mine
    if rank % 2 == 0:
        dist.send_object_list(["a shape", (rank, step)], dst=rank + 1)
    else:
        received = [None, None]
        dist.recv_object_list(received, src=rank - 1)
        assert received == ["a shape", (rank - 1, step)], received


def agreed(condition):
    """Whether it holds on any rank."""
    flag = condition.to(torch.int32)
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return flag.item() == 1


def main():
    options = parsed()
    device = start()
    rank, size = dist.get_rank(), dist.get_world_size()
    for step in range(options.steps):
        wrong = mistake(options, step)
        object_collectives(rank, size, step, wrong)
        losses = torch.full((16,), float(rank), device=device) + step
        assert agreed((losses > size + step - 2).any())
        assert not agreed((losses >= size + step).any())
        assert losses.sum().item() == 16 * (rank + step)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
