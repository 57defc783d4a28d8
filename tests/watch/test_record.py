"""Recording: the weights are the kernel's, the output does not change, and only requested tensors are computed."""

import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.step_models import MODELS, labels_for, make
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import glassformer as gf
from glassformer.checkpoints.example import make_example
from glassformer.errors import InputError
from glassformer.watch.activations import attention_names

GENERATING = [name for name, fields in MODELS.items() if "decoder" in fields and name != "span"]


@pytest.mark.parametrize("name", MODELS)
def test_weights_are_what_the_kernel_mixes_by(name: str) -> None:
    """With the identity as values, PyTorch's kernel returns its weights. Ours equal them, and give `mixed`."""
    model = make(name)
    with torch.no_grad(), gf.record(model, activations=["*"]) as seen:
        model(**make_example(model.config))
    for site in attention_names(model):
        q, k, v, mixed, scores = (seen[f"{site}.{part}"] for part in ("q", "k", "v", "mixed", "scores"))
        config, group, weights = getattr(model.config, site.split(".")[0]), q.shape[1] // k.shape[1], seen[site]
        if config.score_cap is None and config.positions not in ("relative", "alibi"):  # the mask is boolean
            ones = torch.eye(k.shape[2]).expand(*k.shape[:2], -1, -1)
            scale, may_see = config.attention_scale, scores.isfinite()
            kernel = F.scaled_dot_product_attention(q, k, ones, may_see, enable_gqa=True, scale=scale)
            torch.testing.assert_close(weights, kernel, rtol=0, atol=1e-6)
        explicit = scores.double().exp() / scores.double().exp().sum(dim=-1, keepdim=True)
        torch.testing.assert_close(weights.double(), explicit, rtol=0, atol=1e-6)
        torch.testing.assert_close(weights @ v.repeat_interleave(group, dim=1), mixed, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [False, True])
def test_nothing_changes_by_being_watched(name: str, training: bool) -> None:
    """Outputs and gradients are bit for bit the same, with dropout from the same seed."""
    model = make(name).train(training)
    inputs = make_example(model.config)

    def run() -> tuple[Tensor, list[Tensor]]:
        torch.manual_seed(1)
        model.zero_grad()
        loss = model(**inputs, labels=labels_for(model, inputs)).loss
        loss.backward()
        return loss, [p.grad.clone() for p in model.parameters() if p.grad is not None]

    plain, gradients = run()
    with gf.record(model, activations=["*"]) as seen:
        watched, same = run()
    assert torch.equal(plain, watched)
    assert len(gradients) == len(same)
    assert all(map(torch.equal, gradients, same))
    assert not any(tensor.requires_grad for tensor in seen.values())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("name", MODELS)
