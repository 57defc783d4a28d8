"""What must hold for every shape, mask and position scheme; hypothesis looks for one where it does not."""

from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import glassformer as gf
from glassformer.core.attention import attend, attend_in_tiles, attention_weights
from glassformer.core.cache import Cache
from glassformer.core.context import Mask
from glassformer.core.positions import Sinusoidal, make_bias, sinusoids
from glassformer.core.stack import Stack

pytestmark = pytest.mark.usefixtures("one_thread")

ADDED, IN_ATTENTION = ["sinusoidal", "learned"], ["rotary", "relative", "alibi"]
every_scheme = pytest.mark.parametrize("positions", [*ADDED, *IN_ATTENTION, "none"])
either_stack = pytest.mark.parametrize("causal", [False, True], ids=["encoder", "decoder"])

properties = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 2**16)
sizes = st.integers(1, 6)
head_counts = st.sampled_from([(1, 1), (2, 2), (4, 4), (4, 2), (3, 1)])  # heads, kv heads
windows = st.sampled_from([(None,), (1,), (3,), (2, None)])  # of the layers in turn


def stack_config(positions: str = "none", heads=(2, 2), windows=(None,), **choices) -> gf.StackConfig:
    num_heads, num_kv_heads = heads
    kinds = tuple(gf.LayerKind(window=window, rotary_base=50.0 * (i + 1)) for i, window in enumerate(windows))
    return gf.StackConfig(
        d_model=8, num_layers=2, num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=4, d_ff=8, max_len=32,
        positions=positions, relative_buckets=8, relative_max_distance=12, layer_kinds=kinds, **choices,
    )  # fmt: skip


def make_stack(seed: int, *args, causal: bool, cross: bool = False, **choices) -> Stack:
    torch.manual_seed(seed)
    return randomised(Stack(stack_config(*args, **choices), causal=causal, cross=cross))


def make_model(seed: int, stack: gf.StackConfig, *, encoder: bool = False) -> gf.Transformer:
    torch.manual_seed(seed)
    config = gf.TransformerConfig(
        encoder=stack if encoder else None, decoder=stack, vocab_size=11, tie_embeddings=False, decoder_start_token_id=1
    )
    return randomised(gf.Transformer(config)).eval()


def randomised(module: nn.Module):
    """Every weight matters: no bias at 0, no norm at 1, and position tables as loud as the tokens."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def padding(lengths: list[int], left: bool) -> Tensor:
    """True for each token of sequences of these lengths, padded to the longest."""
    index = torch.arange(max(lengths))
    if left:
        index = index.flip(0)
    return index < torch.tensor(lengths)[:, None]  # (B, T)


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=2e-5, rtol=2e-5)


def gradients(output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Of a loss that weighs every number of the output differently."""
    weights = torch.linspace(-1, 1, output.numel()).view(output.shape)
    return torch.autograd.grad((output * weights).sum(), inputs, retain_graph=True)


# --- nothing to attend to ---------------------------------------------------------------------------------------------


@st.composite
def attentions(draw):
    """q, k, v and a boolean mask in which some queries, at least one, may see nothing."""
    torch.manual_seed(draw(seeds))
    (heads, kv_heads), batch, queries, keys = draw(head_counts), draw(sizes), draw(sizes), draw(sizes)
    q = torch.randn(batch, heads, queries, 4, requires_grad=True)
    k, v = (torch.randn(batch, kv_heads, keys, 4, requires_grad=True) for _ in range(2))
    mask = torch.rand(batch, draw(st.sampled_from([1, heads])), queries, keys) < 0.5
    mask[0, 0, 0] = False
    return q, k, v, mask


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("as_float", [False, True], ids=["boolean", "float"])
@properties
@given(attentions())
def test_a_query_that_may_see_nothing_gets_zero(as_float, dropout, case):
    q, k, v, mask = case
    empty = ~mask.any(-1).expand(q.shape[:3])
    given_mask = torch.randn(mask.shape).masked_fill(~mask, -torch.inf) if as_float else mask

    output = attend(q, k, v, given_mask, dropout=dropout)

    assert (output[empty] == 0).all()
    assert output.isfinite().all()
    for gradient in gradients(output, q, k, v):
        assert gradient.isfinite().all()
    assert (gradients(attend(q, k, v, given_mask, dropout=dropout), q)[0][empty] == 0).all()


