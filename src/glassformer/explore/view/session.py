"""A model and its views: each input is computed once, and recent views are kept up to a memory limit."""

import hashlib
import json
import time
from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Semaphore
from typing import Any

import torch
from torch import Tensor

from glassformer.checkpoints.labels import class_names
from glassformer.config import TransformerConfig
from glassformer.core.context import watched_by
from glassformer.core.heads import LanguageHead
from glassformer.core.model import Output, count
from glassformer.errors import InputError
from glassformer.explore.view import answers, examples
from glassformer.explore.view.bounds import GoneError, check_time, slot, time_limit
from glassformer.explore.view.flow import ROWS_OF_SERIES, StepCosts, flow_of, steps_of
from glassformer.explore.view.inputs import MAX_PAGE_TOKENS, channel_in, check_keys, prepare_request, without_in
from glassformer.explore.view.seen import RecordedPage, seeing
from glassformer.explore.view.shown import (
    changed_since,
    curve_of,
    describe_sizes,
    finished,
    maps_of,
    page_kind,
    shown_image,
    stack_rows,
    stream_of,
    words_after,
)
from glassformer.explore.view.telling import changes_of, meant_rows, telling_of
from glassformer.figures.png import as_data_url
from glassformer.inspect.steps.step import LEGEND
from glassformer.predict.captions import CaptionPreparer
from glassformer.predict.match import PairPreparer
from glassformer.predict.pipeline import Pipeline, pipeline
from glassformer.predict.prepare import Preparer
from glassformer.predict.prepared import Prepared
from glassformer.predict.series import SeriesPreparer, future_of
from glassformer.predict.texts import TextPreparer
from glassformer.text import Tokenizer
from glassformer.version import __version__
from glassformer.watch.ablate import ablate

MAX_VIEW_BYTES = 2**30  # of all views together
MAX_VIEWS = 64
ANSWER_TIMEOUT = 60.0  # time limit of an answer


@dataclass
class View:
    """The record of one input."""

    id: str
    shown: dict[str, Any]  # sent to the page
    prepared: Prepared
    row: int  # of the batch: the channel of a series that is shown
    without: list[str]  # heads left out
    seen: RecordedPage
    hidden: Tensor | None  # of the decoder, (1, T, D): to recompute the logits of a row
    steps: dict[str, Tensor] = field(default_factory=dict)  # requested steps (`values.py`)
    lens: dict[int, dict[str, Any]] = field(default_factory=dict)  # logit lens, by its first token

    @property
    def bytes(self) -> int:
        text = len(json.dumps(self.shown))
        return self.seen.bytes + text + self.bytes_of_steps + (0 if self.hidden is None else self.hidden.numel() * 4)

    @property
    def bytes_of_steps(self) -> int:
        return sum(step.numel() * step.element_size() for step in list(self.steps.values()))


