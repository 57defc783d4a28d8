"""Generation beside the peers: the engine and the plain path, transformers and CTranslate2, on the same weights.

    python benchmarks/speed.py            all cases, about ten minutes
    python benchmarks/speed.py gpt2       those whose name holds this word

Random weights in published shapes, float32, two threads each, greedy or by beams, with the same number of tokens on all
sides. The sides are interleaved, the best of several rounds counts. What is compiled or loaded before the first round
is not in the figures; how long the engine compiled is printed.
"""

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ctranslate2
import torch
import transformers
from ctranslate2.converters import TransformersConverter
from readme import write_table
from tokenizers import Tokenizer, models

import glassformer as gf

THREADS, ROUNDS = 2, 3
Side = Callable[[], Any]


class Case(NamedTuple):
    name: str
    shape: str
    batch: int
    prompt: int  # tokens
    new: int  # tokens
    beams: int = 1


CASES = (
    Case("GPT-2 small, batch 1", "gpt2", 1, 32, 128),
    Case("GPT-2 small, batch 8", "gpt2", 8, 32, 128),
    Case("the paper's base, greedy, batch 1", "base", 1, 32, 64),
    Case("the paper's base, greedy, batch 32", "base", 32, 32, 64),
    Case("the paper's base, beam 4, batch 32", "base", 32, 32, 64, 4),
)


def made(shape: str) -> Any:
    if shape == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config())
    config = transformers.BartConfig(
        vocab_size=32_000, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, activation_function="relu",
        forced_eos_token_id=None,
    )  # fmt: skip
    config.normalize_before = False  # which CTranslate2's converter asks for
    return transformers.BartForConditionalGeneration(config)


def save(shape: str, folder: Path) -> list[str]:
    """A model of this shape with a word for each id, as files; returns the words."""
    torch.manual_seed(0)
    model = made(shape)
    model.save_pretrained(folder)
    words = [f"w{i}" for i in range(model.config.vocab_size)]
    words[3], special = "<unk>", {"unk_token": "<unk>"}
    for role, word in {"pad": "<pad>", "bos": "<s>", "eos": "</s>"}.items():
        number = getattr(model.config, f"{role}_token_id", None)
        if number is not None:
            words[number] = word
    for role in ("pad", "bos", "eos"):
        number = getattr(model.config, f"{role}_token_id", None)
        if number is not None:  # GPT-2 begins and ends with one token
            special[f"{role}_token"] = words[number]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(folder)
    return words


def sides_of(case: Case, folder: Path, words: list[str]) -> dict[str, Side]:
    """Each library's call for one case; all write just as many tokens."""
    ids = torch.randint(100, len(words), (case.batch, case.prompt), generator=torch.Generator().manual_seed(1))
    model = gf.load(folder)
    lengths = {"max_new_tokens": case.new, "min_new_tokens": case.new}
    choices: dict[str, Any] = {**lengths, "num_beams": case.beams, "do_sample": False}
    engine = gf.engine(model)
    kind = transformers.AutoModelForCausalLM if case.shape == "gpt2" else transformers.AutoModelForSeq2SeqLM
    theirs = kind.from_pretrained(folder).eval()
    more = {"pad_token_id": theirs.config.eos_token_id, "attention_mask": torch.ones_like(ids)}
    texts = [[words[i] for i in row] for row in ids.tolist()]
    if case.shape == "gpt2":
        generator = ctranslate2.Generator(str(folder / "ct2"), intra_threads=THREADS)
        exact = {"max_length": case.new, "min_length": case.new, "sampling_topk": 1, "beam_size": case.beams}
        ct2: Side = lambda: generator.generate_batch(texts, include_prompt_in_result=False, **exact)  # noqa: E731
    else:
        translator = ctranslate2.Translator(str(folder / "ct2"), intra_threads=THREADS)
        ends = {"max_decoding_length": case.new, "min_decoding_length": case.new}
        ct2 = lambda: translator.translate_batch(texts, beam_size=case.beams, **ends)  # noqa: E731
    return {
        "engine": lambda: engine.generate(ids, **choices),
        "plain": lambda: gf.generate(model, ids, **choices),
        "transformers": lambda: theirs.generate(ids, **more, **choices),
        "CTranslate2": ct2,
    }


def measured(case: Case, sides: dict[str, Side]) -> dict[str, float]:
    """Tokens a second of each side."""
    best = dict.fromkeys(sides, float("inf"))
    start = time.perf_counter()
    written = sides["engine"]()
    print(f"{case.name}: the engine was ready in {time.perf_counter() - start:.1f} s", flush=True)
    if not torch.equal(written, sides["plain"]()):
        print("  the engine wrote other tokens than the plain path: two were equally likely, or it is wrong")
    for side in sides.values():
        side()
    for _ in range(ROUNDS):
        for name, side in sides.items():
            start = time.perf_counter()
            side()
            best[name] = min(best[name], time.perf_counter() - start)
    return {name: case.batch * case.new / seconds for name, seconds in best.items()}


def main() -> None:
    torch.set_num_threads(THREADS)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    wanted = [word for word in sys.argv[1:] if not word.startswith("--")]
    cases = [case for case in CASES if all(word in f"{case.shape} {case.name}" for word in wanted)]
    rows, folders = [], dict[str, tuple[Path, list[str]]]()
    with tempfile.TemporaryDirectory() as place:
        for case in cases:
            if case.shape not in folders:
                folder = Path(place) / case.shape
                folders[case.shape] = folder, save(case.shape, folder)
                TransformersConverter(str(folder)).convert(str(folder / "ct2"))
            speeds = measured(case, sides_of(case, *folders[case.shape]))
            ratios = [f"{speeds['engine'] / speeds[peer]:.2f}x" for peer in ("plain", "transformers", "CTranslate2")]
            print("  " + ", ".join(f"{name} {speed:,.0f}" for name, speed in speeds.items()), *ratios, flush=True)
            rows.append([case.name, f"{speeds['engine']:,.0f}", *ratios])
    header = ["generation, float32, two threads", "tokens/s", "the plain path", "transformers", "CTranslate2"]
    write_table("speed", header, rows, optional=True, dry=bool(wanted))


if __name__ == "__main__":
    main()
