"""The fields that turn one config into another: applying them gives exactly the other."""

import json
from contextlib import suppress
from io import StringIO
from itertools import pairwise, product

import pytest
from helpers.reference import family_configs
from rich.console import Console

import glassformer as gf
from glassformer.errors import InputError
from glassformer.inspect.ledger.diff import Change, Diff, diff, readable_value

STACK = gf.StackConfig(d_model=48, num_layers=2, num_heads=4)
CONFIG = gf.TransformerConfig(encoder=STACK, vocab_size=50)


def test_the_changes_between_any_two_families_make_the_one_of_the_other() -> None:
    configs = {**family_configs(one_each=True), "base": gf.TransformerConfig.named("base")}
    for (before, a), (after, b) in product(configs.items(), repeat=2):
        found = diff(a, b)
        assert found.apply(a) == b, f"{before} -> {after}"
        assert bool(found.changes) == (a != b)
        assert json.loads(found.to_json()) == found.to_dict()


def test_no_change_is_listed_for_nothing() -> None:
    configs = list(family_configs(one_each=True).values())
    for a, b in pairwise(configs):
        changes = diff(a, b).changes
        for i in range(len(changes)):
            with suppress(InputError):  # without this change the config may be invalid
                assert Diff(changes[:i] + changes[i + 1 :]).apply(a) != b, changes[i].path


def test_what_follows_from_another_field_is_not_listed() -> None:
    wider = CONFIG.replace(encoder=STACK.replace(d_model=96))
    assert (wider.encoder.d_ff, wider.encoder.head_dim) == (384, 24)
    assert diff(CONFIG, wider).changes == (Change("encoder.d_model", 48, 96),)
    # A given value that is not the derived default is listed, even if it equals the value before.
    given = CONFIG.replace(encoder=STACK.replace(d_model=96, d_ff=192))
    assert diff(CONFIG, given).changes == (Change("encoder.d_model", 48, 96), Change("encoder.d_ff", 192, 192))
    # Where num_heads does not divide d_model, head_dim is given.
    odd = CONFIG.replace(encoder=gf.StackConfig(d_model=50, num_layers=2, num_heads=4, head_dim=12))
    assert diff(CONFIG, odd).apply(CONFIG) == odd
    assert diff(odd, CONFIG).apply(odd) == CONFIG


def test_a_stack_that_one_has_is_one_line_and_a_stack_that_moves_is_compared() -> None:
    both = CONFIG.replace(decoder=STACK)
    (change,) = diff(CONFIG, both).changes
    assert str(change) == "decoder: none -> 2 layers, d_model 48, 4 heads, d_ff 192"
    one = gf.StackConfig(d_model=48, num_layers=1, num_heads=1)
    (change,) = diff(CONFIG, CONFIG.replace(decoder=one)).changes
    assert str(change) == "decoder: none -> 1 layer, d_model 48, 1 head, d_ff 192"
    decoder = gf.TransformerConfig(decoder=STACK.replace(norm="rms"), vocab_size=50)
    assert [str(c) for c in diff(CONFIG, decoder).changes] == [
        "stack: encoder -> decoder",
        "decoder.norm: layer -> rms",
    ]
    with pytest.raises(InputError, match=r"the only stack into the decoder: this config has encoder and decoder"):
        diff(CONFIG, decoder).apply(both)
    with pytest.raises(InputError, match=r"cannot change encoder.norm: this config has no encoder"):
        diff(both, both.replace(encoder=STACK.replace(norm="rms"))).apply(decoder)
    with pytest.raises(InputError, match=r"a config has type int: expected two TransformerConfigs"):
        diff(CONFIG, 3)  # type: ignore[arg-type]


def test_choices_stand_apart_from_sizes() -> None:
    other = CONFIG.replace(
        encoder=STACK.replace(d_model=96, norm_order="post", dropout=0.5), pad_token_id=3, vocab_size=60
    )
    found = diff(CONFIG, other)
    groups = {change.path: change.group for change in found.changes}
    assert groups == {
        "encoder.d_model": "sizes", "vocab_size": "sizes", "encoder.norm_order": "architecture",
        "encoder.dropout": "training", "pad_token_id": "tokens",
    }  # fmt: skip
    console = Console(width=100, record=True, file=StringIO())
    console.print(found.as_table("mine", "yours"))
    lines = [line.split() for line in console.export_text().splitlines()]
    assert lines[:3] == [["field", "mine", "yours"], ["architecture"], ["encoder.norm_order", "pre", "post"]]
    assert ["encoder.d_model", "48", "96"] in lines
    assert str(diff(CONFIG, CONFIG)) == "no difference"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "none"),
        (True, "yes"),
        (1_000_000, "1,000,000"),
        (0.5, "0.5"),
        ("rms", "rms"),
        (gf.LayerKind(), "full"),
        (gf.LayerKind(window=4096), "window 4,096"),
        (gf.RotaryScaling(type="linear", factor=2.0), "type linear, factor 2"),
        ((gf.LayerKind(window=8),) * 5 + (gf.LayerKind(),), "5 x (window 8); full"),
        (tuple(range(9)), "0; 1; 2; ...; 6; 7; 8"),
        (gf.ImageConfig(size=8, patch=4, channels=1), "size 8, patch 4, channels 1"),
    ],
    ids=str,
)
def test_values_are_said_in_one_short_line(value: object, said: str) -> None:
    assert readable_value(value).startswith(said)
