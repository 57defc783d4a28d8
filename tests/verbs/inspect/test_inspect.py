"""The verb inspect: each look as a table or a picture, as JSON, and what it refuses."""

import json
import re
from pathlib import Path

import pytest
import torch
from helpers.command import run

import glassformer as gf
from glassformer.data.dates import date_pairs


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two stacks with a tokenizer, saved; it has learned nothing."""
    folder = tmp_path_factory.mktemp("translator")
    pairs = date_pairs(200, seed=0)
    tokenizer = gf.train_tokenizer([text for pair in pairs for text in (pair.source, pair.target)], vocab_size=300)
    torch.manual_seed(0)
    stack = gf.StackConfig(d_model=16, num_layers=2, num_heads=2)
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": 0}
    config = gf.TransformerConfig(
        encoder=stack, decoder=stack, vocab_size=len(tokenizer), decoder_start_token_id=ids["bos_token_id"], **ids
    )
    gf.save(gf.Transformer(config), folder, tokenizer=tokenizer)
    return folder


def printed(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    assert run("inspect", *args) == 0
    return capsys.readouterr().out


def test_shapes_as_table_json_and_page(translator: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real = sum(parameter.numel() for parameter in gf.load(translator).parameters())
    found = json.loads(printed(capsys, translator, "--shapes", "--json", "--batch", 2, "--length", 7))
    assert found["parameters"] == real == sum(line["parameters"] for line in found["lines"])
    shapes = {line["name"]: line["shape"] for line in found["lines"]}
    assert shapes["encoder.blocks.1.attn.q"] == [2, 2, 7, 8]
    assert shapes["loss"] == []
    whole, folded = (printed(capsys, translator, "--shapes", *more) for more in ([], ["--fold"]))
    assert f"{real:,}" in whole
    assert f"{real:,}" in folded
    assert len(folded.splitlines()) < len(whole.splitlines())
    page = tmp_path / "shapes.html"
    assert str(page) in printed(capsys, translator, "--shapes", "--html", page)
    text = page.read_text(encoding="utf-8")
    assert "cross.scores" in text
    assert f"{real:,}" in text


def test_a_config_without_weights_is_enough(
    translator: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text((translator / "config.json").read_text())
    with_weights = printed(capsys, translator, "--shapes", "--json")
    assert json.loads(printed(capsys, tmp_path, "--shapes", "--json")) == json.loads(with_weights)
    assert "100.0" in printed(capsys, tmp_path)
    changes = json.loads(printed(capsys, "base", "--diff", "big", "--json"))
    assert {"encoder.d_model", "decoder.num_heads"} <= {change["path"] for change in changes}
    assert "no difference" in printed(capsys, tmp_path, "--diff", translator)


def test_pairs_go_to_standard_output_alone(
    translator: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("inspect", translator, "--align", "May 1st, 2031", "--target", "2031년 5월 1일") == 0
    shown = capsys.readouterr()
    pairs = [tuple(map(int, pair.split("-"))) for pair in shown.out.split()]
    assert {j for _, j in pairs} == {0, 1, 2}
    assert (translator / "alignment.png").is_file()
    lines = tmp_path / "lines.tsv"
    lines.write_text("May 1st, 2031\t2031년 5월 1일\nMay 2, 2031\t2031년 5월 2일\n", encoding="utf-8")
    assert len(printed(capsys, translator, "--align-file", lines).splitlines()) == 2
    found = json.loads(printed(capsys, translator, "--align", "May 1st, 2031", "--target", "2031년 5월 1일", "--json"))
    assert found["target_words"] == ["2031년", "5월", "1일"]


def test_a_step_names_its_lines(translator: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys, translator, "--step", "May 1st, 2031", "--part", "encoder", "--layer", 1, "--head", 1)
    assert "core/attention.py:" in shown
    assert "softmax" in shown
    assert json.loads(printed(capsys, translator, "--step", "May 1st, 2031", "--json"))


def test_pictures_are_named_by_what_was_chosen(translator: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags, name in (
        (["--attention", "May 1st, 2031", "--average"], "attention-cross-average.png"),
        (["--attention", "May 1st, 2031", "--rollout", "--part", "encoder"], "attention-encoder-rollout.png"),
        (["--lens", "May 1st, 2031"], "lens.png"),
        (["--positions", "--part", "decoder"], "positions.png"),
    ):
        assert printed(capsys, translator, *flags).strip().endswith(name)
        assert (translator / name).stat().st_size > 5_000


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--shapes", "--length", "0"], "length is 0"),
        (["--shapes", "--picture", "x.png"], "--picture belongs to --attention or --lens"),
        (["--shapes", "--html", "nowhere/x.html"], "there is no folder nowhere"),
        (["--fold"], "--fold belongs to --shapes: give it there"),
        (["--ablate"], "--ablate names no head"),
        (["--target", "x"], "--target belongs to --align or --step"),
        (["--diff", "nowhere"], "nowhere"),
        (["--positions", "--part", "cross"], "choose encoder or decoder"),
        (["--align", " "], "is empty"),
        (["--step", ""], "is empty"),
        (["--step", "May", "--head", "2"], "--head is 2: this model has 2"),
        (["--lens", " "], "is empty"),
        (["--ablate", "*"], "has no run.json"),
    ],
)
def test_bad_input_is_one_sentence(
    translator: Path, flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("inspect", translator, *flags) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "Traceback" not in error
    assert re.search(said, error), error
