"""Writes the model files of `speed.py`, and calls each library on them.

A side is one library with one kind of weights. All sides of a case read the same files and do the same work: they
generate the same number of tokens, or encode the same texts.
"""

import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import ctranslate2
import numpy as np
import onnxruntime
import torch
import transformers
from ctranslate2.converters import TransformersConverter
from tokenizers import Tokenizer, models
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

import glassformer as gf
from glassformer.generation.encode import encode
from glassformer.generation.engine import Engine

BATCH = 32  # texts that a peer encodes at a time
TEXTS, SHORTEST, LONGEST, MEAN, SPREAD = 256, 4, 256, 34, 0.8  # texts to encode: log-normal lengths in tokens
GENERATION = ("engine", "plain", "transformers", "CTranslate2")
GENERATION_INT8 = ("engine int8", "engine", "plain", "transformers", "CTranslate2 int8")
ENCODING = ("engine", "engine int8", "plain", "transformers", "CTranslate2", "nn.TransformerEncoder", "ONNX Runtime")


class Case(NamedTuple):
    """One row of the table. The first side is compared with the others."""

    name: str
    shape: str
    sides: tuple[str, ...] = GENERATION
    batch: int = 1
    prompt: int = 32  # tokens
    new: int = 128  # tokens
    beams: int = 1
    threads: tuple[int, ...] = (2,)  # if several, the best of each side counts
    rounds: int = 4
    targets: dict[str, float] = {}  # noqa: RUF012  # target ratio for each peer
    memory: bool = False  # also measure the peak memory of each side

    @property
    def generates(self) -> bool:
        return self.shape != "bert"


class Side(NamedTuple):
    """The call of one side, and the same call for one new token. Both return a list with one item per row."""

    run: Callable[[], list[Any]]
    first: Callable[[], list[Any]] | None = None


def make_model(shape: str, tiny: bool) -> Any:
    """A transformers model with random weights. Tiny models only test the benchmark itself."""
    sizes: dict[str, Any] = {}
    if shape == "bert":
        if tiny:
            sizes = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
        config: Any = transformers.BertConfig(**sizes)
        config.position_embedding_type = "absolute"  # CTranslate2's converter reads it
        return transformers.BertModel(config)
    if shape == "base":
        layers, width = (2, 64) if tiny else (6, 512)
        config = transformers.BartConfig(
            vocab_size=32_000, d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=8,
            decoder_attention_heads=8, encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width, activation_function="relu",
            forced_eos_token_id=None,
        )  # fmt: skip
        config.normalize_before = False  # CTranslate2's converter reads it
        return transformers.BartForConditionalGeneration(config)
    if shape == "one layer" or tiny:
        sizes = {"vocab_size": 1000, "n_embd": 64, "n_layer": 1, "n_head": 4, "bos_token_id": 999, "eos_token_id": 999}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))


def save_model(shape: str, folder: Path, tiny: bool) -> None:
    """Saves the model, a tokenizer with one word per id, and the model converted for CTranslate2."""
    torch.manual_seed(0)
    model = make_model(shape, tiny)
    model.save_pretrained(folder)
    words = [f"w{i}" for i in range(model.config.vocab_size)]
    words[3], special = "<unk>", {"unk_token": "<unk>"}
    roles = {"pad": "<pad>", "bos": "<s>", "eos": "</s>"}
    ids = {role: getattr(model.config, f"{role}_token_id", None) for role in roles}
    given = {role: i for role, i in ids.items() if i is not None}
    for role, i in given.items():
        words[i] = roles[role]
    special |= {f"{role}_token": words[i] for role, i in given.items()}  # one token may have two roles
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(folder)
    TransformersConverter(str(folder)).convert(str(folder / "ct2"))


