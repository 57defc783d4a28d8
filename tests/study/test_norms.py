"""The norm study: its measurements against independent computations, its stored results, and its claims."""

import json
import math
import re
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import glassformer as gf
from glassformer.cli import main
from glassformer.errors import InputError, Stopped
from glassformer.study import norms
from glassformer.study.norms import measure_starts, open_study, study_norms
from glassformer.study.trials import Study, Trial, character_loss, gradient_norms, make_model, make_task, train
from glassformer.tasks.lm import LanguageModel
from glassformer.verbs.study_norms import StudyNormsSettings


def tiny(out: Path, **changes: object) -> StudyNormsSettings:
    small = {"out": str(out), "depths": [2, 1], "rates": [0.01], "steps": 3, "warmup": 2}
    return StudyNormsSettings.from_dict({**small, **changes})


def results_of(out: Path) -> Study:
    return Study.from_dict(json.loads((out / "norms.json").read_text(encoding="utf-8")))


@pytest.fixture(autouse=True)
def few_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norms, "INITIALISATIONS", 2)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than the runs of a tiny study."""
    monkeypatch.setattr(norms, "draw_norms", lambda study, path: None)


@pytest.fixture(scope="module")
def task() -> LanguageModel:
    return make_task(seed=0)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("studies") / "norms"
    main(["study", "norms", "--out", str(out), "--depths", "2", "1", "--rates", "0.01", "--steps=3", "--warmup=2"])
    return out


def test_the_numbers_hold_every_run(finished: Path) -> None:
    study = results_of(finished)
    expected = {(order, depth, 0.01, w) for order in ("pre", "post") for depth in (1, 2) for w in (0, 2)}
    assert {(r.trial.order, r.trial.depth, r.trial.rate, r.trial.warmup) for r in study.results} == expected
    for result in study.results:
        assert len(result.losses) == 3
        assert len(result.gradients) == result.trial.depth
        assert result.loss is not None
        assert 3 < result.loss < math.log(105) + 1
    assert {(start.order, start.depth): len(start.gradients) for start in study.starts} == {
        (order, depth): depth for order in ("pre", "post") for depth in (1, 2)
    }


def test_the_picture_is_one(finished: Path) -> None:
    from matplotlib.image import imread

    picture = imread(finished / "norms.png")
    assert picture.shape[1] > 1000
    white = (picture[..., :3] == 1).all(axis=-1)
    rows = np.array_split(white, 4)  # title and two rows of panels, and the summary below
    assert all(0.02 < 1 - row.mean() < 0.9 for row in rows), "a part of the figure is empty"


@pytest.mark.usefixtures("undrawn")
def test_finished_runs_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study_norms(tiny(tmp_path, depths=[1]))
    before = results_of(tmp_path).results
    trained: list[Trial] = []

    def watched(task: LanguageModel, trial: Trial, **how: object) -> object:
        trained.append(trial)
        return train(task, trial, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(norms, "train", watched)
    study_norms(tiny(tmp_path, depths=[1]))
    assert trained == []
    assert "runs: 4 finished and kept, 0 still to train" in capsys.readouterr().out
    study_norms(tiny(tmp_path, depths=[1], rates=[0.01, 0.02]))
    assert [trial.rate for trial in trained] == [0.02] * 4
    assert results_of(tmp_path).results[:4] == before


@pytest.mark.usefixtures("undrawn")
def test_what_does_not_fit_the_time_is_skipped_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study_norms(tiny(tmp_path, depths=[1], minutes=1e-9))
    shown = capsys.readouterr().out
    assert shown.count("skipped: needs about") == 4
    assert "runs skipped because of --minutes 1e-09: 4. Run the same command again to train them" in shown
    study_norms(tiny(tmp_path, depths=[1]))
    assert len(results_of(tmp_path).results) == 4


@pytest.mark.parametrize("order", ["pre", "post"])
def test_gradient_norms_are_those_of_finite_differences(order: str) -> None:
    """The reference moves each weight of the second matrix up and down a little, in float64."""
    torch.manual_seed(0)
    stack = gf.StackConfig.from_dict({"d_model": 4, "num_layers": 2, "num_heads": 2, "d_ff": 6, "norm_order": order})
    model = gf.Transformer(gf.TransformerConfig(decoder=stack, vocab_size=11, init="paper")).double()
    ids, labels = torch.randint(0, 11, (2, 5)), torch.randint(0, 11, (2, 5))

    def loss() -> torch.Tensor:
        return F.cross_entropy(model(ids).logits.flatten(0, 1), labels.flatten())

    measured = gradient_norms(model, loss())
    little, squares = 1e-5, [0.0, 0.0]
    with torch.no_grad():
        for layer in (0, 1):
            for row in model.get_parameter(f"decoder.blocks.{layer}.ffn.down.weight"):
                for place in range(len(row)):
                    row[place] += little
                    above = float(loss())
                    row[place] -= 2 * little
                    squares[layer] += ((above - float(loss())) / (2 * little)) ** 2
                    row[place] += little
    assert measured == pytest.approx([math.sqrt(square) for square in squares], rel=1e-6)


@pytest.mark.parametrize("warmup", [0, 3])
def test_a_run_is_plain_adam_on_these_batches(task: LanguageModel, warmup: int) -> None:
    """The losses equal those of a plain loop. Without warm-up, the first step has the full learning rate."""
    trial = Trial(order="post", depth=2, rate=0.01, warmup=warmup)
    result = train(task, trial, steps=4, seed=0, tell=lambda: None)
    model = make_model(task, "post", 2, seed=0)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    losses = []
    for step, examples in enumerate(task.batches(0)[:4], start=1):
        optimizer.param_groups[0]["lr"] = 0.01 * (min(1.0, step / warmup) if warmup else 1.0)
        batch = task.collate(examples, 0)
        logits = model(batch["input_ids"], documents=batch.get("documents")).logits
        loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert result.losses == pytest.approx(losses, abs=2e-4)


def test_the_bar_to_beat_is_the_frequency_of_characters(task: LanguageModel) -> None:
    assert task.corpora.valid is not None
    counts = Counter(task.corpora.trained.tokens.tolist())
    total = sum(counts.values()) + len(task.tokenizer)
    held_out = task.corpora.valid.tokens.tolist()
    surprise = -sum(math.log((counts[token] + 1) / total) for token in held_out) / len(held_out)
    assert character_loss(task) == pytest.approx(surprise, rel=1e-9)


def test_a_run_that_comes_apart_is_a_result(task: LanguageModel) -> None:
    trial = Trial(order="pre", depth=1, rate=1e38, warmup=0)
    result = train(task, trial, steps=5, seed=0, tell=lambda: None)
    assert result.loss is None
    assert len(result.losses) < 5
    study = Study(steps=5, warmup=2, seed=0, frequencies=3.2, results=(result,))
    assert study.outcome(result) == f"diverged at step {len(result.losses) + 1}"
    assert Study.from_dict(json.loads(json.dumps(study.to_dict()))) == study


def test_a_signal_ends_the_study(task: LanguageModel) -> None:
    trial = Trial(order="pre", depth=1, rate=0.01, warmup=0)
    with pytest.raises(Stopped, match="Finished runs are kept"):
        train(task, trial, steps=5, seed=0, tell=lambda: signal.raise_signal(signal.SIGINT))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"depths": []}, "--depths is .*expected one or more different numbers above 0"),
        ({"rates": [0.1, -1.0]}, "--rates is .*above 0"),
        ({"depths": [2, 2]}, "--depths is .*different"),
        ({"steps": 0}, "--steps is 0"),
        ({"minutes": -1.0}, "--minutes is -1"),
        ({"warmup": 4}, "--warmup is 4: expected 2 to --steps = 3"),
    ],
)
def test_bad_values_are_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny(tmp_path, **change)


def test_a_study_made_otherwise_is_not_mixed(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"was measured with steps 3, not 4. Choose another --out"):
        study_norms(tiny(finished, steps=4))
    (tmp_path / "norms.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(InputError, match=r"is not a norm study .*Choose another --out"):
        study_norms(tiny(tmp_path))


def test_at_the_start_post_norm_pushes_the_last_layers_hardest(
    task: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The theorem: in the last layer, the gradient of post-norm does not shrink with depth; that of pre-norm falls as
    one over the square root of the number of layers."""
    monkeypatch.setattr(norms, "INITIALISATIONS", 8)
    settings = tiny(tmp_path, depths=[3, 12])
    study = measure_starts(task, open_study(settings, 3.2), settings)
    last = {(start.order, start.depth): start.gradients[-1] for start in study.starts}
    assert last["post", 12] > 0.8 * last["post", 3]
    assert 0.35 < last["pre", 12] / last["pre", 3] < 0.7  # one half
    assert last["post", 12] > 1.7 * last["pre", 12]


