"""A requested head that the file lacks is initialised, with a message; everything else comes from the file."""

from pathlib import Path

import pytest
import torch
from helpers.small_checkpoints import (
    IDS,
    Made,
    build,
    config_of,
    logits,
    opened_by_transformers,
    reconfigure,
    same_parameters,
)

import glassformer as gf
from glassformer.errors import InputError

Captured = pytest.CaptureFixture[str]


def said(capsys: Captured) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    return err


def base_of(model: gf.Transformer) -> dict[str, torch.Tensor]:
    return {name: value for name, value in model.named_parameters() if not name.startswith("head.")}


def test_a_class_head_for_a_masked_language_model(made: Made, tmp_path: Path, capsys: Captured) -> None:
    folder = made("BertForMaskedLM")
    model = gf.load(folder, head="class", num_classes=3)
    assert said(capsys) == (
        f"{folder} has no 'class' head. New and untrained: head.project.weight (16, 16), head.project.bias (16,), "
        "head.out.weight (3, 16), head.out.bias (3,)\n"
    )
    assert all(torch.equal(value, base_of(gf.load(folder))[name]) for name, value in base_of(model).items())
    assert model.head.out.weight.std() > 0.005
    assert model.head.out.bias.eq(0).all()
    gf.save(model, tmp_path / "judge")
    theirs = opened_by_transformers(tmp_path / "judge", "BertForSequenceClassification")
    assert theirs.config.num_labels == 3
    assert theirs.config.id2label == {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}
    assert torch.allclose(logits(theirs), logits(model), atol=1e-5)
    again = gf.load(tmp_path / "judge")
    assert same_parameters(again, model)
    assert said(capsys) == ""


def test_the_pooler_is_taken_from_a_file_that_has_one(tmp_path: Path, capsys: Captured) -> None:
    theirs = build("BertForPreTraining")
    theirs.save_pretrained(tmp_path)
    model = gf.load(tmp_path, head="class", num_classes=3)
    assert torch.equal(model.head.project.weight, theirs.bert.pooler.dense.weight)
    assert "untrained: head.out.weight (3, 16), head.out.bias (3,)\n" in said(capsys)


def test_a_language_head_does_not_touch_the_table_that_it_shares(made: Made, capsys: Captured) -> None:
    folder = made("BertForSequenceClassification")
    table = gf.load(folder).encoder.embed.tokens.weight.clone()
    model = gf.load(folder, head="language")
    assert model.head.out.weight is model.encoder.embed.tokens.weight
    assert torch.equal(model.encoder.embed.tokens.weight, table)
    assert "untrained: head.project.weight (16, 16), " in (words := said(capsys))
    assert words.endswith("head.out.bias (50,)\n")


@pytest.mark.parametrize("architecture", ["BertForMaskedLM", "BertModel", "GPT2LMHeadModel", "ModernBertForMaskedLM"])
def test_without_a_head(architecture: str, made: Made, tmp_path: Path, capsys: Captured) -> None:
    folder = made(architecture)
    model = gf.load(folder, head="none")
    assert model.head is None
    assert said(capsys) == ""
    with torch.no_grad():
        expected = gf.load(folder)(IDS).last_hidden_state
        assert torch.equal(model(IDS).last_hidden_state, expected)
    gf.save(model, tmp_path / "bare")
    assert config_of(tmp_path / "bare")["model_type"] == config_of(folder)["model_type"], "it is still of the family"
    assert same_parameters(gf.load(tmp_path / "bare"), model)


@pytest.mark.parametrize("architecture", ["BertForSequenceClassification", "LlamaForSequenceClassification"])
def test_a_head_that_is_there_is_loaded_in_silence(architecture: str, made: Made, capsys: Captured) -> None:
    folder = made(architecture)
    reconfigure(folder, id2label={"0": "bad", "1": "good"}, label2id={"bad": 0, "good": 1})
    expected = gf.load(folder)
    for asked in ({"head": "class"}, {"num_classes": 2}, {"head": "class", "num_classes": 2}):
        model = gf.load(folder, **asked)
        assert same_parameters(model, expected)
        assert model.about.settings["id2label"] == {"0": "bad", "1": "good"}
    assert said(capsys) == ""


@pytest.mark.parametrize("architecture", ["BertForSequenceClassification", "LlamaForSequenceClassification"])
@pytest.mark.parametrize("asked", [{"head": "class", "num_classes": 5}, {"num_classes": 5}], ids=str)
def test_another_number_of_classes(
    architecture: str, asked: dict[str, int], made: Made, tmp_path: Path, capsys: Captured
) -> None:
    folder = made(architecture)
    reconfigure(folder, num_labels=2)  # as older files have it
    model, before = gf.load(folder, **asked), gf.load(folder)
    assert model.head.out.weight.shape == (5, 16)
    assert "is replaced by a new one (classes: 5). New and untrained: head.out.weight (5, 16)" in said(capsys)
    kept = {name for name, _ in model.named_parameters() if not name.startswith("head.out.")}
    assert all(torch.equal(model.get_parameter(name), before.get_parameter(name)) for name in kept)
    gf.save(model, tmp_path / "five")
    theirs = opened_by_transformers(tmp_path / "five", architecture)
    assert theirs.config.num_labels == 5
    assert same_parameters(gf.load(tmp_path / "five"), model)


