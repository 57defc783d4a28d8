"""Every shape comment `# (B, T, D)` in `core/` is compared with the shape of the real tensor.

Small models run every line of the core, with a different size for each letter; `shape_comments.py` has the rules.
"""

import importlib
import itertools
import sys
from pathlib import Path

import pytest
import torch
from helpers.shape_comments import Checker, read_legend
from torch import Tensor, nn

from glassformer import core
from glassformer.config import (
    ImageConfig,
    LayerKind,
    PairConfig,
    RotaryScaling,
    SeriesConfig,
    StackConfig,
    TransformerConfig,
)
from glassformer.core import context
from glassformer.core.attention import attend, attend_in_tiles, attention_weights, join_heads
from glassformer.core.cache import Cache
from glassformer.core.embeddings import Embedding
from glassformer.core.heads import ClassHead
from glassformer.core.model import Transformer
from glassformer.core.norms import make_norm
from glassformer.core.pair import Pair, contrastive_loss, normalise
from glassformer.core.positions import sinusoids

LEGEND = read_legend(core.__doc__ or "")

B, H, G, K, R, D, E, F, V, L = 2, 6, 3, 10, 8, 14, 11, 23, 29, 41
STACK = {"B": B, "H": H, "G": G, "K": K, "R": R, "D": D, "F": F}
TEXT = STACK | {"E": E, "V": V, "L": L}


def make_stack(**choices) -> StackConfig:
    sizes = {"d_model": D, "num_heads": H, "num_kv_heads": G, "head_dim": K, "rotary_fraction": R / K, "d_ff": F}
    return StackConfig(**sizes, num_layers=2, max_len=L, **choices)


def make_model(**choices) -> Transformer:
    text = {"vocab_size": V, "embed_dim": E, "num_segments": 2, "embed_norm": True, "decoder_start_token_id": 1}
    return Transformer(TransformerConfig(**text | choices))


def ids(length: int) -> Tensor:
    return torch.randint(V, (B, length))


def padded(length: int) -> Tensor:
    """A mask with two tokens of left padding in the first row."""
    mask = torch.ones(B, length, dtype=torch.bool)
    mask[0, :2] = False
    return mask


def translate(check: Checker) -> None:
    """A source of 7 and a target of 5 tokens; then, with a cache, a target of 5 tokens and 12 more."""
    for mask in (None, padded(7)):
        with check.watching(**TEXT, T={5, 7}, S={5, 7}):
            model = make_model(encoder=make_stack(gated=True), decoder=make_stack(norm="rms", qk_norm=True))
            model(ids(7), mask, labels=ids(5)).loss.backward()
        with check.watching(**TEXT, T={5, 7, 12}, S={5, 7, 12, 17}):
            memory, cache = model.encode(ids(7), mask), Cache()
            model.decode(ids(5), encoder_last_hidden_state=memory, attention_mask=mask, cache=cache)
            model.decode(ids(12), cache=cache)
            cache.reorder(torch.tensor([1, 0]))
            cache.crop(5)


def generate(check: Checker) -> None:
    """A decoder alone with a cache and every position scheme: 5 tokens, padded on either side, then 12 more."""
    kinds = (LayerKind(window=3), LayerKind())
    schemes = ("sinusoidal", "learned", "rotary", "relative", "alibi", "none")
    for positions, mask in itertools.product(schemes, (None, padded(5), padded(5).flip(1))):
        with check.watching(**TEXT, T=5):
            cache, model = Cache(), make_model(decoder=make_stack(positions=positions, layer_kinds=kinds))
            model(ids(5), mask, labels=ids(5), cache=cache)
        with check.watching(**TEXT, T=12, S={5, 12, 17}):  # 5 cached keys, 12 new ones, or all
            model(ids(12), cache=cache)


class PassBy(nn.Module):
    def forward(self, x: torch.Tensor, context: object, layer: int) -> torch.Tensor:
        return x


