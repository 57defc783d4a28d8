"""Match (CLIP: Radford et al., 2021): an image encoder and a text encoder learn a shared embedding space.

In a batch, each image must find its caption among all captions, and each caption its image.
"""

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.checkpoints.folder import CONFIG
from glassformer.checkpoints.load import read_configs
from glassformer.checkpoints.pair_layout import is_pair, pair_layout_for, pair_layout_of
from glassformer.config import ImageConfig, PairConfig, StackConfig, TransformerConfig
from glassformer.core.pair import Pair, PairOutput, contrastive_loss
from glassformer.data.pixels import Pixels
from glassformer.data.scenes.make import ScenePart
from glassformer.data.scenes.scene import Scene
from glassformer.data.scenes.words import caption_of
from glassformer.errors import InputError
from glassformer.generation.choose_engine import Work
from glassformer.tasks.baselines import NO_TRAINING
from glassformer.tasks.images import choose_patch
from glassformer.tasks.models import make_pair, stack_sizes
from glassformer.tasks.pictures.task import (
    PRESET_SIZES,
    REPORT_EXAMPLES,
    SCORE_BATCH,
    ImageSet,
    ImageText,
    NumberedText,
    PictureTask,
    as_report_image,
)
from glassformer.tasks.registry import TASKS
from glassformer.tasks.settings import MatchSettings
from glassformer.text.padding import pad
from glassformer.text.train import SpecialTokenPlacement
from glassformer.training.task import Batch, Scores

CANDIDATES = 64  # recall is measured among this many images and captions
BINS = 4  # histogram bins per colour channel
RIDGE = 1e-2  # keeps the weights of the histogram baseline small
SMALL_SIDES = (16, 24, 32)  # image sides that are split into 16 patches: as accurate as 64, in a quarter of the time
INITIAL_SCALE = 3.0  # initial log of the logit scale: exp(3) = 20 learns sooner than CLIP's 14
PROPOSED_LABELS = 4  # captions in the command that a report suggests


