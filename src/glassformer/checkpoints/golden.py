"""Golden values: the outputs of a model when it was saved, stored beside its weights for `glassformer verify`.

    {"inputs": {"input_ids": [[...], [...]], ...},
     "outputs": {"logits": {"shape": [...], "scale": ..., "values": [...]}}}

They are always computed in float32 on the CPU: float32 holds half-precision weights exactly, so one tolerance is enough
for all. Of a large output, an even sample is stored.
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.checkpoints.example import EXAMPLE_CHANNELS, answers, make_example, wave
from glassformer.config import PairConfig, TransformerConfig
from glassformer.core.model import Transformer, count
from glassformer.core.pair import Pair
from glassformer.errors import InputError
from glassformer.families.table import assign
from glassformer.io import parse_json
from glassformer.schema import shown
from glassformer.version import __version__

GOLDEN, CERTIFICATE = "golden.json", "certificate.json"
MAX_OUTPUT_VALUES = 256  # of each output
MAX_INPUT_VALUES = 1 << 26  # values of an input read from a file
# Beyond either, saving would take seconds, or gigabytes for a copy in float32: then nothing is stored.
MAX_PARAMETERS, MOST_WORK = 5 * 10**8, 10**11  # work: parameters times tokens


def write_golden(model: Transformer | Pair, folder: Path) -> None:
    """Writes the golden values if they are cheap to compute. They are optional: a save never fails because of them."""
    try:
        with torch.device("cpu"), torch.autocast("cpu", enabled=False):
            values = golden_values(model)
    except Exception:  # out of memory, weights on a lost device, a model changed by hand
        return
    if values is not None:
        (folder / GOLDEN).write_text(json.dumps(values) + "\n", encoding="utf-8")


def golden_values(model: Transformer | Pair) -> dict[str, Any] | None:
    """The model's outputs for the example of its config; None if they are expensive or not finite."""
    inputs = make_example(model.config)
    parameters = count(model)
    if parameters > MAX_PARAMETERS or parameters * num_tokens(model.config, inputs) > MOST_WORK:
        return None
    outputs = answers(float32_copy(model), inputs)
    if not all(bool(value.isfinite().all()) for value in outputs.values()):
        return None
    return {
        "about": "outputs of this model when it was saved; `glassformer verify` compares them with today's",
        "glassformer": __version__,
        "torch": torch.__version__,
        "inputs": {name: tensor_json(value) for name, value in inputs.items()},
        "outputs": {
            name: {
                "shape": list(value.shape),
                "scale": rounded_values(value.abs().max()),
                "values": tensor_json(sample(value)),
            }
            for name, value in outputs.items()
        },
    }


def num_tokens(config: TransformerConfig | PairConfig, inputs: dict[str, Tensor]) -> int:
    if isinstance(config, PairConfig):
        return num_tokens(config.text, inputs) + num_tokens(config.image, {})
    texts = sum(value.numel() for name, value in inputs.items() if name.endswith("input_ids"))
    if config.series:
        return texts + 2 * (config.series.channels or EXAMPLE_CHANNELS) * config.series.tokens_per_channel
    return texts + (2 * config.image.num_tokens if config.image else 0)


def float32_copy(model: Transformer | Pair) -> Transformer | Pair:
    """A second model with the same weights, in float32 on the CPU: running it triggers no hooks of the first.

    Weights that are float32 on the CPU already are shared, not copied.
    """
    with torch.device("meta"):
        other = Pair(model.config) if isinstance(model, Pair) else Transformer(model.config)
    assign(other, {name: parameter.detach().cpu() for name, parameter in model.named_parameters()})
    return other.float().eval()


def sample(value: Tensor) -> Tensor:
    """At most `MAX_OUTPUT_VALUES` of the values, evenly spread."""
    flat = value.flatten()
    if len(flat) <= MAX_OUTPUT_VALUES:
        return flat
    return flat[torch.linspace(0, len(flat) - 1, MAX_OUTPUT_VALUES, dtype=torch.float64).round().long()]


def tensor_json(value: Tensor) -> Any:
    """A tensor as JSON: integers and samples as lists, a wave as its shape."""
    if not value.is_floating_point():
        return value.tolist()
    return {"wave": list(value.shape)} if value.ndim > 1 else [rounded_values(item) for item in value]


def rounded_values(value: Tensor) -> float:
    return float(f"{value.item():.9g}")  # nine digits identify a float32


def read_golden(file: Path) -> tuple[dict[str, Tensor], dict[str, dict[str, Any]]]:
    """The stored inputs and outputs."""
    try:
        values = parse_json(file)
        inputs = {
            name: wave(checked_shape(value["wave"])) if isinstance(value, dict) else torch.tensor(value)
            for name, value in values["inputs"].items()
        }
        outputs = {
            name: {
                "shape": tuple(entry["shape"]),
                "scale": float(entry["scale"]),
                "values": torch.tensor(entry["values"], dtype=torch.float64),
            }
            for name, entry in values["outputs"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{file} does not contain golden values ({type(error).__name__}: {error}). Delete it, or save again"
        ) from None
    return inputs, outputs


def checked_shape(shape: Any) -> tuple[int, ...]:
    """The shape of a wave to compute, checked because a file can ask for any size."""
    if not isinstance(shape, list) or not all(type(size) is int and size > 0 for size in shape):
        raise ValueError(f"a wave of shape {shown(shape)}")
    if math.prod(shape) > MAX_INPUT_VALUES:
        raise ValueError(f"a wave of shape {shown(shape)}, and golden inputs have at most {MAX_INPUT_VALUES:,} values")
    return tuple(shape)
