"""Programs of tests/pytorch with mistakes, on real NCCL: all ranks share a GPU."""

import concurrent.futures
import os

import harness
import machine
from marked import pytorch_of, start_torchrun
from place import Skipped, expect, last_words

CULPRIT, RANKS, AT_ONCE = 1, 4, 4
TIMEOUT_S = 8
DUMP_ON_EXIT = "signal,timeout,standstill,abort,crash,end,exit"
MUST = {"loader", "kill", "exception"}
# NCCL computes something, and the job goes on: a dump at its end tells.
SILENT = {"shape", "dtype"}
# Program, mistake and kinds of findings as in tests/pytorch/test_pytorch.py.
MISTAKES = (("ddp", "loader", {"rank_not_arrived"}), ("ddp", "kill", {"rank_dead"}),
            ("ddp", "exception", {"rank_dead"}),
            ("ddp", "skip", {"size_mismatch"}), ("ddp", "shape", {"size_mismatch"}),
            ("ddp", "dtype", {"dtype_mismatch"}), ("fsdp2", "loader", {"rank_not_arrived"}),
            ("fsdp2", "skip", {"op_mismatch"}), ("mesh", "skip", {"rank_not_arrived"}),
            ("pipeline", "loader", {"rank_not_arrived", "p2p_unmatched"}), ("pipeline", "skip", {"p2p_unmatched"}),
            ("groups", "order", {"order_inversion"}), ("groups", "skip", {"p2p_unmatched"}),
            ("graphed", "skip", {"rank_not_arrived"}), ("objects", "loader", {"rank_not_arrived"}))


def verdict_of(place):
    return (place.analyze(place.dumps).json or {}).get("verdict") if place.dump_files() else None


def run(setup, python, program, mistake, kinds):
    place = setup.place()
    job = start_torchrun(place, python, RANKS, [harness.ROOT / "tests" / "gpu" / "on_one_gpu.py",
                                                harness.ROOT / "tests" / "pytorch" / "programs" / f"{program}.py",
                                                "--fault", mistake, "--rank", CULPRIT], TITANTRACE_TIMEOUT_S=TIMEOUT_S,
                         TITANTRACE_DUMP_ON=DUMP_ON_EXIT if mistake in SILENT else None,
                         DIST_TIMEOUT_S=60, **machine.SOCKETS)
    dumping = set(range(RANKS)) - ({CULPRIT} if "rank_dead" in kinds else set())

    def is_over():
        return job.status is not None or mistake not in SILENT and dumping <= place.dumped_ranks() and verdict_of(place)

    try:
        harness.wait_for(is_over, 20, f"{program}/{mistake}: a verdict or the end")
    except AssertionError:
        pass  # what there is, is told
    verdict = verdict_of(place) or {}
    row = {"program": program, "mistake": mistake, "status": job.status, "kind": verdict.get("kind"),
           "ranks": verdict.get("ranks"), "confidence": verdict.get("confidence"), "summary": verdict.get("summary"),
           "right": verdict.get("kind") in kinds and verdict.get("ranks") == [CULPRIT]}
    if not verdict:
        row["said"] = last_words(job)
    job.end()
    return row


def check_mistakes(setup):
    """PyTorch programs with a mistake on one rank: the verdict on real NCCL"""
    python = pytorch_of(setup)
    if setup.info["gpus"] != 1:
        raise Skipped("made for ranks that share one GPU")
    chosen = [row for row in MISTAKES if row[0] in os.environ.get("GPU_CHECK_PROGRAMS", row[0]).split(",")]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        rows = list(pool.map(lambda mistake: run(setup, python, *mistake), chosen))
    failed = [f"{row['program']}/{row['mistake']}: {row['summary']}" for row in rows
              if row["mistake"] in MUST and not row["right"]]
    wrong = [f"{row['program']}/{row['mistake']}: {row['summary']}" for row in rows
             if row["confidence"] == "certain" and row["ranks"] != [CULPRIT]]
    expect(not failed and not wrong, f"wrong: {failed}; certain and wrong: {wrong}; all: {rows}")
    return {"right": sum(row["right"] for row in rows), "of": len(rows), "rows": rows}
