"""The config of a model without its weights: from a folder, a `config.json` alone, or a known name.

This way a model of 70 billion parameters can be inspected on a machine that cannot hold it.
"""

from pathlib import Path

import torch

from glassformer.checkpoints.folder import CONFIG, WEIGHT_FILES
from glassformer.checkpoints.load import load_folder, read_configs, stored_dtype
from glassformer.checkpoints.pair_layout import is_pair, pair_layout_of
from glassformer.checkpoints.read_layout import layout_of
from glassformer.config import NAMED_CONFIGS, TransformerConfig
from glassformer.hub import find_folder


def config_and_dtype(
    path: str | Path, *, revision: str | None = None, token: str | None = None
) -> tuple[TransformerConfig, torch.dtype | None]:
    """The config of a run, a model folder, a `config.json`, a hub id or one of our names such as "base", and the dtype
    of its weights if known.

    Weight files, if present, are opened too, because they show whether the head is tied, and which head there is if
    config.json does not say. From the hub, only the small files are downloaded.
    """
    if not Path(path).exists() and str(path) in NAMED_CONFIGS:
        return TransformerConfig.named(str(path)), None
    if Path(path).is_file():
        return read_config(Path(path))
    folder = find_folder(path, revision=revision, token=token, weights=False)
    if any(WEIGHT_FILES.fullmatch(file.name) and file.suffix != ".json" for file in folder.iterdir()):
        model = load_folder(folder, device="meta")
        return model.config, model.dtype
    return read_config(folder / CONFIG)


def sides_and_dtype(path: str | Path) -> tuple[dict[str, TransformerConfig], torch.dtype | None]:
    """The same for both models of a pair, by name; for any other model, its config under an empty name."""
    if Path(path).exists() or str(path) not in NAMED_CONFIGS:
        file = Path(path) if Path(path).is_file() else find_folder(path, weights=False) / CONFIG
        values = read_configs(file)[0] if file.is_file() else {}
        if is_pair(values):
            pair = pair_layout_of(values, name=str(file)).config
            return {"text": pair.text, "image": pair.image}, stored_dtype(values, str(file))
    config, dtype = config_and_dtype(path)
    return {"": config}, dtype


def read_config(file: Path) -> tuple[TransformerConfig, torch.dtype | None]:
    """The config and dtype from a `config.json` and the `generation_config.json` beside it."""
    values, generation = read_configs(file)
    return layout_of(values, generation, name=str(file)).config, stored_dtype(values, str(file))
