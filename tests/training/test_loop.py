"""The loop against the same steps by hand, and the files of a run."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.tiny_runs import FakeClock, few, tiny, train, weights_of

import glassformer as gf
from glassformer.errors import InputError
from glassformer.predict.writing import translate
from glassformer.tasks.classify import Classify
from glassformer.tasks.settings import ClassifySettings, TranslateSettings
from glassformer.tasks.translate import Translate
from glassformer.training.folder import check_free
from glassformer.training.loop import check_precision
from glassformer.training.schedule import peak_rate, rate_factor


def test_the_papers_rate_rises_in_a_line_and_falls_with_the_root(tmp_path: Path) -> None:
    settings = tiny(tmp_path, optimizer="adam", schedule="inverse-sqrt", warmup=4000)
    assert peak_rate(settings, 512) == pytest.approx(512**-0.5 * 4000**-0.5)
    rates = [rate_factor(settings, step, 0.5, 4000) for step in range(1, 16001)]  # whatever is left
    assert max(rates) == rates[3999] == 1
    assert rates[1999] == pytest.approx(0.5)
    assert rates[15999] == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["constant", "linear", "cosine", "stable-decay"])
def test_the_other_schedules_rise_and_end_where_they_say(name: str, tmp_path: Path) -> None:
    settings = tiny(tmp_path, schedule=name, rate=0.01, warmup=10, final_rate=0.1)
    rates = [rate_factor(settings, step, min(1.0, (110 - step) / 100), 10) for step in range(1, 111)]
    assert rates[:10] == pytest.approx([step / 10 for step in range(1, 11)])
    assert rates == [*rates[:10], *sorted(rates[10:], reverse=True)]
    assert rates[-1] == pytest.approx({"constant": 1.0}.get(name, 0.1))
    middle = {"constant": 1.0, "linear": 0.55, "cosine": 0.55, "stable-decay": 1.0}[name]
    assert rates[59] == pytest.approx(middle)


def test_the_rate_of_a_run_goes_up_and_down_without_a_jump(tmp_path: Path) -> None:
    train(tiny(tmp_path / "run", steps=40, schedule="cosine", rate=0.01, warmup=8))
    entries = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    rates = [entry["rate"] for entry in entries if "rate" in entry]
    assert max(rates) == rates[7] == pytest.approx(0.01)
    assert rates[-1] < 0.0012
    assert max(abs(a - b) for a, b in pairwise(rates)) < 0.0013


def test_the_loss_is_smoothed_cross_entropy_of_the_shifted_target(tmp_path: Path) -> None:
    task = Translate(tiny(tmp_path / "run", label_smoothing=0.2))
    task.model.eval()
    chosen = [4, 9]
    batch = task.collate(chosen, epoch=0)
    labels = batch.pop("labels")
    loss = task.loss(task.model(**batch).logits, labels)
    alone = []
    for i in chosen:
        source, target = task.examples[i]
        shifted = torch.tensor([[task.tokenizer.bos_token_id, *target[:-1]]])
        logits = task.model(torch.tensor([source]), decoder_input_ids=shifted).logits[0]
        log_p, truth = logits.log_softmax(-1), torch.tensor(target)
        likelihood = log_p.gather(1, truth[:, None])[:, 0]
        alone.append(-(0.8 * likelihood + 0.2 * log_p.mean(-1)))
    assert task.weight(labels) == sum(len(losses) for losses in alone)
    assert loss.item() == pytest.approx(torch.cat(alone).sum().item(), rel=1e-5)


def test_a_run_learns_and_everything_is_written(tmp_path: Path) -> None:
    settings = tiny(tmp_path / "run", steps=60, warmup=20)
    task, scores = train(settings)
    entries = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = [entry for entry in entries if "loss" in entry]
    assert steps[-1]["step"] == 60
    assert steps[-1]["loss"] < 0.7 * steps[0]["loss"]
    validated = [entry["valid_loss"] for entry in entries if "valid_loss" in entry]
    assert len(validated) == 10
    assert validated[-1] < validated[0]
    record = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert record["task"] == "translate"
    assert TranslateSettings.from_dict(record["settings"]) == settings
    assert record["results"]["exact_match"] == scores.metrics["exact_match"]
    assert not list(tmp_path.rglob("*partial*"))
    again, tokenizer = gf.load(tmp_path / "run"), gf.load_tokenizer(tmp_path / "run")
    texts = [pair.source for pair in task.valid[:5]]
    assert translate(again, tokenizer, texts) == translate(task.model, task.tokenizer, texts)
    assert gf.pipeline(tmp_path / "run")(texts) == translate(again, tokenizer, texts, batch_size=2)


def test_the_seed_decides_everything(tmp_path: Path) -> None:
    def weights(name: str, seed: int) -> torch.Tensor:
        return weights_of(train(tiny(tmp_path / name, seed=seed, dropout=0.1))[0])

    first = weights("a", 1)
    assert torch.equal(first, weights("b", 1))
    assert not torch.equal(first[:999], weights("c", 2)[:999])


def test_exact_match_counts_what_is_right_to_the_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Translate(tiny(tmp_path / "run"))
    guesses = [pair.target for pair in task.test]
    guesses[7] += " "
    monkeypatch.setattr("glassformer.tasks.translate.translate", lambda *_, **__: guesses)
    metrics = task.evaluate().metrics
    assert metrics["exact_match"] == pytest.approx(1 - 1 / len(guesses))
    assert metrics["bleu"] == pytest.approx(100)


def test_perplexity_is_of_all_held_out_tokens_without_smoothing(tmp_path: Path) -> None:
    task = few(Translate(tiny(tmp_path / "run", label_smoothing=0.3)))
    task.model.eval()
    examples = task.encode(task.test)
    alone = [task.model(torch.tensor([source]), labels=torch.tensor([target])).loss for source, target in examples]
    lengths = torch.tensor([len(target) for _, target in examples])
    expected = ((torch.stack(alone) * lengths).sum() / lengths.sum()).exp()
    assert task.evaluate().metrics["perplexity"] == pytest.approx(expected.item(), rel=1e-4)


def test_a_finished_run_is_not_overwritten_unasked(tmp_path: Path) -> None:
    settings = tiny(tmp_path / "run")
    train(settings)
    with pytest.raises(InputError, match=r"holds a finished run: .* continue the run \(--resume\) or replace it"):
        check_free(settings)
    check_free(settings.replace(overwrite=True))
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(InputError, match="with other files in it"):
        check_free(settings.replace(out=tmp_path / "photos", overwrite=True))
    with pytest.raises(InputError, match="is a file"):
        check_free(settings.replace(out=tmp_path / "photos" / "cat.jpg"))


def test_a_training_that_breaks_leaves_the_old_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tiny(tmp_path / "run", rate=0.001)
    train(settings)
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    task = Translate(settings.replace(seed=5, overwrite=True))
    monkeypatch.setattr(task, "loss", lambda logits, labels: logits.sum() * float("nan"))
    with pytest.raises(InputError, match=r"the loss is nan at step 1, on examples [\d, .]+ of the .*Lower --rate"):
        train(settings.replace(seed=5, overwrite=True), task)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"], "nothing is left behind"


def test_weights_that_are_no_numbers_are_never_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tiny(tmp_path / "run", metric="exact_match")
    task = few(Translate(settings))
    monkeypatch.setattr(task, "validate", lambda _: {"loss": float("nan"), "exact_match": 0.5})
    with pytest.raises(InputError, match="the validation loss is nan at step 1; there is no checkpoint yet"):
        train(settings, task)


def test_with_a_budget_of_minutes_the_rate_arrives_and_evaluations_are_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeClock(monkeypatch)
    train(tiny(tmp_path / "run", steps=None, minutes=0.3, schedule="linear", rate=0.001, warmup=2))
    entries = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    validated = [entry["step"] for entry in entries if "valid_loss" in entry]
    assert len(validated) == 10
    assert [entry["rate"] for entry in entries if "rate" in entry][-1] < 0.0002


def test_a_short_run_reaches_its_rate_although_its_warm_up_is_long(tmp_path: Path) -> None:
    settings = tiny(tmp_path / "run", steps=12, schedule="cosine", rate=0.01, warmup=400)
    train(settings.as_given([]))
    entries = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    rates = [entry["rate"] for entry in entries if "rate" in entry]
    assert max(rates) == rates[2] == pytest.approx(0.01)
    assert rates[-1] < 0.003
    record = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert record["plan"]["warmup"] == 3
    assert record["settings"]["warmup"] == 400


def test_of_equal_scores_the_lower_loss_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tiny(tmp_path / "run", steps=6, eval_every=1, metric="exact_match", checkpoint_every=1)
    losses = iter([3.0, 2.0, 2.5, 1.0, 1.5, 1.0])
    task = few(Translate(settings))
    monkeypatch.setattr(task, "validate", lambda _: {"loss": next(losses), "exact_match": 0.5})
    train(settings, task)
    record = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert record["kept"] == "the weights of step 4, the best on the validation set"
    state = json.loads((tmp_path / "run" / "checkpoints" / "step-00000006" / "state.json").read_text())
    assert (state["best"], state["best_loss"], state["best_step"], state["stale"]) == (0.5, 1.0, 4, 2)


def test_what_was_trained_is_kept_when_scoring_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> dict[str, float]:
        raise KeyboardInterrupt

    settings = tiny(tmp_path / "run")
    task = few(Translate(settings))
    monkeypatch.setattr(task, "evaluate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(settings, task)
    assert gf.pipeline(tmp_path / "run")(["May 1st, 2031"])


def test_translations_come_in_the_order_of_the_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a model that repeats its input: each text gets its own answer, whatever the batches."""
    task = Translate(tiny(tmp_path / "run"))
    monkeypatch.setattr("glassformer.predict.writing.generate", lambda model, ids, **_: ids)
    texts = [pair.source for pair in task.pairs[:9]]
    assert [len(text) for text in texts] != sorted(len(text) for text in texts)
    assert translate(task.model, task.tokenizer, texts, batch_size=2) == texts
    with pytest.raises(InputError, match="expected a list of texts"):
        translate(task.model, task.tokenizer, "May 1st")


