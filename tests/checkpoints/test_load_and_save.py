"""Model folders: a saved model loads bit for bit, an error names what does not fit, nothing is left half-written."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer as gf
from glassformer.errors import InputError

STACK = gf.StackConfig(d_model=12, num_layers=2, num_heads=3, layer_kinds=(gf.LayerKind(window=3), gf.LayerKind()))


def models() -> dict[str, gf.TransformerConfig]:
    return {
        "both": gf.TransformerConfig(encoder=STACK, decoder=STACK, vocab_size=30),
        "two vocabularies": gf.TransformerConfig(encoder=STACK, decoder=STACK, vocab_size=30, target_vocab_size=20),
        "relative": gf.TransformerConfig(decoder=STACK.replace(positions="relative"), vocab_size=30),
        "factorised": gf.TransformerConfig(encoder=STACK, vocab_size=30, embed_dim=5, embed_norm=True, num_segments=2),
    }


@pytest.mark.parametrize("name", models())
def test_save_then_load_is_the_same_model(name: str, tmp_path: Path) -> None:
    model = gf.Transformer(models()[name]).eval()
    gf.save(model, tmp_path / "model")
    again = gf.load(tmp_path / "model")
    assert again.config == model.config
    assert not again.training
    ids = torch.randint(0, 20, (2, 6))
    more = {"decoder_input_ids": ids} if model.encoder is not None and model.decoder is not None else {}
    assert torch.equal(again(ids, **more).logits, model(ids, **more).logits)


def test_a_pooler_of_our_own_format(tmp_path: Path) -> None:
    """Our own files always contain the pooler of their config; a family's file may lack it."""
    model = gf.Transformer(gf.TransformerConfig(encoder=STACK, vocab_size=30, head="pool", pooling="first")).eval()
    gf.save(model, tmp_path / "model")
    again = gf.load(tmp_path / "model")
    assert again.config == model.config
    ids = torch.randint(0, 20, (2, 6))
    assert torch.equal(again(ids).pooled, model(ids).pooled)


def test_a_shared_table_is_stored_once_and_stays_shared(tmp_path: Path) -> None:
    model = gf.Transformer(models()["both"])
    gf.save(model, tmp_path / "model")
    stored = load_file(tmp_path / "model" / "model.safetensors")
    assert sum(tensor.shape == (30, 12) for tensor in stored.values()) == 1
    again = gf.load(tmp_path / "model")
    assert again.encoder.embed.tokens.weight is again.decoder.embed.tokens.weight is again.head.out.weight


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    gf.save(gf.Transformer(models()["relative"]), tmp_path / "model")
    return tmp_path / "model"


def test_missing_unexpected_and_misshapen_tensors_are_listed(saved: Path) -> None:
    tensors = load_file(saved / "model.safetensors")
    tensors["decoder.blocks.9.attn.q.weight"] = tensors.pop("decoder.blocks.1.attn.q.weight")
    tensors["decoder.norm.bias"] = torch.zeros(13)
    save_file(tensors, saved / "model.safetensors")
    with pytest.raises(InputError) as error:
        gf.load(saved)
    for line in (
        "missing     decoder.blocks.1.attn.q.weight (12, 12)",
        "unexpected  decoder.blocks.9.attn.q.weight (12, 12)",
        "misshapen   decoder.norm.bias: the file has (13,), the config asks for (12,)",
    ):
        assert line in str(error.value)


def test_a_half_written_folder_is_called_that(saved: Path, tmp_path: Path) -> None:
    weights = saved / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"model\.safetensors \(.* bytes\) cannot be read: .*It may be incomplete"):
        gf.load(saved)
    weights.unlink()
    with pytest.raises(InputError, match=r"is incomplete: it has a config\.json, but neither model\.safetensors"):
        gf.load(saved)
    (saved / "config.json").write_text('{"model_type": "glass', encoding="utf-8")
    with pytest.raises(InputError, match=r"config\.json is not JSON"):
        gf.load(saved)
    (saved / "config.json").unlink()
    with pytest.raises(InputError, match=r"has no config\.json: it is incomplete"):
        gf.load(saved)
    with pytest.raises(InputError, match="there is no such folder"):
        gf.load(tmp_path / "nowhere")


def test_an_unknown_key_or_type_in_the_config_stops_the_load(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    (saved / "config.json").write_text(json.dumps({**config, "vocab_sise": 3}), encoding="utf-8")
    with pytest.raises(InputError, match="no field 'vocab_sise': did you mean 'vocab_size'"):
        gf.load(saved)
    (saved / "config.json").write_text(json.dumps({**config, "model_type": "glasformer"}), encoding="utf-8")
    with pytest.raises(InputError, match="model_type is 'glasformer', which is not known: did you mean 'glassformer'"):
        gf.load(saved)
    (saved / "config.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="expected the config of a model"):
        gf.load(saved)


def test_a_save_that_fails_leaves_the_old_model(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    before = (saved / "model.safetensors").read_bytes()
    monkeypatch.setattr("glassformer.checkpoints.tensors.save_file", fail)
    with pytest.raises(OSError, match="No space"):
        gf.save(gf.Transformer(models()["relative"]), saved)
    assert (saved / "model.safetensors").read_bytes() == before
    assert gf.load(saved)
    assert [path.name for path in saved.parent.iterdir()] == ["model"], "nothing is left behind"


def test_a_save_replaces_the_model_and_nothing_else(saved: Path) -> None:
    (saved / "thesis.txt").write_text("years of work", encoding="utf-8")
    (saved / "tokenizer.json").write_text("of the model before", encoding="utf-8")
    (saved.parent / "model.old").mkdir()
    gf.save(gf.Transformer(models()["both"]), saved)
    assert gf.load(saved).config == models()["both"]
    assert (saved / "thesis.txt").read_text(encoding="utf-8") == "years of work"
    assert not (saved / "tokenizer.json").exists(), "it belonged to another model"
    assert (saved.parent / "model.old").is_dir()
    with pytest.raises(InputError, match="is a file: expected a folder"):
        gf.save(gf.Transformer(models()["both"]), saved / "thesis.txt")


def test_links_and_dots_are_followed(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = saved.parent / "link"
    link.symlink_to(saved)
    gf.save(gf.Transformer(models()["both"]), link)
    assert link.is_symlink()
    assert gf.load(saved).config == models()["both"]
    monkeypatch.chdir(saved)
    assert gf.load(".").config == models()["both"]


def test_a_tokenizer_is_saved_beside_the_model(tmp_path: Path) -> None:
    tokenizer = gf.train_tokenizer(["one two three"] * 3, 100)
    config = gf.TransformerConfig(decoder=STACK, vocab_size=len(tokenizer))
    gf.save(gf.Transformer(config), tmp_path / "model", tokenizer=tokenizer)
    assert gf.load_tokenizer(tmp_path / "model").ids("one two") == tokenizer.ids("one two")
    assert len(gf.pipeline(tmp_path / "model")(["one", "two"], max_new_tokens=3)) == 2
    both = gf.TransformerConfig(encoder=STACK, decoder=STACK, vocab_size=len(tokenizer), decoder_start_token_id=1)
    gf.save(gf.Transformer(both), tmp_path / "model", tokenizer=tokenizer)
    assert len(gf.pipeline(tmp_path / "model")(["one", "two"], max_new_tokens=3)) == 2
