"""A tokenizer as Hugging Face's libraries read it, with a number for each word: for training without a network."""
import json

WORDS = "the ranks of a job wait for one that does not come".split()
SPECIAL = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}


def write(directory, more_words=(), **settings):
    directory.mkdir()
    words = [*SPECIAL.values(), *WORDS, *more_words]
    (directory / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "unk_token": SPECIAL["unk_token"],
                  "vocab": {word: number for number, word in enumerate(words)}}}))
    (directory / "tokenizer_config.json").write_text(json.dumps({**SPECIAL, **settings}))
