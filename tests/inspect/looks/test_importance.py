"""Heads left out: the logits are those of a model without them, and a head that does nothing is worth nothing."""

from copy import deepcopy
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor

import glassformer as gf
from glassformer.core.attention import Attention
from glassformer.errors import InputError
from glassformer.figures.drawings import draw_importance
from glassformer.inspect.looks.importance import (
    Importance,
    Importances,
    head_importance,
    picture_importance,
    show_importance,
    task_importance,
)
from glassformer.tasks import settings as tasks
from glassformer.tasks.registry import make_task
from glassformer.training.task import Scores
from glassformer.watch.ablate import ablate, attention_sites, choose_heads

HEADS = 3


def make_model(**stack: Any) -> gf.Transformer:
    torch.manual_seed(0)
    config = gf.StackConfig(**{"d_model": 12, "num_layers": 2, "num_heads": HEADS, **stack})
    return gf.Transformer(gf.TransformerConfig(encoder=config, decoder=config, vocab_size=20)).eval()


def logits_of(model: gf.Transformer) -> Tensor:
    ids = torch.arange(14).view(2, 7)
    with torch.no_grad():
        return model(ids, decoder_input_ids=ids.flip(1)[:, :5]).logits  # type: ignore[return-value]


@torch.no_grad()
def cut_out(attention: Attention, head: int) -> None:
    columns = slice(head * attention.head_dim, (head + 1) * attention.head_dim)
    attention.out.weight[:, columns] = 0.0


@pytest.mark.parametrize("stack", [{}, {"num_kv_heads": 1}, {"norm_order": "post"}], ids=str)
def test_logits_are_those_of_a_model_without_the_columns(stack: dict[str, Any]) -> None:
    model = make_model(**stack)
    before = logits_of(model)
    names = ["decoder.blocks.0.cross.1", "decoder.blocks.1.attn.0", "encoder.blocks.0.attn.*"]
    without = deepcopy(model)
    cut_out(without.decoder.blocks[0].cross, 1)
    cut_out(without.decoder.blocks[1].attn, 0)
    for head in range(HEADS):
        cut_out(without.encoder.blocks[0].attn, head)
    with ablate(model, names) as chosen:
        torch.testing.assert_close(logits_of(model), logits_of(without), rtol=0, atol=0)
    assert chosen == [*(f"encoder.blocks.0.attn.{head}" for head in range(HEADS)), *names[:2]]
    assert not torch.equal(before, logits_of(without))
    torch.testing.assert_close(logits_of(model), before, rtol=0, atol=0)


def test_layers_that_share_a_block_lose_a_head_one_by_one() -> None:
    """Beside a model that stores both layers, with the same weights."""
    shared, stored = make_model(num_blocks=1), make_model()
    weights = shared.state_dict()
    copied = {name: weights[name.replace(".blocks.1.", ".blocks.0.")] for name in stored.state_dict()}
    stored.load_state_dict(copied)
    torch.testing.assert_close(logits_of(shared), logits_of(stored))
    for layer in range(2):
        without = deepcopy(stored)
        cut_out(without.decoder.blocks[layer].cross, 2)
        with ablate(shared, [f"decoder.blocks.{layer}.cross.2"]):
            torch.testing.assert_close(logits_of(shared), logits_of(without))


def test_generation_with_a_cache_is_without_the_head_too() -> None:
    model = make_model(num_blocks=1)
    ids = torch.arange(6)[None]
    with ablate(model, ["decoder.*"]):
        quick = gf.generate(model, ids, max_new_tokens=6, decoder_start_token_id=1)
        slow = model(ids, decoder_input_ids=quick[:, :-1]).logits.argmax(dim=-1)
    assert quick[0, 1:].tolist() == slow[0].tolist()


def test_an_exception_puts_the_heads_back() -> None:
    model = make_model()
    before = logits_of(model)
    with pytest.raises(RuntimeError), ablate(model, ["*"]):
        raise RuntimeError
    torch.testing.assert_close(logits_of(model), before, rtol=0, atol=0)


def test_every_attention_has_a_path() -> None:
    assert list(attention_sites(make_model(num_blocks=1))) == [
        "encoder.blocks.0.attn",
        "encoder.blocks.1.attn",
        "decoder.blocks.0.attn",
        "decoder.blocks.0.cross",
        "decoder.blocks.1.attn",
        "decoder.blocks.1.cross",
    ]
    assert choose_heads(make_model(), ["decoder.blocks.*.cross.2"]) == [
        "decoder.blocks.0.cross.2",
        "decoder.blocks.1.cross.2",
    ]


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        (["decoder.blocks.0.cross.3"], "no head '3' in decoder.blocks.0.cross: it has 3, counted from 0 to 2"),
        (["decoder.blocks.*.attn.7"], r"no head '7' in decoder.blocks.\*.attn: it has 3, counted from 0 to 2"),
        (["decoder.blocks.9.attn.0"], "the decoder has 2 layers, counted from 0 to 1"),
        (["decoder.blocks.1.cross"], r"names no head: give its number behind, as in decoder.blocks.1.cross.0"),
        (["encoder.blocks.0.cross.1"], "names no head: did you mean"),
        ([], "no head was named"),
        ("decoder.blocks.0.attn.0", "expected a list of names"),
    ],
    ids=str,
)
def test_a_head_that_does_not_exist(heads: Any, said: str) -> None:
    with pytest.raises(InputError, match=said), ablate(make_model(), heads):
        pass