def by_hand(settings: TranslateSettings, optimizer: type[torch.optim.Optimizer], decay: float) -> Translate:
    """Three steps with torch's own optimiser, clipping written out."""
    task = Translate(settings)
    parameters = list(task.model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    chosen = optimizer(groups, lr=1.0, betas=(0.9, 0.98), eps=1e-9)  # type: ignore[call-arg]
    for step, examples in enumerate(task.batches(0)[:3], start=1):
        batch = task.collate(examples, epoch=0)
        labels = batch.pop("labels")
        logits = task.model(**batch).logits
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=settings.label_smoothing)
        gradients = torch.autograd.grad(loss, parameters)
        norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
        assert norm > settings.clip, "clipping must have an effect"
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient * (settings.clip / norm)
        for group in chosen.param_groups:
            group["lr"] = peak_rate(settings, 16) * rate_factor(settings, step, 1.0, settings.warmup)
        chosen.step()
    return task


@pytest.mark.parametrize(("name", "decay"), [("adam", 0.0), ("adamw", 0.5)])
def test_the_loop_takes_the_steps_of_torch_with_clipped_gradients(name: str, decay: float, tmp_path: Path) -> None:
    settings = tiny(tmp_path / "run", clip=0.1, optimizer=name, weight_decay=0.5)
    expected = by_hand(settings, {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name], decay)
    task, _ = train(settings)
    for (path, ours), theirs in zip(task.model.named_parameters(), expected.model.parameters(), strict=True):
        if not path.endswith("k.bias"):  # softmax does not depend on it: its gradient is rounding, which Adam amplifies
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_what_is_left_out_is_counted_and_what_is_too_long_is_named_by_its_line(tmp_path: Path) -> None:
    lines = [
        "source\ttarget",
        *(f"word {i}\t단어 {i}" for i in range(40)),
        "\tleer",
        "word 1\t단어 1",
        "word 2\t단어 2",
    ]
    data = tmp_path / "pairs.tsv"
    data.write_text("\n".join(lines), encoding="utf-8")
    common = {"data": [str(data)], "valid_fraction": 0.4, "vocab_size": 100}
    task = Translate(tiny(tmp_path / "run", **common, skip_empty=True))
    pairs = [*task.pairs, *task.valid]
    assert not any(pair.source == "source" for pair in pairs), "the first line names the columns"
    said = task.describe()["data"]
    assert "; 1 empty ones left out (--skip-empty)" in said
    assert (f"; {task.doubles:,} left out because their source is held out" in said) == bool(task.doubles)
    assert len(pairs) + task.doubles == 42
    with pytest.raises(InputError, match=r"pairs.tsv, line 42: the source is empty"):
        Translate(tiny(tmp_path / "run", **common))
    data.write_text("\n".join(["a\tb", "c\td", "qwertzuiopasdfghjklyxcvbnm\tf", "g\th"]), encoding="utf-8")
    with pytest.raises(
        InputError, match=r"pairs.tsv, line 3: the source has \d+ tokens, but the model takes at most 20"
    ):
        Translate(tiny(tmp_path / "run", **common, max_len=20, seed=4))


