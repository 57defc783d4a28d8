"""Step names are parsed and joined again."""

import pytest
from helpers.step_models import MODELS, make

from glassformer.errors import InputError
from glassformer.watch.activations import activation_names, attention_names
from glassformer.watch.names import StepName, join_name, split_head, split_name


@pytest.mark.parametrize(
    ("name", "stack", "layer", "site", "part"),
    [
        ("decoder.blocks.2.cross.q", "decoder", 2, "cross", "q"),
        ("encoder.blocks.11.attn", "encoder", 11, "attn", ""),
        ("encoder.blocks.0.attn_residual", "encoder", 0, "attn_residual", ""),
        ("decoder.embed.positions", "decoder", None, "embed", "positions"),
        ("model.decoder.blocks.0.ffn.up", "model.decoder", 0, "ffn", "up"),
        ("blocks.1.attn.3", "", 1, "attn", "3"),
        ("head.pooled", "", None, "head", "pooled"),
        ("logits", "", None, "logits", ""),
    ],
)
def test_stack_layer_site_and_part(name: str, stack: str, layer: int | None, site: str, part: str) -> None:
    parsed = StepName.parse(name)
    assert (parsed.stack, parsed.layer, parsed.site, parsed.part) == (stack, layer, site, part)
    assert str(parsed) == name


@pytest.mark.parametrize("name", MODELS)
def test_every_name_of_a_model_is_itself_again(name: str) -> None:
    model = make(name)
    for step in (*attention_names(model), *activation_names(model)):
        assert str(StepName.parse(step)) == step
        assert join_name(*split_name(step)) == step


def test_heads_and_folded_layers() -> None:
    assert split_head("decoder.blocks.0.cross.3") == ("decoder.blocks.0.cross", "3")
    assert split_name("encoder.blocks.0-11.attn.q") == ("encoder", "0-11", "attn.q")
    with pytest.raises(InputError, match="has layer '0-11': expected a number"):
        StepName.parse("encoder.blocks.0-11.attn.q")
