"""The loop, the schedule, the run folder."""

import json
from pathlib import Path

import pytest
import torch
from rich.console import Console

import glassformer as gf
from glassformer.errors import InputError
from glassformer.settings import TranslateSettings
from glassformer.tasks.predictors import translate
from glassformer.tasks.translate import Translate
from glassformer.train.run import check_free, run
from glassformer.train.schedule import paper_rate


def tiny(out: Path, **changes: object) -> TranslateSettings:
    small = {
        "steps": 3,
        "examples": 60,
        "d_model": 16,
        "num_layers": 1,
        "batch_tokens": 128,
        "warmup": 10,
        "dropout": 0.0,
    }
    return TranslateSettings.from_dict({"out": str(out), **small, **changes})


def quiet() -> Console:
    return Console(quiet=True)


def test_the_papers_rate_rises_in_a_line_and_falls_with_the_root() -> None:
    rates = [paper_rate(step, d_model=512, warmup=4000) for step in range(1, 16001)]
    assert max(rates) == rates[3999] == pytest.approx(512**-0.5 * 4000**-0.5)
    assert rates[1999] == pytest.approx(rates[3999] / 2)
    assert rates[15999] == pytest.approx(rates[3999] / 2)


def test_the_loss_is_smoothed_cross_entropy_of_the_shifted_target(tmp_path: Path) -> None:
    task = Translate(tiny(tmp_path / "run", label_smoothing=0.2))
    task.model.eval()
    batch = [4, 9]
    loss, tokens = task.loss(batch)
    alone = []
    for i in batch:
        source, target = task.examples[i]
        shifted = torch.tensor([[task.tokenizer.bos_token_id, *target[:-1]]])
        logits = task.model(torch.tensor([source]), decoder_input_ids=shifted).logits[0]
        log_p, truth = logits.log_softmax(-1), torch.tensor(target)
        likelihood = log_p.gather(1, truth[:, None])[:, 0]
        alone.append(-(0.8 * likelihood + 0.2 * log_p.mean(-1)))
    assert tokens == sum(len(losses) for losses in alone)
    assert loss.item() == pytest.approx(torch.cat(alone).mean().item(), abs=1e-5)


def test_a_run_learns_and_everything_is_written(tmp_path: Path) -> None:
    settings = tiny(tmp_path / "run", steps=60, warmup=20)
    task = Translate(settings)
    results = run(task, settings, quiet(), verb="train translate")
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert metrics[-1]["step"] == 60
    assert metrics[-1]["loss"] < 0.7 * metrics[0]["loss"]
    record = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert record["task"] == "translate"
    assert TranslateSettings.from_dict(record["settings"]) == settings
    assert record["results"]["exact_match"] == results["exact_match"]
    assert not (tmp_path / "run.partial").exists()
    again, tokenizer = gf.load(tmp_path / "run"), gf.load_tokenizer(tmp_path / "run")
    texts = [pair.source for pair in task.held_out[:5]]
    assert translate(again, tokenizer, texts) == translate(task.model, task.tokenizer, texts)
    assert gf.pipeline(tmp_path / "run")(texts) == translate(again, tokenizer, texts, batch_size=2)


def test_the_seed_decides_everything(tmp_path: Path) -> None:
    def weights(seed: int) -> torch.Tensor:
        settings = tiny(tmp_path / f"run{seed}", seed=seed, dropout=0.1, overwrite=True)
        task = Translate(settings)
        run(task, settings, quiet(), verb="train translate")
        return torch.cat([p.detach().flatten() for p in task.model.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1)[:999], weights(2)[:999])


def test_exact_match_counts_what_is_right_to_the_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Translate(tiny(tmp_path / "run"))
    guesses = [pair.target for pair in task.held_out]
    guesses[7] += " "
    monkeypatch.setattr("glassformer.tasks.translate.translate", lambda *_: guesses)
    assert task.evaluate()["exact_match"] == pytest.approx(1 - 1 / len(guesses))


def test_perplexity_is_of_all_held_out_tokens_without_smoothing(tmp_path: Path) -> None:
    task = Translate(tiny(tmp_path / "run", label_smoothing=0.3))
    task.model.eval()
    examples = task.encode(task.held_out)
    alone = [task.model(torch.tensor([source]), labels=torch.tensor([target])).loss for source, target in examples]
    lengths = torch.tensor([len(target) for _, target in examples])
    expected = ((torch.stack(alone) * lengths).sum() / lengths.sum()).exp()
    assert task.evaluate()["perplexity"] == pytest.approx(expected.item(), rel=1e-4)