def test_words_cut_anew_never_lose_their_end(tmp_path: Path) -> None:
    task = Translate(tiny(tmp_path / "run", subword_dropout=0.9))
    long = max(range(len(task.pairs)), key=lambda i: len(task.examples[i][1]))
    task.cutter.limit = len(task.examples[long][1])
    for epoch in range(5):
        row = task.cutter.sampled(task.pairs[long].target, task.examples[long][1], epoch, long)
        assert row[-1] == task.tokenizer.eos_token_id


@pytest.mark.parametrize("task", ["translate", "classify"])
def test_batches_of_texts_tokenised_at_random_keep_their_size(task: str, tmp_path: Path) -> None:
    """Batches planned from the usual tokens hold up to twice as many."""
    common = {"subword_dropout": 0.5, "batch_tokens": 256, "vocab_size": 300}
    if task == "translate":
        made: Any = Translate(tiny(tmp_path / "run", **common))
        number = len(made.pairs)
    else:
        made = Classify(ClassifySettings(out=tmp_path / "run", examples="documentation", max_len=256, **common))
        number = len(made.train)
    drawn = []
    for epoch in (0, 1):
        batches = made.batches(epoch)
        drawn.append(made.collate([0], epoch)["input_ids"].tolist())
        assert sorted(i for batch in batches for i in batch) == list(range(number))
        for numbers in batches:
            batch = made.collate(numbers, epoch)
            assert max(x.numel() for x in batch.values() if x.ndim == 2) <= 256
    assert drawn[0] != drawn[1]
    assert made.collate([0], 0)["input_ids"].tolist() == drawn[0]


