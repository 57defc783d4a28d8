"""With the same weights, outputs and gradients equal those of PyTorch's own Transformer.

`to_ours` renames the tensors of an `nn.Transformer`, or of a part of it, to our names: weights as well as gradients.
In PyTorch's masks True = ignore, in ours True = may attend.
"""

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.core.attention import Attention, attend
from glassformer.core.stack import Stack

B, T, S, D, H, F = 3, 5, 7, 12, 3, 20
LAYERS = 2

# A full row, one with padding inside, one padded on the right. Every causal query has at least one key.
KEEP = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [1, 1, 1, 0, 0]], dtype=torch.bool)  # (B, T)
MEMORY_KEEP = torch.tensor([[1] * 7, [0, 1, 1, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]], dtype=torch.bool)  # (B, S)
LATER = torch.ones(T, T, dtype=torch.bool).triu(1)  # (T, T), True = a later token, PyTorch's convention

norm_orders = pytest.mark.parametrize("norm_order", ["pre", "post"])
activations = pytest.mark.parametrize("activation", ["relu", "gelu"])
masks = pytest.mark.parametrize(
    ("keep", "causal"),
    [(None, False), (KEEP, False), (None, True), (KEEP, True)],
    ids=["unmasked", "padding", "causal", "padding+causal"],
)

WORDS = {
    "layers.": "blocks.",
    "self_attn.": "attn.",
    "multihead_attn.": "cross.",
    "out_proj.": "out.",
    "linear1.": "ffn.up.",
    "linear2.": "ffn.down.",
    "norm1.": "attn_norm.",
    "norm3.": "ffn_norm.",
}


