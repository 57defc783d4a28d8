"""The ledger against a real forward pass: PyTorch's hooks, its FLOP counter, and the parameters."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from typing import Any

import pytest
import torch
from helpers.reference import family_configs
from rich.console import Console
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

import glassformer as gf
from glassformer.core.block import Block
from glassformer.errors import InputError
from glassformer.inspect.ledger.diff import diff
from glassformer.inspect.ledger.ledger import Ledger, ledger
from glassformer.inspect.ledger.sizes import sized_inputs
from glassformer.watch.names import StepName, split_name

ONE_EACH = family_configs(one_each=True)
STACK = gf.StackConfig(d_model=24, num_layers=4, num_heads=4)
SERIES = gf.SeriesConfig(length=20, patch=4, stride=2, horizon=6, instance_norm=True)
OURS = {
    "paper": gf.TransformerConfig(encoder=STACK, decoder=STACK, vocab_size=50, decoder_start_token_id=1),
    "two vocabularies": gf.TransformerConfig(
        encoder=STACK.replace(num_layers=2), decoder=STACK.replace(qk_norm=True), vocab_size=50, target_vocab_size=60,
    ),
    "image to text": gf.TransformerConfig(
        encoder=STACK, decoder=STACK.replace(positions="relative"), image=gf.ImageConfig(size=12, patch=4),
        vocab_size=30,
    ),
    "series, classes": gf.TransformerConfig(
        encoder=STACK, series=SERIES, head="class", num_classes=3, pooling="attention"
    ),
    "series, forecast": gf.TransformerConfig(encoder=STACK.replace(score_cap=9.0), series=SERIES, head="forecast"),
    "parallel, windows": gf.TransformerConfig(
        decoder=STACK.replace(block="parallel", layer_kinds=(gf.LayerKind(window=3), gf.LayerKind())), vocab_size=50
    ),
    "shared blocks": gf.TransformerConfig(encoder=STACK.replace(num_blocks=2), vocab_size=50, embed_dim=10),
}  # fmt: skip


def sizes_of(config: gf.TransformerConfig) -> dict[str, int]:
    """Small sizes, pairwise different."""
    if config.patches:
        other = config.series is not None and config.series.channels is None
        return {"batch": 2, **({"channels": 3} if other else {}), **({"target_length": 7} if config.decoder else {})}
    both = config.encoder and config.decoder and config.head not in ("class", "span", "pool")
    return {"batch": 2, "length": 11, **({"target_length": 7} if both else {})}


@contextmanager
def hooked(model: gf.Transformer) -> Iterator[dict[str, tuple[int, ...]]]:
    """The shapes that PyTorch's own hooks see, by the ledger's names. Concatenated heads are split."""
    seen: dict[str, tuple[int, ...]] = {}
    layer = 0

    def name_of(path: str) -> str:
        words = path.split(".")
        return ".".join([*words[:2], str(layer), *words[3:]] if words[1:2] == ["blocks"] else words)

    def heads(path: str, value: Tensor) -> tuple[int, ...]:
        width = model.get_submodule(path.rpartition(".")[0]).head_dim
        return (value.shape[0], value.shape[2] // width, value.shape[1], width)

    def enter(path: str, block: nn.Module, args: Any) -> None:
        nonlocal layer
        layer = args[2]
        if layer == 0:
            seen[f"{path.split('.')[0]}.placed"] = tuple(args[0].shape)

    def read(path: str, module: nn.Module, args: Any) -> None:
        if path.endswith("ffn.down"):
            seen[name_of(path).replace("down", "hidden")] = tuple(args[0].shape)
        if path.endswith((".attn.out", ".cross.out")):
            seen[name_of(path).replace(".out", ".mixed")] = heads(path, args[0])
        if path.endswith(("cross_norm", "ffn_norm")):
            block = model.get_submodule(path.rpartition(".")[0])
            if block.norm_order != "post" and block.kind == "serial":  # this norm reads the result of the branch before
                before = "cross" if block.has_cross and path.endswith("ffn_norm") else "attn"
                seen[f"{name_of(path).rpartition('.')[0]}.{before}_residual"] = tuple(args[0].shape)

    def made(path: str, module: nn.Module, args: Any, value: Any) -> None:
        name = name_of(path)
        owner = model.get_submodule(path.rpartition(".")[0])
        if path.endswith(("attn_norm", "cross_norm", "ffn_norm")) and owner.norm_order == "post":  # it ends a branch
            seen[name.replace("_norm", "_residual")] = tuple(value.shape)
        if path.endswith("attn_post_norm") and owner.kind == "parallel_two_norms":  # what is added to the stream
            seen[name.replace("_post_norm", "_residual")] = tuple(value.shape)
        if path.endswith((".q", ".k", ".v")):
            seen[name] = heads(path, value)
        elif isinstance(module, Block):
            seen[f"{name}.{'attn' if module.kind == 'parallel' else 'ffn'}_residual"] = tuple(value.shape)
        elif isinstance(value, Tensor) and name_is_step(path, module):
            seen[name] = tuple(value.shape)

    handles = []
    for path, module in model.named_modules():
        if isinstance(module, Block):
            handles.append(module.register_forward_pre_hook(lambda *args, path=path: enter(path, *args)))
        handles.append(module.register_forward_pre_hook(lambda *args, path=path: read(path, *args)))
        handles.append(module.register_forward_hook(lambda *args, path=path: made(path, *args)))
    yield seen
    for handle in handles:
        handle.remove()


def name_is_step(path: str, module: nn.Module) -> bool:
    ends = ("embed", "positions", ".norm", "_norm", ".out", ".up", ".gate", ".down", ".project")
    is_own = path.endswith(("q_norm", "k_norm")) or path in ("head.out", "head")
    return path.endswith(ends) and not is_own and not isinstance(module, nn.Identity)


@torch.no_grad()
def real_pass(config: gf.TransformerConfig) -> tuple[dict[str, tuple[int, ...]], int, int]:
    """Shapes, FLOPs and parameters of a real model on the CPU."""
    model = gf.Transformer(config).eval()
    inputs = sized_inputs(config, **sizes_of(config), device="cpu")
    counter = FlopCounterMode(display=False)
    with hooked(model) as seen, sdpa_kernel(SDPBackend.MATH), counter:
        output = model(**inputs)
    for name in ("logits", "start_logits", "end_logits", "pooled", "loss"):
        if (value := getattr(output, name)) is not None:
            seen["head.pooled" if name == "pooled" else name] = tuple(value.shape)
    for name, value in inputs.items():
        if name != "labels":
            seen[name] = tuple(value.shape)
    every = {id(parameter): parameter.numel() for parameter in model.parameters()}
    return seen, counter.get_total_flops(), sum(every.values())


def mismatches(found: Ledger, real: tuple[Mapping[str, tuple[int, ...]], int, int]) -> list[str]:
    """The steps and totals in which a ledger differs from the real pass."""
    shapes, flops, parameters = real
    said = {line.name: line.shape for line in found.lines}
    wrong = [name for name, shape in shapes.items() if said.get(name) != shape]
    for name, shape in said.items():
        if name.endswith((".attn", ".cross", ".scores")):
            site = name.removesuffix(".scores")
            if shape != (*said[f"{site}.q"][:3], said[f"{site}.k"][2]):
                wrong.append(name)
        elif name not in shapes:
            wrong.append(name)
    return wrong + ["flops"] * (found.total_flops != flops) + ["parameters"] * (found.total_parameters != parameters)


@pytest.mark.parametrize("config", [*ONE_EACH.values(), *OURS.values()], ids=[*ONE_EACH, *OURS])
def test_a_ledger_says_what_a_real_pass_does(config: gf.TransformerConfig) -> None:
    check(config)


@pytest.mark.slow
def test_a_ledger_says_what_a_real_pass_does_for_every_sample_and_head() -> None:
    for name, config in family_configs().items():
        if name not in ONE_EACH:
            check(config)


def check(config: gf.TransformerConfig) -> None:
    found = ledger(config, **sizes_of(config))
    assert mismatches(found, real_pass(config)) == []
    for line in found.lines:
        assert len(line.axes) == len(line.shape), line.name
    ends_in_loss = config.head not in ("none", "pool")
    assert (found.lines[-1].name == "loss") == ends_in_loss
    folded = found.fold()
    assert (folded.total_parameters, folded.total_flops) == (found.total_parameters, found.total_flops)
    assert folded.cache_bytes == found.cache_bytes


@pytest.mark.parametrize("changes", [{}, {"norm_order": "post"}, {"norm_order": "sandwich"}], ids=str)
def test_an_error_in_any_column_is_seen(changes: dict[str, Any]) -> None:
    config = OURS["two vocabularies"]
    config = config.replace(
        **{
            name: getattr(config, name).replace(num_layers=2, **changes, final_norm=None)
            for name in ("encoder", "decoder")
        }
    )
    found, real = ledger(config, **sizes_of(config)), real_pass(config)
    for i, line in enumerate(found.lines):
        wrong = {"shape": (*line.shape[:-1], 1 + line.shape[-1])} if line.shape else {"shape": (1,)}
        for change in (wrong, {"flops": line.flops + 2}, {"parameters": line.parameters + 1}):
            lines = (*found.lines[:i], replace(line, **change), *found.lines[i + 1 :])
            assert mismatches(replace(found, lines=lines), real), (line.name, change)


def test_every_letter_has_one_size() -> None:
    """A letter of the legend is the same number everywhere, except for the lengths of the two stacks."""
    for config in (OURS["paper"], OURS["shared blocks"], OURS["series, forecast"]):
        sizes: dict[str, set[int]] = {}
        for line in ledger(config, **sizes_of(config)).lines:
            for axis, size in zip(line.axes, line.shape, strict=True):
                sizes.setdefault(axis, set()).add(size)
        assert {axis for axis, found in sizes.items() if len(found) > 1} <= {"T", "S"}


def test_seventy_billion_parameters_need_no_memory() -> None:
    """LLaMA 3 70B, which has 70,553,706,496 parameters."""
    stack = gf.StackConfig(
        d_model=8192, num_layers=80, num_heads=64, num_kv_heads=8, d_ff=28_672, positions="rotary", norm="rms",
        activation="silu", gated=True, qkv_bias=False, out_bias=False, ffn_bias=False, max_len=8192,
    )  # fmt: skip
    config = gf.TransformerConfig(decoder=stack, vocab_size=128_256, tie_embeddings=False)
    found = ledger(config, length=4096, dtype=torch.bfloat16)
    assert found.total_parameters == 70_553_706_496
    assert found.cache_bytes_per_token == 2 * 80 * 8 * 128 * 2
    assert found.cache_bytes == 4096 * found.cache_bytes_per_token
    products = 2 * 4096 * (found.total_parameters - 128_256 * 8192 - 161 * 8192)  # every weight but tables and norms
    attention = 4 * 80 * 64 * 4096 * 4096 * 128
    assert found.total_flops == products + attention
    assert [line.times for line in found.fold().lines if ".blocks." in line.name] == [80] * 15


def test_a_sinusoidal_model_of_any_length_needs_no_memory() -> None:
    """PyTorch's profiler sees less than a megabyte of allocations; the tables alone would take gigabytes."""
    stack = gf.StackConfig(d_model=1024, num_layers=2, num_heads=64, max_len=100_000)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        found = ledger(gf.TransformerConfig(decoder=stack, vocab_size=128_256), length=150_000)
        assert found.running.peak > 200_000 * 1024 * 4
    made = [event.nbytes() for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    assert sum(number for number in made if number > 0) < 1_000_000


@pytest.mark.parametrize("name", ["paper", "series, forecast", "parallel, windows"])
def test_a_narrow_terminal_breaks_no_name_and_no_shape(name: str) -> None:
    found = ledger(OURS[name], **sizes_of(OURS[name])).fold()
    console = Console(width=80, record=True, file=StringIO())
    console.print(found.as_table())
    text = console.export_text().splitlines()
    rows = [line.split() for line in text]
    for line in found.lines:
        inner = split_name(line.name)[2]
        assert any(row[0] == inner and " ".join(row).find(line.legend) > 0 for row in rows if row), line.name
    assert max(map(len, text)) <= 80


def test_a_narrow_terminal_cuts_no_number() -> None:
    found = ledger(gf.TransformerConfig.named("palm-540b"), length=100_000).fold()
    console = Console(width=80, record=True, file=StringIO())
    console.print(found.as_table())
    text = console.export_text()
    assert "…" not in text
    words = text.split()
    for line in found.lines:
        assert {split_name(line.name)[2], *line.legend.split()} <= {*words}
        assert not line.parameters or f"{line.parameters:,}" in words


def test_shared_parameters_are_counted_once_and_marked_later() -> None:
    tied = {line.name: line for line in ledger(OURS["paper"], **sizes_of(OURS["paper"])).lines}
    assert tied["encoder.embed"].parameters == 50 * 24
    for name in ("decoder.embed", "logits"):
        assert (tied[name].parameters, tied[name].shared) == (0, 50 * 24)
    lines = {line.name: line for line in ledger(OURS["shared blocks"]).lines}
    up = lines["encoder.blocks.0.ffn.up"].parameters
    assert [lines[f"encoder.blocks.{i}.ffn.up"].parameters for i in range(4)] == [up, 0, up, 0]
    assert [lines[f"encoder.blocks.{i}.ffn.up"].shared for i in range(4)] == [0, up, 0, up]


def test_only_layers_that_are_alike_are_folded() -> None:
    def layers(config: gf.TransformerConfig) -> list[tuple[str, int]]:
        lines = ledger(config, length=8).fold().lines
        return [(line.name.split(".")[2], line.times) for line in lines if line.name.endswith("ffn.up")]

    def windowed(*windows: int | None) -> gf.TransformerConfig:
        kinds = tuple(gf.LayerKind(window=window) for window in windows)
        return gf.TransformerConfig(decoder=STACK.replace(num_layers=7, layer_kinds=kinds), vocab_size=50)

    assert layers(windowed(None)) == [("0-6", 7)]
    assert layers(windowed(3, None)) == [("0,2-4", 3), ("1,3-5", 3), ("6", 1)]
    assert layers(windowed(3, 3, None)) == [("0,3", 2), ("1,4", 2), ("2,5", 2), ("6", 1)]
    assert layers(OURS["shared blocks"]) == [("0,2", 2), ("1,3", 2)]


def test_equal_configs_have_equal_ledgers_after_a_diff() -> None:
    a, b = OURS["paper"], OURS["two vocabularies"]
    assert ledger(diff(a, b).apply(a)).lines == ledger(b).lines != ledger(a).lines


def test_a_model_is_measured_by_its_own_dtype() -> None:
    config = OURS["parallel, windows"]
    model = gf.Transformer(config).to(torch.bfloat16)
    half, whole = ledger(model, length=5), ledger(config, length=5)
    assert next(model.parameters()).device.type == "cpu"
    assert [line.bytes for line in half.lines[1:]] == [line.bytes // 2 for line in whole.lines[1:]]
    assert half.cache_bytes_per_token == 2 * 4 * 24 * 2


def test_lengths_are_usual_or_fit_or_are_refused() -> None:
    learned = gf.TransformerConfig(
        encoder=STACK.replace(positions="learned", max_len=9), decoder=STACK, vocab_size=50, decoder_start_token_id=1
    )
    shapes = {line.name: line.shape for line in ledger(learned).lines}
    assert (shapes["input_ids"], shapes["decoder_input_ids"]) == ((1, 9), (1, 9))
    assert ledger(OURS["parallel, windows"]).lines[0].shape == (1, 128)
    wrong: list[tuple[gf.TransformerConfig, dict[str, Any], str]] = [
        (learned, {"length": 10}, r"length is 10, but the learned position table has max_len = 9 rows"),
        (learned, {"batch": 0}, r"batch is 0: expected a whole number from 1 to 10,000,000. .* leave it out for 1"),
        (OURS["paper"], {"length": 10**11}, r"length is 10{11}: expected a whole number from 1 to 10,000,000"),
        (OURS["paper"], {"batch": 10**22}, r"batch is 10{22}: expected a whole number from 1 to 10,000,000"),
        (OURS["paper"], {"batch": 10**7, "length": 10**7}, r"batch 10{7}, length 10{7}: one tensor .* 2\^63 bytes"),
        (OURS["series, classes"], {"batch": 10**7, "channels": 10**7}, r"batch 10{7}, channels 10{7}: one tensor"),
        (OURS["image to text"], {"length": 5}, r"length is 5, but this model reads images of 12 pixels"),
        (OURS["shared blocks"], {"target_length": 5}, r"target_length is 5, but this model has no target"),
        (OURS["paper"], {"channels": 2}, r"channels is 2, but this model does not read series"),
        (ONE_EACH["patchtst-plain-forecast"], {"channels": 2}, r"reads series with channels = 3"),
    ]  # fmt: skip
    for config, sizes, message in wrong:
        with pytest.raises(InputError, match=message):
            ledger(config, **sizes)
    with pytest.raises(InputError, match=r"the model has type Linear: expected a Transformer"):
        ledger(nn.Linear(2, 2))  # type: ignore[arg-type]


def test_it_prints_and_goes_to_json() -> None:
    found = ledger(OURS["paper"], **sizes_of(OURS["paper"])).fold()
    values = json.loads(found.to_json())
    assert values["parameters"] == found.total_parameters
    assert values["memory"]["training"]["peak"] == found.training.peak > found.running.peak
    assert [line["name"] for line in values["lines"]] == [line.name for line in found.lines]
    console = Console(width=120, record=True, file=StringIO())
    console.print(found.as_table())
    text = console.export_text()
    assert "decoder.blocks.0-3  x 4" in text
    assert "B=2 H=4 T=7 S=11" in text  # the scores of cross-attention
    assert f"parameters: {found.total_parameters:,}" in str(found)


def test_the_page_stands_alone_and_escapes_what_it_is_told() -> None:
    found = ledger(OURS["paper"], **sizes_of(OURS["paper"])).fold()
    page = found.to_html("<img src=x onerror=alert(1)>")
    tags: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            tags.append(tag)
            assert not {"src", "href", "onerror"} & {name for name, _ in attrs}

    Reader().feed(page)
    assert not {"script", "img", "link", "iframe"} & set(tags)
    assert tags.count("tr") == 1 + len(found.lines) + 2  # the header, the steps, a title for the layers of each stack
    assert "&lt;img src=x" in page
    assert "T query length, S key length" in page
    assert "://" not in page


def test_the_rows_of_a_table_of_positions_are_alike_and_not_of_the_batch() -> None:
    for name, said in (("paper", "1 T=11 D=24"), ("series, forecast", "1 N=9 D=24")):
        lines = {line.name: line for line in ledger(OURS[name], **sizes_of(OURS[name])).lines}
        assert lines["encoder.embed.positions"].legend == said
    assert lines["encoder.placed"].legend == "B*C=6 N=9 D=24"


def test_a_name_is_taken_apart_and_put_together() -> None:
    names = {
        "decoder.blocks.2.cross.q": ("decoder", 2, "cross.q"),
        "blocks.0.attn": ("", 0, "attn"),
        "encoder.embed.positions": ("encoder", None, "embed.positions"),
        "encoder.blocks.11": ("encoder", 11, ""),
        "encoder.blocks": ("encoder", None, "blocks"),
        "head.pooled": ("", None, "head.pooled"),
        "decoder": ("decoder", None, ""),
        "": ("", None, ""),
    }
    for name, parts in names.items():
        assert StepName.parse(name) == parts
        assert str(StepName.parse(name)) == name
    assert all(str(StepName.parse(line.name)) == line.name for line in ledger(OURS["image to text"]).lines)
    assert split_name("decoder.blocks.0,6-18.ffn.up") == ("decoder", "0,6-18", "ffn.up")
    with pytest.raises(InputError, match=r"has layer '0-3': expected a number"):
        StepName.parse("decoder.blocks.0-3.ffn.up")