def test_what_a_loaded_model_has_itself_is_refused_by_name(tmp_path: Path) -> None:
    for name, value in (("dropout", 0.0), ("norm_order", "pre"), ("preset", "base"), ("vocab_size", 999)):
        flag = f"--{name.replace('_', '-')}"
        own = dict.fromkeys(("d_model", "num_layers", "num_heads", "dropout"))
        with pytest.raises(InputError, match=f"{flag} is .*: the loaded model .--init. has its own"):
            tiny(tmp_path / "run", init="somewhere", **{**own, name: value})


def test_pairs_of_the_user_are_split_once_and_for_all(tmp_path: Path) -> None:
    lines = [f"word {i}\t단어 {i}" for i in range(40)]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines), encoding="utf-8")
    task = Translate(tiny(tmp_path / "run", data=[str(tmp_path / "pairs.tsv")], valid_fraction=0.1, vocab_size=100))
    assert len(task.valid) == 4
    assert len(task.pairs) == 36
    assert not set(task.pairs) & set(task.valid)
    (tmp_path / "doubles.tsv").write_text("".join(f"w {i % 9}\tv {i % 9}\n" for i in range(90)), encoding="utf-8")
    doubled = Translate(tiny(tmp_path / "run", data=[str(tmp_path / "doubles.tsv")], vocab_size=100))
    assert not {pair.source for pair in doubled.pairs} & {pair.source for pair in doubled.valid}
    (tmp_path / "one.tsv").write_text("a\tb\n", encoding="utf-8")
    with pytest.raises(InputError, match="has 1 example: expected at least 2"):
        Translate(tiny(tmp_path / "run", data=[str(tmp_path / "one.tsv")]))


def test_a_metric_that_the_task_does_not_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Translate, "validate", lambda *_: {"loss": 1.0})
    with pytest.raises(InputError, match=r"--metric perplexity was not measured\. Choose from loss"):
        train(tiny(tmp_path / "run", metric="perplexity"))


def test_half_precision_is_taken_only_where_it_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    with pytest.raises(InputError, match="--precision float16 needs a GPU"):
        check_precision("float16", cpu)
    seconds = {torch.float32: 1.0, torch.bfloat16: 3.0}
    monkeypatch.setattr("glassformer.training.loop.time_product", lambda dtype, device: seconds[dtype])
    with pytest.raises(InputError, match=r"a matrix product takes 3\.0 times as long as in float32. Leave it out"):
        check_precision("bfloat16", cpu)
    seconds[torch.bfloat16] = 0.5
    check_precision("bfloat16", cpu)