def to_ours(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Renames their tensors to our names. Their `in_proj` is q, k and v in one; their `norm2` belongs to the
    feed-forward or, in a decoder, to cross-attention."""
    ours = {}
    for name, tensor in tensors.items():
        has_cross = name.replace("norm2.", "norm3.") in tensors
        new = name.replace("norm2.", "cross_norm." if has_cross else "ffn_norm.")
        for their_word, our_word in WORDS.items():
            new = new.replace(their_word, our_word)
        if "in_proj_" in new:
            for part, third in zip("qkv", tensor.chunk(3), strict=True):
                ours[new.replace("in_proj_", f"{part}.")] = third
        else:
            ours[new] = tensor
    return ours


def copy_weights(theirs: nn.Module, ours: nn.Module) -> None:
    """Strict: every weight of theirs is used, and every weight of ours is filled."""
    ours.load_state_dict(to_ours(theirs.state_dict()))


def stack_config(**choices) -> gf.StackConfig:
    return gf.StackConfig(
        **{"d_model": D, "num_heads": H, "d_ff": F, "num_layers": LAYERS, "positions": "none", **choices}
    )


def their_choices(norm_order: str, activation: str) -> dict:
    return {
        "d_model": D, "nhead": H, "dim_feedforward": F, "dropout": 0.0, "batch_first": True,
        "activation": activation, "norm_first": norm_order == "pre",
    }  # fmt: skip


def randomised(module: nn.Module) -> nn.Module:
    """PyTorch initialises biases to 0, norms to 1 and all layers equally, which would hide mistakes."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module


def inputs(*shape: int) -> tuple[Tensor, Tensor]:
    """The same random tensor twice, so that each side has its own gradients."""
    x = torch.randn(shape)
    return x.clone().requires_grad_(), x.clone().requires_grad_()


def ignore(keep: Tensor | None) -> Tensor | None:
    return None if keep is None else ~keep


def later(causal: bool) -> Tensor | None:
    return LATER if causal else None


def assert_same(theirs: Tensor, ours: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def assert_same_backward(theirs: Tensor, ours: Tensor, keep: Tensor | None, modules, *inputs) -> None:
    """Compares the outputs of kept tokens, and the gradients of every input and weight of a loss over them."""
    rows = torch.ones(B, T, dtype=torch.bool) if keep is None else keep
    assert_same(theirs[rows], ours[rows])
    wanted = torch.randn_like(theirs[rows])
    for output in (theirs, ours):
        (output[rows] * wanted).sum().backward()
    for their_input, our_input in inputs:
        assert_same(their_input.grad, our_input.grad)
    their_module, our_module = modules
    their_grads = to_ours({name: parameter.grad for name, parameter in their_module.named_parameters()})
    our_grads = {name: p.grad for name, p in our_module.named_parameters() if name in their_grads}
    assert our_grads.keys() == their_grads.keys()
    for name, grad in our_grads.items():
        torch.testing.assert_close(grad, their_grads[name], atol=1e-5, rtol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@masks
def test_self_attention_is_multihead_attention(keep, causal):
    theirs = randomised(nn.MultiheadAttention(D, H, batch_first=True))
    stack = Stack(stack_config(num_layers=1), causal=causal)
    ours = stack.blocks[0].attn
    copy_weights(theirs, ours)
    x, y = inputs(B, T, D)

    their_output, their_weights = theirs(
        x, x, x, key_padding_mask=ignore(keep), attn_mask=later(causal), average_attn_weights=False
    )
    with gf.record(stack) as seen:
        our_output = ours(y, stack.context(y, *stack.counted(y, keep, None, None, None), None, None, None), layer=0)

    assert_same(their_weights, seen["blocks.0.attn"])
    assert_same_backward(their_output, our_output, keep, (theirs, ours), (x, y))


@pytest.mark.parametrize("memory_keep", [None, MEMORY_KEEP], ids=["unmasked", "padding"])
def test_cross_attention_is_multihead_attention(memory_keep):
    theirs = randomised(nn.MultiheadAttention(D, H, batch_first=True))
    stack = Stack(stack_config(num_layers=1), causal=True, cross=True)
    ours = stack.blocks[0].cross
    copy_weights(theirs, ours)
    (x, y), (their_memory, our_memory) = inputs(B, T, D), inputs(B, S, D)

    their_output, their_weights = theirs(
        x, their_memory, their_memory, key_padding_mask=ignore(memory_keep), average_attn_weights=False
    )
    with gf.record(stack) as seen:
        our_output = ours(
            y, stack.context(y, *stack.counted(y, None, None, None, None), our_memory, memory_keep, None), layer=0
        )

    assert_same(their_weights, seen["blocks.0.cross"])
    assert_same_backward(their_output, our_output, None, (theirs, ours), (x, y), (their_memory, our_memory))


@norm_orders
@activations
@masks
def test_encoder_layer(norm_order, activation, keep, causal):
    theirs = randomised(nn.TransformerEncoderLayer(**their_choices(norm_order, activation)))
    config = stack_config(num_layers=1, norm_order=norm_order, activation=activation, final_norm=False)
    stack = Stack(config, causal=causal)
    copy_weights(theirs, stack.blocks[0])
    x, y = inputs(B, T, D)

    their_output = theirs(x, src_mask=later(causal), src_key_padding_mask=ignore(keep))
    our_output = stack(y, keep=keep)

    assert_same_backward(their_output, our_output, keep, (theirs, stack.blocks[0]), (x, y))


@norm_orders
@activations
@masks
@pytest.mark.parametrize("final_norm", [True, False], ids=["final norm", "no final norm"])
def test_encoder(norm_order, activation, keep, causal, final_norm):
    layer = nn.TransformerEncoderLayer(**their_choices(norm_order, activation))
    norm = nn.LayerNorm(D) if final_norm else None
    theirs = randomised(nn.TransformerEncoder(layer, LAYERS, norm, enable_nested_tensor=False))
    config = stack_config(norm_order=norm_order, activation=activation, final_norm=final_norm)
    ours = Stack(config, causal=causal)
    copy_weights(theirs, ours)
    x, y = inputs(B, T, D)

    their_output = theirs(x, mask=later(causal), src_key_padding_mask=ignore(keep))
    our_output = ours(y, keep=keep)

    assert_same_backward(their_output, our_output, keep, (theirs, ours), (x, y))


@norm_orders
@activations
@masks
@pytest.mark.parametrize("memory_keep", [None, MEMORY_KEEP], ids=["whole memory", "padded memory"])
def test_decoder_layer(norm_order, activation, keep, causal, memory_keep):
    theirs = randomised(nn.TransformerDecoderLayer(**their_choices(norm_order, activation)))
    config = stack_config(num_layers=1, norm_order=norm_order, activation=activation, final_norm=False)
    stack = Stack(config, causal=causal, cross=True)
    copy_weights(theirs, stack.blocks[0])
    (x, y), (their_memory, our_memory) = inputs(B, T, D), inputs(B, S, D)

    their_output = theirs(
        x,
        their_memory,
        tgt_mask=later(causal),
        tgt_key_padding_mask=ignore(keep),
        memory_key_padding_mask=ignore(memory_keep),
    )
    our_output = stack(y, keep=keep, memory=our_memory, memory_keep=memory_keep)

    modules = theirs, stack.blocks[0]
    assert_same_backward(their_output, our_output, keep, modules, (x, y), (their_memory, our_memory))


@norm_orders
@activations
@masks
def test_decoder(norm_order, activation, keep, causal):
    layer = nn.TransformerDecoderLayer(**their_choices(norm_order, activation))
    theirs = randomised(nn.TransformerDecoder(layer, LAYERS, nn.LayerNorm(D)))
    config = stack_config(norm_order=norm_order, activation=activation, final_norm=True)
    ours = Stack(config, causal=causal, cross=True)
    copy_weights(theirs, ours)
    (x, y), (their_memory, our_memory) = inputs(B, T, D), inputs(B, S, D)

    their_output = theirs(
        x,
        their_memory,
        tgt_mask=later(causal),
        tgt_key_padding_mask=ignore(keep),
        memory_key_padding_mask=~MEMORY_KEEP,
    )
    our_output = ours(y, keep=keep, memory=our_memory, memory_keep=MEMORY_KEEP)

    assert_same_backward(their_output, our_output, keep, (theirs, ours), (x, y), (their_memory, our_memory))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # nn.Transformer cannot set it to False
@norm_orders
@activations
@pytest.mark.parametrize("padded", [False, True], ids=["unpadded", "padded"])
def test_transformer(norm_order, activation, padded):
    """Encoder and decoder together. Theirs both end with a norm, in post order too."""
    theirs = randomised(
        nn.Transformer(
            **their_choices(norm_order, activation), num_encoder_layers=LAYERS, num_decoder_layers=LAYERS + 1
        )
    )
    encoder = stack_config(norm_order=norm_order, activation=activation, final_norm=True)
    config = gf.TransformerConfig(
        encoder=encoder, decoder=encoder.replace(num_layers=LAYERS + 1), vocab_size=1, head="none"
    )
    ours = gf.Transformer(config)
    unfilled = ours.load_state_dict(to_ours(theirs.state_dict()), strict=False)
    assert not unfilled.unexpected_keys
    assert set(unfilled.missing_keys) == {"encoder.embed.tokens.weight", "decoder.embed.tokens.weight"}
    (their_source, our_source), (their_target, our_target) = inputs(B, S, D), inputs(B, T, D)
    keep, source_keep = (KEEP, MEMORY_KEEP) if padded else (None, None)

    their_output = theirs(
        their_source,
        their_target,
        tgt_mask=LATER,
        src_key_padding_mask=ignore(source_keep),
        memory_key_padding_mask=ignore(source_keep),
        tgt_key_padding_mask=ignore(keep),
    )
    memory = ours.encode(inputs_embeds=our_source, attention_mask=source_keep)
    our_output = ours.decode(
        inputs_embeds=our_target,
        decoder_attention_mask=keep,
        encoder_last_hidden_state=memory,
        attention_mask=source_keep,
    )

    pairs = (their_source, our_source), (their_target, our_target)
    assert_same_backward(their_output, our_output, keep, (theirs, ours), *pairs)


def attention_by_hand(attention: Attention, x: Tensor, allowed: Tensor) -> Tensor:
    """Section 3.2.2 of the paper as einsums, one kv head per head: b batch, t query, s key, h head, k head_dim."""
    q, k, v = (layer(x).view(*x.shape[:2], H, -1) for layer in (attention.q, attention.k, attention.v))
    scores = torch.einsum("bthk,bshk->bhts", q, k) / q.shape[-1] ** 0.5
    weights = scores.masked_fill(~allowed, -1e30).softmax(-1)
    return attention.out(torch.einsum("bhts,bshk->bthk", weights, v).flatten(2))


@pytest.mark.parametrize("head_dim", [2, 7, 16])
@masks
def test_head_dim_is_free_of_d_model(head_dim, keep, causal):
    stack = Stack(stack_config(num_layers=1, head_dim=head_dim), causal=causal)
    attention = randomised(stack.blocks[0].attn)
    x = torch.randn(B, T, D)
    rows = torch.ones(B, T, dtype=torch.bool) if keep is None else keep
    allowed = rows[:, None, None, :] & ~(LATER & causal)

    output = attention(x, stack.context(x, *stack.counted(x, keep, None, None, None), None, None, None), layer=0)

    assert attention.q.weight.shape == (H * head_dim, D)
    assert_same(attention_by_hand(attention, x, allowed)[rows], output[rows])


@pytest.mark.parametrize("num_kv_heads", [1, 2, 3, 6])
@masks
def test_grouped_queries_are_repeated_kv_heads(num_kv_heads, keep, causal):
    """Neighbouring heads share a kv head: repeating its weights for each of them changes nothing."""
    repeats = 6 // num_kv_heads
    grouped = Stack(stack_config(num_heads=6, num_kv_heads=num_kv_heads, head_dim=4), causal=causal)
    full = Stack(stack_config(num_heads=6, head_dim=4), causal=causal)
    state = randomised(grouped).state_dict()
    for name, tensor in state.items():
        if ".attn.k." in name or ".attn.v." in name:
            state[name] = tensor.unflatten(0, (num_kv_heads, 4)).repeat_interleave(repeats, dim=0).flatten(0, 1)
    full.load_state_dict(state)
    x = torch.randn(B, T, D)
    rows = torch.ones(B, T, dtype=torch.bool) if keep is None else keep

    with gf.record(grouped) as seen_grouped, gf.record(full) as seen_full:
        assert_same(full(x, keep=keep)[rows], grouped(x, keep=keep)[rows])
    assert_same(seen_full["blocks.1.attn"], seen_grouped["blocks.1.attn"])


@pytest.mark.parametrize("as_float", [False, True], ids=["boolean mask", "float mask"])
def test_a_fully_masked_row_is_zero_and_the_others_are_as_ever(as_float):
    q, k, v = torch.randn(B, H, T, 4), torch.randn(B, H, S, 4), torch.randn(B, H, S, 4)
    mask = torch.rand(B, 1, T, S) < 0.6
    mask[..., 0] = True
    mask[1, :, 2] = mask[2, :, :] = False
    empty = ~mask.any(-1).expand(B, H, T)
    scores = torch.einsum("bhtk,bhsk->bhts", q, k) / 2
    expected = torch.einsum("bhts,bhsk->bhtk", scores.masked_fill(~mask, -torch.inf).softmax(-1), v)

    given = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf) if as_float else mask
    output = attend(q, k, v, given)

    assert empty.sum() == H * (T + 1)
    assert (output[empty] == 0).all()
    assert_same(expected[~empty], output[~empty])
