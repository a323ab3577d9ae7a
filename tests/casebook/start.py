"""One rank of a case: start.py NAME, under torchrun or with its variables."""
import sys

import hugging_face
import megatron_deepspeed
import nccl
import node
import pytorch
import serving
from casebook import CASES

PROGRAMS = (pytorch, nccl, megatron_deepspeed, hugging_face, serving)

if __name__ == "__main__":
    CASES[sys.argv[1]].run(node.Job())
