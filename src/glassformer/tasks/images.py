"""Image classification (ViT: Dosovitskiy et al., 2021): patches attend to each other and to a class token."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from glassformer.checkpoints.config import config_and_dtype
from glassformer.checkpoints.labels import class_names, name_classes
from glassformer.checkpoints.preparation import Preparation, read_preparation, write_preparation
from glassformer.config import ImageConfig, StackConfig, TransformerConfig
from glassformer.data.batches import shuffled_batches
from glassformer.data.digits import digit_images
from glassformer.data.files import table_format
from glassformer.data.formats.table import ExpectedColumns
from glassformer.data.images import MODE_CHANNELS, Images, read_images, skipped_note
from glassformer.data.pixels import BICUBIC, WHITE, Mode, Pixels
from glassformer.data.split import shared_examples, split
from glassformer.data.texts import label_hints
from glassformer.errors import InputError
from glassformer.generation.choose_engine import Work
from glassformer.predict.images import normalised, read_colours
from glassformer.tasks.baselines import NO_TRAINING, majority_class
from glassformer.tasks.classes import ClassTask, balanced_weights
from glassformer.tasks.metrics import classification_metrics
from glassformer.tasks.models import describe_model, init_grid_positions, make_model, stack_sizes
from glassformer.tasks.registry import TASKS
from glassformer.tasks.settings import ImagesSettings
from glassformer.training.task import Batch, Scores, sample_numbers

SCORE_BATCH = 256  # images per batch in validation
MEANS = 5000  # about how many training images the nearest-mean baseline uses
TURN, STRETCH, SHIFT = np.pi / 18, 0.1, 1 / 16  # limits of the affine augmentation: an angle, fractions of the side
ERASED, RATIO = (0.02, 0.33), (0.3, 1 / 0.3)  # limits of an erased rectangle: fraction of the area, height / width


class ImageClasses(ClassTask):
    """Images with labels, an encoder over patches, cross-entropy, accuracy."""

    name: ClassVar[str] = "images"
    unit: ClassVar[str] = "images"
    metric: ClassVar[str] = TASKS[name].metric
    steps: ClassVar[int] = 1500

    def __init__(self, settings: ImagesSettings, files: Sequence[Path] = ()) -> None:
        self.settings: ImagesSettings = settings
        if len(files) > 1:
            raise InputError(f"{len(files)} folders or files to score: expected one")
        self.place = files[0] if files else settings.data
        self.knows_classes = settings.init is not None and settings.head is None
        self.reads: ImageConfig | None = None  # the images that a loaded model expects
        self.named: dict[Path, list[Path]] = {}  # the image files listed in each table
        self.shared = ""  # a note on images shared between parts
        if settings.init_folder is not None:
            self.reads = config_and_dtype(settings.init_folder)[0].image
        if self.knows_classes:
            self.model = make_model(settings, self.config, head="class")
        self.train, self.valid, self.test = self.judged_only(files[0]) if files else self.load()
        if self.knows_classes:
            self.names = class_names(self.model)
            self.train, self.valid = (x.named_like(self.names, self.origin) for x in (self.train, self.valid))
            self.test = self.test and self.test.named_like(self.names, self.origin)
        else:
            self.names = self.train.names
            self.model = make_model(settings, self.config, head="class", num_classes=len(self.names))
            if settings.init is None:
                init_grid_positions(self.model)
            name_classes(self.model, self.names)
        self.preparation = self.prepare()
        if settings.init is not None:  # a loaded model also defines how images are resized
            read = partial(read_colours, preparation=self.preparation)
            self.train, self.valid = (replace(images, read=read) for images in (self.train, self.valid))
            self.test = self.test and replace(self.test, read=read)
        if settings.class_weights == "balanced" and len(self.train):
            self.class_weights = balanced_weights(torch.from_numpy(self.train.labels), len(self.names))

    @property
    def origin(self) -> str:
        return str(self.place or "scikit-learn's digits (no --data was given)")

    def load(self) -> tuple[Images, Images, Images | None]:
        """Training, validation and test images: from files, split off if need be, or the built-in digits."""
        settings = self.settings
        parts = {"train": built_in(held_out=False), "test": built_in(held_out=True)}
        is_new = not settings.is_judged and not settings.resume  # a run that has begun keeps its settings
        if settings.data is None and settings.size not in (None, parts["train"].size) and is_new:
            raise InputError(
                f"--size {settings.size}: the built-in digits are {parts['train'].size}x{parts['train'].size} pixels. "
                "Leave it out, or give images with --data"
            )
        if settings.data is not None:
            parts = self.read(settings.data)
        train = parts.get("train", parts.get("all"))
        if train is None:
            raise InputError(f"{settings.data} has no training images, only those of {' and '.join(parts)}")
        for part, path in (("validation", settings.valid), ("test", settings.test)):
            if path is not None:
                read = self.read(path, train)
                parts[part] = read.get(part, next(iter(read.values()))).named_like(train.names, str(path))
        if settings.data is not None and not settings.is_judged:
            given = {"training": train, "validation": parts.get("validation"), "test": parts.get("test")}
            self.shared = shared_examples({name: x.contents() for name, x in given.items() if x is not None}, "images")
        if "validation" not in parts:
            kept, held_out = split(
                len(train), settings.valid_fraction, seed=settings.seed, strata=train.labels.tolist(),
                name=self.origin,
            )  # fmt: skip
            train, parts["validation"] = train.subset(sorted(kept)), train.subset(sorted(held_out))
        return train, parts["validation"], parts.get("test")

    def judged_only(self, path: Path) -> tuple[Images, Images, Images]:
        """Only images to score, at the size of the model."""
        parts = self.read(path)
        chosen = parts.get("test", next(iter(parts.values())))
        nothing = chosen.subset([])
        return nothing, nothing, chosen

    def read(self, path: Path, like: Images | None = None) -> dict[str, Images]:
        settings = self.settings
        mode: Mode | None = "grey" if settings.grey else settings.mode
        size, mode = (settings.size, mode) if like is None else (like.size, like.mode)
        if self.reads is not None:
            size, mode = size or self.reads.size, mode or ("grey" if self.reads.channels == 1 else "rgb")
        parts = read_images(
            path, size=size, mode=mode, skip=settings.skip_corrupt,
            image_column=settings.image_column, label_column=settings.label_column, options=settings.tables,
        )  # fmt: skip
        if path.is_file():
            self.named[path] = [file for images in parts.values() for file in (*images.files, *images.skipped)]
        return parts

    def named_files(self) -> dict[Path, list[Path]]:
        return self.named

    def config(self) -> TransformerConfig:
        """A small ViT."""
        settings, size = self.settings, self.train.size
        patch = settings.patch or choose_patch(size)
        if size % patch:
            raise InputError(f"--patch {patch} must divide the image size {size}. Change it, or give --size")
        if patch % 2**settings.stem:
            raise InputError(
                f"--stem {settings.stem} halves the image {settings.stem} times, so --patch must be a multiple of "
                f"{2**settings.stem}, not {patch}. Use a smaller --stem or another --patch"
            )
        stack = StackConfig(
            **{"dropout": 0.1, "d_ff": 4 * stack_sizes(settings)["d_model"], **stack_sizes(settings)},
            positions="learned", activation="gelu", norm_eps=1e-12,
        )  # fmt: skip
        return TransformerConfig(
            encoder=stack,
            image=ImageConfig(size=size, patch=patch, channels=MODE_CHANNELS[self.train.mode], stem=settings.stem),
            head="class",
            num_classes=len(self.names),
            pooling=settings.pooling,
        )

    def prepare(self) -> Preparation:
        """The loaded model's own, or mean 0 and standard deviation 1 over the training images."""
        image, settings = self.model.config.image, self.settings
        channels = MODE_CHANNELS[self.test.mode if self.test is not None else self.train.mode]
        if image is None or (image.size, image.channels) != (self.train.size, channels):
            reads = f"images of {size_text(image.size, image.channels)}" if image else "no images"
            raise InputError(
                f"--init {settings.init} reads {reads}, but these have {size_text(self.train.size, channels)}. Convert "
                "them with --size and --mode"
            )
        if settings.init_folder is not None:
            loaded = read_preparation(settings.init_folder, self.model.config)
            return loaded if settings.is_judged else replace(loaded, upright=True, background=WHITE)
        return fit_preparation(self.train.take(range(0, len(self.train), max(1, len(self.train) // MEANS))))

    def batches(self, epoch: int) -> list[list[int]]:
        return shuffled_batches(len(self.train), self.settings.batch_size, seed=self.settings.seed, epoch=epoch)

    def collate(self, examples: Sequence[int], epoch: int) -> Batch:
        pixels = self.train.take(examples)
        if self.settings.augment != "none" or self.settings.erase:
            pixels = np.stack([self.changed(x, epoch, i) for x, i in zip(pixels, examples, strict=True)])
        return {"pixel_values": self.as_input(pixels), "labels": torch.from_numpy(self.train.labels[list(examples)])}

    def changed(self, pixels: Pixels, epoch: int, example: int) -> Pixels:
        """An image augmented at random, a function of (seed, epoch, example)."""
        rng = np.random.default_rng((self.settings.seed, epoch, example))
        if self.settings.augment != "none":
            pixels = self.moved(pixels, rng)
        return erased(pixels, rng) if rng.random() < self.settings.erase else pixels

    def moved(self, pixels: Pixels, rng: np.random.Generator) -> Pixels:
        if self.settings.augment == "affine":
            sides, way = 1 + rng.uniform(-STRETCH, STRETCH, 2), rng.uniform(-SHIFT, SHIFT, 2)
            return affine(pixels, rng.uniform(-TURN, TURN), sides.tolist(), way.tolist())
        most = max(1, pixels.shape[-1] // (16 if self.settings.augment == "mirror" else 8))
        shift = rng.integers(-most, most, size=2, endpoint=True)
        padded = np.pad(pixels, ((0, 0), (most, most), (most, most)), mode="edge")  # (C, Y+2m, X+2m)
        top, left = most + shift
        moved: Pixels = padded[:, top : top + pixels.shape[1], left : left + pixels.shape[2]]
        return moved[:, :, ::-1] if self.settings.augment in ("mirror", "flip") and rng.random() < 0.5 else moved

    def as_input(self, pixels: Pixels) -> Tensor:
        return normalised(torch.from_numpy(np.ascontiguousarray(pixels)), self.preparation)  # (B, C, Y, X)

    def size(self, batch: Batch) -> int:
        return len(batch["labels"])

    @property
    def label_smoothing(self) -> float:
        return self.settings.label_smoothing

    @torch.no_grad()
    def judge(self, images: Images) -> tuple[Tensor, Tensor]:
        """The logits and the true classes of these images."""
        logits = []
        for start in self.follow(range(0, len(images), SCORE_BATCH)):
            chosen = range(start, min(start + SCORE_BATCH, len(images)))
            pixels = self.as_input(images.take(chosen)).to(self.model.device)
            logits.append(self.model(pixel_values=pixels).logits.float().cpu())
        return torch.cat(logits), torch.from_numpy(images.labels)

    def count(self, split: Literal["test", "valid"]) -> int:
        return len(self.valid if self.test is None or split == "valid" else self.test)

    def validate(self, most: int | None = None) -> dict[str, float]:
        return self.measure_quickly(*self.judge(sample_of(self.valid, most)))

    @property
    def judged(self) -> Images:
        return self.valid if self.test is None or self.split == "valid" else self.test

    def work(self) -> Work:
        assert self.model.config.image is not None
        return Work(reads=len(self.judged) * self.model.config.image.num_tokens)

    def score_some(self, most: int) -> Scores:
        some = sample_of(self.judged, most)
        return Scores(metrics=self.measure(*self.judge(some)), count=len(some), unit=self.unit)

    def evaluate(self, most: int | None = None) -> Scores:
        whole, images = self.judged, sample_of(self.judged, most)
        names = [str(file) for file in images.files] or [f"image {i}" for i in sample_numbers(len(whole), most)]
        baselines, notes = self.baselines(images)
        # After training, the notes on the files have already been printed; shared images belong beside the score.
        notes = [*(self.notes() if self.settings.is_judged else filter(None, [self.shared])), *notes]
        scores = self.score(*self.judge(images), names, baselines, [*notes, *self.about_baselines()])
        return replace(scores, sample=self.sample_of(len(whole), len(images)))

    def about_baselines(self) -> list[str]:
        """Why there are no baselines, or which images they use."""
        if not len(self.train):
            return [NO_TRAINING]
        few = len(self.train) >= 2 * MEANS
        return (
            [f"the nearest mean image uses about {MEANS:,} of the {len(self.train):,} training images"] if few else []
        )

    def baselines(self, images: Images) -> tuple[dict[str, dict[str, float]], list[str]]:
        """The most frequent class, and the class with the nearest mean image unless that takes too long."""
        if not len(self.train):
            return {}, []
        truths = images.labels.tolist()
        always = {"accuracy": majority_class(self.train.labels.tolist(), truths)}
        found, notes = self.compared(
            {"nearest mean image": lambda: classification_metrics(truths, self.nearest_means(images), len(self.names))}
        )
        return {"always the most frequent class": always, **found}, notes

    def nearest_means(self, images: Images) -> list[int]:
        """For each image, the class with the nearest mean image."""
        known = self.train.subset(range(0, len(self.train), max(1, len(self.train) // MEANS)))
        with self.follow.counted(len(known) + len(images)) as tell:

            def rows(of: Images) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
                for start in range(0, len(of), SCORE_BATCH):
                    numbers = range(start, min(start + SCORE_BATCH, len(of)))
                    yield (
                        of.labels[start : start + SCORE_BATCH],
                        of.take(numbers).reshape(len(numbers), -1).astype(np.float32),
                    )
                    tell(len(numbers))

            classes = np.eye(len(self.names), dtype=np.float64)
            sums = np.sum([classes[labels].T @ x for labels, x in rows(known)], axis=0)  # (classes, pixels)
            counts = np.bincount(known.labels, minlength=len(self.names))
            present = np.flatnonzero(counts)
            means = sums[present] / counts[present, None]
            lengths = (means**2).sum(axis=1)  # distances are |m|^2 - 2 m x, without the constant |x|^2
            return [int(i) for _, x in rows(images) for i in present[(lengths - 2 * x @ means.T).argmin(axis=1)]]

    def describe(self) -> dict[str, str]:
        settings, size = self.settings, self.train.size
        tested = f", {len(self.test):,} to test" if self.test is not None else ""
        hints = label_hints(self.names[i] for i in self.train.labels.tolist()) if settings.data is not None else []
        said = {
            "data": f"{self.origin}: {len(self.train):,} images to train on, {len(self.valid):,} held out{tested}, of "
            f"{size}x{size} pixels, {len(self.names)} classes",
            **self.about_table(),
            **({"labels": "; ".join(hints)} if hints else {}),
        }
        if notes := self.notes():
            said["images"] = "; ".join(notes)
        return said | {"model": describe_model(self.model, settings)}

    def notes(self) -> list[str]:
        """How the files were converted to one size and mode, and which were skipped."""
        parts = [images for images in (self.train, self.valid, self.test) if images is not None]
        notes = []
        for found in {id(images.found): images.found for images in parts if images.found is not None}.values():
            if not found.are_alike or self.train.size not in {look.width for look in found.looks}:
                chosen = "" if self.settings.size or self.reads else " (choose with --size)"
                side = self.train.size
                notes.append(f"{found.sizes()} pixels are resized to {side}x{side}{chosen}: {self.resizing()}")
            upright, background = self.preparation.upright, self.preparation.background
            notes += found.notes(self.train.mode, upright=upright, background=background)
        notes += [self.shared] if self.shared else []
        skipped = sorted({file for images in parts for file in images.skipped})
        if skipped:
            total = len(skipped) + sum(map(len, parts))
            notes.append(skipped_note(skipped, total))
        return notes

    def resizing(self) -> str:
        """How an image is resized for the model."""
        if isinstance(self.preparation.resize, int):
            return "the shorter side is scaled, the longer one cropped at both ends"
        return "both sides are scaled" + ("" if self.preparation.crop is None else ", and the centre is cropped")

    def about_table(self) -> dict[str, str]:
        """The format of the table that lists the images, if there is one."""
        path, settings = self.settings.data, self.settings
        if path is None or not path.is_file():
            return {}
        reads = ExpectedColumns((settings.image_column, settings.label_column))
        return {"format": str(table_format(path, settings.tables, reads))}

    def seen_example(self) -> Batch:
        return {"pixel_values": self.as_input(self.judged.take([0]))}

    def try_next(self, out: Path) -> list[list[str]]:
        return [["glassformer", "predict", str(out), str(file)] for file in self.valid.files[:1]] or [
            ["glassformer", "eval", str(out)]
        ]

    def write_beside(self, folder: Path) -> None:
        write_preparation(self.preparation, folder, self.model.config)


def sample_of(images: Images, most: int | None) -> Images:
    return images if most is None or most >= len(images) else images.subset(sample_numbers(len(images), most))


def fit_preparation(pixels: Pixels) -> Preparation:
    """The preparation that normalises images like these (N, C, Y, X) to mean 0 and standard deviation 1."""
    some, side = pixels / 255.0, pixels.shape[-1]
    deviation = np.maximum(some.std(axis=(0, 2, 3)), 1e-3)
    return Preparation(
        resize=side,
        resample=BICUBIC,
        crop=(side, side),
        scale=1 / 255,
        mean=tuple(round(float(value), 4) for value in some.mean(axis=(0, 2, 3))),
        deviation=tuple(round(float(value), 4) for value in deviation),
        background=WHITE,
    )


def size_text(size: int, channels: int) -> str:
    """The format of an image, for an error."""
    return f"{size}x{size} pixels and {channels} channel{'s' * (channels > 1)}"


def choose_patch(size: int) -> int:
    """A quarter of a small image, otherwise a seventh or an eighth; if none divides the size, the nearest divisor."""
    usual = max(1, size // 4 if size <= 16 else size // 7 if size % 7 == 0 else size // 8)
    if size % usual == 0:
        return usual
    fitting = [patch for patch in range(1, size + 1) if size % patch == 0 and 4 <= size // patch <= 16]
    if not fitting:
        raise InputError(
            f"images of {size}x{size} pixels cannot be divided into equal patches. Use --size {size - size % 8}"
        )
    return min(fitting, key=lambda patch: abs(size // patch - 8))


def affine(pixels: Pixels, angle: float, sides: Sequence[float], shift: Sequence[float]) -> Pixels:
    """An image (C, Y, X) rotated, scaled and shifted about its centre; black outside the original.

    A pixel p of the result is the original at R(angle) S(sides) p + shift, by bilinear interpolation.
    """
    (x, y), (right, down) = sides, (2 * part for part in shift)  # coordinates go from -1 to 1
    cos, sin = np.cos(angle), np.sin(angle)
    matrix = torch.tensor([[[cos * x, -sin * y, right], [sin * x, cos * y, down]]], dtype=torch.float32)  # (1, 2, 3)
    image = torch.from_numpy(pixels[None].astype(np.float32))  # (1, C, Y, X)
    places = F.affine_grid(matrix, list(image.shape), align_corners=False)  # (1, Y, X, 2)
    moved: Pixels = F.grid_sample(image, places, align_corners=False)[0].round().byte().numpy()  # (C, Y, X)
    return moved


def erased(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """A copy of an image (C, Y, X) with noise in a random rectangle, which lies wholly inside the image."""
    rows, columns = pixels.shape[1:]
    area, ratio = rows * columns * rng.uniform(*ERASED), np.exp(rng.uniform(*np.log(RATIO)))
    height = int(np.clip(np.rint(np.sqrt(area * ratio)), 1, rows))
    width = int(np.clip(np.rint(np.sqrt(area / ratio)), 1, columns))
    top, left = rng.integers(rows - height, endpoint=True), rng.integers(columns - width, endpoint=True)
    changed = pixels.copy()
    changed[:, top : top + height, left : left + width] = rng.integers(256, size=(len(pixels), height, width))
    return changed


def built_in(held_out: bool) -> Images:
    pixels, labels = digit_images(held_out)
    whole = np.rint(pixels * 255).astype(np.uint8)
    return Images(labels, tuple(map(str, range(10))), size=8, mode="grey", pixels=whole)
