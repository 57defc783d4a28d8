"""Configs: all fields filled in, JSON in and out, and errors that name the field and the next step."""

import json
from typing import get_type_hints

import pytest
import torch

from glassformer.config import (
    NAMED_CONFIGS,
    GenerationConfig,
    GenerationOptions,
    ImageConfig,
    LayerKind,
    RotaryScaling,
    SeriesConfig,
    StackConfig,
    TransformerConfig,
)
from glassformer.core.model import Transformer
from glassformer.errors import InputError


def stack(**changes: object) -> StackConfig:
    return StackConfig.from_dict({"d_model": 12, "num_layers": 1, "num_heads": 3, **changes})


def test_open_fields_are_settled_and_settled_anew_in_a_copy() -> None:
    config = stack(dropout=0.2)
    assert (config.head_dim, config.num_kv_heads, config.d_ff, config.attention_dropout) == (4, 3, 48, 0.2)
    wider = config.replace(d_model=24)
    assert (wider.head_dim, wider.d_ff) == (8, 96)
    assert stack(d_ff=20).replace(d_model=24).d_ff == 20
    assert config.final_norm
    assert not config.replace(norm_order="post").final_norm
    assert config.replace(norm_order="post", final_norm=True).final_norm


def test_json_in_and_out() -> None:
    kinds = (LayerKind(window=4), LayerKind(rotary_base=1e6, rotary_scaling=RotaryScaling(type="linear", factor=2.0)))
    configs = [
        TransformerConfig(decoder=stack(layer_kinds=kinds, positions="rotary"), vocab_size=50, bos_token_id=1),
        TransformerConfig(encoder=stack(), image=ImageConfig(size=8, patch=4), head="class", num_classes=2),
        TransformerConfig(encoder=stack(), series=SeriesConfig(length=9, patch=3, horizon=2), head="forecast"),
        TransformerConfig(
            decoder=stack(),
            vocab_size=50,
            eos_token_id=(2, 3),
            pad_token_id=None,
            generation=GenerationConfig(
                bad_words_ids=((4,), (5, 6)), early_stopping="never", forced_eos_token_id=(2, 3)
            ),
        ),
        *(TransformerConfig.named(name) for name in NAMED_CONFIGS),
    ]
    for config in configs:
        assert TransformerConfig.from_json(config.to_json()) == config
        assert json.loads(config.to_json())["vocab_size"] == config.vocab_size


def test_a_call_may_say_everything_that_a_model_says_of_generation_or_leave_it_open() -> None:
    own, said = get_type_hints(GenerationConfig), get_type_hints(GenerationOptions)
    assert {name: kind | None for name, kind in own.items()} | {"seed": int | None} == said
    assert GenerationOptions().given() == {}
    options = GenerationOptions.from_dict({"num_beams": 3, "do_sample": False, "bad_words_ids": [[4], [5, 6]]})
    assert options.given() == {"num_beams": 3, "do_sample": False, "bad_words_ids": ((4,), (5, 6))}
    with pytest.raises(InputError, match=r"^num_beams is '3': expected a whole number or None$"):
        GenerationOptions.from_dict({"num_beams": "3"})


@pytest.mark.parametrize(("name", "billions"), [("palm-8b", 8.63), ("palm-62b", 62.50), ("palm-540b", 540.35)])
def test_palm_has_the_published_size(name: str, billions: float) -> None:
    with torch.device("meta"):
        model = Transformer(TransformerConfig.named(name))
    assert sum(parameter.numel() for parameter in model.parameters()) / 1e9 == pytest.approx(billions, abs=0.01)


def test_palms_block_is_one_norm_and_two_branches() -> None:
    torch.manual_seed(0)
    named = TransformerConfig.named("palm-8b")
    small = named.last_stack.replace(d_model=16, num_layers=1, num_heads=4, head_dim=4, d_ff=24)
    model = Transformer(named.replace(decoder=small, vocab_size=11)).eval()
    (block,), x = model.decoder.blocks, torch.randn(1, 1, 16)  # type: ignore[union-attr]
    normed = block.attn_norm(x)  # attention over a single token returns its value, in every head
    attended = block.attn.out(block.attn.v(normed).repeat(1, 1, 4))
    fed = block.ffn.down(torch.nn.functional.silu(block.ffn.gate(normed)) * block.ffn.up(normed))
    expected = model.decoder.norm(x + attended + fed)  # type: ignore[union-attr]
    torch.testing.assert_close(model.decode(inputs_embeds=x), expected)
    assert not any(name.endswith("bias") for name, _ in model.named_parameters())


def test_what_fills_after_the_end() -> None:
    def config(**ids: object) -> TransformerConfig:
        return TransformerConfig.from_dict({"decoder": stack(), "vocab_size": 9, **ids})

    assert (config().fill_token_id, config().eos_token_ids) == (0, ())
    assert config(pad_token_id=None, eos_token_id=[3, 2]).fill_token_id == 3
    assert config(pad_token_id=4, eos_token_id=3).fill_token_id == 4
    assert config(pad_token_id=None).fill_token_id is None


def test_the_papers_models_have_the_papers_number_of_parameters() -> None:
    """Table 3 says 65 and 213 million."""
    for name, millions in {"base": 65, "big": 213}.items():
        with torch.device("meta"):
            model = Transformer(TransformerConfig.named(name, vocab_size=37_000))
        assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, rel=0.03)