def pass_by_the_blocks(check: Checker) -> None:
    """12 tokens after 5, without blocks that compute keys for the 12 alone: S is 5, 17, or a source's 7, never T."""
    for positions, mask in itertools.product(("sinusoidal", "learned"), (None, padded(17))):
        cache, model = Cache(), make_model(decoder=make_stack(positions=positions))
        model.decoder.blocks = nn.ModuleList([PassBy()])
        model(ids(5), cache=cache)
        with check.watching(**TEXT, T=12, S={5, 17}):
            model(ids(12), mask, cache=cache)
        cache.crop(5)
        with check.watching(**TEXT, T=12, S={5, 7, 17}):
            model.decoder(ids(12), memory=torch.randn(B, 7, D), memory_keep=padded(7), cache=cache)


def read_packed_rows(check: Checker) -> None:
    """Rows of 12 tokens with several documents, in a decoder and in an encoder."""
    documents = torch.tensor([[0] * 5 + [1] * 7, [0] * 9 + [1] * 3])
    for mask in (None, padded(12)):
        with check.watching(**TEXT, T=12):
            make_model(decoder=make_stack())(ids(12), mask, labels=ids(12), documents=documents)
            make_model(encoder=make_stack(positions="rotary"))(ids(12), mask, documents=documents)


def read_in_tiles(check: Checker) -> None:
    """20 tokens, 5 query rows at a time: inside a tile, S counts the keys that these rows may attend to."""
    with pytest.MonkeyPatch.context() as patch, check.watching(**TEXT, T={5, 20}):
        patch.setattr(context, "TILE", B * H * 20 * 5)
        model = make_model(decoder=make_stack(positions="relative"))
        model(ids(20), labels=ids(20)).loss.backward()
        with torch.no_grad():
            model(ids(20), padded(20))


def order_the_norms(check: Checker) -> None:
    """Every kind of block: each norm order, and attention parallel to the feed-forward."""
    blocks = (
        {"drop_path": 0.5},
        {"block": "parallel"},
        {"block": "parallel_two_norms"},
        {"score_cap": 3.0},
        {"norm": "rms_offset"},
    )
    for choices in ({"norm_order": "post"}, {"norm_order": "sandwich"}, *blocks):
        with check.watching(**TEXT, T=5):
            make_model(decoder=make_stack(**choices))(ids(5))


def classify_text(check: Checker) -> None:
    poolings = ("first", "last", "end", "first_end", "highest_id", "mean", "max", "attention")
    for pooling, mask in itertools.product(poolings, (None, padded(5))):
        with check.watching(**TEXT, C=13, T=5):
            choices = {"head": "class", "num_classes": 13, "pooling": pooling, "eos_token_id": 2}
            make_model(encoder=make_stack(), **choices)(ids(5), mask)


def answer_otherwise(check: Checker) -> None:
    """The heads token, span and pool; capped logits; labels shifted with the last one first."""
    with check.watching(**TEXT, C=13, T=5):
        make_model(encoder=make_stack(), head="token", num_classes=13)(ids(5), labels=ids(5) % 13)
        make_model(encoder=make_stack(), head="span")(ids(5), labels=torch.zeros(B, 2, dtype=torch.long))
        make_model(encoder=make_stack(), head="pool", head_activation="tanh")(ids(5))
        make_model(decoder=make_stack(), logit_cap=3.0)(ids(5))
    translator = make_model(encoder=make_stack(), decoder=make_stack(), label_shift="last")
    with check.watching(**TEXT, T=5):
        translator.shift_right(ids(5))


def turn_further(check: Checker) -> None:
    """Every type of rotary scaling."""
    pairs = make_stack(positions="rotary").rotary_dim // 2
    factors = {"short_factors": (1.0,) * pairs, "long_factors": (2.0,) * pairs, "trained_len": 3}
    for kind in ("linear", "dynamic", "llama3", "yarn", "longrope"):
        scaling = RotaryScaling(type=kind, factor=2.0, **(factors if kind == "longrope" else {}))
        with check.watching(**TEXT, T=5):
            kinds = (LayerKind(rotary_scaling=scaling),)
            make_model(decoder=make_stack(positions="rotary", layer_kinds=kinds))(ids(5))


