"""The shared code of the image-to-text tasks: a ViT encodes the image, a decoder continues a prompt.

An image has a caption, or one or more questions with answers. They are packed into one row of the decoder, so that the
image is encoded once. The loss covers what the model writes, never the question.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from glassformer.checkpoints.config import config_and_dtype
from glassformer.checkpoints.preparation import Preparation, read_preparation, write_preparation
from glassformer.config import GenerationConfig, ImageConfig, StackConfig, TransformerConfig
from glassformer.core.model import IGNORE
from glassformer.core.pair import Pair
from glassformer.data.batches import shuffled_batches
from glassformer.data.image_texts import ImageTexts, read_image_texts
from glassformer.data.images import MODE_CHANNELS, Images, skipped_note
from glassformer.data.pixels import WHITE, Pixels
from glassformer.data.scenes.make import ScenePart, make_scenes
from glassformer.data.scenes.scene import SIZE, Scene
from glassformer.data.split import shared_examples
from glassformer.errors import InputError
from glassformer.figures.png import as_png
from glassformer.generation.choose_engine import Work
from glassformer.io import write_atomic
from glassformer.predict.calls import TEXTS_AT_ONCE
from glassformer.predict.captions import generate_captions, prompt_ids
from glassformer.predict.images import normalised, read_colours
from glassformer.predict.writing import MODEL_DEFAULTS
from glassformer.tasks.images import choose_patch, fit_preparation, size_text
from glassformer.tasks.models import describe_model, init_grid_positions, make_model, stack_sizes
from glassformer.tasks.settings import ImageTextSettings
from glassformer.tasks.texts import describe_tokenizer, fit_tokenizer, make_tokenizer, truncation_note
from glassformer.text import Tokenizer
from glassformer.text.padding import pad
from glassformer.text.train import SpecialTokenPlacement
from glassformer.training.task import Batch, Scores, Task, sample_numbers

SCORED_SCENES = {"valid": 500, "test": 1000, "pairs": 500}  # built-in images for scoring
SAMPLE_SIZE = 5000  # training images used for the tokenizer, the preparation and the baselines
SCORE_BATCH = 128  # images per batch in validation
REPORT_EXAMPLES = 20  # examples in the report
EXAMPLE_FILE = "example.png"  # a built-in image saved with the model, to try it with
PRESET_SIZES: dict[str, dict[str, Any]] = {"tiny": {"d_model": 128, "num_layers": 4, "num_heads": 4}}


class ImageText(NamedTuple):
    """A text about an image, with the question that it answers, if any."""

    question: str | None
    text: str
    topic: str = ""  # of a built-in question
    place: str = ""  # file and line


NumberedText = tuple[int, ImageText]  # the index of an image in its part, and one of its texts


class ImageSet:
    """The images of one part, each with its texts."""

    def __init__(self, told: Sequence[Sequence[ImageText]]) -> None:
        self.told = told

    def __len__(self) -> int:
        return len(self.told)

    @property
    def looked(self) -> list[NumberedText]:
        """Every text with the index of its image: the examples to score."""
        return [(number, one) for number, some in enumerate(self.told) for one in some]

    def take(self, numbers: Sequence[int]) -> Pixels:
        """The pixels (N, C, Y, X) of these images."""
        raise NotImplementedError


class FileImageSet(ImageSet):
    """Images listed in a table. Rows with the same image become one example of at most `most` texts."""

    def __init__(self, found: ImageTexts, most: int) -> None:
        self.found = found
        self.rows: list[int] = []  # the table row of each example's first text
        told: list[list[ImageText]] = []
        last: dict[Path, int] = {}  # each file's latest example
        for row, (texts, place) in enumerate(zip(found.texts, found.places, strict=True)):
            file, one = found.images.files[row], ImageText(texts[0] if len(texts) > 1 else None, texts[-1], place=place)
            if file in last and len(told[last[file]]) < most:
                told[last[file]].append(one)
                continue
            last[file] = len(told)
            told.append([one])
            self.rows.append(row)
        super().__init__(told)

    def take(self, numbers: Sequence[int]) -> Pixels:
        return self.found.images.take([self.rows[number] for number in numbers])


class SceneImageSet(ImageSet):
    """Built-in scenes, held in memory: a batch, a part to score, or a sample to train a tokenizer on."""

    def __init__(self, pixels: Pixels, scenes: Sequence[Scene], told: Sequence[Sequence[ImageText]]) -> None:
        super().__init__(told)
        self.pixels, self.scenes = pixels, scenes

    def take(self, numbers: Sequence[int]) -> Pixels:
        return self.pixels[list(numbers)]


class PictureTask(Task):
    """Images with texts, a ViT with a cross-attending decoder, cross-entropy of what the decoder writes."""

    columns: ClassVar[Mapping[str, str]]  # settings that name the text columns, each with its flag
    around: ClassVar[SpecialTokenPlacement] = "end"  # special tokens around a text, if a tokenizer is trained
    rate_of_right: ClassVar[str]  # name of the metric that counts exactly right texts

    tokenizer: Tokenizer
    test: ImageSet | None

    def __init__(self, settings: ImageTextSettings, files: Sequence[Path] = ()) -> None:
        self.settings: ImageTextSettings = settings
        if len(files) > 1:
            raise InputError(f"{len(files)} tables to score: expected one")
        self.reads: ImageConfig | None = None  # the images that a loaded model expects
        self.shared, self.cut = "", 0  # a note on images shared between parts; number of truncated texts
        self.named: dict[Path, list[Path]] = {}  # the image files listed in each table
        if settings.init_folder is not None:
            self.reads = self.image_read(settings.init_folder)
        self.is_built_in = settings.data is None and not files
        self.pairs: ImageSet | None = None  # built-in scenes with held-out pairs of colour and kind
        self.train: ImageSet
        self.train, self.valid, self.test = self.judged_only(files[0]) if files else self.load()
        self.tokenizer = make_tokenizer(settings, self.texts(), around=self.around)
        self.model = self.make()
        self.check_model()
        reader, looker = (
            (self.model.text, self.model.image) if isinstance(self.model, Pair) else (self.model, self.model)
        )
        if settings.init is None:
            init_grid_positions(looker)
        fit_tokenizer(self.tokenizer, reader)
        self.limit = min(settings.max_len, reader.config.last_stack.room or settings.max_len)
        self.preparation = self.prepare()
        if settings.init_folder is not None:  # a loaded model also defines how images are resized
            for part in (self.train, self.valid, self.test):
                if isinstance(part, FileImageSet):
                    read = partial(read_colours, preparation=self.preparation)
                    part.found = replace(part.found, images=replace(part.found.images, read=read))
        for part in (self.train, self.valid, self.test):  # too long a text is an error now, not in mid-training
            if part is not None:
                self.encode([one for _, one in part.looked])

    # --- data -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def tell(self, scene: Scene, part: ScenePart, index: int) -> list[ImageText]:
        """The texts about a built-in scene."""

    @property
    def most_texts(self) -> int:
        """The maximum number of texts per example."""
        return 1

    def scenes(self, part: ScenePart, indices: Sequence[int]) -> SceneImageSet:
        made = make_scenes(indices, seed=self.settings.seed, part=part)
        told = [self.tell(scene, part, index) for scene, index in zip(made.scenes, indices, strict=True)]
        return SceneImageSet(made.pixels, made.scenes, told)

    def load(self) -> tuple[ImageSet, ImageSet, ImageSet | None]:
        """Training, validation and test images: from files, split off if need be, or the built-in scenes.

        Of the built-in training scenes these are only the first; `collate` makes all of them.
        """
        settings = self.settings
        if settings.data is None:
            self.check_scenes()
            self.pairs = self.scenes("pairs", range(SCORED_SCENES["pairs"]))
            return (
                self.scenes("train", range(min(SAMPLE_SIZE, settings.examples))),
                self.scenes("valid", range(SCORED_SCENES["valid"])),
                self.scenes("test", range(SCORED_SCENES["test"])),
            )
        train = self.read(settings.data)
        size, mode = train.images.size, train.images.mode
        valid, test = (self.read(x, size, mode) if x is not None else None for x in (settings.valid, settings.test))
        if not settings.is_judged:
            given = {"training": train, "validation": valid, "test": test}
            self.shared = shared_examples(
                {name: x.images.contents() for name, x in given.items() if x is not None}, "images"
            )
        if valid is None:
            train, valid = train.parted(settings.valid_fraction, seed=settings.seed, name=str(settings.data))
        return (
            FileImageSet(train, self.most_texts),
            FileImageSet(valid, self.most_texts),
            None if test is None else FileImageSet(test, self.most_texts),
        )

    def check_scenes(self) -> None:
        """Refuses settings that do not fit the built-in scenes."""
        settings, is_new = self.settings, not self.settings.is_judged and not self.settings.resume
        if is_new and settings.size not in (None, SIZE):
            raise InputError(f"--size {settings.size}: the built-in scenes are {SIZE}x{SIZE} pixels. Leave it out")
        if is_new and settings.mode == "grey":
            raise InputError("--mode grey: the built-in scenes differ in colour. Leave it out")
        reads = self.reads
        if reads is not None and (reads.size, reads.channels) != (SIZE, 3):
            raise InputError(
                f"--init {settings.init} reads images of {size_text(reads.size, reads.channels)}, but the built-in "
                f"scenes have {size_text(SIZE, 3)}. Give images with --data"
            )

    def judged_only(self, path: Path) -> tuple[ImageSet, ImageSet, ImageSet]:
        found = self.read(path)
        nothing = FileImageSet(found.subset([]), self.most_texts)
        return nothing, nothing, FileImageSet(found, self.most_texts)

    def read(self, path: Path, size: int | None = None, mode: Any = None) -> ImageTexts:
        settings = self.settings
        size, mode = size or settings.size, mode or settings.mode
        if self.reads is not None:
            size, mode = size or self.reads.size, mode or ("grey" if self.reads.channels == 1 else "rgb")
        found = read_image_texts(
            path, settings.image_column, {getattr(settings, name): flag for name, flag in self.columns.items()},
            size=size, mode=mode, skip_corrupt=settings.skip_corrupt, skip_empty=settings.skip_empty,
            options=settings.tables,
        )  # fmt: skip
        self.named[path] = list(dict.fromkeys((*found.images.files, *found.images.skipped)))
        return found

    def named_files(self) -> dict[Path, list[Path]]:
        return self.named

    def texts(self) -> list[str]:
        """The texts that a tokenizer is trained on."""
        return [text for _, one in self.train.looked for text in (one.question, one.text) if text is not None]

    # --- model ------------------------------------------------------------------------------------------------------

    @property
    def image(self) -> tuple[int, int]:
        """The side length and the number of channels of the images."""
        part = self.train if len(self.train) or self.test is None else self.test
        if isinstance(part, FileImageSet):
            return part.found.images.size, MODE_CHANNELS[part.found.images.mode]
        return SIZE, 3

    def config(self) -> TransformerConfig:
        """A small ViT, and a decoder like GPT-2 (Radford et al., 2019) with half as many layers and cross-attention."""
        settings, tokenizer, (size, channels) = self.settings, self.tokenizer, self.image
        patch = settings.patch or choose_patch(size)
        if size % patch:
            raise InputError(f"--patch {patch} must divide the image size {size}. Change it, or give --size")
        sizes = {"dropout": 0.0, **stack_sizes(settings, **PRESET_SIZES)}
        sizes = {"d_ff": 2 * sizes["d_model"], **sizes}
        layers = settings.num_layers or max(1, sizes["num_layers"] // 2)
        return TransformerConfig(
            image=ImageConfig(size=size, patch=patch, channels=channels),
            encoder=StackConfig(**sizes, positions="learned", activation="gelu", norm_eps=1e-12),
            decoder=StackConfig(
                **{**sizes, "num_layers": layers}, max_len=settings.max_len, positions="learned",
                activation="gelu_tanh",
            ),
            head="language",
            tie_embeddings=True,
            vocab_size=len(tokenizer),
            pad_token_id=tokenizer.padding_id,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            decoder_start_token_id=tokenizer.bos_token_id,
            generation=GenerationConfig(max_length=settings.max_len),
        )  # fmt: skip

    def image_read(self, folder: Path) -> ImageConfig | None:
        """The images that the model in a folder expects."""
        return config_and_dtype(folder)[0].image

    def make(self) -> Any:
        """The model to train."""
        return make_model(self.settings, self.config, head="language")

    @property
    def looker(self) -> TransformerConfig:
        """The config of the model that reads the images."""
        config: TransformerConfig = self.model.config.image if isinstance(self.model, Pair) else self.model.config
        return config

    def check_model(self) -> None:
        """Refuses a loaded model that does not read images of this size or does not write text."""
        config, settings = self.model.config, self.settings
        if config.image is None or self.model.decoder is None:
            raise InputError(
                f"--init {settings.init}: {self.name} needs a model that reads images and writes text, such as a run "
                "of `glassformer train caption` or a VisionEncoderDecoder checkpoint"
            )
        self.check_image(config.image)
        if not config.eos_token_ids:
            raise InputError(f"--init {settings.init} has no eos_token_id: set the id that ends a text in config.json")

    def check_image(self, reads: ImageConfig) -> None:
        size, channels = self.image
        if (reads.size, reads.channels) != (size, channels):
            raise InputError(
                f"--init {self.settings.init} reads images of {size_text(reads.size, reads.channels)}, but these have "
                f"{size_text(size, channels)}. Convert them with --size and --mode"
            )

    def prepare(self) -> Preparation:
        """The loaded model's own, or mean 0 and standard deviation 1 over the training images."""
        settings = self.settings
        if settings.init_folder is not None:
            loaded = read_preparation(settings.init_folder, self.looker)
            return loaded if settings.is_judged else replace(loaded, upright=True, background=WHITE)
        return fit_preparation(self.train.take(sample_numbers(len(self.train), SAMPLE_SIZE)))

    def write_beside(self, folder: Path) -> None:
        write_preparation(self.preparation, folder, self.looker)
        if self.is_built_in and isinstance(self.test, SceneImageSet):
            write_atomic(folder / EXAMPLE_FILE, as_png(as_report_image(self.test.pixels[0])))

    # --- training ---------------------------------------------------------------------------------------------------

    def batches(self, epoch: int) -> list[list[int]]:
        count = self.settings.examples if self.is_built_in else len(self.train)
        return shuffled_batches(count, self.settings.batch_size, seed=self.settings.seed, epoch=epoch)

    def collate(self, examples: Sequence[int], epoch: int) -> Batch:
        if self.is_built_in:  # each epoch has new images
            numbers = [epoch * self.settings.examples + number for number in examples]
            part: ImageSet = self.scenes("train", numbers)
            return self.as_batch(part.take(range(len(numbers))), part.told)
        return self.as_batch(self.train.take(examples), [self.train.told[number] for number in examples])

    def as_batch(self, pixels: Pixels, told: Sequence[Sequence[ImageText]]) -> Batch:
        """Images, and all texts of each in one row. Labels ignore the prompts."""
        encoded = iter(self.encode([one for some in told for one in some]))
        rows: list[list[int]] = []
        labels: list[list[int]] = []
        documents: list[list[int]] = []
        for some in told:
            ids: list[int] = []
            wanted: list[int] = []
            which: list[int] = []
            for number, (prompt, text) in enumerate(next(encoded) for _ in some):
                ids += [*prompt, *text[:-1]]
                wanted += [*(IGNORE for _ in prompt[1:]), *text]
                which += [number] * (len(ids) - len(which))
            rows.append(ids)
            labels.append(wanted)
            documents.append(which)
        batch = {
            "pixel_values": self.as_input(pixels),
            "decoder_input_ids": pad(rows, self.tokenizer.padding_id),
            "labels": pad(labels, IGNORE),
        }  # needs no mask: padding comes after the texts, and the decoder is causal
        if any(len(some) > 1 for some in told):
            longest = max(map(len, rows))
            padded = [[*row, *range(row[-1] + 1, row[-1] + 1 + longest - len(row))] for row in documents]
            batch["documents"] = torch.tensor(padded)
        return batch

    def encode(self, told: Sequence[ImageText]) -> list[tuple[list[int], list[int]]]:
        """The ids of each text: its prompt, and what the decoder must write, end token included."""
        config, limit = self.model.config, self.limit
        end = config.eos_token_ids[0]
        written = self.tokenizer.ids_batch([one.text for one in told], add_special=False)
        start = prompt_ids(config, self.tokenizer)
        prompts = [start] * len(told)
        if any(one.question is not None for one in told):
            asked = self.tokenizer.ids_batch([one.question or "" for one in told], add_special=False)
            prompts = [[*start, *ids, *start] for ids in asked]
        rows = [(prompt, [*ids, end]) for prompt, ids in zip(prompts, written, strict=True)]
        long = [number for number, (prompt, text) in enumerate(rows) if len(prompt) + len(text) - 1 > limit]
        for number in long:
            prompt, text = rows[number]
            one, room = told[number], limit + 1 - len(prompt)
            if not self.settings.truncate or room < 2:
                raise InputError(
                    f"{one.place or 'a built-in text'} has {len(prompt) + len(text) - 1} tokens, but the decoder takes "
                    f"at most {limit}: {(one.question or one.text)[:60]!r}. Use --truncate, or raise --max-len"
                )
            rows[number] = prompt, text[:room]
        self.cut += len(long)
        return rows

    def as_input(self, pixels: Pixels) -> Tensor:
        return normalised(torch.from_numpy(np.ascontiguousarray(pixels)), self.preparation)  # (B, C, Y, X)

    @property
    def label_smoothing(self) -> float:
        return self.settings.label_smoothing

    # --- scores -----------------------------------------------------------------------------------------------------

    def count(self, split: Literal["test", "valid"]) -> int:
        part = self.valid if self.test is None or split == "valid" else self.test
        return sum(map(len, part.told))

    @property
    def judged(self) -> ImageSet:
        return self.valid if self.test is None or self.split == "valid" else self.test

    @torch.no_grad()
    def validate(self, most: int | None = None) -> dict[str, float]:
        """The loss per token, and the fraction of texts that greedy search would get right: those in which every token
        has the highest probability given the true tokens before it."""
        part = self.valid
        looked = part.looked
        chosen = [looked[number] for number in sample_numbers(len(looked), most)]
        loss = tokens = right = 0.0
        for start in self.follow(range(0, len(chosen), SCORE_BATCH)):
            some = chosen[start : start + SCORE_BATCH]
            batch = self.as_batch(part.take([number for number, _ in some]), [[one] for _, one in some])
            batch = {name: value.to(self.model.device) for name, value in batch.items()}
            labels = batch.pop("labels")  # (B, T)
            logits = self.model(**batch).logits.float()  # (B, T, V)
            counted = labels != IGNORE
            loss += float(F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum"))
            tokens += float(counted.sum())
            right += float(((logits.argmax(dim=-1) == labels) | ~counted).all(dim=1).sum())
        return {"loss": loss / tokens, self.rate_of_right: right / len(chosen)}

    def written(self, part: ImageSet, looked: Sequence[NumberedText]) -> list[str]:
        """What the model writes about these images."""
        guesses = []
        with self.follow.counted(len(looked)) as tell:
            for start in range(0, len(looked), TEXTS_AT_ONCE):
                some = looked[start : start + TEXTS_AT_ONCE]
                pixels = self.as_input(part.take([number for number, _ in some])).to(self.model.device)
                prompts = [prompt for prompt, _ in self.encode([one for _, one in some])]
                rows = generate_captions(self.model, self.tokenizer, pixels, prompts, MODEL_DEFAULTS, None, self.engine)
                guesses += self.tokenizer.decode_batch(rows[:, max(map(len, prompts)) :])
                tell(len(some))
        return [guess.strip() for guess in guesses]

    def truths(self, looked: Sequence[NumberedText]) -> list[str]:
        """The texts encoded and decoded: unknown characters are lost, as in what the model writes."""
        return [self.tokenizer.decode(text).strip() for _, text in self.encode([one for _, one in looked])]

    @abstractmethod
    def measure(self, guesses: Sequence[str], looked: Sequence[NumberedText]) -> tuple[dict[str, float], list[str]]:
        """The scores of what the model wrote, and notes on them."""

    def work(self) -> Work:
        assert self.model.config.image is not None
        looked = [*self.judged.looked, *(self.pairs.looked if self.pairs is not None else ())]
        writes = sum(len(text) for _, text in self.encode([one for _, one in looked]))
        return Work(
            reads=len(looked) * self.model.config.image.num_tokens, writes=writes, rows=min(len(looked), TEXTS_AT_ONCE)
        )

    def chosen(self, part: ImageSet, most: int | None) -> list[NumberedText]:
        looked = part.looked
        return [looked[number] for number in sample_numbers(len(looked), most)]

    def score_some(self, most: int) -> Scores:
        looked = self.chosen(self.judged, most)
        metrics, _ = self.measure(self.written(self.judged, looked), looked)
        return Scores(metrics=metrics, count=len(looked), unit=self.unit)

    def evaluate(self, most: int | None = None) -> Scores:
        part, looked = self.judged, self.chosen(self.judged, most)
        guesses = self.written(part, looked)
        metrics, notes = self.measure(guesses, looked)
        baselines, more = self.baselines(part, looked)
        if self.pairs is not None and self.split == "test":
            others = self.chosen(self.pairs, most)
            found, _ = self.measure(self.written(self.pairs, others), others)
            metrics |= {f"{self.rate_of_right}_on_held_out_pairs": found[self.rate_of_right]}
            metrics |= {f"{name}_on_held_out_pairs": found[name] for name in ("facts",) if name in found}
            notes = [*notes, f"held-out pairs: {len(others):,} {self.unit} on colour-shape pairs not seen in training"]
        rows = [self.as_row(one, guess) for (_, one), guess in zip(looked[:REPORT_EXAMPLES], guesses, strict=False)]
        pictures = [as_report_image(image) for image in part.take([number for number, _ in looked[:REPORT_EXAMPLES]])]
        # After training, the notes on the files have already been printed.
        said = self.notes() if self.settings.is_judged else [self.shared] if self.shared else []
        return Scores(
            metrics=metrics,
            count=len(looked),
            unit=self.unit,
            notes=[*said, *notes, *more],
            baselines=baselines,
            examples=rows,
            pictures=pictures,
            sample=self.sample_of(len(part.looked), len(looked)),
        )

    def as_row(self, one: ImageText, guess: str) -> dict[str, str]:
        """An example row in the report."""
        asked = {"question": one.question} if one.question is not None else {}
        return {**asked, "expected": one.text, "answer": guess}

    @abstractmethod
    def baselines(
        self, part: ImageSet, looked: Sequence[NumberedText]
    ) -> tuple[dict[str, dict[str, float]], list[str]]:
        """The scores of simple methods, and notes on them."""

    def known(self) -> list[NumberedText]:
        """The training texts that a baseline uses: at most KNOWN, spread over all."""
        return self.chosen(self.train, SAMPLE_SIZE)

    def seen_example(self) -> Batch:
        part = self.judged
        number, one = part.looked[0]
        batch = self.as_batch(part.take([number]), [[one]])
        return {name: value for name, value in batch.items() if name != "labels"}

    # --- words ------------------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, str]:
        settings = self.settings
        if self.is_built_in:
            data = (
                f"built-in scenes (no --data was given): {settings.examples:,} images per epoch, "
                f"{len(self.valid):,} held out, {len(self.test or ()):,} to test"
            )
        else:
            tested = f", {self.count('test'):,} to test" if self.test is not None else ""
            trained = sum(map(len, self.train.told))
            size = self.image[0]
            data = (
                f"{settings.data}: {trained:,} {self.unit} to train on, {self.count('valid'):,} held out{tested}, on "
                f"images of {size}x{size} pixels"
            )
        cut = truncation_note(self.cut, self.limit)
        form = self.train.found.form if isinstance(self.train, FileImageSet) else None
        notes = self.notes()
        return {
            "data": data + cut,
            **({"format": str(form)} if form is not None else {}),
            **({"images": "; ".join(notes)} if notes else {}),
            "tokens": describe_tokenizer(self.tokenizer, settings),
            "model": describe_model(self.model, settings),
        }

    def notes(self) -> list[str]:
        """How the files were converted to one size and mode, and which were skipped."""
        parts = [part.found for part in (self.train, self.valid, self.test) if isinstance(part, FileImageSet)]
        images: list[Images] = [part.images for part in parts]
        notes = []
        side = self.image[0]
        for found in {id(one.found): one.found for one in images if one.found is not None}.values():
            if not found.are_alike or side not in {look.width for look in found.looks}:
                notes.append(f"{found.sizes()} pixels are resized to {side}x{side}")
            notes += found.notes(
                images[0].mode, upright=self.preparation.upright, background=self.preparation.background
            )
        notes += [self.shared] if self.shared else []
        if skipped := sorted({file for one in images for file in one.skipped}):
            notes.append(skipped_note(skipped, len({file for one in images for file in one.files}) + len(skipped)))
        if empty := sum({id(part.images.found): part.left_out for part in parts}.values()):
            notes.append(f"{empty:,} row{'s' * (empty > 1)} with an empty text left out (--skip-empty)")
        return notes

    def try_next(self, out: Path) -> list[list[str]]:
        number, one = self.judged.looked[0]
        file = out / EXAMPLE_FILE
        if isinstance(self.judged, FileImageSet):
            file = self.judged.found.images.files[self.judged.rows[number]]
        asked = ["--question", one.question] if one.question is not None else []
        return [["glassformer", "predict", str(out), str(file), *asked]]


def as_report_image(pixels: Pixels) -> Pixels:
    """An image (C, Y, X) in the layout of the report: (Y, X), or (Y, X, 3)."""
    return np.ascontiguousarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))


def nearest_images(known: Pixels, asked: Pixels) -> NDArray[np.int64]:
    """The index of the nearest known image for each asked one, by squared distance."""
    rows = known.reshape(len(known), -1).astype(np.float32)  # (K, P)
    lengths = (rows**2).sum(axis=1)  # (K)
    others = asked.reshape(len(asked), -1).astype(np.float32)  # (N, P)
    parts = [lengths - 2 * others[start : start + SCORE_BATCH] @ rows.T for start in range(0, len(others), SCORE_BATCH)]
    return np.concatenate([part.argmin(axis=1) for part in parts])  # (N)
