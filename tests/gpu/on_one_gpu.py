"""Runs a program for a GPU of each rank on one GPU that all share: on_one_gpu.py PROGRAM [ARGUMENTS]. Ranks that take
each other for other nodes pass NCCL's check for duplicate GPUs."""
import os
import pathlib
import runpy
import sys

os.environ["NCCL_HOSTID"] = f"gpu-check-{os.environ['RANK']}"
os.environ["LOCAL_RANK"] = "0"
sys.argv = sys.argv[1:]
sys.path[0] = str(pathlib.Path(sys.argv[0]).parent)
runpy.run_path(sys.argv[0], run_name="__main__")
