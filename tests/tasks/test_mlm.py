"""Masked language models: masking, whole words, and a run from text to a folder that other libraries load."""

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
from glassformer.errors import InputError
from glassformer.tasks.mlm import MaskedLanguageModel, masked_positions
from glassformer.tasks.settings import MlmSettings
from glassformer.text import train_tokenizer
from glassformer.text.words import WordBoundaries
from glassformer.training.run import run

SENTENCE = "the cat sat on a mat while rain fell and children were watching birds over 12 houses"
WORDS = SENTENCE.split()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty documents of words in a fixed order, with blank lines between them."""
    file = tmp_path_factory.mktemp("text") / "words.txt"
    lines = [" ".join(WORDS[(i + j) % len(WORDS)] for j in range(10 + i % 9)) + "." for i in range(60)]
    file.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    return file


def tiny(out: Path, **changes: Any) -> MlmSettings:
    small = {"steps": 3, "d_model": 16, "num_layers": 1, "num_heads": 2, "batch_tokens": 128, "context": 16}
    return MlmSettings.from_dict({"out": str(out), **small, "vocab_size": 90, "dropout": 0.0, **changes})


def made(out: Path, text: Path, **changes: Any) -> MaskedLanguageModel:
    task = MaskedLanguageModel(tiny(out, data=[str(text)], **changes))
    task.model.eval()
    return task


def collated(task: MaskedLanguageModel, numbers: Any, epoch: int) -> dict[str, torch.Tensor]:
    """A training batch with its labels where they belong, (B, T)."""
    batch = task.collate(numbers, epoch)
    at = batch.pop("logits_at")
    assert batch["labels"].shape == (int(at.sum()),)
    labels = torch.full(at.shape, IGNORE)
    labels[at] = batch["labels"]
    return {**batch, "labels": labels}


def test_of_ten_tokens_to_be_guessed_eight_are_masked_one_is_another_and_one_is_left(
    tmp_path: Path, text: Path
) -> None:
    task = made(tmp_path, text, mask_fraction=0.2, context=34)
    truths, inputs = [], []
    tokens = task.corpora.trained.tokens
    for epoch in range(40):
        for numbers in task.batches(epoch):
            batch = collated(task, numbers, epoch)
            labels, hidden = batch["labels"], batch["labels"] != IGNORE
            assert (batch["input_ids"][:, 0] == task.tokenizer.cls_token_id).all()
            assert (batch["input_ids"][:, -1] == task.tokenizer.sep_token_id).all()
            for row, number in enumerate(numbers):
                start = task.window_starts(epoch)[number]
                window = torch.tensor(tokens[start : start + 32].astype(np.int64))
                inner = hidden[row, 1:-1]
                assert torch.equal(labels[row, 1:-1][inner], window[inner])
                assert torch.equal(batch["input_ids"][row, 1:-1][~inner], window[~inner])
            truths.append(labels[hidden])
            inputs.append(batch["input_ids"][hidden])
    truth, given = torch.cat(truths), torch.cat(inputs)
    masked, left = (given == task.tokenizer.mask_token_id).double().mean(), (given == truth).double().mean()
    assert len(truth) > 5000
    assert masked.item() == pytest.approx(0.8, abs=0.02)
    assert left.item() == pytest.approx(0.1 + 0.1 / len(task.ordinary), abs=0.02)
    windows = sum(len(task.window_starts(epoch)) for epoch in range(40))
    assert len(truth) / (windows * 32) == pytest.approx(0.2, abs=0.02)
    assert set(given.tolist()) & {i for i in range(len(task.is_ordinary)) if not task.is_ordinary[i]} == {
        task.tokenizer.mask_token_id
    }


def test_masks_are_a_function_of_seed_epoch_and_window(tmp_path: Path, text: Path) -> None:
    task, again = made(tmp_path, text), made(tmp_path, text)
    first = collated(task, [3, 1, 2], 7)
    other = collated(again, [1, 2], 7)
    for name in first:
        assert torch.equal(first[name][1:], other[name]), "whatever else is in the batch"
    assert not torch.equal(first["labels"], collated(task, [3, 1, 2], 8)["labels"])
    different = made(tmp_path, text, seed=1)
    for task_with_seed in (task, different):
        fixed = [batch["input_ids"] for batch in task_with_seed.fixed_batches(task_with_seed.corpora.scored("test"))]
        assert all(map(torch.equal, fixed, [b["input_ids"] for b in again.fixed_batches(again.corpora.scored("test"))]))


def test_held_out_tokens_are_hidden_at_most_once(tmp_path: Path, text: Path) -> None:
    task = made(tmp_path, text, mask_fraction=0.9)
    corpus = task.corpora.scored("test")
    hidden = sum(int((batch["labels"] != IGNORE).sum()) for batch in task.fixed_batches(corpus))
    assert 0.8 * len(corpus) < hidden <= len(corpus)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram", "bytes"])
def test_words_begin_where_the_tokenizer_cuts_them(kind: Any) -> None:
    texts = ["The cats were watching 1234 unbelievable houses, were they? Yes: (naïve) 고양이들이 잔다."]
    tokenizer = train_tokenizer([*texts, "able able he he"], 280 if kind == "bytes" else 60, kind, around="segments")
    encoded = tokenizer.backend.encode(texts[0], add_special_tokens=False)
    expected = [i == 0 or encoded.word_ids[i] != encoded.word_ids[i - 1] for i in range(len(encoded.ids))]
    begins = WordBoundaries(tokenizer).begins(np.array(encoded.ids)).tolist()
    assert sum(expected) < len(expected), "some words have several tokens"
    if kind == "bytes":  # its pattern treats several symbols in a row as one word
        expected = [yes or mark in "?:(),." for yes, mark in zip(expected, tokenizer.tokens(encoded.ids), strict=True)]
    assert begins == expected


def test_whole_words_are_hidden_whole(tmp_path: Path, text: Path) -> None:
    task = made(tmp_path, text, whole_words=True, context=34, vocab_size=64)
    several = 0
    for batch in task.fixed_batches(task.corpora.scored("test")):
        for row in batch["labels"][:, 1:-1] != IGNORE:
            assert row.any()
    words = WordBoundaries(task.tokenizer)
    for numbers in task.batches(0):
        batch = collated(task, numbers, 0)
        starts = [task.window_starts(0)[number] for number in numbers]
        for start, labels in zip(starts, batch["labels"][:, 1:-1], strict=True):
            ids = task.corpora.trained.tokens[start : start + 32].astype(np.int64)
            word = np.cumsum(words.begins(ids))
            hidden = (labels != IGNORE).numpy()
            for number in np.unique(word):
                members = hidden[(word == number) & task.is_ordinary[ids]]
                assert members.all() or not members.any()
                several += len(members) > 1 and bool(members.all())
    assert several > 5


def test_as_many_tokens_are_chosen_as_was_asked_for() -> None:
    rng = np.random.default_rng(0)
    begins = (rng.random(1000) < 0.4) | (np.arange(1000) == 0)
    may = rng.random(1000) < 0.9
    for fraction in (0.05, 0.15, 0.5):
        chosen = masked_positions(may, begins, fraction, rng)
        assert len(chosen) / may.sum() == pytest.approx(fraction, abs=0.02)
        assert may[chosen].all()
    assert len(masked_positions(np.ones(3, bool), np.ones(3, bool), 0.01, rng)) == 1, "at least one"
    assert len(masked_positions(np.zeros(3, bool), np.ones(3, bool), 0.5, rng)) == 0


def test_the_scores_are_those_of_transformers(tmp_path: Path, text: Path) -> None:
    task = made(tmp_path / "run", text, documents="blank-line")
    gf.save(task.model, tmp_path / "saved", tokenizer=task.tokenizer)
    theirs = transformers.ModernBertForMaskedLM.from_pretrained(tmp_path / "saved", attn_implementation="eager").eval()
    loss = right = count = 0.0
    for batch in task.fixed_batches(task.corpora.scored("test")):
        documents = batch.get("documents", torch.zeros_like(batch["labels"]))
        for row in range(len(batch["labels"])):
            for document in documents[row].unique():  # each alone: documents do not attend to each other
                own = documents[row] == document
                ids, labels = batch["input_ids"][row, own], batch["labels"][row, own]
                if (labels == IGNORE).all():
                    continue
                with torch.no_grad():
                    logits = theirs(ids[None]).logits[0][labels != IGNORE]
                truth = labels[labels != IGNORE]
                loss -= float(logits.log_softmax(dim=-1)[range(len(truth)), truth].sum())
                right += float((logits.argmax(dim=-1) == truth).sum())
                count += len(truth)
    scores = task.evaluate()
    assert scores.count == count > 10
    assert scores.metrics["accuracy"] == pytest.approx(right / count)
    assert log(scores.metrics["perplexity"]) == pytest.approx(loss / count, rel=1e-4)


def test_a_run_learns_more_than_frequencies(tmp_path: Path, text: Path) -> None:
    larger = {"d_model": 64, "num_layers": 2, "vocab_size": 200, "batch_tokens": 256, "valid_fraction": 0.2}
    settings = tiny(tmp_path / "run", data=[str(text)], steps=200, rate=0.005, **larger)
    task, scores = run(MaskedLanguageModel, settings, Console(quiet=True), verb="train mlm")
    (baseline,) = scores.baselines.values()
    assert scores.metrics["accuracy"] > 2 * baseline["accuracy"]
    assert scores.metrics["perplexity"] < 0.7 * baseline["perplexity"]
    assert {"text", "expected", "answer"} == set(scores.examples[0])
    assert task.tokenizer is not None
    assert str(task.tokenizer.special["mask_token"]) in scores.examples[0]["text"]


def test_from_the_command_line_to_transformers(tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    words = ["train", "mlm", "--data", str(text), "--documents", "blank-line", "--whole-words", "--steps", "3"]
    small = ["--context", "16", "--vocab-size", "90", "--d-model", "16", "--num-layers", "1", "--batch-tokens", "64"]
    main([*words, *small, "--out", str(out)])
    assert "the most frequent token" in capsys.readouterr().out
    theirs, report = transformers.AutoModelForMaskedLM.from_pretrained(out, output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert theirs.config.model_type == "modernbert"
    ours, tokenizer = gf.load(out), gf.load_tokenizer(out)
    ids = tokenizer.encode(["the cat [MASK] on a mat"]).input_ids
    torch.testing.assert_close(theirs.eval()(ids).logits, ours(ids).logits, atol=1e-5, rtol=1e-5)
    (guesses,) = gf.pipeline(out)(["the cat [MASK] on a mat"])[0]
    assert len(guesses) == 5


def bert(folder: Path, **changes: Any) -> Path:
    tokenizer = train_tokenizer([" ".join(WORDS)] * 9, 120, "wordpiece", around="segments")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(
        **{"vocab_size": len(tokenizer), "max_position_embeddings": 24, **sizes, **changes}
    )
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save(folder)
    return folder


def test_goes_on_from_a_bert(tmp_path: Path, text: Path) -> None:
    own = {
        "vocab_size": MlmSettings.vocab_size,
        "d_model": None,
        "num_layers": None,
        "num_heads": None,
        "dropout": None,
    }
    settings = tiny(tmp_path / "run", data=[str(text)], init=str(bert(tmp_path / "bert")), **own)
    assert settings.rate == 1e-4, "what has learned already is not torn apart"
    run(MaskedLanguageModel, settings, Console(quiet=True), verb="train mlm")
    assert transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "run").config.model_type == "bert"
    with pytest.raises(InputError, match=r"--context 32: --init .* has only 24 positions"):
        MaskedLanguageModel(settings.replace(context=32))
    bert(tmp_path / "bert", vocab_size=20)
    with pytest.raises(InputError, match="vocab_size is 20, and the tokenizer has ids up to"):
        MaskedLanguageModel(settings)


def test_a_tokenizer_without_a_mask_is_refused(tmp_path: Path, text: Path) -> None:
    train_tokenizer([" ".join(WORDS)], 300, "bytes").save(tmp_path)
    with pytest.raises(InputError, match="has no mask token: expected one of a masked language model"):
        made(tmp_path / "run", text, tokenizer_from=str(tmp_path))