def classify_images(check: Checker) -> None:
    """8 x 8 pixels in patches of 2 x 2. Patch embeddings have width d_model, so E is not set."""
    for class_token, distilled in ((True, False), (False, False), (True, True)):
        with check.watching(**STACK, C=13, N=16):
            image = ImageConfig(size=8, patch=2, channels=5, class_token=class_token, distillation_token=distilled)
            config = TransformerConfig(
                encoder=make_stack(positions="learned"), image=image, head="class", num_classes=13,
                two_classifiers=distilled,
            )  # fmt: skip
            Transformer(config)(pixel_values=torch.randn(B, 5, 8, 8))


def read_series(check: Checker) -> None:
    """40 values of 9 channels, forecast, then classified. The stack's batch is B*C*M: each channel becomes 4 rows."""
    series = SeriesConfig(length=40, patch=16, stride=4, horizon=20, fold=4, instance_norm=True)
    encoder = make_stack(positions="learned")
    for choices in ({"head": "forecast"}, {"head": "class", "num_classes": 13}):
        with check.watching(**STACK | {"B": {B, B * 9 * 4}}, C={9, 13}, L=40, P=16, N=7, Z=20, M=4):
            model = Transformer(TransformerConfig(encoder=encoder, series=series, **choices))
            model(past_values=torch.randn(B, 40, 9))


def pair_images_with_texts(check: Checker) -> None:
    """Both models of a pair, with vectors of width 37; then two images compared with four texts."""
    image = ImageConfig(size=8, patch=2, channels=5, embed_norm=True)
    text = TransformerConfig(decoder=make_stack(), vocab_size=V, head="pool", pooling="last", pooled_dim=37)
    side = TransformerConfig(encoder=make_stack(), image=image, head="pool", pooling="first", pooled_dim=37)
    pair = Pair(PairConfig(text=text, image=side))
    with check.watching(**STACK, V=V, N=16):
        pair(ids(5)), pair(pixel_values=torch.randn(B, 5, 8, 8))
    with check.watching(**STACK, A=4, W=37):
        pair.logits(normalise(torch.randn(B, 37)), torch.randn(4, 37))
        contrastive_loss(torch.randn(B, B))


def use_parts(check: Checker) -> None:
    """Parts on their own that a model would not call, or would call with the same size for two letters."""
    q, k = torch.randn(B, H, 12, K), torch.randn(B, G, 17, K)
    with check.watching(**TEXT, T=12, S=17, W=37):
        for layout in ("interleaved", "halves", "closed_halves"):
            sinusoids(L, 37, layout)
        for norm in ("layer", "rms", "rms_offset"):
            make_norm(make_stack(norm=norm), 37)(torch.randn(B, 12, 37))
        attention_weights(q, k, cap=3.0)
        attention_weights(q, k, torch.ones(B, 1, 12, 17).bool())
        attend(q, k, k, cap=3.0)
        join_heads(attend_in_tiles(q, k, k, context.Mask(12, 17), dropout=0.0))
        attend_in_tiles(q, k, k, context.Mask(12, 17, documents=torch.zeros(B, 17).long()))
        Embedding(make_stack(positions="none"), E)(torch.randn(B, 12, E))
        ClassHead(TransformerConfig(encoder=make_stack(), vocab_size=V, head="pool", pooled_dim=37))(
            q[:, 0, :, :1].expand(B, 12, D)
        )