def test_the_last_layer_of_another_kind_of_head_is_not_taken_for_ones_own(made: Made, capsys: Captured) -> None:
    """Both are called `classifier` and have two rows, but one classifies tokens."""
    folder = made("BertForTokenClassification")
    model = gf.load(folder, head="class", num_classes=2)
    assert "head.out.weight (2, 16)" in said(capsys)
    assert not torch.equal(model.head.out.weight, gf.load(folder).head.out.weight)


def test_a_file_that_does_not_say_what_head_it_has(made: Made, capsys: Captured) -> None:
    folder = made("BertForMaskedLM")
    expected = gf.load(folder)
    reconfigure(folder, "architectures")
    assert same_parameters(gf.load(folder), expected), "it is seen by its tensors"
    assert same_parameters(gf.load(folder, head="language"), expected)
    reconfigure(folder, architectures=["BertForThinking"])
    assert same_parameters(gf.load(folder, head="language"), expected)
    assert said(capsys) == ""


def test_what_cannot_be_asked_for(made: Made) -> None:
    folder = made("BertForMaskedLM")
    for asked, message in (
        ({"num_classes": 3}, "num_classes is 3, but head 'language' has no classes: give head='class'"),
        ({"head": "span", "num_classes": 3}, "num_classes is 3, but head 'span' has no classes"),
        ({"head": "class", "num_classes": 0}, "num_classes is 0: expected a whole number of at least 1"),
        ({"head": "class", "num_classes": "3"}, "num_classes is '3': expected a whole number of at least 1"),
        ({"head": "class", "num_classes": 3.0}, "num_classes is 3.0: expected a whole number"),
        ({"image_size": 0}, "image_size is 0: expected a whole number of at least 1"),
        ({"image_size": -8}, "image_size is -8: expected a whole number"),
        ({"dtype": "banana"}, "dtype is 'banana': expected one of float32, float16, bfloat16"),
        ({"dtype": torch.float8_e4m3fn}, "dtype is torch.float8_e4m3fn: expected one of"),
        ({"head": "clas"}, r"head is 'clas', which a 'bert' model does not have: did you mean 'class'\?"),
        ({"image_size": 32}, "image_size is 32, but .* does not read images"),
    ):
        with pytest.raises(InputError, match=message):
            gf.load(folder, **asked)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    stack = gf.StackConfig(d_model=12, num_layers=2, num_heads=3, positions="learned", max_len=9)
    config = gf.TransformerConfig(encoder=stack, vocab_size=50, head="class", num_classes=2)
    gf.save(gf.Transformer(config), tmp_path / "own")
    return tmp_path / "own"


def test_heads_in_our_own_layout(own: Path, capsys: Captured) -> None:
    first = gf.load(own)
    assert same_parameters(gf.load(own, head="class", num_classes=2), first)
    assert gf.load(own, head="none").head is None
    assert said(capsys) == ""
    gf.load(own, num_classes=4)
    replaced = f"the head of {own} (classes: 2) is replaced by a new one (classes: 4). New and untrained: head.out"
    assert said(capsys).startswith(replaced)
    for asked, new in (
        ({"head": "token", "num_classes": 4}, "head.out.weight (4, 12), head.out.bias (4,)\n"),
        ({"head": "token", "num_classes": 2}, "head.out.weight (2, 12), head.out.bias (2,)\n"),
        ({"head": "span"}, "head.out.weight (2, 12), head.out.bias (2,)\n"),
    ):
        model = gf.load(own, **asked)
        assert said(capsys) == f"{own} has no {asked['head']!r} head. New and untrained: {new}"
        assert all(torch.equal(value, base_of(first)[name]) for name, value in base_of(model).items())
        gf.save(model, own.parent / "again")
        assert same_parameters(gf.load(own.parent / "again"), model)
    assert gf.load(own, head="language").head.out.weight is not None
    assert said(capsys) == "", "its matrix is the table of the file"
    with pytest.raises(InputError, match="num_classes is 4: only heads 'class' and 'token' have classes"):
        gf.load(own, head="span", num_classes=4)
    with pytest.raises(InputError, match="head is 'judge': expected one of"):
        gf.load(own, head="judge")


def test_a_new_head_has_the_dtype_of_the_rest(made: Made) -> None:
    model = gf.load(made("BertForMaskedLM"), head="class", num_classes=3, dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert all(p.is_meta for p in gf.load(made("BertForMaskedLM"), head="class", device="meta").parameters())


def test_a_head_that_does_without_the_decoder_leaves_it_in_the_file(made: Made, tmp_path: Path) -> None:
    model = gf.load(made("T5ForConditionalGeneration"), head="token", num_classes=3)
    assert model.decoder is None
    gf.save(model, tmp_path / "tagger")
    theirs = opened_by_transformers(tmp_path / "tagger", "T5ForTokenClassification")
    assert torch.allclose(logits(theirs), logits(model), atol=1e-5)