class Models:
    """The models that each library loads from one folder, on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def plain(self) -> gf.Transformer:
        return gf.load(self.folder)

    @cached_property
    def float32(self) -> Engine:
        return gf.engine(self.plain)

    @cached_property
    def int8(self) -> Engine:
        return gf.engine(self.plain, weights="int8")

    @cached_property
    def theirs(self) -> Any:
        architecture = transformers.AutoConfig.from_pretrained(self.folder).architectures[0]
        return getattr(transformers, architecture).from_pretrained(self.folder).eval()

    @cached_property
    def words(self) -> list[str]:
        vocabulary = Tokenizer.from_file(str(self.folder / "tokenizer.json")).get_vocab()
        return sorted(vocabulary, key=lambda word: vocabulary[word])

    def ct2(self, kind: Any, threads: int, side: str) -> Any:
        weights = "int8" if side.endswith("int8") else "float32"
        return kind(str(self.folder / "ct2"), intra_threads=threads, compute_type=weights)


def make_side(name: str, case: Case, models: Models, threads: int) -> Side:
    if not case.generates:
        run = encoding_side(name, models, random_texts(), threads)
        return Side(run)
    call = generating_side(name, case, models, threads)
    return Side(lambda: call(case.new), lambda: call(1))


def generating_side(name: str, case: Case, models: Models, threads: int) -> Callable[[int], list[Any]]:
    """A function that generates exactly the given number of new tokens for each row."""
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(100, len(models.words), (case.batch, case.prompt), generator=draw)  # (B, T)
    if name.startswith("CTranslate2"):
        return ct2_side(name, case, models, threads, [[models.words[i] for i in row] for row in ids.tolist()])
    old = case.prompt if case.shape != "base" else 1  # tokens at the start of the result that are not new
    common: dict[str, Any] = {"num_beams": case.beams, "do_sample": False}
    if name == "transformers":
        generate: Any = models.theirs.generate
        common |= {"pad_token_id": models.theirs.config.eos_token_id, "attention_mask": torch.ones_like(ids)}
    elif name == "plain":
        plain = models.plain
        generate = lambda ids, **keywords: gf.generate(plain, ids, **keywords)  # noqa: E731
    else:
        generate = (models.int8 if name == "engine int8" else models.float32).generate
    return lambda new: generate(ids, max_new_tokens=new, min_new_tokens=new, **common)[:, old:].tolist()


def ct2_side(name: str, case: Case, models: Models, threads: int, texts: list[list[str]]) -> Callable[[int], list[Any]]:
    if case.shape == "base":
        translator = models.ct2(ctranslate2.Translator, threads, name)
        ids = {word: i for i, word in enumerate(models.words)}

        def translate(new: int) -> list[Any]:
            ends = {"max_decoding_length": new, "min_decoding_length": new}
            results = translator.translate_batch(texts, beam_size=case.beams, **ends)
            return [[ids[word] for word in r.hypotheses[0]] for r in results]

        return translate
    generator = models.ct2(ctranslate2.Generator, threads, name)

    def generate(new: int) -> list[Any]:
        ends = {"max_length": new, "min_length": new, "sampling_topk": 1, "beam_size": case.beams}
        results = generator.generate_batch(texts, include_prompt_in_result=False, **ends)
        return [r.sequences_ids[0] for r in results]

    return generate


def random_texts() -> list[Tensor]:
    """The texts to encode, as ids: many short and a few long, in random order."""
    draw = np.random.default_rng(0)
    lengths = draw.lognormal(np.log(MEAN) - SPREAD**2 / 2, SPREAD, TEXTS).round().clip(SHORTEST, LONGEST).astype(int)
    return [torch.from_numpy(draw.integers(1000, 30_000, length)) for length in lengths]


def encoding_side(name: str, models: Models, texts: list[Tensor], threads: int) -> Callable[[], list[Tensor]]:
    """A function that returns the vectors (T, D) of each text, written as a user of the library would write it."""
    in_order = list(range(len(texts)))
    by_length = sorted(in_order, key=lambda i: len(texts[i]))
    if name == "plain":
        return lambda: encode(models.plain, texts)
    if name in ("engine", "engine int8"):
        engine = models.float32 if name == "engine" else models.int8
        return lambda: engine.encode(texts)
    if name == "transformers":
        theirs = models.theirs
        return lambda: in_batches(lambda ids, keep: theirs(ids, keep.long()).last_hidden_state, texts, in_order)
    if name == "CTranslate2":
        encoder = models.ct2(ctranslate2.Encoder, threads, name)

        def run_ct2(ids: Tensor, keep: Tensor) -> Tensor:
            rows = [row[kept].tolist() for row, kept in zip(ids, keep, strict=True)]
            return torch.from_numpy(np.array(encoder.forward_batch(rows).last_hidden_state))

        return lambda: in_batches(run_ct2, texts, by_length)
    if name == "ONNX Runtime":
        session = onnx_session(models, threads)

        def run_onnx(ids: Tensor, keep: Tensor) -> Tensor:
            return torch.from_numpy(session.run(None, {"ids": ids.numpy(), "mask": keep.long().numpy()})[0])

        return lambda: in_batches(run_onnx, texts, by_length)
    embed, stack = models.theirs.embeddings, torch_encoder(models.theirs)
    return lambda: in_batches(lambda ids, keep: stack(embed(ids), src_key_padding_mask=~keep), texts, by_length)


@torch.no_grad()
def in_batches(run: Callable[[Tensor, Tensor], Tensor], texts: Sequence[Tensor], order: Sequence[int]) -> list[Tensor]:
    """Runs padded batches of `BATCH` texts in `order`. Returns the vectors without padding, in the order of `texts`."""
    vectors: dict[int, Tensor] = {}
    for start in range(0, len(order), BATCH):
        numbers = order[start : start + BATCH]
        ids = pad_sequence([texts[i] for i in numbers], batch_first=True)  # (B, T)
        lengths = torch.tensor([len(texts[i]) for i in numbers])
        hidden = run(ids, torch.arange(ids.shape[1]) < lengths[:, None])  # (B, T, D)
        vectors |= {i: row[: len(texts[i])] for i, row in zip(numbers, hidden, strict=True)}
    return [vectors[i] for i in range(len(texts))]


def torch_encoder(bert: Any) -> nn.TransformerEncoder:
    """PyTorch's own encoder with BERT's weights. In eval mode without gradients it uses its fast path."""
    config = bert.config
    layer = nn.TransformerEncoderLayer(
        config.hidden_size, config.num_attention_heads, config.intermediate_size, activation="gelu", batch_first=True,
        layer_norm_eps=config.layer_norm_eps,
    )  # fmt: skip
    stack = nn.TransformerEncoder(layer, config.num_hidden_layers, enable_nested_tensor=True)
    for ours, theirs in zip(stack.layers, bert.encoder.layer, strict=True):
        qkv = [getattr(theirs.attention.self, name) for name in ("query", "key", "value")]
        state = {f"self_attn.in_proj_{end}": torch.cat([getattr(x, end) for x in qkv]) for end in ("weight", "bias")}
        parts = {
            "self_attn.out_proj": theirs.attention.output.dense, "norm1": theirs.attention.output.LayerNorm,
            "linear1": theirs.intermediate.dense, "linear2": theirs.output.dense, "norm2": theirs.output.LayerNorm,
        }  # fmt: skip
        for name, part in parts.items():
            state |= {f"{name}.weight": part.weight, f"{name}.bias": part.bias}
        ours.load_state_dict(state)
    return stack.eval()


class HiddenState(nn.Module):
    """BERT as a function from ids and mask to vectors, for export."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.bert(ids, mask).last_hidden_state


def onnx_session(models: Models, threads: int) -> Any:
    """ONNX Runtime on BERT as `torch.onnx` exports it, with all of its graph optimisations (the default)."""
    file = models.folder / "bert.onnx"
    if not file.is_file():
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        bert = transformers.BertModel.from_pretrained(models.folder, attn_implementation="eager").eval()
        example = (torch.ones(3, 7, dtype=torch.long), torch.ones(3, 7, dtype=torch.long))
        batch, length = torch.export.Dim("batch", max=4096), torch.export.Dim("length", min=2, max=512)
        torch.onnx.export(
            HiddenState(bert), example, file, dynamo=True, verbose=False, input_names=["ids", "mask"],
            dynamic_shapes=({0: batch, 1: length}, {0: batch, 1: length}),
        )  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