def caption_images(check: Checker) -> None:
    """17 vectors of an image as prefix or memory of 5 tokens, padded on either side, then 12 more.

    The encoder has width 15: D is that, or the decoder's width.
    """
    image = ImageConfig(size=8, patch=2, channels=5)
    wide = make_stack(positions="learned").replace(d_model=15)
    joins = (("cross", "none"), ("cross", "linear"), ("prefix", "linear"), ("prefix", "linear_norm"))
    for (memory, project), mask in itertools.product(joins, (None, padded(5), padded(5).flip(1))):
        choices = {"memory": memory, "memory_project": project, "num_segments": 0, "embed_dim": None}
        rows = {5, 12, 17, 22} if memory == "prefix" else {5, 12, 17}
        with check.watching(**STACK | {"D": {D, 15}}, V=V, N=16, T=rows, S={*rows, 34}):
            model = make_model(image=image, encoder=wide, decoder=make_stack(positions="learned"), **choices)
            pixels = torch.randn(B, 5, 8, 8)
            asked = {"pixel_values": pixels, "decoder_input_ids": ids(5), "decoder_attention_mask": mask}
            model(**asked, labels=ids(5)).loss.backward()
            vectors, cache = model.encode(pixel_values=pixels), Cache()
            model.decode(ids(5), mask, encoder_last_hidden_state=vectors, cache=cache)
            model.decode(ids(12), cache=cache)


SCENARIOS = (
    caption_images,
    translate,
    generate,
    pass_by_the_blocks,
    read_packed_rows,
    read_in_tiles,
    order_the_norms,
    classify_text,
    answer_otherwise,
    turn_further,
    classify_images,
    read_series,
    pair_images_with_texts,
    use_parts,
)


def test_every_shape_comment_of_the_core_is_true():
    check = Checker(sorted(Path(core.__file__).parent.glob("*.py")), LEGEND)
    for scenario in SCENARIOS:
        scenario(check)
    assert len(check.claims) > 80, "shape comments not found"
    assert not check.verdict(), "\n".join(["", *check.verdict()])


HONEST = """
from dataclasses import dataclass

import torch
from torch import Tensor, nn, zeros


@dataclass(frozen=True)
class Batch:
    x: Tensor  # (B, T, D), or (B, T) before it is embedded
    mask: Tensor | None = None  # (B, S): True = a token


@dataclass
class State:
    x: Tensor  # (B, T)

    def grow(self):
        self.x = zeros(2, 3, 1)[..., 0]


class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(zeros(width)), None
        self.shape = self.weight  # (W)

    def forward(self, x):
        return (x * self.weight).flatten(0, 1)  # (..., W)


def mix(
    x: Tensor,  # (B, T, D)
    y: Tensor | None = None,  # (B, S, D)
) -> Tensor:
    first = second = (lambda z: z[0])(x)  # (T, D)
    rows, columns = [part.flatten() for part in (x[:, 0, 0], x[0, 0])]  # (B), (D)
    y = None if y is None else torch.cat(
        [y, y],
        dim=2,
    )  # (B, S, 2*D)  # fmt: skip
    with torch.no_grad():
        return x.sum(), x[:, None], y  # (), (B, 1, T, D), (B, S, D+D) or (), (B, 1, T, D), None


def try_flat(x):
    try:
        return x.view(2)  # (B)
    except RuntimeError:
        return x  # (B, T)


def run():
    try_flat(zeros(2)), try_flat(zeros(2, 3))
    Batch(zeros(2, 3, 5)), Batch(zeros(2, 3), zeros(2, 4)), State(zeros(2, 3)).grow()
    Scale(7)(zeros(2, 3, 7))
    mix(zeros(2, 3, 5)), mix(zeros(2, 3, 5), zeros(2, 4, 5))
"""


def judge(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    path = tmp_path / "told.py"
    path.write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "told", raising=False)
    run = importlib.import_module("told").run
    check = Checker([path], LEGEND)
    with check.watching(B=2, T=3, S=4, D=5):
        run()
    return check.verdict()


def test_honest_comments_pass(tmp_path, monkeypatch):
    assert judge(HONEST, tmp_path, monkeypatch) == []