class Session:
    """A loaded model, its examples and its views."""

    def __init__(
        self,
        path: str | Path | Pipeline,
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        seconds: float = ANSWER_TIMEOUT,
    ) -> None:
        self.seconds = seconds
        self.languages = {"source_language": source_language, "target_language": target_language}
        loaded = path if isinstance(path, Pipeline) else pipeline(path, device="cpu")
        if isinstance(loaded.preparer, PairPreparer):
            raise InputError(f"{path} holds a text and an image model, but a session shows only one: use open_session")
        check_seen(loaded.model.config)
        self.task, self.model, self.folder = loaded.task, loaded.model, loaded.folder
        self.model.eval()
        self.steps, self.costs = steps_of(self.model), StepCosts(self.model)
        check_languages(self.task, loaded.tokenizer, self.languages)
        self.preparer: Preparer = loaded.preparer
        if isinstance(self.preparer, TextPreparer):
            self.preparer = self.preparer.limited(MAX_PAGE_TOKENS, **self.languages)
        elif isinstance(self.preparer, CaptionPreparer):
            self.preparer = self.preparer.limited(MAX_PAGE_TOKENS)
        self.examples, self.given = self.list_examples()
        self.views: OrderedDict[str, View] = OrderedDict()
        self.calls = Semaphore(1)  # one model call at a time

    def list_examples(self) -> tuple[list[dict[str, Any]], list[Any]]:
        """The examples that the page lists, and the images or series that it refers to by number."""
        preparer, config, listed = self.preparer, self.model.config, examples.as_listed
        if isinstance(preparer, TextPreparer):
            texts = examples.text_examples(self.task, self.folder, preparer.tokenizer)
            return [listed(text, {"text": text}) for text in texts], []
        if isinstance(preparer, SeriesPreparer):
            series = examples.series_examples(self.folder, config, preparer.scale)
            named = [listed(name, {"example": i}) for i, (name, _) in enumerate(series)]
            return named, [values for _, values in series]
        if self.task == "ask":
            asked = examples.asked_examples(self.folder, config)
            named = [listed(q, {"example": i, "text": q}, as_data_url(x)) for i, (q, x) in enumerate(asked)]
            return named, [pixels for _, pixels in asked]
        pictures = examples.picture_examples(self.folder, config)
        named = [listed(name, {"example": i}, as_data_url(x)) for i, (name, x) in enumerate(pictures)]
        return named, [pixels for _, pixels in pictures]

    def of(self, view: "View") -> "Session":
        """The session that a view belongs to."""
        return self

    def describe(self) -> dict[str, Any]:
        """The description of the model that the page gets before any input."""
        reader = self.preparer.words if isinstance(self.preparer, TextPreparer | CaptionPreparer) else None
        return {
            "name": self.folder.resolve().name,
            "kind": page_kind(self.model.config),
            "task": self.task,
            "parameters": count(self.model),
            "version": __version__,
            "live": True,
            **describe_sizes(self.model.config),
            "limit": self.preparer.limit if isinstance(self.preparer, TextPreparer) else None,
            "classes": class_names(self.model) if self.model.config.num_classes else None,
            "examples": self.examples,
            "mask_token": reader.tokenizer.special.get("mask_token") if reader else None,
            "unknown_token": reader.tokenizer.special.get("unk_token") if reader else None,
            "lens": isinstance(self.model.head, LanguageHead),
            "legend": LEGEND | ROWS_OF_SERIES,
            "steps": self.steps,
        }

    def view(self, given: Any) -> View:
        """The view of an input: computed, or kept from an earlier request."""
        given = check_keys(given, self.preparer.kind)
        without = without_in(given, self.model)
        whole = {key: value for key, value in given.items() if key != "without"}
        with slot(self.calls):
            before = self.known(whole, [], None)
            return self.known({**whole, "without": without}, without, before) if without else before

    def known(self, given: dict[str, Any], without: list[str], before: View | None) -> View:
        """A view, computed if it is not in memory; with heads left out, compared with `before`."""
        name = id_of(given)
        view = self.views.get(name) or self.compute(name, given, without, before)
        if name not in self.views:
            self.keep(view)
        self.views.move_to_end(name)
        return view

    def silenced(self, without: list[str]) -> AbstractContextManager[Any]:
        """Leaves these heads out of the model; only for the caller whose turn it is."""
        return ablate(self.model, without) if without else nullcontext()

    def find(self, name: str) -> View:
        view = self.views.get(name)
        if view is None:
            raise GoneError("this view is no longer in memory: send the input again")
        return view

    def keep(self, view: View) -> None:
        self.views[view.id] = view
        sizes = {name: kept.bytes for name, kept in self.views.items()}
        while len(self.views) > 1 and (sum(sizes.values()) > MAX_VIEW_BYTES or len(self.views) > MAX_VIEWS):
            oldest, _ = self.views.popitem(last=False)
            del sizes[oldest]

    @torch.no_grad()
    def compute(self, name: str, given: dict[str, Any], without: list[str], before: View | None) -> View:
        began = time.monotonic()
        with time_limit(self.seconds), watched_by(check_time), self.silenced(without):
            prepared = prepare_request(self.preparer, given, self.given)
            row = channel_in(given, prepared)
            with seeing(self.model, row) as seen:
                output = prepared.run(self.model)
            lines = stack_rows(prepared, self.model.config)
            answer = answers.view_answer(self.task, answers.AnsweredInput(self.preparer, prepared, output))
            answer = words_after(lines, answer)
            lines = finished(lines, answer)
            maps, picture = maps_of(seen), shown_image(prepared, self.model.config)
            meant = meant_rows(answer, lines, picture["prefix"] if picture else 0)
            telling = telling_of(seen, maps, lines, meant)
            changed = None if before is None else changed_since(before.shown, changes_of(seen, before.seen))
        shown = {
            "id": name,
            "input": given,
            "seconds": round(time.monotonic() - began, 3),
            "text": prepared.text,
            "notes": list(prepared.notes),
            "lines": lines,
            "picture": picture,
            "curve": self.curve(prepared, row, output),
            "maps": maps,
            "telling": telling,
            "changed": changed,
            "stream": stream_of(seen),
            "flow": flow_of(seen.shapes, self.model.config, self.costs),
            "answer": answer,
        }
        keeps = answer["kind"] == "next"
        return View(name, shown, prepared, row, without, seen, output.last_hidden_state if keeps else None)

    def curve(self, prepared: Prepared, row: int, output: Output) -> dict[str, Any] | None:
        if prepared.window is None:
            return None
        future = None
        if self.task == "forecast":
            assert output.logits is not None
            future = [answers.six(float(value)) for value in future_of(prepared, output.logits)[:, row]]
        return curve_of(prepared.window, row, future)


def check_seen(config: TransformerConfig) -> None:
    """The page can show a prefix only if it is an image, and a series only if each channel is one row."""
    if config.series is not None and config.series.fold > 1:
        raise InputError(
            f"this model folds a series (fold = {config.series.fold}), which the explorer does not show. Use "
            "glassformer inspect attention instead"
        )
    if config.prefix and config.image is None:
        raise InputError(
            "this model uses the encoder's output as a prefix (memory='prefix'), which the explorer shows only for "
            "image models. Use glassformer inspect attention instead"
        )


def check_languages(task: str, tokenizer: Tokenizer | None, languages: dict[str, str | None]) -> None:
    """Refuses an unknown language before the page opens."""
    for name, language in languages.items():
        if language is not None and (task != "translate" or tokenizer is None):
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} {language}: this model does not translate. Leave it out")
        if language is not None and tokenizer is not None:
            tokenizer.language_token(language)


def id_of(given: dict[str, Any]) -> str:
    text = json.dumps(given, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