def test_both_pages_show_what_was_measured() -> None:
    docs = Path(__file__).parents[2] / "docs"
    tables = [
        re.findall(r"<!-- (norm \w+) -->\n(.*?)<!-- /\1 -->", (docs / page).read_text(encoding="utf-8"), re.DOTALL)
        for page in ("norms.md", "norms.ko.md")
    ]
    figures = [[(name, re.findall(r"[\d.]+", text)) for name, text in page] for page in tables]
    assert figures[0] == figures[1]
    assert {name: text.count("\n") - 2 for name, text in tables[0]} == {"norm gradients": 3, "norm losses": 9}
    assert "not run" not in tables[0][1][1]
    assert (docs / "images" / "norms.png").stat().st_size < 250_000


@pytest.mark.slow
def test_twelve_layers_without_warm_up_learn_with_pre_norm_only(task: LanguageModel) -> None:
    losses = {}
    for order in ("pre", "post"):
        trial = Trial.from_dict({"order": order, "depth": 12, "rate": 3e-3, "warmup": 0})
        losses[order] = train(task, trial, steps=300, seed=0, tell=lambda: None).loss
    assert losses["pre"] is not None
    assert losses["pre"] < character_loss(task) - 0.4
    assert losses["post"] is None or losses["post"] > losses["pre"] + 0.3
