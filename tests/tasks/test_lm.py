"""Causal language models: windows, documents, bits per byte, and a run from text to a folder for other libraries."""

import json
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from rich.console import Console

import glassformer as gf
from glassformer.cli import main
from glassformer.core.model import IGNORE
from glassformer.data.corpus import corpus_from_texts
from glassformer.errors import InputError
from glassformer.tasks.corpora import hold_out, sliding_windows, window_starts
from glassformer.tasks.lm import LanguageModel
from glassformer.tasks.settings import LmSettings
from glassformer.text import train_tokenizer
from glassformer.training.folder import check_free
from glassformer.training.run import run

STORIES = ["A cat sat on a mat. ", "Der Hund läuft. ", "고양이가 잔다. ", "One two three four five six. "]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty documents with blank lines between them."""
    file = tmp_path_factory.mktemp("text") / "stories.txt"
    file.write_text("\n\n".join(STORIES[i % 4] * (1 + i % 3) for i in range(40)) + "\n", encoding="utf-8")
    return file


def tiny(out: Path, **changes: Any) -> LmSettings:
    small = {"steps": 3, "d_model": 16, "num_layers": 1, "num_heads": 2, "batch_tokens": 128, "context": 16}
    other = {"vocab_size": 300, "warmup": 2, "dropout": 0.0, "sample": 5}
    return LmSettings.from_dict({"out": str(out), **small, **other, **changes})


def made(out: Path, text: Path, **changes: Any) -> LanguageModel:
    task = LanguageModel(tiny(out, data=[str(text)], **changes))
    task.model.eval()
    return task


def test_every_token_is_new_once_and_has_half_a_context_before_it() -> None:
    corpus = corpus_from_texts(["ab " * 50], gf_bytes())
    for length, stride in ((16, 8), (7, 3), (16, 16), (500, 250)):
        counts = np.zeros(len(corpus), dtype=int)
        for start, new in sliding_windows(corpus, length, stride):
            end = min(start + length, len(corpus))
            counts[new:end] += 1
            if start:
                assert new - start >= length - stride
                assert end == start + length
        assert (counts == 1).all()


def gf_bytes() -> gf.Tokenizer:
    from glassformer.text import train_tokenizer

    return train_tokenizer(STORIES, 300, "bytes")


def test_windows_begin_elsewhere_in_each_epoch_and_lose_no_token_for_good() -> None:
    corpus = corpus_from_texts(["some words in a row " * 9], gf_bytes())
    seen = np.zeros(len(corpus), dtype=bool)
    for epoch in range(60):
        starts = window_starts(corpus, 16, seed=1, epoch=epoch)
        assert starts == window_starts(corpus, 16, seed=1, epoch=epoch)
        for start in starts:
            seen[start : start + 16] = True
    assert seen.all()


def test_a_batch_predicts_each_next_token(tmp_path: Path, text: Path) -> None:
    task = made(tmp_path, text)
    tokens, numbers = task.corpora.trained.tokens, task.batches(5)[0]
    batch = task.collate(numbers, 5)
    starts = [task.window_starts(5)[number] for number in numbers]
    assert set(batch) == {"input_ids", "labels"}, "one document: no other to be kept apart"
    for row, start in enumerate(starts):
        assert batch["labels"][row].tolist() == tokens[start : start + 16].tolist()
        assert batch["input_ids"][row, 1:].tolist() == tokens[start : start + 15].tolist()
    assert batch["input_ids"].shape == (8, 16)
    again = made(tmp_path, text).collate(numbers, 5)
    assert torch.equal(again["input_ids"], batch["input_ids"])


def test_nothing_is_seen_of_another_document(tmp_path: Path, text: Path) -> None:
    """A row packed from several documents gives the same logits as each document alone."""
    task = made(tmp_path, text, documents="blank-line", context=64)
    corpus = task.corpora.trained
    batch = task.as_batch(corpus, np.array([3]), 64)
    labels, logits = batch.pop("labels"), task.model(**batch).logits
    borders = [0, *(batch["documents"][0].diff().nonzero().flatten() + 1).tolist(), 64]
    assert len(borders) > 3, "several documents in the row"
    for begin, end in pairwise(borders[1:]):
        alone = torch.tensor([[task.tokenizer.bos_token_id, *labels[0, begin : end - 1].tolist()]])
        torch.testing.assert_close(task.model(alone).logits, logits[:, begin:end], atol=1e-5, rtol=1e-5)


def test_without_a_start_token_a_first_token_is_not_predicted(tmp_path: Path, text: Path) -> None:
    task = made(tmp_path, text, documents="blank-line", context=64)
    begins = np.isin(np.arange(3, 67), task.corpora.trained.starts)
    task.start = None
    labels = task.as_batch(task.corpora.trained, np.array([3]), 64)["labels"][0]
    assert begins.any()
    assert (labels == IGNORE).tolist() == begins.tolist()


def by_hand(folder: Path, tokens: list[int], start: int, context: int, stride: int) -> float:
    """The sum of -log2 p over all tokens with transformers, each in its window of the strided scheme."""
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    bits, done = 0.0, 0
    for begin in [*range(0, max(0, len(tokens) - context), stride), max(0, len(tokens) - context)]:
        end = min(begin + context, len(tokens))
        before = tokens[begin - 1] if begin else start
        with torch.no_grad():
            logits = theirs(torch.tensor([[before, *tokens[begin : end - 1]]])).logits[0]
        losses = -logits.log_softmax(dim=-1)[range(end - begin), tokens[begin:end]] / log(2)
        bits += float(losses[done - begin :].sum())
        done = end
    return bits


@pytest.mark.parametrize(("overlap", "qk_norm", "saved"), [(0.5, False, "llama"), (0.0, True, "qwen3")])
def test_bits_per_byte_are_those_of_transformers_and_the_file(
    overlap: float, qk_norm: bool, saved: str, tmp_path: Path, text: Path
) -> None:
    held_out = tmp_path / "held-out.txt"
    held_out.write_text("A cat läuft on 고양이. One two! " * 3, encoding="utf-8")
    task = made(tmp_path / "run", text, valid=[str(held_out)], overlap=overlap, qk_norm=qk_norm)
    gf.save(task.model, tmp_path / "saved", tokenizer=task.tokenizer)
    assert json.loads((tmp_path / "saved" / "config.json").read_text(encoding="utf-8"))["model_type"] == saved
    tokens = [*task.tokenizer.ids(held_out.read_text(encoding="utf-8")), task.tokenizer.eos_token_id]
    bits = by_hand(tmp_path / "saved", tokens, int(task.tokenizer.bos_token_id or 0), 16, round(16 * (1 - overlap)))
    scores = task.evaluate()
    assert scores.count == len(tokens) > 32
    assert scores.metrics["bits_per_byte"] == pytest.approx(bits / held_out.stat().st_size, rel=1e-5)
    assert scores.metrics["perplexity"] == pytest.approx(2 ** (bits / len(tokens)), rel=1e-5)
    assert scores.examples[0]["prompt"]


def test_a_run_learns(tmp_path: Path, text: Path) -> None:
    settings = tiny(tmp_path / "run", data=[str(text)], steps=60, d_model=32, optimizer="muon", rate=0.01)
    _, scores = run(LanguageModel, settings, Console(quiet=True), verb="train lm")
    (baseline,) = scores.baselines.values()
    assert 0 < scores.metrics["bits_per_byte"] < 2
    assert 0 < baseline["bits_per_byte"] < 2
    first = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert scores.metrics["perplexity"] < 0.2 * 2.718 ** first["loss"]


def test_from_the_command_line_to_transformers(tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    words = ["train", "lm", "--data", str(text), "--documents", "blank-line", "--steps", "3", "--out", str(out)]
    small = ["--context", "16", "--vocab-size", "300", "--d-model", "16", "--num-layers", "1", "--batch-tokens", "64"]
    main([*words, *small])
    said = capsys.readouterr().out
    assert "packed from" in said
    assert "bits_per_byte" in said
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert theirs.config.model_type == "llama"
    ours, tokenizer = gf.load(out), gf.load_tokenizer(out)
    ids = tokenizer.encode(["A cat sat"]).input_ids
    torch.testing.assert_close(theirs(ids).logits, ours(ids).logits, atol=1e-5, rtol=1e-5)
    assert transformers.AutoTokenizer.from_pretrained(out)("A cat sat").input_ids == ids[0].tolist()
    assert isinstance(gf.pipeline(out)(["A cat"], seed=1)[0], str)

    sizes = {"vocab_size": LmSettings.vocab_size, **dict.fromkeys(("d_model", "num_layers", "num_heads", "dropout"))}
    again = LanguageModel(tiny(tmp_path / "other", init=str(out), **sizes), [text])
    assert again.evaluate().count > 500, "a finished run is judged by a file"
    tokens = (out / "tokens" / "train" / "tokens.bin").stat().st_mtime_ns
    main([*words, *small, "--overwrite"])
    assert (out / "tokens" / "train" / "tokens.bin").stat().st_mtime_ns == tokens, "made once"
    main([*words, *small, "--steps", "5", "--resume"])


def test_tokens_that_were_prepared_are_no_obstacle(tmp_path: Path, text: Path) -> None:
    """A run refused after reading its text can be started again in the same folder."""
    made(tmp_path / "run", text)
    assert [entry.name for entry in (tmp_path / "run").iterdir()] == ["tokens"]
    check_free(tiny(tmp_path / "run"))


def test_goes_on_from_a_checkpoint_of_another_family(tmp_path: Path, text: Path) -> None:
    tokenizer = gf_bytes()
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, n_positions=24, bos_token_id=1, eos_token_id=1
    )
    folder = tmp_path / "gpt2"
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save(folder)
    whole = {
        "vocab_size": LmSettings.vocab_size,
        "d_model": None,
        "num_layers": None,
        "num_heads": None,
        "dropout": None,
    }
    settings = tiny(tmp_path / "run", data=[str(text)], init=str(folder), **whole)
    run(LanguageModel, settings, Console(quiet=True), verb="train lm")
    assert transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "run").config.model_type == "gpt2"
    with pytest.raises(InputError, match=r"--context 32: --init .* has only 24 positions"):
        LanguageModel(settings.replace(context=32))

    config.vocab_size = 200
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    with pytest.raises(InputError, match="vocab_size is 200, and the tokenizer has ids up to"):
        LanguageModel(settings)


def test_bad_input_is_named(tmp_path: Path) -> None:
    table = tmp_path / "rows.jsonl"
    table.write_text('{"text": "a cat"}\n{"txt": "a dog"}\n')
    with pytest.raises(InputError, match=r"rows.jsonl, line 2 has the columns txt, but none called 'text'"):
        made(tmp_path / "run", table)
    with pytest.raises(InputError, match=r"rows.jsonl, line 1 has the columns text, but none called 'body'"):
        made(tmp_path / "run", table, text_column="body")
    short = tmp_path / "short.txt"
    short.write_text("A cat sat on a mat.")
    task = made(tmp_path / "run", short)
    with pytest.raises(
        InputError, match=r"the training text has \d+ tokens, fewer than a window of 16\. Lower --context"
    ):
        task.batches(0)
    with pytest.raises(InputError, match="there is no such file"):
        made(tmp_path / "run", tmp_path / "nowhere.txt")


def test_empty_documents_are_counted(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("text\n" + "".join(f"row {i} of a table of rows\n" if i % 10 else '""\n' for i in range(60)))
    assert made(tmp_path / "run", table).describe()["data"].endswith("; 6 empty documents left out")


def test_a_text_too_short_to_hold_some_of_it_out(tmp_path: Path) -> None:
    lossy = train_tokenizer(["word and word"] * 3, 64)
    corpus, settings = corpus_from_texts(["word and  ü word " * 100], lossy), tiny(tmp_path)
    with pytest.raises(InputError, match="no part of 602 tokens can be held out"):
        hold_out(corpus, settings, lossy, counts_bytes=True)
    train, valid = hold_out(corpus, settings, lossy, counts_bytes=False)
    assert len(train) + len(valid) == len(corpus)
    assert train.num_bytes + valid.num_bytes == corpus.num_bytes
