"""The report of a run, for people: one HTML file in English and Korean that needs neither a network nor a script.

`run.py` writes it last. Charts and style sheet are in `figures/`. Everything from data, settings or the command line is
escaped: a text such as `<img onerror=...>` stays text.
"""

import json
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.figures.charts import ChartLine, Point, draw_lines
from glassformer.figures.korean import bilingual, with_korean
from glassformer.figures.page import make_page
from glassformer.figures.palette import weight_class
from glassformer.figures.png import as_data_url
from glassformer.io import write_atomic
from glassformer.training.attention import attention_of_example
from glassformer.training.plan import as_sample
from glassformer.training.report import readable_metric, readable_time
from glassformer.training.settings import NOT_STORED
from glassformer.training.task import ForecastCurve, Scores, Task

MAX_CLASSES = 30  # a larger confusion matrix is folded
MAX_CONFUSIONS = 10
METRIC_TITLES = {"rate": "learning rate", "gradient_norm": "norm of the gradient"}


def write_page(path: Path, record: Mapping[str, Any], task: Task, scores: Scores, metrics: Path) -> None:
    out = Path(record["settings"]["out"])
    page = make_page(
        "\n".join(sections(record, task, scores, metrics)),
        over=task.name,
        title=out.name,
        tab=f"{task.name}: {out.name}",
        facts={**task.describe(), "trained": describe_training(record)},
        footer=f"Written by glassformer {record['glassformer_version']}.",
        in_both=True,
    )
    write_atomic(path, page.encode("utf-8", "backslashreplace"))


def sections(record: Mapping[str, Any], task: Task, scores: Scores, metrics: Path) -> Iterator[str]:
    yield from section("Scores", score_table(scores, task.falling))
    notes = [*validation_note(record, task), *loss_note(task, metrics)]
    yield from section("Training", [*training_charts(metrics), *notes])
    yield from section("Forecasts", map(forecast_chart, scores.curves), kind="charts")
    yield from section("Examples", example_table(scores.examples, scores.pictures))
    yield from section("Attention", attention_of_example(task, scores.examples))
    yield from section("Confusion matrix", confusion_table(scores.classes, scores.confusion))
    yield from section("Commands", commands(record, task, Path(record["settings"]["out"])))
    yield from section("Settings", setting_tables(record["settings"], task))


def section(title: str, parts: Iterable[str], kind: str = "") -> Iterator[str]:
    """A titled section; nothing if it would be empty."""
    found = list(parts)
    if found:
        body = "\n".join(found)
        inside = f'<div class="{kind}">\n{body}\n</div>' if kind else body
        yield f"<section>\n<h2>{bilingual(title)}</h2>\n{inside}\n</section>"


def describe_training(record: Mapping[str, Any]) -> str:
    parts = [f"{record['steps']:,} steps"] if "steps" in record else []
    if "train_seconds" in record.get("results", {}):
        parts.append(f"in {readable_time(record['results']['train_seconds'])}")
    kept = f"; saved: {record['kept']}" if "kept" in record else ""
    return " ".join(parts) + kept