SMALL = {"d_model": 12, "num_heads": 2, "num_layers": 2, "out": Path("unused")}


@pytest.mark.parametrize(
    "settings",
    [
        tasks.TranslateSettings(**SMALL, examples=60),
        tasks.ImagesSettings(**SMALL),
        tasks.ForecastSettings(**SMALL, length=48, horizon=4, patch=8),
    ],
    ids=lambda settings: settings.task,
)
def test_a_planted_redundant_head_is_worth_exactly_nothing(settings: tasks.TaskSettings) -> None:
    task = make_task(settings)
    task.model.eval()
    planted = "encoder.blocks.1.attn.1"
    cut_out(attention_sites(task.model)["encoder.blocks.1.attn"].attention, 1)
    found = task_importance(task, ["encoder.*"], examples=8)
    worth = {row.head: row.worse for row in found.heads}
    assert set(worth) == {f"encoder.blocks.{layer}.attn.{head}" for layer in range(2) for head in range(2)}
    assert set(worth[planted].values()) == {0.0}
    assert found.whole.count == 8
    assert found.together is not None
    first = next(iter(found.whole.metrics))
    assert [row.worse[first] for row in found.heads] == sorted((row[first] for row in worth.values()), reverse=True)
    console = Console(width=200, record=True, file=StringIO())
    show_importance(found, console)
    lines = console.export_text().splitlines()
    assert [line.split()[0] for line in lines[4:8]] == [row.head for row in found.heads]
    assert "nothing" in lines[3]
    assert "all 4 at once" in lines[8]


@pytest.mark.parametrize(
    "settings",
    [
        tasks.ImagesSettings(**SMALL),
        tasks.ForecastSettings(**SMALL, length=48, horizon=4, patch=8),
        pytest.param(tasks.TranslateSettings(**SMALL, examples=60), marks=pytest.mark.slow),
        pytest.param(tasks.ClassifySettings(**SMALL), marks=pytest.mark.slow),
        pytest.param(tasks.LmSettings(**SMALL, context=64, vocab_size=300), marks=pytest.mark.slow),
        pytest.param(tasks.MlmSettings(**SMALL, context=64, vocab_size=300), marks=pytest.mark.slow),
    ],
    ids=lambda settings: settings.task,
)
def test_scores_of_all_examples_are_those_of_evaluate(settings: tasks.TaskSettings) -> None:
    task = make_task(settings)
    task.model.eval()
    whole, some = task.evaluate(), task.score_some(10**9)
    assert some.metrics == pytest.approx(whole.metrics, rel=1e-5)
    assert (some.count, some.unit) == (whole.count, whole.unit)
    assert 0 < task.score_some(3).count < whole.count


def test_importance_as_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(
        "glassformer.inspect.looks.importance.draw_importance",
        lambda maps, *said: drawn.update(maps) or draw_importance(maps, *said),
    )
    rows = {"decoder.blocks.1.cross.0": 0.5, "encoder.blocks.0.attn.1": -0.25}
    heads = [Importance(head, {"bleu": 1.0 - worse}, {"bleu": worse}) for head, worse in rows.items()]
    found = Importances(Scores(metrics={"bleu": 1.0}, count=3, unit="pairs"), heads, None)
    picture_importance(found, tmp_path / "heads.png")
    assert list(drawn) == ["encoder self-attention", "decoder cross-attention"]
    np.testing.assert_array_equal(drawn["decoder cross-attention"], [[np.nan], [0.5]])
    np.testing.assert_array_equal(drawn["encoder self-attention"], [[np.nan, -0.25]])
    assert (tmp_path / "heads.png").stat().st_size > 2000


def test_no_examples_to_judge_by() -> None:
    task = make_task(tasks.TranslateSettings(**SMALL, examples=60))
    with pytest.raises(InputError, match="examples is 0: expected at least 1"):
        task_importance(task, examples=0)


def test_a_model_without_a_run_is_judged_on_files(tmp_path: Path) -> None:
    """Its task is named, as for `gf.evaluate`, which is the oracle of the whole model's score."""
    task = make_task(tasks.ClassifySettings(**SMALL))
    cut_out(attention_sites(task.model)["encoder.blocks.1.attn"].attention, 0)
    gf.save(task.model, tmp_path / "model", tokenizer=task.tokenizer)
    labels = list(task.model.labels["id2label"].values())
    rows = [f"the text of number {i},{labels[i % len(labels)]}" for i in range(12)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    how: dict[str, Any] = {"data": [tmp_path / "texts.csv"], "task": "classify"}
    found = head_importance(tmp_path / "model", ["encoder.blocks.1.attn.*"], **how)
    assert found.whole.metrics["accuracy"] == gf.evaluate(tmp_path / "model", **how).metrics["accuracy"]
    assert {row.head: set(row.worse.values()) for row in found.heads}["encoder.blocks.1.attn.0"] == {0.0}
    assert (found.whole.count, len(found.heads)) == (12, 2)
    with pytest.raises(InputError, match=r"has no run.json, .* say what it is for, such as --task classify"):
        head_importance(tmp_path / "model")
    with pytest.raises(InputError, match=r"has no run.json, .* give files to score with --data"):
        head_importance(tmp_path / "model", task="classify")
