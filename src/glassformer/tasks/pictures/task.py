"""What the tasks share that write about pictures: a ViT looks, a decoder writes what comes behind its prompt.

A picture has one text or several: a caption, or questions with answers. Several are packed into one row of the decoder,
so that the picture is looked at once. The loss is taken where the model writes, never on a question.
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
from glassformer.data.batches import in_order
from glassformer.data.image_texts import ImageTexts, read_image_texts
from glassformer.data.images import CHANNELS, Images, left_out
from glassformer.data.pixels import WHITE, Pixels
from glassformer.data.scenes.make import Part, make_scenes
from glassformer.data.scenes.scene import SIZE, Scene
from glassformer.data.split import shared_by
from glassformer.errors import InputError
from glassformer.figures.png import as_png
from glassformer.generation.choose_engine import Work
from glassformer.io import write_whole
from glassformer.predict.calls import BATCH
from glassformer.predict.captions import prompt_ids, write
from glassformer.predict.images import normalised, read_colours
from glassformer.predict.writing import AS_THE_MODEL
from glassformer.tasks.images import choose_patch, fit_preparation
from glassformer.tasks.models import describe_model, make_model, place_on_grid, sizes_of
from glassformer.tasks.settings import PictureSettings
from glassformer.tasks.texts import describe_tokenizer, fit_tokenizer, make_tokenizer
from glassformer.text import Tokenizer
from glassformer.text.padding import pad
from glassformer.text.train import Around
from glassformer.training.task import Batch, Scores, Task, spread

HELD_OUT = {"valid": 500, "test": 1000, "pairs": 500}  # built-in pictures to score
KNOWN = 5000  # training pictures that tokenizer, preparation and baselines look at
JUDGED = 128  # pictures that are looked at together
SHOWN = 20  # examples in the report
EXAMPLE = "example.png"  # a built-in picture beside the model, to try it with
SIZES: dict[str, dict[str, Any]] = {"tiny": {"d_model": 128, "num_layers": 4, "num_heads": 4}}


class Told(NamedTuple):
    """A text about a picture, behind a question if there is one."""

    question: str | None
    text: str
    topic: str = ""  # of a built-in question
    place: str = ""  # file and line


Looked = tuple[int, Told]  # the number of a picture in its part, and one of its texts


class Pictures:
    """The pictures of one part, each with its texts."""

    def __init__(self, told: Sequence[Sequence[Told]]) -> None:
        self.told = told

    def __len__(self) -> int:
        return len(self.told)

    @property
    def looked(self) -> list[Looked]:
        """Every text with its picture: what is scored."""
        return [(number, one) for number, some in enumerate(self.told) for one in some]

    def take(self, numbers: Sequence[int]) -> Pixels:
        """The pixels (N, C, Y, X) of some of them."""
        raise NotImplementedError


class FilePictures(Pictures):
    """Pictures that a table names. Rows of one picture become one example, of at most `most` texts."""

    def __init__(self, found: ImageTexts, most: int) -> None:
        self.found = found
        self.rows: list[int] = []  # of the first text of each example
        told: list[list[Told]] = []
        last: dict[Path, int] = {}  # the example that has room for another text of a file
        for row, (texts, place) in enumerate(zip(found.texts, found.places, strict=True)):
            file, one = found.images.files[row], Told(texts[0] if len(texts) > 1 else None, texts[-1], place=place)
            if file in last and len(told[last[file]]) < most:
                told[last[file]].append(one)
                continue
            last[file] = len(told)
            told.append([one])
            self.rows.append(row)
        super().__init__(told)

    def take(self, numbers: Sequence[int]) -> Pixels:
        return self.found.images.take([self.rows[number] for number in numbers])


class ScenePictures(Pictures):
    """Built-in scenes, held in memory: few enough to score, or to learn a tokenizer from."""

    def __init__(self, pixels: Pixels, scenes: Sequence[Scene], told: Sequence[Sequence[Told]]) -> None:
        super().__init__(told)
        self.pixels, self.scenes = pixels, scenes

    def take(self, numbers: Sequence[int]) -> Pixels:
        return self.pixels[list(numbers)]


class PictureTask(Task):
    """Pictures with texts, a ViT with a decoder that cross-attends, cross-entropy where the decoder writes."""

    columns: ClassVar[Mapping[str, str]]  # the settings that name the columns of the texts, each with its flag
    around: ClassVar[Around] = "end"  # what stands beside a text, where a tokenizer is learned
    rate_of_right: ClassVar[str]  # what the share of texts is called that are right to the letter

    tokenizer: Tokenizer
    test: Pictures | None

    def __init__(self, settings: PictureSettings, files: Sequence[Path] = ()) -> None:
        self.settings: PictureSettings = settings
        if len(files) > 1:
            raise InputError(f"{len(files)} tables to score: expected one")
        self.reads: ImageConfig | None = None  # what a loaded model does
        self.shared, self.cut = "", 0  # which parts have pictures in common; texts that were shortened
        self.named: dict[Path, list[Path]] = {}  # the files that a table names
        if settings.init_folder is not None:
            self.reads = self.image_read(settings.init_folder)
        self.is_built_in = settings.data is None and not files
        self.pairs: Pictures | None = None  # built-in pictures of held-out pairs of colour and kind
        self.train: Pictures
        self.train, self.valid, self.test = self.judged_only(files[0]) if files else self.load()
        self.tokenizer = make_tokenizer(settings, self.texts(), around=self.around)
        self.model = self.make()
        self.check_model()
        reader, looker = (
            (self.model.text, self.model.image) if isinstance(self.model, Pair) else (self.model, self.model)
        )
        if settings.init is None:
            place_on_grid(looker)
        fit_tokenizer(self.tokenizer, reader)
        self.limit = min(settings.max_len, reader.config.last_stack.room or settings.max_len)
        self.preparation = self.prepare()
        if settings.init_folder is not None:  # a loaded model says how its images are brought to size, too
            for part in (self.train, self.valid, self.test):
                if isinstance(part, FilePictures):
                    read = partial(read_colours, preparation=self.preparation)
                    part.found = replace(part.found, images=replace(part.found.images, read=read))
        for part in (self.train, self.valid, self.test):  # what is too long is told now, and not at its step
            if part is not None:
                self.encode([one for _, one in part.looked])

    # --- data -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def tell(self, scene: Scene, part: Part, index: int) -> list[Told]:
        """The texts about a built-in scene."""

    @property
    def most_texts(self) -> int:
        """How many texts of one picture make an example."""
        return 1

    def scenes(self, part: Part, indices: Sequence[int]) -> ScenePictures:
        made = make_scenes(indices, seed=self.settings.seed, part=part)
        told = [self.tell(scene, part, index) for scene, index in zip(made.scenes, indices, strict=True)]
        return ScenePictures(made.pixels, made.scenes, told)

    def load(self) -> tuple[Pictures, Pictures, Pictures | None]:
        """Pictures to train on, to validate and to test: as they are given, split off, or the built-in scenes.

        Of the built-in ones to train on, these are the first; `collate` makes all of them.
        """
        settings = self.settings
        if settings.data is None:
            self.check_scenes()
            self.pairs = self.scenes("pairs", range(HELD_OUT["pairs"]))
            return (
                self.scenes("train", range(min(KNOWN, settings.examples))),
                self.scenes("valid", range(HELD_OUT["valid"])),
                self.scenes("test", range(HELD_OUT["test"])),
            )
        train = self.read(settings.data)
        size, mode = train.images.size, train.images.mode
        valid, test = (self.read(x, size, mode) if x is not None else None for x in (settings.valid, settings.test))
        if not settings.is_judged:
            given = {"training": train, "validation": valid, "test": test}
            self.shared = shared_by({name: x.images.contents() for name, x in given.items() if x is not None}, "images")
        if valid is None:
            train, valid = train.parted(settings.valid_fraction, seed=settings.seed, name=str(settings.data))
        return (
            FilePictures(train, self.most_texts),
            FilePictures(valid, self.most_texts),
            None if test is None else FilePictures(test, self.most_texts),
        )

    def check_scenes(self) -> None:
        """Flags that the built-in scenes have no use for are an error."""
        settings, is_new = self.settings, not self.settings.is_judged and not self.settings.resume
        if is_new and settings.size not in (None, SIZE):
            raise InputError(f"--size {settings.size}: the built-in scenes have {SIZE} pixels a side. Leave it out")
        if is_new and settings.mode == "grey":
            raise InputError("--mode grey: the built-in scenes are told apart by colour. Leave it out")
        reads = self.reads
        if reads is not None and (reads.size, reads.channels) != (SIZE, 3):
            raise InputError(
                f"--init {settings.init} reads {reads.size} pixels a side and {reads.channels} channels, and the "
                f"built-in scenes have {SIZE} and 3: give images with --data"
            )

    def judged_only(self, path: Path) -> tuple[Pictures, Pictures, Pictures]:
        found = self.read(path)
        nothing = FilePictures(found.subset([]), self.most_texts)
        return nothing, nothing, FilePictures(found, self.most_texts)

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
        """What a tokenizer is learned from."""
        return [text for _, one in self.train.looked for text in (one.question, one.text) if text is not None]

    # --- model ------------------------------------------------------------------------------------------------------

    @property
    def image(self) -> tuple[int, int]:
        """The side and the channels of the pictures."""
        part = self.train if len(self.train) or self.test is None else self.test
        if isinstance(part, FilePictures):
            return part.found.images.size, CHANNELS[part.found.images.mode]
        return SIZE, 3

    def config(self) -> TransformerConfig:
        """A small ViT, and a decoder like GPT-2 (Radford et al., 2019) of half its layers that looks at its patches."""
        settings, tokenizer, (size, channels) = self.settings, self.tokenizer, self.image
        patch = settings.patch or choose_patch(size)
        if size % patch:
            raise InputError(f"--patch {patch} must divide the size of the images, {size}: change it, or give --size")
        sizes = {"dropout": 0.0, **sizes_of(settings, **SIZES)}
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
        """What images the model of a folder looks at."""
        return config_and_dtype(folder)[0].image

    def make(self) -> Any:
        """The model to train."""
        return make_model(self.settings, self.config, head="language")

    @property
    def looker(self) -> TransformerConfig:
        """The model that looks at the pictures."""
        config: TransformerConfig = self.model.config.image if isinstance(self.model, Pair) else self.model.config
        return config

    def check_model(self) -> None:
        """A loaded model must look at pictures of this size and write."""
        config, settings = self.model.config, self.settings
        if config.image is None or self.model.decoder is None:
            raise InputError(
                f"--init {settings.init}: {self.name} needs a model that reads images and writes text, such as a run "
                "of train caption or a VisionEncoderDecoder checkpoint"
            )
        self.check_image(config.image)
        if not config.eos_token_ids:
            raise InputError(f"--init {settings.init} has no eos_token_id: set the id that ends a text in config.json")

    def check_image(self, reads: ImageConfig) -> None:
        size, channels = self.image
        if (reads.size, reads.channels) != (size, channels):
            raise InputError(
                f"--init {self.settings.init} reads {reads.size} pixels a side and {reads.channels} channels, "
                f"and these images have {size} and {channels}. Bring them there with --size and --mode"
            )

    def prepare(self) -> Preparation:
        """As the loaded model says, or to mean 0 and deviation 1 over the training pictures."""
        settings = self.settings
        if settings.init_folder is not None:
            loaded = read_preparation(settings.init_folder, self.looker)
            return loaded if settings.is_judged else replace(loaded, upright=True, background=WHITE)
        return fit_preparation(self.train.take(spread(len(self.train), KNOWN)))

    def write_beside(self, folder: Path) -> None:
        write_preparation(self.preparation, folder, self.looker)
        if self.is_built_in and isinstance(self.test, ScenePictures):
            write_whole(folder / EXAMPLE, as_png(as_shown(self.test.pixels[0])))

    # --- training ---------------------------------------------------------------------------------------------------

    def batches(self, epoch: int) -> list[list[int]]:
        count = self.settings.examples if self.is_built_in else len(self.train)
        return in_order(count, self.settings.batch_size, seed=self.settings.seed, epoch=epoch)

    def collate(self, examples: Sequence[int], epoch: int) -> Batch:
        if self.is_built_in:  # every epoch has pictures of its own
            numbers = [epoch * self.settings.examples + number for number in examples]
            part: Pictures = self.scenes("train", numbers)
            return self.as_batch(part.take(range(len(numbers))), part.told)
        return self.as_batch(self.train.take(examples), [self.train.told[number] for number in examples])

    def as_batch(self, pixels: Pixels, told: Sequence[Sequence[Told]]) -> Batch:
        """Pictures, and all texts of each in one row; a question is read, and what follows it written."""
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
        }  # nothing sees the padding: it stands behind every text
        if any(len(some) > 1 for some in told):
            longest = max(map(len, rows))
            padded = [[*row, *range(row[-1] + 1, row[-1] + 1 + longest - len(row))] for row in documents]
            batch["documents"] = torch.tensor(padded)
        return batch

    def encode(self, told: Sequence[Told]) -> list[tuple[list[int], list[int]]]:
        """Of each text the prompt, which is read, and what is written, up to its end."""
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
                    f"{one.place or 'a built-in text'} has {len(prompt) + len(text) - 1} tokens, and the decoder takes "
                    f"{limit}: {(one.question or one.text)[:60]!r}. Cut texts with --truncate, or raise --max-len"
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
    def judged(self) -> Pictures:
        return self.valid if self.test is None or self.split == "valid" else self.test

    @torch.no_grad()
    def validate(self, most: int | None = None) -> dict[str, float]:
        """The loss per token, and how many texts are right: greedy search writes the true text if and only if every
        token of it is the likeliest behind the true ones before it."""
        part = self.valid
        looked = part.looked
        chosen = [looked[number] for number in spread(len(looked), most)]
        loss = tokens = right = 0.0
        for start in self.follow(range(0, len(chosen), JUDGED)):
            some = chosen[start : start + JUDGED]
            batch = self.as_batch(part.take([number for number, _ in some]), [[one] for _, one in some])
            batch = {name: value.to(self.model.device) for name, value in batch.items()}
            labels = batch.pop("labels")  # (B, T)
            logits = self.model(**batch).logits.float()  # (B, T, V)
            counted = labels != IGNORE
            loss += float(F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum"))
            tokens += float(counted.sum())
            right += float(((logits.argmax(dim=-1) == labels) | ~counted).all(dim=1).sum())
        return {"loss": loss / tokens, self.rate_of_right: right / len(chosen)}

    def written(self, part: Pictures, looked: Sequence[Looked]) -> list[str]:
        """What the model writes about these pictures."""
        guesses = []
        with self.follow.counted(len(looked)) as tell:
            for start in range(0, len(looked), BATCH):
                some = looked[start : start + BATCH]
                pixels = self.as_input(part.take([number for number, _ in some])).to(self.model.device)
                prompts = [prompt for prompt, _ in self.encode([one for _, one in some])]
                rows = write(self.model, self.tokenizer, pixels, prompts, AS_THE_MODEL, None, self.engine)
                guesses += self.tokenizer.decode_batch(rows[:, max(map(len, prompts)) :])
                tell(len(some))
        return [guess.strip() for guess in guesses]

    def truths(self, looked: Sequence[Looked]) -> list[str]:
        """The texts as the tokenizer writes them, which may lose what it does not know."""
        return [self.tokenizer.decode(text).strip() for _, text in self.encode([one for _, one in looked])]

    @abstractmethod
    def measure(self, guesses: Sequence[str], looked: Sequence[Looked]) -> tuple[dict[str, float], list[str]]:
        """Scores of what was written, and what must be said beside them."""

    def work(self) -> Work:
        assert self.model.config.image is not None
        looked = [*self.judged.looked, *(self.pairs.looked if self.pairs is not None else ())]
        writes = sum(len(text) for _, text in self.encode([one for _, one in looked]))
        return Work(reads=len(looked) * self.model.config.image.num_tokens, writes=writes, rows=min(len(looked), BATCH))

    def chosen(self, part: Pictures, most: int | None) -> list[Looked]:
        looked = part.looked
        return [looked[number] for number in spread(len(looked), most)]

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
        rows = [self.as_row(one, guess) for (_, one), guess in zip(looked[:SHOWN], guesses, strict=False)]
        pictures = [as_shown(image) for image in part.take([number for number, _ in looked[:SHOWN]])]
        # A training has said before what was done to the files.
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

    def as_row(self, one: Told, guess: str) -> dict[str, str]:
        """An example of the report."""
        asked = {"question": one.question} if one.question is not None else {}
        return {**asked, "expected": one.text, "answer": guess}

    @abstractmethod
    def baselines(self, part: Pictures, looked: Sequence[Looked]) -> tuple[dict[str, dict[str, float]], list[str]]:
        """What simple methods reach, and notes on them."""

    def known(self) -> list[Looked]:
        """Training texts that a baseline may learn from: all, or some of many."""
        return self.chosen(self.train, KNOWN)

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
                f"built-in scenes (no --data was given): {settings.examples:,} pictures an epoch, "
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
        cut = f"; {self.cut:,} texts cut to {self.limit} tokens (--truncate)" if self.cut else ""
        form = self.train.found.form if isinstance(self.train, FilePictures) else None
        notes = self.notes()
        return {
            "data": data + cut,
            **({"format": str(form)} if form is not None else {}),
            **({"images": "; ".join(notes)} if notes else {}),
            "tokens": describe_tokenizer(self.tokenizer, settings),
            "model": describe_model(self.model, settings),
        }

    def notes(self) -> list[str]:
        """What was done to the files: how they came to one size and mode, and what was left out."""
        parts = [part.found for part in (self.train, self.valid, self.test) if isinstance(part, FilePictures)]
        images: list[Images] = [part.images for part in parts]
        notes = []
        side = self.image[0]
        for found in {id(one.found): one.found for one in images if one.found is not None}.values():
            if not found.are_alike or side not in {look.width for look in found.looks}:
                notes.append(f"{found.sizes()} pixels are brought to {side}x{side}")
            notes += found.notes(
                images[0].mode, upright=self.preparation.upright, background=self.preparation.background
            )
        notes += [self.shared] if self.shared else []
        if skipped := sorted({file for one in images for file in one.skipped}):
            notes.append(left_out(skipped, len({file for one in images for file in one.files}) + len(skipped)))
        if empty := sum({id(part.images.found): part.left_out for part in parts}.values()):
            notes.append(f"{empty:,} rows with an empty text are left out (--skip-empty)")
        return notes

    def try_next(self, out: Path) -> list[list[str]]:
        number, one = self.judged.looked[0]
        file = out / EXAMPLE
        if isinstance(self.judged, FilePictures):
            file = self.judged.found.images.files[self.judged.rows[number]]
        asked = ["--question", one.question] if one.question is not None else []
        return [["glassformer", "predict", str(out), str(file), *asked]]


def as_shown(pixels: Pixels) -> Pixels:
    """A picture (C, Y, X) as a page shows it: (Y, X), or (Y, X, 3)."""
    return np.ascontiguousarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))


def nearest_pictures(known: Pixels, asked: Pixels) -> NDArray[np.int64]:
    """Of each picture that is asked for, the number of the nearest known one: by the squares of their differences."""
    rows = known.reshape(len(known), -1).astype(np.float32)  # (K, P)
    lengths = (rows**2).sum(axis=1)  # (K)
    others = asked.reshape(len(asked), -1).astype(np.float32)  # (N, P)
    parts = [lengths - 2 * others[start : start + JUDGED] @ rows.T for start in range(0, len(others), JUDGED)]
    return np.concatenate([part.argmin(axis=1) for part in parts])  # (N)