def score_table(scores: Scores, falling: Sequence[str]) -> Iterator[str]:
    """The model in the first row, baselines below it; the best value of each column is bold."""
    rows = {"this model": scores.metrics, **scores.baselines}
    names = list(dict.fromkeys(name for metrics in rows.values() for name in metrics))
    best = {
        name: (min if name in falling else max)(metrics[name] for metrics in rows.values() if name in metrics)
        for name in names
    }
    head = "".join(f'<th scope="col">{bilingual(setting_text(name))}</th>' for name in names)
    body = []
    for i, (row, metrics) in enumerate(rows.items()):
        cells = []
        for name in names:
            kind = ' class="best"' if len(rows) > 1 and metrics.get(name) == best[name] else ""
            cells.append(f"<td{kind}>{readable_metric(name, metrics[name]) if name in metrics else ''}</td>")
        ours = ' class="ours"' if i == 0 else ""
        body.append(f'<tr{ours}><th scope="row">{bilingual(row)}</th>{"".join(cells)}</tr>')
    yield f"<p>{bilingual(f'Scored on {scores.scored_on} not used in training.')}</p>"
    yield (
        f'<div class="wide" tabindex="0"><table class="scores"><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
    if scores.notes:
        yield f'<ul class="notes">{"".join(f"<li>{bilingual(note)}</li>" for note in scores.notes)}</ul>'


def training_charts(metrics: Path) -> Iterator[str]:
    """Charts of the training and validation loss, the other validation metrics, the learning rate and the gradient."""
    curves, unread = read_metrics(metrics)
    if not curves:
        return
    charts = []
    losses = [("training", "first", curves.get("loss")), ("validation", "second", curves.pop("valid_loss", None))]
    lines = [ChartLine(name=name, paint=paint, points=points) for name, paint, points in losses if points]
    if lines:
        charts.append(draw_lines("loss", lines, across="step"))
    for name, points in curves.items():
        if name.startswith("valid_"):
            name = setting_text(name.removeprefix("valid_"))
            charts.append(
                draw_lines(f"{name}, validation", [ChartLine(name=name, paint="second", points=points)], across="step")
            )
    for name, title in METRIC_TITLES.items():
        if name in curves:
            charts.append(draw_lines(title, [ChartLine(name=title, paint="first", points=curves[name])], across="step"))
    yield "\n".join(['<div class="charts">', *charts, "</div>"])
    if unread:
        said = bilingual(
            f"Skipped {unread} unreadable line{'s' if unread != 1 else ''} of {metrics.name}.",
            f"{metrics.name}에서 읽을 수 없는 {unread}줄은 그리지 않았습니다.",
        )
        yield f'<p class="aside">{said}</p>'


def validation_note(record: Mapping[str, Any], task: Task) -> Iterator[str]:
    """A note if evaluations during training scored only a sample."""
    some, whole = record.get("plan", {}).get("valid"), task.count("valid")
    if some is not None and some < whole:
        sample = as_sample(some, whole, task.counts or task.unit)
        yield f'<p class="aside">{bilingual(f"Validation scores are on {sample}.")}</p>'


def loss_note(task: Task, metrics: Path) -> Iterator[str]:
    """A note if label smoothing makes the training loss differ from the validation loss."""
    if task.label_smoothing and "valid_loss" in read_metrics(metrics)[0]:
        smoothing = f"{task.label_smoothing:g}"
        said = bilingual(
            f"The training loss is measured with dropout and label smoothing ({smoothing}), the validation loss "
            "without either. So the training loss can stay higher.",
            f"학습 손실은 드롭아웃과 레이블 스무딩({smoothing})을 적용해 계산하고, 검증 손실은 둘 다 없이 계산합니다. "
            "그래서 학습 손실이 검증 손실보다 높을 수 있습니다.",
        )
        yield f'<p class="aside">{said}</p>'


def read_metrics(file: Path) -> tuple[dict[str, list[Point]], int]:
    """Each quantity by name as points (step, value), and the number of unreadable lines."""
    curves: dict[str, list[Point]] = defaultdict(list)
    unread = 0
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        try:
            entry = json.loads(line)
            step = float(entry.pop("step"))
            points = {name: (step, float(value)) for name, value in entry.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            unread += 1
            continue
        for name, point in points.items():
            curves[name].append(point)
    return curves, unread


def forecast_chart(curve: ForecastCurve) -> str:
    """The past, then the actual values and the forecast; both start at the last known point."""
    past = list(enumerate(map(float, curve.past), start=1 - len(curve.past)))
    future = {"actual": ("third", curve.truth), "the forecast": ("forecast", curve.forecast)}
    lines = [ChartLine(name="the past", paint="first", points=past)]
    for name, (paint, values) in future.items():
        if len(values):
            points = [*past[-1:], *enumerate(map(float, values), start=1)]
            lines.append(ChartLine(name=name, paint=paint, points=points))
    return draw_lines(curve.name, lines, across="time")


def example_table(examples: Sequence[Mapping[str, str]], pictures: Sequence[NDArray[np.uint8]] = ()) -> Iterator[str]:
    """A row per example, with its image first if it has one. An answer that differs from the expected one is
    marked."""
    if not examples:
        return
    names = list(examples[0])
    head = "".join(f'<th scope="col">{bilingual(setting_text(name))}</th>' for name in names)
    if pictures:
        head = f'<th scope="col">{bilingual("image")}</th>{head}'
    rows = []
    for number, row in enumerate(examples):
        shown = pictures[number : number + 1]
        cells = [f'<td><img class="seen" src="{as_data_url(pixels)}" alt=""></td>' for pixels in shown]
        for name in names:
            wrong = name == names[-1] and "expected" in row and row[name] != row["expected"]
            mark = f' class="differs" title="{with_korean("differs from what was expected")}"' if wrong else ""
            cells.append(f"<td><span{mark}>{escape(str(row[name]))}</span></td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    yield (
        f'<div class="wide" tabindex="0"><table class="examples"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def confusion_table(classes: Sequence[str], confusion: Sequence[Sequence[int]]) -> Iterator[str]:
    """Counts, darker for a larger share of the true class. With many classes, the most frequent confusions first."""
    if not confusion:
        return
    head = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in classes)
    rows = []
    for i, (name, counts) in enumerate(zip(classes, confusion, strict=True)):
        cells = []
        for j, count in enumerate(counts):
            kind = f"w{weight_class(count / max(1, sum(counts)))}{' right' if i == j else ''}"
            hint = escape(f"{name} → {classes[j]}: {count:,}")
            cells.append(f'<td class="{kind}" title="{hint}">{count if count else ""}</td>')
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>')
    table = (
        f'<div class="wide" tabindex="0"><table class="confusion"><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    said = bilingual("Rows are true classes, columns are answers; bold counts are correct.")
    yield f'<p class="aside">{said}</p>'
    if len(classes) <= MAX_CLASSES:
        yield table
        return
    errors = [(n, i, j) for i, counts in enumerate(confusion) for j, n in enumerate(counts) if i != j and n]
    often = sorted(errors, key=lambda error: -error[0])[:MAX_CONFUSIONS]
    lines = [escape(f"{classes[i]} → {classes[j]}: {n:,}") for n, i, j in often]
    if lines:
        yield f"<p>{bilingual('Most frequent confusions:')}</p><ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"
    yield f"<details><summary>{bilingual(f'all {len(classes)} classes')}</summary>{table}</details>"


def commands(record: Mapping[str, Any], task: Task, out: Path) -> Iterator[str]:
    """Commands for the finished run, and the one that made it."""
    settings = record["settings"]
    longer = ["--minutes", f"{2 * settings['minutes']:g}"] if settings.get("minutes") else []
    if not longer and "steps" in record:
        longer = ["--steps", str(2 * record["steps"])]
    explored = [["glassformer", "explore", str(out), "--open"]] if (settings.get("fold") or 1) == 1 else []
    resume = ["glassformer", *record["verb"].split(), "--out", str(out), "--resume", *longer]
    for said, lines in (
        ("Try it on new inputs:", task.try_next(out)),
        ("Look inside it in the browser:", explored),
        ("Score it again, or on your own files with --data:", [["glassformer", "eval", str(out)]]),
        ("Train it longer:", [resume]),
    ):
        if lines:
            shown = escape("\n".join(map(shlex.join, lines)))
            yield f'<p>{bilingual(said)}</p>\n<pre tabindex="0">{shown}</pre>'
    yield f'<p>{bilingual("Trained with:")}</p>\n<pre tabindex="0">{escape(record["command"])}</pre>'


def setting_tables(settings: Mapping[str, Any], task: Task) -> Iterator[str]:
    """The settings that differ from the defaults; the others are folded."""
    defaults = type(task.settings)().to_dict()  # type: ignore[call-arg]  # a task's settings all have defaults
    known = {name: value for name, value in settings.items() if name not in NOT_STORED}
    chosen = {name: value for name, value in known.items() if name not in defaults or value != defaults[name]}
    others = {name: value for name, value in known.items() if name not in chosen}
    nothing = f'<p class="aside">{bilingual("All settings have their defaults.")}</p>'
    yield setting_table(chosen) if chosen else nothing
    if others:
        said = bilingual(f"{len(others)} other settings, at their defaults")
        yield f"<details><summary>{said}</summary>{setting_table(others)}</details>"


def setting_table(settings: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(as_setting(value))}</td></tr>'
        for name, value in settings.items()
    )
    return f'<table class="settings"><tbody>{rows}</tbody></table>'


def as_setting(value: Any) -> str:
    if value is None or value == []:
        return "–"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def setting_text(name: str) -> str:
    return name.replace("_", " ")