@pytest.mark.parametrize("as_float", [False, True], ids=["boolean", "float"])
@properties
@given(attentions())
def test_attention_weights_are_attend_without_the_values(as_float, case):
    q, k, v, mask = case
    empty = ~mask.any(-1).expand(q.shape[:3])
    given_mask = torch.randn(mask.shape).masked_fill(~mask, -torch.inf) if as_float else mask

    weights = attention_weights(q, k, given_mask)

    assert (weights[empty] == 0).all()
    assert_same(weights[~empty].sum(-1), torch.ones_like(weights[~empty][:, 0]))
    assert (weights[~mask.expand_as(weights)] == 0).all()
    repeated = v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)
    assert_same(weights @ repeated, attend(q, k, v, given_mask))
    assert all(gradient.isfinite().all() for gradient in gradients(weights, q, k))


@every_scheme
@either_stack
@properties
@given(seeds, st.lists(st.integers(0, 5), min_size=1, max_size=3), st.booleans(), head_counts, windows)
def test_a_sequence_of_padding_alone_harms_nobody(positions, causal, seed, lengths, left, heads, windows):
    stack = make_stack(seed, positions, heads, windows, causal=causal)
    keep = padding([*lengths, 5, 0], left)  # the last sequence has no token at all
    x = torch.randn(*keep.shape, 8, requires_grad=True)

    with gf.record(stack) as seen:
        output = stack(x, keep=keep)

    assert output.isfinite().all()
    assert all((weights[-1] == 0).all() for weights in seen.values())
    assert_same(output[:-1][keep[:-1]], stack(x[:-1], keep=keep[:-1])[keep[:-1]])
    for gradient in gradients(stack(x, keep=keep), x, *stack.parameters()):
        assert gradient.isfinite().all()


# --- who sees whom ----------------------------------------------------------------------------------------------------


@every_scheme
@properties
@given(st.data(), seeds, st.integers(2, 8), head_counts, windows)
def test_no_future_token_changes_an_earlier_output(positions, data, seed, length, heads, windows):
    stack = make_stack(seed, positions, heads, windows, causal=True)
    now = data.draw(st.integers(1, length - 1), label="now")
    x = torch.randn(2, length, 8)
    other = torch.cat([x[:, :now], torch.randn(2, length - now, 8)], dim=1)

    with torch.no_grad():
        before, after = stack(x), stack(other)

    assert_same(after[:, :now], before[:, :now])
    assert not torch.allclose(after[:, now:], before[:, now:], atol=1e-3)


@every_scheme
@either_stack
@pytest.mark.parametrize("side", ["left", "right", "in between"])
@properties
@given(seeds, st.lists(st.integers(1, 7), min_size=1, max_size=3), head_counts, windows)
def test_padding_changes_nothing(positions, causal, side, seed, lengths, heads, windows):
    """Each sequence by itself, and in a batch padded with whatever: the same vectors."""
    stack = make_stack(seed, positions, heads, windows, causal=causal)
    keep = padding([*lengths, 7], left=side == "left")
    if side == "in between":
        keep = torch.stack([row[torch.randperm(7)] for row in keep])
    x = torch.randn(*keep.shape, 8) * 3

    with torch.no_grad():
        together = stack(x, keep=keep)
        for i, kept in enumerate(keep):
            assert_same(together[i, kept], stack(x[i : i + 1, kept])[0])