def test_a_finished_run_is_not_overwritten_unasked(tmp_path: Path) -> None:
    settings = tiny(tmp_path / "run")
    run(Translate(settings), settings, quiet(), verb="train translate")
    with pytest.raises(InputError, match="holds a finished run: choose another folder, or replace it with --overwrite"):
        check_free(settings)
    check_free(settings.replace(overwrite=True))
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(InputError, match="with other things in it"):
        check_free(settings.replace(out=tmp_path / "photos", overwrite=True))
    with pytest.raises(InputError, match="is a file"):
        check_free(settings.replace(out=tmp_path / "photos" / "cat.jpg"))


def test_a_training_that_breaks_leaves_the_old_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tiny(tmp_path / "run")
    run(Translate(settings), settings, quiet(), verb="train translate")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    task = Translate(settings.replace(seed=5, overwrite=True))
    monkeypatch.setattr(task, "loss", lambda batch: (torch.tensor(float("nan"), requires_grad=True), 1))
    with pytest.raises(InputError, match=r"the loss is nan at step 1: lower --rate-scale"):
        run(task, settings.replace(overwrite=True), quiet(), verb="train translate")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"], "nothing is left behind"


def test_what_was_trained_is_kept_when_scoring_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> dict[str, float]:
        raise KeyboardInterrupt

    settings = tiny(tmp_path / "run")
    task = Translate(settings)
    monkeypatch.setattr(task, "evaluate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(task, settings, quiet(), verb="train translate")
    assert gf.pipeline(tmp_path / "run")(["May 1st, 2031"])


def test_translations_come_in_the_order_of_the_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a model that says what it hears: however the batches are made, each text has its own answer."""
    task = Translate(tiny(tmp_path / "run"))
    monkeypatch.setattr("glassformer.tasks.predictors.generate", lambda model, ids, **_: ids)
    texts = [pair.source for pair in task.pairs[:9]]
    assert [len(text) for text in texts] != sorted(len(text) for text in texts)
    assert translate(task.model, task.tokenizer, texts, batch_size=2) == texts
    with pytest.raises(InputError, match="expected a list of texts"):
        translate(task.model, task.tokenizer, "May 1st")


def test_the_loop_takes_the_steps_of_adam_with_clipped_gradients(tmp_path: Path) -> None:
    """The same steps by hand, with torch's own optimiser on a copy of the model."""
    settings = tiny(tmp_path / "run", steps=3, clip=0.1, rate_scale=0.5)
    task, other = Translate(settings), Translate(settings)
    adam = torch.optim.Adam(other.model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    for step, batch in enumerate(other.batches(0)[:3], start=1):
        loss, _ = other.loss(batch)
        gradients = torch.autograd.grad(loss, list(other.model.parameters()))
        norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
        assert norm > 0.1, "the clip must matter"
        for parameter, gradient in zip(other.model.parameters(), gradients, strict=True):
            parameter.grad = gradient * (0.1 / norm)
        adam.param_groups[0]["lr"] = 0.5 * paper_rate(step, d_model=16, warmup=10)
        adam.step()
    run(task, settings, quiet(), verb="train translate")
    for (name, ours), expected in zip(task.model.named_parameters(), other.model.parameters(), strict=True):
        if not name.endswith("k.bias"):  # softmax does not depend on it: its gradient is rounding, which Adam blows up
            torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-4)


def test_pairs_of_the_user_are_split_once_and_for_all(tmp_path: Path) -> None:
    lines = [f"word {i}\t단어 {i}" for i in range(40)]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines), encoding="utf-8")
    task = Translate(tiny(tmp_path / "run", data=str(tmp_path / "pairs.tsv"), held_out=0.1, vocab_size=100))
    assert len(task.held_out) == 4
    assert len(task.pairs) == 36
    assert not set(task.pairs) & set(task.held_out)
    (tmp_path / "doubles.tsv").write_text("".join(f"w {i % 9}\tv {i % 9}\n" for i in range(90)), encoding="utf-8")
    doubled = Translate(tiny(tmp_path / "run", data=str(tmp_path / "doubles.tsv"), vocab_size=100))
    assert not {pair.source for pair in doubled.pairs} & {pair.source for pair in doubled.held_out}
    (tmp_path / "one.tsv").write_text("a\tb\n", encoding="utf-8")
    with pytest.raises(InputError, match="has 1 pairs: too few"):
        Translate(tiny(tmp_path / "run", data=str(tmp_path / "one.tsv")))