class Match(PictureTask):
    """Images with captions, a pair of encoders, contrastive loss, recall@1 among 64."""

    name: ClassVar[str] = "match"
    unit: ClassVar[str] = "captions"
    columns: ClassVar[dict[str, str]] = {"caption_column": "--caption-column"}
    around: ClassVar[SpecialTokenPlacement] = "both"
    rate_of_right: ClassVar[str] = "recall"
    metrics: ClassVar[tuple[str, ...]] = ("loss", "recall", "image_to_text", "text_to_image")
    metric: ClassVar[str] = TASKS[name].metric
    steps: ClassVar[int] = 1800
    compares: ClassVar[bool] = True

    settings: MatchSettings
    model: Pair

    def tell(self, scene: Scene, part: ScenePart, index: int) -> list[ImageText]:
        return [ImageText(None, caption_of(scene, self.settings.language))]

    # --- model ------------------------------------------------------------------------------------------------------

    def image_read(self, folder: Path) -> ImageConfig | None:
        values, _ = read_configs(folder / CONFIG)
        if not is_pair(values):
            return super().image_read(folder)
        return pair_layout_of(values, name=str(folder / CONFIG)).config.image.image

    def make(self) -> Pair:
        return make_pair(self.settings, self.pair_config)

    def pair_config(self) -> PairConfig:
        """A small CLIP: the text model has half as many layers as the image model."""
        settings, tokenizer, (size, channels) = self.settings, self.tokenizer, self.image
        patch = settings.patch or (size // 4 if size in SMALL_SIDES else choose_patch(size))
        if size % patch:
            raise InputError(f"--patch {patch} must divide the image size {size}. Change it, or give --size")
        sizes = {"dropout": 0.0, **stack_sizes(settings, **PRESET_SIZES)}
        sizes = {"d_ff": 2 * sizes["d_model"], **sizes}
        layers = settings.num_layers or max(1, sizes["num_layers"] // 2)
        same: dict[str, Any] = {"positions": "learned", "activation": "quick_gelu"}
        head: dict[str, Any] = {"head": "pool", "pooled_dim": sizes["d_model"], "head_bias": False}
        return PairConfig(
            text=TransformerConfig(
                decoder=StackConfig(**{**sizes, "num_layers": layers}, **same, max_len=settings.max_len),
                vocab_size=len(tokenizer),
                pooling="first_end",
                pad_token_id=tokenizer.padding_id,
                bos_token_id=tokenizer.bos_token_id,
                eos_token_id=tokenizer.eos_token_id,
                **head,
            ),
            image=TransformerConfig(
                encoder=StackConfig(**sizes, **same, final_norm=False),
                image=ImageConfig(size=size, patch=patch, channels=channels, patch_bias=False, embed_norm=True),
                pooling="first",
                head_norm=True,
                **head,
            ),
            logit_scale=INITIAL_SCALE,
        )

    def check_model(self) -> None:
        config = self.model.config
        pair_layout_for(self.model)  # a model that cannot be saved is refused before training
        if len(captions := {one.text for _, one in self.train.looked}) == 1:
            raise InputError(
                f"all training captions are {min(captions)[:60]!r}: expected at least two different captions"
            )
        assert config.image.image is not None
        self.check_image(config.image.image)
        if self.tokenizer.eos_token_id not in config.text.eos_token_ids and config.text.pooling == "first_end":
            raise InputError(
                f"--init {self.settings.init}: the model pools texts at token {config.text.eos_token_id}, but the "
                f"tokenizer ends them with {self.tokenizer.eos_token_id}. Correct eos_token_id in config.json"
            )

    # --- training ---------------------------------------------------------------------------------------------------

    def rows(self, told: Sequence[ImageText]) -> list[list[int]]:
        """The captions as ids, each with its end token."""
        rows = self.tokenizer.ids_batch([one.text for one in told])
        for number, row in enumerate(rows):
            if len(row) > self.limit:
                one = told[number]
                if not self.settings.truncate:
                    raise InputError(
                        f"{one.place or 'a built-in text'} has {len(row)} tokens, but the text model takes at most "
                        f"{self.limit}: {one.text[:60]!r}. Use --truncate, or raise --max-len"
                    )
                rows[number] = [*row[: self.limit - 1], row[-1]]
                self.cut += 1
        return rows

    def encode(self, told: Sequence[ImageText]) -> list[tuple[list[int], list[int]]]:
        return [([], row) for row in self.rows(told)]

    def as_batch(self, pixels: Pixels, told: Sequence[Sequence[ImageText]]) -> Batch:
        """Images with one caption each. Equal captions get equal labels: either one is right for both images."""
        texts = [some[0] for some in told]
        labels = torch.tensor([label_of(one.text) for one in texts])
        return {"pixel_values": self.as_input(pixels), **self.as_ids(texts), "labels": labels}

    def as_ids(self, texts: Sequence[ImageText]) -> Batch:
        rows = self.rows(texts)
        return {
            "input_ids": pad(rows, self.tokenizer.padding_id),
            "attention_mask": pad([[1] * len(row) for row in rows], 0),
        }

    def vectors(self, output: PairOutput) -> dict[str, Tensor]:
        assert output.image_embeds is not None
        assert output.text_embeds is not None
        return {"images": output.image_embeds, "texts": output.text_embeds, "scale": self.model.logit_scale}

    def compare(self, vectors: Mapping[str, Tensor]) -> Tensor:
        logits = vectors["scale"].exp() * vectors["images"] @ vectors["texts"].t()  # (B, B)
        return contrastive_loss(logits, vectors["labels"])

    # --- scores -----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def logits(self, part: ImageSet, looked: Sequence[NumberedText]) -> Tensor:
        """The similarity of each image to each caption, (n, n)."""
        images, texts = [], []
        for start in self.follow(range(0, len(looked), SCORE_BATCH)):
            some = looked[start : start + SCORE_BATCH]
            batch = self.as_batch(part.take([number for number, _ in some]), [[one] for _, one in some])
            batch = {name: value.to(self.model.device) for name, value in batch.items() if name != "labels"}
            output = self.model(**batch)
            images.append(output.image_embeds.float().cpu())
            texts.append(output.text_embeds.float().cpu())
        scale = self.model.logit_scale.detach().float().cpu().exp()
        return scale * torch.cat(images) @ torch.cat(texts).t()

    def validate(self, most: int | None = None) -> dict[str, float]:
        """Scores groups of 64 neighbours, which is quick. Any of several equal captions counts as right."""
        looked = self.chosen(self.valid, most)
        logits, captions = self.logits(self.valid, looked), [one.text for _, one in looked]
        groups, labels = in_groups(list(range(len(looked)))), torch.tensor(list(map(label_of, captions)))
        losses = [float(contrastive_loss(logits[rows][:, rows], labels[rows])) for rows in groups]
        return {"loss": sum(losses) / len(losses), **recalls(logits, captions, groups)}

    def measure_part(self, part: ImageSet, looked: Sequence[NumberedText]) -> tuple[dict[str, float], Tensor]:
        logits, captions = self.logits(part, looked), [one.text for _, one in looked]
        return recalls(logits, captions, different_groups(captions)), logits

    def work(self) -> Work:
        assert self.looker.image is not None
        return Work(reads=self.count(self.split) * self.looker.image.num_tokens)

    def score_some(self, most: int) -> Scores:
        looked = self.chosen(self.judged, most)
        return Scores(metrics=self.measure_part(self.judged, looked)[0], count=len(looked), unit=self.unit)

    def evaluate(self, most: int | None = None) -> Scores:
        part, looked = self.judged, self.chosen(self.judged, most)
        metrics, logits = self.measure_part(part, looked)
        baselines, notes = self.baselines(part, looked)
        captions = [one.text for _, one in looked]
        groups = different_groups(captions)
        notes = [
            f"recall: each image is matched against {len(groups[0])} different captions, and each caption against as "
            f"many images; mean of both directions, over {len(groups)} group{'s' * (len(groups) > 1)}",
            *notes,
        ]
        if self.pairs is not None and self.split == "test":
            others = self.chosen(self.pairs, most)
            found, _ = self.measure_part(self.pairs, others)
            metrics["recall_on_held_out_pairs"] = found["recall"]
            notes.append(f"held-out pairs: {len(others):,} images with colour-shape pairs not seen in training")
        shown = groups[0][:REPORT_EXAMPLES]
        rows = [
            {"expected": captions[i], "answer": captions[groups[0][int(logits[i, groups[0]].argmax())]]} for i in shown
        ]
        said = self.notes() if self.settings.is_judged else [self.shared] if self.shared else []
        return Scores(
            metrics=metrics,
            count=len(looked),
            unit=self.unit,
            notes=[*said, *notes],
            baselines=baselines,
            examples=rows,
            pictures=[as_report_image(image) for image in part.take([looked[i][0] for i in shown])],
            sample=self.sample_of(len(part.looked), len(looked)),
        )

    def baselines(
        self, part: ImageSet, looked: Sequence[NumberedText]
    ) -> tuple[dict[str, dict[str, float]], list[str]]:
        """A random guess, and the colours of an image against the words of a caption, ignoring shapes."""
        captions = [one.text for _, one in looked]
        groups = different_groups(captions)
        guess = {"random guess": dict.fromkeys(("recall", "image_to_text", "text_to_image"), 1 / len(groups[0]))}
        if not len(self.train):
            return guess, [NO_TRAINING]
        known = self.known()

        def by_colours() -> dict[str, float]:
            images, texts = colours_against_words(
                self.train.take([number for number, _ in known]), [one.text for _, one in known],
                part.take([number for number, _ in looked]), captions,
            )  # fmt: skip
            return recalls(images @ texts.t(), captions, groups)

        found, notes = self.compared({"colour histogram against words": by_colours})
        return {**guess, **found}, notes

    def measure(self, guesses: Sequence[str], looked: Sequence[NumberedText]) -> tuple[dict[str, float], list[str]]:
        raise NotImplementedError  # match generates no text

    def seen_example(self) -> Batch:
        return {"pixel_values": self.as_input(self.judged.take([self.judged.looked[0][0]]))}

    def try_next(self, out: Path) -> list[list[str]]:
        (command,) = super().try_next(out)
        labels = list(dict.fromkeys(one.text for _, one in self.judged.looked[: 2 * PROPOSED_LABELS]))[:PROPOSED_LABELS]
        return [[*command, "--labels", *labels]]


def label_of(caption: str) -> int:
    """A number for a caption, the same in every process."""
    return zlib.crc32(caption.encode())


def in_groups(rows: list[int]) -> list[list[int]]:
    """Groups of 64 neighbours; drops an incomplete last group, unless it is the only one."""
    return [rows[start : start + CANDIDATES] for start in range(0, max(1, len(rows) - CANDIDATES + 1), CANDIDATES)]


def different_groups(captions: Sequence[str]) -> list[list[int]]:
    """Groups of 64 rows with pairwise different captions, or fewer rows if there are fewer different captions."""
    size = min(CANDIDATES, len(set(captions)))
    groups: list[list[int]] = []
    seen: Counter[str] = Counter()  # first group that may still take the caption
    for row, caption in enumerate(captions):
        place = seen[caption]
        while place < len(groups) and len(groups[place]) == size:
            place += 1
        if place == len(groups):
            groups.append([])
        groups[place].append(row)
        seen[caption] = place + 1
    return [group for group in groups if len(group) == size]


def recalls(logits: Tensor, captions: Sequence[str], groups: Sequence[Sequence[int]]) -> dict[str, float]:
    """How often the best match within the group has the right caption: for images, for captions, and the mean."""
    right = [0, 0]
    for rows in groups:
        own = logits[list(rows)][:, list(rows)]
        for way, found in enumerate((own.argmax(dim=1).tolist(), own.argmax(dim=0).tolist())):
            right[way] += sum(captions[rows[best]] == captions[row] for best, row in zip(found, rows, strict=True))
    there, back = (count / sum(map(len, groups)) for count in right)
    return {"recall": (there + back) / 2, "image_to_text": there, "text_to_image": back}


def colours_against_words(
    pixels: Pixels, captions: Sequence[str], asked: Pixels, texts: Sequence[str]
) -> tuple[Tensor, Tensor]:
    """Unit vectors of images and texts: a ridge regression predicts bags of words from colour histograms."""
    words = sorted({word for caption in captions for word in caption.split()})
    known, wanted = (as_bags(some, words) for some in (captions, texts))
    mean = known.mean(axis=0)
    x, y = histograms(pixels), known - mean
    centre = x.mean(axis=0)
    x = x - centre
    weights = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ y)  # (colours, words)
    rows = ((histograms(asked) - centre) @ weights, wanted - mean)
    images, bags = (
        torch.from_numpy(row / np.maximum(np.linalg.norm(row, axis=1, keepdims=True), 1e-9)) for row in rows
    )
    return images, bags


def as_bags(texts: Sequence[str], words: Sequence[str]) -> NDArray[np.float64]:
    """The count of each word in each text."""
    place = {word: number for number, word in enumerate(words)}
    bags = np.zeros((len(texts), len(words)))
    for row, text in zip(bags, texts, strict=True):
        for word in text.split():
            if word in place:
                row[place[word]] += 1
    return bags


def histograms(pixels: Pixels) -> NDArray[np.float64]:
    """The colour histogram of each image (N, C, Y, X), with BINS levels per channel."""
    levels = pixels.astype(np.int64) * BINS // 256
    channels = levels.shape[1]
    codes = sum(levels[:, channel] * BINS**channel for channel in range(channels))  # (N, Y, X)
    flat = np.asarray(codes).reshape(len(pixels), -1)
    return np.stack([np.bincount(row, minlength=BINS**channels) for row in flat]) / flat.shape[1]