@either_stack
@properties
@given(seeds, st.lists(st.integers(1, 5), min_size=1, max_size=3), st.booleans())
def test_padding_of_the_source_changes_nothing(causal, seed, lengths, left):
    stack = make_stack(seed, "sinusoidal", causal=causal, cross=True)
    keep = padding(lengths, left)
    x, memory = torch.randn(len(keep), 3, 8), torch.randn(*keep.shape, 8) * 3

    with torch.no_grad():
        together = stack(x, memory=memory, memory_keep=keep)
        for i, kept in enumerate(keep):
            assert_same(together[i], stack(x[i : i + 1], memory=memory[i : i + 1, kept])[0])


@pytest.mark.parametrize("norm_order", ["pre", "post", "sandwich"])
@properties
@given(seeds, st.permutations(range(6)), head_counts)
def test_without_positions_the_encoder_is_permutation_equivariant(norm_order, seed, order, heads):
    stack = make_stack(seed, heads=heads, norm_order=norm_order, causal=False)
    x = torch.randn(2, 6, 8)

    with torch.no_grad():
        assert_same(stack(x[:, order]), stack(x)[:, order])


@either_stack
@properties
@given(seeds, st.integers(1, 8), st.integers(0, 4), st.integers(1, 9))
def test_a_window_is_a_band(causal, seed, queries, past, window):
    """The last W keys when causal, W//2 to either side in an encoder, whose queries are all of the keys."""
    torch.manual_seed(seed)
    keys = queries + past * causal
    q, k, v = torch.randn(2, 2, queries, 4), torch.randn(2, 2, keys, 4), torch.randn(2, 2, keys, 4)
    first = keys - queries
    band = torch.tensor(
        [
            [0 <= first + i - j < window if causal else abs(i - j) <= window // 2 for j in range(keys)]
            for i in range(queries)
        ]
    )

    output = attend_in_tiles(q, k, v, Mask(queries, keys, causal=causal, window=window))

    assert_same(output, attend(q, k, v, band))


def test_kinds_of_layers_take_turns():
    """A pattern of two kinds over three layers: windows 1, all, 1; each with a rotary base of its own."""
    near, far = gf.LayerKind(window=1, rotary_base=50.0), gf.LayerKind(rotary_base=9.0)
    config = stack_config("rotary", final_norm=False).replace(num_layers=3, layer_kinds=(near, far))
    torch.manual_seed(0)
    stack = randomised(Stack(config, causal=True))
    x = torch.randn(2, 5, 8)

    with torch.no_grad(), gf.record(stack) as seen:
        output = stack(x)

    seen_by_the_last = [(seen[f"blocks.{layer}.attn"][:, :, -1] > 0).sum(-1).max().item() for layer in range(3)]
    assert seen_by_the_last == [1, 5, 1]
    with torch.no_grad():
        for layer, kind in enumerate((near, far, near)):
            alone = Stack(config.replace(num_layers=1, layer_kinds=(kind,)), causal=True)
            alone.blocks[0] = stack.blocks[layer]
            x = alone(x)
    assert_same(output, x)


# --- tiles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dropout", [0.0, 1e-12], ids=["fused", "as if with dropout"])  # 1e-12 drops nothing
@pytest.mark.parametrize("scheme", ["none", "relative", "alibi"])
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("padded", [False, True], ids=["unpadded", "padded"])
@settings(properties, max_examples=5)
@given(seeds, st.integers(1, 3), st.integers(2, 7), st.integers(0, 3), head_counts, st.integers(1, 50))
def test_tiles_are_the_whole(padded, causal, window, scheme, dropout, seed, batch, queries, past, heads, tile):
    """Rows of one and the same mask, computed a few at a time: outputs and gradients, with grad and without."""
    torch.manual_seed(seed)
    keys = queries + past
    bias = make_bias(stack_config(scheme, heads), causal)
    learned = list(randomised(bias).parameters()) if bias else []
    keep = torch.rand(batch, keys) < 0.7 if padded else None
    mask = Mask(queries, keys, keep, causal, window, bias, torch.arange(keys)[None])
    q = torch.randn(batch, heads[0], queries, 4, requires_grad=True)
    k, v = (torch.randn(batch, heads[1], keys, 4, requires_grad=True) for _ in range(2))
    whole = attend(q, k, v, mask.tile(slice(0, queries), slice(0, keys), q.dtype))

    with patch("glassformer.core.context.TILE", tile):
        tiled = attend_in_tiles(q, k, v, mask, dropout=dropout)
        tiled_gradients = gradients(tiled, q, k, v, *learned)
        with torch.no_grad():
            without_grad = attend_in_tiles(q, k, v, mask, dropout=dropout)

    assert_same(tiled, whole)
    assert_same(without_grad, whole)
    for one, other in zip(tiled_gradients, gradients(whole, q, k, v, *learned), strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("positions", ["none", "relative"])
@pytest.mark.parametrize("padded", [False, True], ids=["unpadded", "padded"])
def test_a_tile_is_as_small_as_asked(positions, padded):
    """A whole stack, one row of scores at a time: attention is really called once for each row."""
    stack = make_stack(0, positions, windows=(3,), causal=True)
    keep = padding([3, 6], left=True) if padded else None
    x = torch.randn(2, 6, 8, requires_grad=True)
    whole = stack(x, keep=keep)
    rows = []

    def attend_and_count(q, *rest, **choices):
        rows.append(q.shape[2])
        return attend(q, *rest, **choices)

    with patch("glassformer.core.context.TILE", 1), patch("glassformer.core.attention.attend", attend_and_count):
        tiled = stack(x, keep=keep)
    assert rows == [1] * 6 * len(stack.blocks)
    assert_same(tiled, whole)
    for one, other in zip(
        gradients(tiled, x, *stack.parameters()), gradients(whole, x, *stack.parameters()), strict=True
    ):
        assert_same(one, other)


# --- documents in a packed row ----------------------------------------------------------------------------------------


def packed(lengths: list[int], padded: bool) -> tuple[Tensor, Tensor | None]:
    """Which document each token is of, and what is kept: with padding, some stands before, between and after them."""
    gap = 2 if padded else 0
    places = [(number, True) for number, length in enumerate(lengths) for _ in range(length)]
    for number in range(len(lengths), -1, -1):
        places[sum(lengths[:number]) : sum(lengths[:number])] = [(99, False)] * gap
    documents, keep = zip(*places, strict=True)
    return torch.tensor([documents]), torch.tensor([keep]) if padded else None


@pytest.mark.parametrize("padded", [False, True], ids=["unpadded", "padded"])
@pytest.mark.parametrize("tile", [2**25, 20], ids=["whole", "tiles"])
@every_scheme
@either_stack
@settings(properties, max_examples=8)
@given(seeds, st.lists(st.integers(1, 6), min_size=1, max_size=4), head_counts, windows, st.booleans())
def test_a_packed_row_is_its_documents_alone(causal, positions, tile, padded, seed, lengths, heads, windows, capped):
    """On every path: fused or, with a cap, explicit; whole or in tiles; with a window of any size."""
    stack = make_stack(seed, positions, heads, windows, causal=causal, score_cap=2.0 if capped else None)
    documents, keep = packed(lengths, padded)
    x = torch.randn(1, documents.shape[1], 8, requires_grad=True)
    alone = [stack(x[documents == number][None]) for number in range(len(lengths))]

    with patch("glassformer.core.context.TILE", tile):
        output = stack(x, keep=keep, documents=documents)
        found = gradients(output, x, *stack.parameters())

    kept = output if keep is None else output[keep][None]
    torch.testing.assert_close(kept, torch.cat(alone, dim=1), atol=1e-5, rtol=1e-5)
    assert all(gradient.isfinite().all() for gradient in found)


def test_the_loss_of_a_packed_row_is_that_of_its_documents():
    model = make_model(0, stack_config("rotary"))
    ids, documents = torch.randint(0, 11, (1, 9)), torch.tensor([[4] * 5 + [7] * 4])

    together = model(ids, documents=documents, labels=ids).loss

    first, second = (model(part, labels=part).loss for part in (ids[:, :5], ids[:, 5:]))
    assert_same(together, (4 * first + 3 * second) / 7)


def test_a_watcher_sees_the_documents_apart():
    stack = make_stack(0, "rotary", causal=False)
    with torch.no_grad(), gf.record(stack) as seen:
        stack(torch.randn(1, 5, 8), documents=torch.tensor([[0, 0, 1, 1, 1]]))
    assert (seen["blocks.0.attn"][:, :, :2, 2:] == 0).all()
    assert (seen["blocks.0.attn"][:, :, 2:, 2:] > 0).all()


def test_stretched_angles_follow_the_longest_document():
    """What rotary scaling calls long is a text, not a row that holds several."""
    scaling = gf.RotaryScaling(type="dynamic", factor=2.0, trained_len=5)
    config = stack_config("rotary").replace(layer_kinds=(gf.LayerKind(rotary_scaling=scaling),))
    torch.manual_seed(0)
    stack, x = randomised(Stack(config, causal=True)), torch.randn(1, 9, 8)
    together = stack(x, documents=torch.tensor([[0] * 4 + [1] * 5]))
    assert_same(together, torch.cat([stack(x[:, :4]), stack(x[:, 4:])], dim=1))


# --- positions --------------------------------------------------------------------------------------------------------


@properties
@given(st.integers(1, 16).map(lambda half: 2 * half), st.integers(0, 40))
def test_sinusoids_some_steps_on_are_a_linear_map(width, steps):
    """PE(pos + k) = PE(pos) M_k, and M_k turns each pair (sin, cos) by k times its frequency, whatever pos is."""
    table = sinusoids(100, width)
    turn = torch.zeros(width, width, dtype=torch.float64)
    for i in range(0, width, 2):
        angle = torch.tensor(steps / 10_000 ** (i / width), dtype=torch.float64)
        turn[i : i + 2, i : i + 2] = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(2, 2)

    torch.testing.assert_close(table[: 100 - steps] @ turn, table[steps:], atol=1e-6, rtol=0)


@properties
@given(st.integers(1, 33), st.integers(1, 40))
def test_sinusoids_are_the_papers_formula_at_odd_widths_too(width, length):
    table = sinusoids(length, width)

    assert table.shape == (length, width)
    for column in range(width):
        angle = torch.arange(length, dtype=torch.float64) / 10_000 ** (column // 2 * 2 / width)
        expected = angle.cos() if column % 2 else angle.sin()
        torch.testing.assert_close(table[:, column].double(), expected, atol=1e-6, rtol=0)


@properties
@given(st.integers(1, 9), st.integers(1, 6), st.integers(0, 60))
def test_the_sinusoidal_table_grows_past_max_len(width, max_len, position):
    scheme = Sinusoidal(width, max_len)

    placed = scheme(torch.tensor([[position]]), position + 1)

    assert torch.equal(placed[0, 0], sinusoids(61, width).float()[position])
    assert torch.equal(scheme.table[:max_len], sinusoids(max_len, width).float())
    assert not scheme.state_dict(), "the table is computed, so no checkpoint holds it"


def test_a_stack_grows_past_max_len_and_a_learned_one_says_so():
    x = torch.randn(1, 40, 8)  # max_len is 32
    assert make_stack(0, "sinusoidal", causal=True)(x).shape == x.shape
    assert make_stack(0, "sinusoidal", causal=True)(x[:, :1], positions=torch.tensor([[99]])).isfinite().all()
    with pytest.raises(gf.InputError, match="max_len = 32"):
        make_stack(0, "learned", causal=True)(x)


@pytest.mark.parametrize("positions", IN_ATTENTION)
@either_stack
@properties
@given(st.data(), seeds, st.integers(2, 8), st.integers(1, 50), head_counts)
def test_only_differences_of_positions_count(positions, causal, data, seed, length, shift, heads):
    stack = make_stack(seed, positions, heads, causal=causal)
    numbers = data.draw(st.lists(st.integers(0, 30), min_size=length, max_size=length, unique=True), label="positions")
    here = torch.tensor([sorted(numbers)])
    x = torch.randn(2, length, 8)

    with torch.no_grad():
        assert_same(stack(x, positions=here + shift), stack(x, positions=here))


@pytest.mark.parametrize("positions", [*ADDED, *IN_ATTENTION])
@either_stack
def test_every_scheme_tells_positions_apart(positions, causal):
    stack = make_stack(0, positions, causal=causal)
    x = torch.randn(2, 4, 8)

    near, far = (stack(x, positions=torch.tensor([numbers])) for numbers in ([0, 1, 2, 3], [0, 3, 9, 20]))

    assert not torch.allclose(near[:, -1], far[:, -1], atol=1e-2)


# --- the cache --------------------------------------------------------------------------------------------------------


def cuts(length: int) -> st.SearchStrategy[list[int]]:
    """Where a sequence is cut into chunks: the end of each."""
    return st.sets(st.integers(1, length)).map(lambda ends: sorted({*ends, length}))


def in_chunks(model: gf.Transformer, ids: Tensor, keep: Tensor | None, ends: list[int], cache: Cache) -> Tensor:
    """The logits of a decoder-only model that reads `ids` chunk by chunk, after what the cache holds."""
    logits, start = [], 0
    for end in ends:
        seen = None if keep is None else keep[:, : cache.length + end - start]
        logits.append(model(ids[:, start:end], seen, cache=cache).logits)
        start = end
    return torch.cat(logits, dim=1)


@every_scheme
@properties
@given(st.data(), seeds, st.integers(1, 9), head_counts, windows, st.booleans())
def test_cached_and_uncached_logits_agree(positions, data, seed, length, heads, windows, padded):
    model = make_model(seed, stack_config(positions, heads, windows))
    ids = torch.randint(0, 11, (3, length))
    lengths = data.draw(st.lists(st.integers(1, length), min_size=2, max_size=2), label="lengths")
    keep = padding([*lengths, length], left=True) if padded else None
    rows = torch.ones_like(ids, dtype=torch.bool) if keep is None else keep
    ends = data.draw(cuts(length), label="chunk ends")

    with torch.no_grad():
        assert_same(in_chunks(model, ids, keep, ends, Cache())[rows], model(ids, keep).logits[rows])


def test_a_cache_grows_with_the_sequence():
    model = make_model(0, stack_config("rotary"))
    ids = torch.randint(0, 11, (2, 300))

    with torch.no_grad():
        assert_same(in_chunks(model, ids, None, [1, 60, 70, 71, 200, 300], Cache()), model(ids).logits)


@every_scheme
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
@properties
@given(seeds, st.lists(st.integers(1, 6), min_size=1, max_size=3), st.integers(1, 4), windows)
def test_a_padded_prompt_is_continued_as_if_it_stood_alone(positions, left, seed, lengths, new, windows):
    """What generation does: the mask comes with the prompt, then tokens follow one by one without any."""
    model = make_model(seed, stack_config(positions, windows=windows))
    keep = padding(lengths, left)
    prompt, continuation = torch.randint(0, 11, keep.shape), torch.randint(0, 11, (len(keep), new))

    with torch.no_grad():
        cache = Cache()
        model(prompt, keep, cache=cache)
        cached = in_chunks(model, continuation, None, list(range(1, new + 1)), cache)
        for i, kept in enumerate(keep):
            alone = torch.cat([prompt[i, kept], continuation[i]])[None]
            assert_same(cached[i], model(alone).logits[0, -new:])


@every_scheme
@properties
@given(st.data(), seeds, st.integers(1, 6), st.integers(1, 5), head_counts, windows, st.booleans())
def test_an_encoder_decoder_reads_its_source_once(positions, data, seed, length, source_length, heads, windows, padded):
    model = make_model(seed, stack_config(positions, heads, windows), encoder=True)
    source, target = torch.randint(0, 11, (2, source_length)), torch.randint(0, 11, (2, length))
    mask = padding([1, source_length], left=False) if padded else None
    ends = data.draw(cuts(length), label="chunk ends")
    made = []
    for block in model.decoder.blocks:
        block.cross.k.register_forward_hook(lambda *_: made.append("keys"))

    with torch.no_grad():
        expected = model(source, mask, decoder_input_ids=target).logits
        made.clear()
        cache, hidden = Cache(), []
        first = {"encoder_last_hidden_state": model.encode(source, mask), "attention_mask": mask}
        for start, end in zip([0, *ends], ends, strict=False):
            hidden.append(model.decode(target[:, start:end], **(first if start == 0 else {}), cache=cache))

    assert made == ["keys"] * len(model.decoder.blocks)
    assert_same(model.head(torch.cat(hidden, dim=1)), expected)


@every_scheme
@properties
@given(st.data(), seeds, st.integers(1, 6), st.integers(1, 4), windows, st.booleans())
def test_a_cropped_cache_has_forgotten(positions, data, seed, length, new, windows, padded):
    model = make_model(seed, stack_config(positions, windows=windows))
    ids, other = torch.randint(0, 11, (2, length)), torch.randint(0, 11, (2, new))
    keep = padding([1, length], left=True) if padded else None
    kept_length = data.draw(st.integers(0, length), label="cropped to")
    expected_keep = None if keep is None else torch.cat([keep[:, :kept_length], keep.new_ones(2, new)], dim=1)
    ends = data.draw(cuts(new), label="chunk ends")

    with torch.no_grad():
        cache = Cache()
        model(ids, keep, cache=cache)
        cache.crop(kept_length)
        assert cache.length == kept_length
        expected = model(torch.cat([ids[:, :kept_length], other], dim=1), expected_keep).logits[:, kept_length:]
        assert_same(in_chunks(model, other, None, ends, cache), expected)


@every_scheme
@properties
@given(seeds, st.lists(st.integers(0, 2), min_size=1, max_size=4), windows, st.booleans())
def test_a_reordered_cache_is_that_of_other_rows(positions, seed, rows, windows, padded):
    """Beams that survive, once or twice, or that are dropped; with their source, in an encoder-decoder."""
    model = make_model(seed, stack_config(positions, windows=windows), encoder=True)
    source, target = torch.randint(0, 11, (3, 4)), torch.randint(0, 11, (3, 5))
    mask = padding([1, 4, 2], left=False) if padded else None
    keep = padding([5, 2, 3], left=True) if padded else None
    new = torch.randint(0, 11, (len(rows), 2))

    with torch.no_grad():
        cache = Cache()
        model(source, mask, decoder_input_ids=target, decoder_attention_mask=keep, cache=cache)
        cache.reorder(torch.tensor(rows))
        cached = torch.cat([model.head(model.decode(new[:, i : i + 1], cache=cache)) for i in range(2)], dim=1)
        expected = model(
            source[rows],
            None if mask is None else mask[rows],
            decoder_input_ids=torch.cat([target[rows], new], dim=1),
            decoder_attention_mask=None
            if keep is None
            else torch.cat([keep[rows], keep.new_ones(len(rows), 2)], dim=1),
        )

    assert_same(cached, expected.logits[:, -2:])


# --- watching ---------------------------------------------------------------------------------------------------------


@every_scheme
@either_stack
@properties
@given(seeds, st.lists(st.integers(1, 6), min_size=1, max_size=3), st.booleans(), head_counts, windows, st.booleans())
def test_watched_and_unwatched_are_the_same_to_the_last_bit(
    positions, causal, seed, lengths, left, heads, windows, padded
):
    """Outputs and gradients: whoever trains may watch."""
    stack = make_stack(seed, positions, heads, windows, causal=causal)
    keep = padding(lengths, left) if padded else None
    x = torch.randn(len(lengths), max(lengths), 8, requires_grad=True)

    unwatched = stack(x, keep=keep)
    with gf.record(stack) as seen:
        watched = stack(x, keep=keep)

    assert len(seen) == len(stack.blocks)
    assert torch.equal(watched, unwatched)
    for one, other in zip(
        gradients(watched, x, *stack.parameters()), gradients(unwatched, x, *stack.parameters()), strict=True
    ):
        assert torch.equal(one, other)


@every_scheme
@properties
@given(st.data(), seeds, st.integers(1, 6), windows)
def test_watching_a_cached_run_changes_no_bit_and_sees_the_whole(positions, data, seed, length, windows):
    model = make_model(seed, stack_config(positions, windows=windows))
    ids = torch.randint(0, 11, (2, length))
    ends = data.draw(cuts(length), label="chunk ends")

    with torch.no_grad():
        unwatched = in_chunks(model, ids, None, ends, Cache())
        with gf.record(model) as seen:
            watched = in_chunks(model, ids, None, ends, Cache())
        with gf.record(model) as seen_at_once:
            model(ids)

    assert torch.equal(watched, unwatched)
    assert seen.keys() == {"decoder.blocks.0.attn", "decoder.blocks.1.attn"}
    for name, weights in seen.items():
        assert_same(weights, seen_at_once[name])


@pytest.mark.parametrize("start", [0, 2], ids=["from the start", "from midway"])
def test_a_record_forgets_what_the_cache_forgets(start):
    """Watching from `start` on, with two tokens taken back: the rows of an uncached run from there on."""
    model, cache = make_model(0, stack_config()), Cache()
    ids = torch.randint(0, 11, (2, 6))

    with torch.no_grad():
        if start:
            model(ids[:, :start], cache=cache)
        with gf.record(model) as seen:
            model(ids[:, start:5], cache=cache)
            cache.crop(3)
            model(ids[:, 3:4], cache=cache)
        with gf.record(model) as seen_at_once:
            model(ids[:, :4])

    assert_same(seen["decoder.blocks.0.attn"], seen_at_once["decoder.blocks.0.attn"][:, :, start:])


def test_watching_a_reordered_cache_changes_no_bit():
    model = make_model(0, stack_config())
    ids, rows = torch.randint(0, 11, (2, 3)), torch.tensor([0, 0, 1])

    def two_steps() -> Tensor:
        cache = Cache()
        model(ids, cache=cache)
        cache.reorder(rows)
        return model(ids[rows, :1], cache=cache).logits

    with torch.no_grad():
        unwatched = two_steps()
        with gf.record(model):
            assert torch.equal(two_steps(), unwatched)


@every_scheme
@either_stack
@properties
@given(seeds, st.lists(st.integers(1, 5), min_size=1, max_size=3), st.booleans(), head_counts, windows)
def test_recorded_weights_times_values_are_what_attention_mixed(positions, causal, seed, lengths, left, heads, windows):
    stack = make_stack(seed, positions, heads, windows, causal=causal, cross=True)
    keep = padding([*lengths, 5], left)
    x, memory = torch.randn(*keep.shape, 8), torch.randn(*keep.shape, 8)
    values, mixed = {}, {}
    for name in ("blocks.0.attn", "blocks.1.attn", "blocks.0.cross", "blocks.1.cross"):
        attention = stack.get_submodule(name)
        attention.v.register_forward_hook(lambda _, __, output, name=name: values.update({name: output}))
        attention.out.register_forward_pre_hook(lambda _, inputs, name=name: mixed.update({name: inputs[0]}))

    with torch.no_grad(), gf.record(stack) as seen:
        stack(x, keep=keep, memory=memory, memory_keep=keep.flip(1))

    assert seen.keys() == mixed.keys()
    for name, weights in seen.items():
        v = values[name].unflatten(2, (heads[1], 4)).repeat_interleave(heads[0] // heads[1], dim=2)
        assert_same(torch.einsum("bhts,bshk->bthk", weights, v).flatten(2), mixed[name])