def test_chosen_layers_heads_and_rows_are_slices_of_the_whole(name: str) -> None:
    model = make(name)
    inputs, site = make_example(model.config), attention_names(model)[-1]
    with torch.no_grad(), gf.record(model, activations=["*.scores"]) as whole:
        model(**inputs)
    with torch.no_grad(), gf.record(model, attention=site, heads=[2, 0], rows=[-1, 1, 1]) as seen:
        model(**inputs)
    assert list(seen) == [site]
    torch.testing.assert_close(seen[site], whole[site][:, [2, 0]][:, :, [-1, 1, 1]], rtol=1e-5, atol=1e-6)
    scores = f"{site}.scores"
    with torch.no_grad(), gf.record(model, attention=False, rows=slice(1, 3), activations=scores) as seen:
        model(**inputs)
    torch.testing.assert_close(seen[scores], whole[scores][:, :, 1:3], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", GENERATING)
def test_a_generation_with_a_cache_is_recorded_as_one_pass(name: str) -> None:
    """Every step, recorded row by row during generation, equals that of one pass over the finished text."""
    model = make(name)
    inputs = {key: value[:1] for key, value in make_example(model.config).items() if "token_type" not in key}
    source = {key: value for key, value in inputs.items() if not key.startswith("decoder")}
    choices = {**source, "max_new_tokens": 6, "eos_token_id": []}
    with gf.record(model, activations=["decoder.*"]) as seen:
        ids = gf.generate(model, **choices)
    finished = {"decoder_input_ids": ids[:, :-1]} if model.encoder else {"input_ids": ids[:, :-1]}
    with torch.no_grad(), gf.record(model, activations=["decoder.*"]) as whole:
        model(**(source if model.encoder else {}), **finished)
    assert set(seen) == set(whole)
    for step in whole:
        wanted, got = whole[step], seen[step]
        assert torch.equal(wanted.isfinite(), got.isfinite()), step
        torch.testing.assert_close(got.nan_to_num(0, 0, 0), wanted.nan_to_num(0, 0, 0), rtol=1e-4, atol=1e-5, msg=step)
    last = whole["decoder.blocks.0.attn"].shape[2] - 1
    with gf.record(model, attention="decoder.blocks.0.attn", heads=[1], rows=[0, last]) as some:
        gf.generate(model, **choices)
    wanted = whole["decoder.blocks.0.attn"][:, [1]][:, :, [0, -1]]
    torch.testing.assert_close(some["decoder.blocks.0.attn"], wanted, rtol=1e-4, atol=1e-5)


class Largest(TorchDispatchMode):
    """Keeps the size of the largest tensor that is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return made


def test_one_row_of_a_long_text_costs_memory_linear_in_its_length() -> None:
    model = gf.Transformer(
        gf.TransformerConfig(decoder=gf.StackConfig(d_model=8, num_layers=1, num_heads=2, max_len=8192), vocab_size=9)
    ).eval()
    largest = {}
    for length in (4096, 8192):
        with torch.no_grad(), Largest() as made, gf.record(model, rows=[-1]) as seen:
            model(torch.zeros(1, length, dtype=torch.long))
        assert seen["decoder.blocks.0.attn"].shape == (1, 2, 1, length)
        largest[length] = made.elements
    assert largest[8192] <= 2 * largest[4096] < 4096**2 / 10


def test_another_thread_with_the_same_model_is_not_recorded() -> None:
    model = make("llama")
    with torch.no_grad(), gf.record(model, activations=["*"]) as seen:
        other = threading.Thread(target=lambda: model(torch.zeros(1, 3, dtype=torch.long)))
        other.start()
        other.join(timeout=60)
        assert not other.is_alive()
        assert len(seen) == 0
        model(torch.zeros(1, 5, dtype=torch.long))
    assert seen["decoder.blocks.0.attn"].shape[2] == 5


def test_a_refused_call_leaves_nothing_behind() -> None:
    model = make("neox")
    with gf.record(model, activations=["*"]) as seen:
        with pytest.raises(gf.InputError):
            model(torch.zeros(1, 600, dtype=torch.long))
        model(torch.zeros(1, 4, dtype=torch.long))
    assert seen["decoder.embed"].shape[1] == 4


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"attention": "encoder.blocks.0.attn"}, r"no attention 'encoder.blocks.0.attn'.*decoder.blocks.0.attn"),
        ({"attention": "decoder.blocks.7.attn"}, "no attention"),
        ({"activations": ["decoder.blocks.0.ffn.gat"]}, r"no activation .*ffn.gate"),
        ({"heads": [3]}, "no head 3: expected a number from 0 to 2"),
        ({"rows": [5]}, "rows holds 5: expected rows from 0 to 4"),
        ({"rows": [-6]}, "rows holds -6"),
        ({"heads": []}, r"heads is \[\]: expected a list of one or more whole numbers"),
        ({"heads": 2}, "heads is 2: expected a list of one or more whole numbers"),
        ({"heads": "0"}, "heads is '0'"),
        ({"rows": 3}, "rows is 3"),
    ],
)
def test_what_is_not_there_is_named(asked: dict[str, Any], said: str) -> None:
    model = make("llama")
    with pytest.raises(gf.InputError, match=said), gf.record(model, **asked):
        model(torch.zeros(1, 5, dtype=torch.long))


def test_rows_cannot_be_counted_from_an_end_that_is_not_known_yet() -> None:
    model = make("llama")
    with (
        gf.record(model, rows=slice(-2, None)),
        pytest.raises(gf.InputError, match="with a cache the end is not known"),
    ):
        model(torch.zeros(1, 5, dtype=torch.long), cache=gf.Cache())


def test_a_record_follows_the_rows_of_a_reordered_cache() -> None:
    config = gf.StackConfig(d_model=12, num_layers=1, num_heads=3)
    model = gf.Transformer(gf.TransformerConfig(decoder=config, vocab_size=20)).eval()
    ids, rows = torch.randint(0, 20, (3, 4)), torch.tensor([2, 0])
    with torch.no_grad(), gf.record(model) as seen:
        cache = gf.Cache()
        model(ids[:, :3], cache=cache)
        cache.reorder(rows)
        model(ids[rows, 3:], cache=cache)
    with torch.no_grad(), gf.record(model) as whole:
        model(ids[rows])
    torch.testing.assert_close(seen["decoder.blocks.0.attn"], whole["decoder.blocks.0.attn"])


def test_a_module_without_a_stack_cannot_be_watched() -> None:
    with (
        pytest.raises(InputError, match="a Linear has no Stack inside: give a Transformer or a Stack"),
        gf.record(torch.nn.Linear(2, 2)),
    ):
        pass