@pytest.mark.parametrize(
    ("truth", "lie", "found"),
    [
        pytest.param("(x)  # (T, D)", "(x)  # (S, D)", "first was (3, 5), where S is 4, D is 5", id="assignment"),
        pytest.param("# (B), (D)", "# (B), (B)", "(rows, columns) was (2,), (5,)", id="tuple"),
        pytest.param("# (B), (D)", "# (B)", "(rows, columns) was (2,), (5,)", id="too-few"),
        pytest.param("# (B, S, 2*D)", "# (B, S, 2+D)", "y was (2, 4, 10)", id="many-lines"),
        pytest.param("# (W)", "# (W, 1)", "self.shape was (7,)", id="attribute"),
        pytest.param("(..., W)", "(W, ...)", "what is returned was (6, 7)", id="return"),
        pytest.param("x: Tensor,  # (B, T, D)", "x: Tensor,  # (T, B, D)", "x was (2, 3, 5)", id="argument"),
        pytest.param("y: Tensor | None = None,", "y: Tensor = None,", "y was a NoneType", id="none"),
        pytest.param("# (B, S): True", "# (B, T): True", "Batch.mask was (2, 4)", id="field"),
        pytest.param("# (B, T, D), or (B, T)", "# (B, T, D), or (B, S)", "Batch.x was (2, 3)", id="alternative"),
        pytest.param("(..., W)", "(..., Q)", "(..., Q) has Q, which the legend does not know", id="unknown-letter"),
        pytest.param("(..., W)", "(..., Z)", "what is returned was (6, 7), where Z is open", id="letter-without-size"),
        pytest.param("(..., W)", "(as it was)", "cannot be read as a shape", id="no-shape"),
        pytest.param("super().__init__()", "super().__init__()  # (W)", "beside nothing that can be", id="no-subject"),
        pytest.param("    Scale(7)", "    # (B, T)\n    Scale(7)", "beside nothing that can be", id="line-of-its-own"),
    ],
)
def test_a_lie_is_found_where_it_stands(truth, lie, found, tmp_path, monkeypatch):
    assert HONEST.count(truth) == 1
    told = HONEST.replace(truth, lie)
    line = told[: told.index(lie)].count("\n") + 1
    assert any(fault.startswith(f"told.py:{line}: ") and found in fault for fault in judge(told, tmp_path, monkeypatch))


@pytest.mark.parametrize(
    ("shown", "hidden", "found"),
    [
        pytest.param("Scale(7)(zeros(2, 3, 7))", "Scale(7)", "(..., W): no scenario reaches it", id="never-reached"),
        pytest.param(", zeros(2, 4)),", "),", "(B, S): no scenario shows it", id="always-none"),
        pytest.param("State(zeros(2, 3)).grow()", "State(zeros(1, 3))", "(B, T): no scenario shows it", id="always-1"),
        pytest.param("Scale(7)(zeros(2, 3, 7))", "Scale(5)(zeros(2, 3, 5))", "(W): no scenario shows it", id="W-is-D"),
        pytest.param("Batch(zeros(2, 3)", "Batch(zeros(2, 3, 5)", "(B, T): no scenario shows it", id="no-alternative"),
        pytest.param("zeros(2, 3, 1)[..., 0]", "zeros(2, 3, 1)", "State.x was (2, 3, 1)", id="field-set-later"),
    ],
)
def test_what_runs_must_show_every_comment(shown, hidden, found, tmp_path, monkeypatch):
    assert HONEST.count(shown) == 1
    assert any(found in fault for fault in judge(HONEST.replace(shown, hidden), tmp_path, monkeypatch))


def test_a_scenario_must_tell_the_letters_apart():
    check = Checker([], LEGEND)
    for sizes in ({"B": 2, "D": 2}, {"D": 5, "T": {3, 5}}, {"B": 1}):
        with pytest.raises(AssertionError), check.watching(**sizes):
            pass