def test_unknown_keys_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"StackConfig has no field 'd_modle': did you mean 'd_model'\?"):
        stack(d_modle=3)
    with pytest.raises(InputError, match="did you mean 'window'"):
        stack(layer_kinds=[{"windw": 3}])
    with pytest.raises(InputError, match="no config is named 'bass': did you mean 'base'"):
        TransformerConfig.named("bass")
    with pytest.raises(InputError, match="needs a value for 'num_layers'"):
        StackConfig.from_dict({"d_model": 4, "num_heads": 2})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"num_heads": 5},
            r"12 is not divisible by 5. Choose num_heads from 1, 2, 3, 4, 6, 12, or set head_dim",
        ),
        ({"num_kv_heads": 2}, "num_kv_heads is 2: expected a divisor of num_heads = 3"),
        ({"d_model": 0}, "d_model is 0"),
        ({"d_model": "12"}, "d_model is '12': expected a whole number"),
        ({"d_model": True}, "d_model is True: expected a whole number"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"attention_dropout": -0.1}, "attention_dropout is -0.1"),
        ({"positions": "rotatory"}, "positions is 'rotatory': expected one of 'sinusoidal'"),
        ({"norm_order": None}, "norm_order is None"),
        ({"positions": "rotary", "rotary_fraction": 0.3}, "no pair is left"),
        ({"rotary_fraction": 1.5}, "rotary_fraction is 1.5"),
        ({"relative_buckets": 5}, "relative_buckets is 5"),
        ({"relative_max_distance": 16}, "relative_max_distance is 16"),
        ({"norm_eps": 0.0}, "norm_eps is 0.0"),
        ({"layer_kinds": []}, r"layer_kinds is \(\)"),
        ({"layer_kinds": [{"window": 0}]}, "window is 0"),
        ({"layer_kinds": [{"rotary_base": -1.0}]}, "rotary_base is -1.0"),
        ({"block": "parallel", "norm_order": "post"}, "set norm_order='pre'"),
    ],
)
def test_an_impossible_stack_is_refused_by_field(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        stack(**changes)


def test_only_a_learned_table_has_an_end() -> None:
    stack = StackConfig(d_model=8, num_layers=1, num_heads=2, max_len=9)
    schemes = ("sinusoidal", "learned", "rotary", "relative", "alibi", "none")
    assert [stack.replace(positions=scheme).room for scheme in schemes] == [None, 9, None, None, None, None]


def test_head_dim_frees_the_heads_from_d_model() -> None:
    assert stack(num_heads=5, head_dim=7).head_dim == 7


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "needs an encoder, a decoder, or both"),
        ({"decoder": stack()}, "vocab_size is None"),
        ({"decoder": stack(), "vocab_size": 0}, "vocab_size is 0"),
        ({"decoder": stack(), "vocab_size": 9, "target_vocab_size": 8}, "target_vocab_size is 8"),
        ({"decoder": stack(), "vocab_size": 9, "eos_token_id": 9}, "eos_token_id is 9: expected an id from 0 to 8"),
        ({"decoder": stack(), "vocab_size": 9, "eos_token_id": [2, 9]}, r"eos_token_id is \(2, 9\): expected an id"),
        ({"decoder": stack(), "vocab_size": 9, "head": "forecast"}, "head is 'forecast'"),
        ({"decoder": stack(), "vocab_size": 9, "head": "pool", "pooling": "end"}, "the end token needs eos_token_id"),
        ({"decoder": stack(), "vocab_size": 9, "head": "pool", "pooling": "first_end"}, "needs eos_token_id"),
        ({"decoder": stack(), "vocab_size": 9, "pooled_dim": 4}, "only head 'pool' has a pooled vector"),
        (
            {"encoder": stack(), "head": "pool", "pooling": "highest_id", "image": ImageConfig(size=8, patch=4)},
            "it looks for a token id",
        ),
        (
            {"encoder": stack(), "head": "pool", "embed_norm": True, "image": ImageConfig(size=8, patch=4)},
            "set image.embed_norm",
        ),
        ({"encoder": stack(), "vocab_size": 9, "head": "class"}, "num_classes is None"),
        ({"encoder": stack(), "vocab_size": 9, "num_classes": 2}, "num_classes is 2: only heads 'class' and 'token'"),
        ({"encoder": stack(), "vocab_size": 9, "head": "forecast"}, "a forecast needs a series"),
        ({"encoder": stack(), "image": ImageConfig(size=8, patch=4)}, "a model that reads patches has no vocabulary"),
        ({"decoder": stack(), "vocab_size": 9, "image": ImageConfig(size=8, patch=4)}, "need an encoder"),
        ({"encoder": stack(), "decoder": stack(d_model=24), "vocab_size": 9}, "decoder.d_model is 24"),
        ({"encoder": stack(), "decoder": stack(block="parallel"), "vocab_size": 9}, "cross-attention needs block"),
        (
            {
                "encoder": stack(), "head": "class", "num_classes": 2, "pooling": "first",
                "image": ImageConfig(size=8, patch=4, class_token=False),
            },
            "pooling is 'first'",
        ),
    ],
)  # fmt: skip
def test_an_impossible_model_is_refused_by_field(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TransformerConfig.from_dict(values)


def test_patches_must_fit() -> None:
    with pytest.raises(InputError, match="patch is 3: expected a divisor of size = 8: 1, 2, 4, 8"):
        ImageConfig(size=8, patch=3)
    with pytest.raises(InputError, match="patch is 9: expected at most length = 8"):
        SeriesConfig(length=8, patch=9)
    assert SeriesConfig(length=10, patch=4, stride=3).num_tokens == 3
