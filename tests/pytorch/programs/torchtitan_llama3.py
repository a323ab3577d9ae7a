"""torchtitan's own Trainer and its small Llama: parameters sharded over two ranks, tensor parallel over two. Tokenizer
and texts, which its wheel lacks, are made here."""
import json
import os
import pathlib
import tempfile

import torch.distributed as dist
from common import parsed
from datasets import Dataset
from mistakes import mistake
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.nn.attention import SDPBackend
from torchtitan.hf_datasets.text_datasets import DATASETS, DatasetConfig
from torchtitan.models.common.attention import FlexAttention, ScaledDotProductAttention
from torchtitan.models.llama3.config_registry import llama3_debugmodel
from torchtitan.observability import structured_logger
from torchtitan.tools.logging import init_logger
from torchtitan.trainer import Trainer

WORDS = "the ranks of a job wait for one that does not come".split()


def write_tokenizer(directory):
    special = ["<unk>", "<s>", "</s>"]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(special + WORDS)},
                                           unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory
     / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}))


class MistakenTrainer(Trainer):
    options = None

    def train_step(self, data_iterator):
        if mistake(self.options, self.step) != "skip":
            super().train_step(data_iterator)


def main():
    options = MistakenTrainer.options = parsed()
    init_logger()
    place = pathlib.Path(tempfile.mkdtemp())
    write_tokenizer(place)
    DATASETS["sentences"] = DatasetConfig(path="",
                                          loader=lambda path: Dataset.from_dict({"text": [" ".join(WORDS)] * 64}),
                                          sample_processor=lambda sample: sample["text"])
    ScaledDotProductAttention.sdpa_backends = [SDPBackend.MATH]
    config = llama3_debugmodel()
    for _, _, parent, name in list(
            config.model_spec.model.traverse(FlexAttention.Config)):  # which Triton compiles for a real GPU
        setattr(parent, name, ScaledDotProductAttention.Config())
    config.hf_assets_path, config.dump_folder = str(place), str(place / "outputs")
    config.dataloader.dataset = "sentences"
    config.training.steps, config.training.local_batch_size, config.training.seq_len = options.steps, 2, 64
    config.training.disable_cuda_graphs = True
    config.parallelism.tensor_parallel_degree = 2
    if "DIST_TIMEOUT_S" in os.environ:
        config.comm.train_timeout_seconds = int(float(os.environ["DIST_TIMEOUT_S"]))
    structured_logger.init_structured_logger(source="training",
                                             output_dir=os.environ.get("LOG_FOLDER", config.dump_folder))
    trainer = MistakenTrainer(config)
    trainer.metrics_processor.should_log = lambda step: False  # the loss, which is not computed here, may be no number
    trainer.train()
    trainer.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
