"""Tensors that do not fit the config, or are missing: the error has their names in the file and both shapes."""

from pathlib import Path

import pytest
import torch
from helpers.small_checkpoints import Made, reconfigure, store, weights_of

import glassformer as gf
from glassformer.errors import InputError

RENAMED = {  # the last layer of each, and its new name
    "BertForMaskedLM": ("bert.encoder.layer.1.attention.self.query.weight", (16, 16), "encoder.blocks.1.attn.q.weight"),
    "GPT2LMHeadModel": ("transformer.h.1.mlp.c_fc.weight", (16, 64), "decoder.blocks.1.ffn.up.weight"),
    "Phi3ForCausalLM": (
        "model.layers.1.self_attn.qkv_proj.weight",
        (32, 16),
        "decoder.blocks.1.attn.q.weight, decoder.blocks.1.attn.k.weight, decoder.blocks.1.attn.v.weight",
    ),
    "ViTForImageClassification": ("vit.embeddings.position_embeddings", (1, 17, 16), "encoder.embed.positions.weight"),
}


@pytest.mark.parametrize("architecture", RENAMED)
def test_each_problem_is_a_line_of_the_table(architecture: str, made: Made) -> None:
    folder, (name, shape, ours) = made(architecture), RENAMED[architecture]
    tensors = weights_of(folder)
    misshapen = next(other for other in tensors if other != name and tensors[other].ndim == 1)
    expected = tuple(tensors[misshapen].shape)
    tensors["lost.property"] = tensors.pop(name)
    tensors[misshapen] = torch.zeros(5)
    store(folder, tensors)
    with pytest.raises(InputError) as error:
        gf.load(folder)
    first, *lines, last = str(error.value).splitlines()
    assert first == f"{folder} does not fit its config.json:"
    assert sorted(lines) == [
        f"  misshapen   {misshapen}: the file has (5,), the config asks for {expected}",
        f"  missing     {name} {shape}, for {ours}",
        f"  unexpected  lost.property {shape}",
    ]
    assert "Is this the right config.json?" in last


def test_a_long_table_is_cut(made: Made) -> None:
    folder = made("BertForMaskedLM")
    store(folder, {"only": torch.zeros(1)})
    with pytest.raises(InputError, match=r"missing     .*\n(.*\n)*  \.\.\. and \d+ more\n"):
        gf.load(folder)


def test_more_or_fewer_layers_than_the_config_says(made: Made) -> None:
    folder = made("LlamaForCausalLM")
    for layers, word in ((1, r"unexpected  model\.layers\.1\."), (3, r"missing     model\.layers\.2\.")):
        reconfigure(folder, num_hidden_layers=layers)
        with pytest.raises(InputError, match=word):
            gf.load(folder)


def test_a_head_that_the_file_lacks_is_not_made_up(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made("BertModel")
    reconfigure(folder, architectures=["BertForSequenceClassification"])
    with pytest.raises(InputError, match=r"missing     classifier\.weight \(2, 16\).*(\n.*)*name it: gf\.load"):
        gf.load(folder)
    assert gf.load(folder, head="none").config.head == "none"
    assert capsys.readouterr() == ("", "")


def test_whole_numbers_are_no_weights(made: Made) -> None:
    folder = made("LlamaForCausalLM")
    tensors = weights_of(folder)
    tensors["model.norm.weight"] = tensors["model.norm.weight"].to(torch.int8)
    store(folder, tensors)
    with pytest.raises(InputError, match=r"model\.norm\.weight has dtype torch\.int8: expected floats"):
        gf.load(folder)


def test_what_failed_to_load_leaves_the_folder_as_it_was(made: Made, tmp_path: Path) -> None:
    folder = made("BertForMaskedLM")
    reconfigure(folder, hidden_size=20)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(InputError, match="misshapen"):
        gf.load(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
