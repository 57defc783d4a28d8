"""The report of a run: complete, self-contained and escaped."""

import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from helpers.command import run

import glassformer as gf
from glassformer.figures.charts import HEIGHT, WIDTH
from glassformer.figures.palette import weight_class
from glassformer.generation.choose_engine import Work
from glassformer.tasks.settings import ClassifySettings
from glassformer.training.attention import attention_of_example
from glassformer.training.page import write_page
from glassformer.training.task import Batch, ForecastCurve, Scores, Task

NASTY = "<img src=x onerror=alert(1)> & \"quotes\" 'too' </table>"

VOID = {"meta", "input"}


class Pretended(Task):
    """A task with the contents of a report, which trains nothing."""

    name: ClassVar[str] = "classify"
    unit: ClassVar[str] = "texts"
    metric: ClassVar[str] = "accuracy"

    def __init__(self) -> None:
        self.settings = ClassifySettings()

    def batches(self, epoch: int) -> list[list[int]]:
        return []

    def collate(self, examples: Any, epoch: int) -> Batch:
        return {}

    def count(self, split: str) -> int:
        return 90

    def validate(self, most: int | None = None) -> dict[str, float]:
        return {}

    def evaluate(self, most: int | None = None) -> Scores:
        raise NotImplementedError

    def work(self) -> Work:
        raise NotImplementedError

    def score_some(self, most: int) -> Scores:
        raise NotImplementedError

    def describe(self) -> dict[str, str]:
        return {"data": f"{NASTY}: 90 texts"}

    def try_next(self, out: Path) -> list[list[str]]:
        return [["glassformer", "predict", str(out), NASTY]]


class Reader(HTMLParser):
    """The elements of a page, checked for correct nesting, and its text in one language."""

    def __init__(self, page: str, language: str = "en") -> None:
        super().__init__(convert_charrefs=True)
        self.language = language
        self.open: list[tuple[str, str | None]] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs).get("lang")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        others = {"en", "ko"} - {self.language}
        if not any(language in others for tag, language in self.open if tag != "html"):
            self.text.append(data)

    def count(self, tag: str) -> int:
        return Counter(name for name, _ in self.elements)[tag]


def record_of(out: Path, **settings: Any) -> dict[str, Any]:
    return {
        "task": "classify",
        "verb": "train classify",
        "command": f"glassformer train classify --data '{NASTY}'",
        "glassformer_version": "0.1.0",
        "settings": {**ClassifySettings(out=out).to_dict(), **settings},
        "kept": "the weights of step 40, the best on the validation set",
        "steps": 40,
        "results": {"train_seconds": 12.0},
    }


def write(folder: Path, scores: Scores, entries: list[Any], **settings: Any) -> tuple[str, Reader]:
    metrics = folder / "metrics.jsonl"
    metrics.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries), encoding="utf-8")
    write_page(folder / "report.html", record_of(folder / "mine", **settings), Pretended(), scores, metrics)
    page = (folder / "report.html").read_text(encoding="utf-8")
    return page, Reader(page)


def entries(steps: int = 40) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = []
    for step in range(1, steps + 1):
        rows.append({"step": step, "loss": 5 / step, "rate": 1e-4 * step, "gradient_norm": 1.0, "tokens_per_second": 9})
        if step % 10 == 0:
            rows.append({"step": step, "valid_loss": 6 / step, "valid_accuracy": step / 50})
    return rows


def full_scores() -> Scores:
    return Scores(
        metrics={"accuracy": 0.75, "loss": 0.5},
        count=4,
        unit="texts",
        notes=[NASTY],
        baselines={"the commonest class": {"accuracy": 0.5}, "a bag of words": {"accuracy": 0.8, "loss": 0.7}},
        examples=[
            {"text": NASTY, "expected": "calm", "answer": "calm"},
            {"text": "<b>bold</b>\nnew line", "expected": "calm", "answer": NASTY},
        ],
        classes=["calm", NASTY],
        confusion=[[2, 0], [1, 1]],
        curves=[ForecastCurve(name=NASTY, past=[1.0, 2.0, float("nan"), 3.0], truth=[4.0, 5.0], forecast=[3.5, 4.0])],
    )


def test_a_report_is_whole_and_needs_nothing_beside_it(tmp_path: Path) -> None:
    page, read = write(tmp_path, full_scores(), entries())
    assert [file.name for file in tmp_path.iterdir() if "report" in file.name] == ["report.html"]
    assert read.elements[0] == ("html", {"lang": "en"})
    for tag in ("script", "img", "link", "b", "iframe", "object"):
        assert read.count(tag) == 0
    for _, attributes in read.elements:
        assert not {"src", "href", "onerror", "onload"} & set(attributes)
    assert "url(" not in page
    assert "@import" not in page
    assert read.count("h1") == read.count("main") == 1
    assert "prefers-color-scheme: dark" in page
    assert "width=device-width" in page


def test_what_comes_from_outside_stays_text(tmp_path: Path) -> None:
    page, read = write(tmp_path, full_scores(), entries(), init=NASTY)
    assert "<img" not in page
    text = "".join(read.text)
    # description, note, example, wrong answer, class (row and column), curve, setting, command
    assert text.count(NASTY) == 9
    titles = [attributes["title"] for tag, attributes in read.elements if tag == "td" and "title" in attributes]
    assert f"{NASTY} → calm: 1" in titles


def test_scores_stand_beside_their_baselines(tmp_path: Path) -> None:
    page, read = write(tmp_path, full_scores(), entries())
    text = " ".join(" ".join(read.text).split())
    assert "this model 75.0% 0.5 the commonest class 50.0% a bag of words 80.0% 0.7" in text
    assert page.count('<td class="best">') == 2
    assert '<td class="best">80.0%' in page
    assert '<td class="best">0.5<' in page  # a smaller loss is better


def test_curves_are_drawn_inside_their_frame(tmp_path: Path) -> None:
    page, read = write(tmp_path, full_scores(), entries())
    assert read.count("figure") == 5  # loss, accuracy, rate, gradient; a forecast
    for name in ("loss", "accuracy, validation", "learning rate", "norm of the gradient"):
        assert f'<figcaption><span lang="en">{name}</span>' in page
    assert "valid_accuracy" not in page
    assert "tokens per second" not in page
    numbers = [
        float(number)
        for tag, attributes in read.elements
        for key in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "points")
        if tag != "svg" and key in attributes
        for number in re.findall(r"[^\s,]+", str(attributes[key]))
    ]
    assert len(numbers) > 500
    assert all(0 <= number <= max(WIDTH, HEIGHT) for number in numbers)
    assert "training (학습), step (스텝) 40: 0.125" in "".join(read.text)
    assert "1 values are not finite" in page


def test_examples_and_confusions(tmp_path: Path) -> None:
    page, _ = write(tmp_path, full_scores(), entries())
    assert page.count('class="differs"') == 1
    assert re.search(r'<td class="w15 right" title="calm → calm: 2">2</td>', page)
    assert page.count(f'<td class="w{weight_class(0.5)}') == 2
    names = [f"class {i}" for i in range(31)]
    counts = [[9 if i == j else 2 * (i == 4 and j == 7) for j in range(31)] for i in range(31)]
    scores = Scores(metrics={"accuracy": 0.9}, count=281, unit="texts", classes=names, confusion=counts)
    page, _ = write(tmp_path, scores, [])
    assert "class 4 → class 7: 2</li>" in page
    assert '<summary><span lang="en">all 31 classes</span>' in page


def test_settings_that_differ_come_first_and_the_rest_is_folded(tmp_path: Path) -> None:
    page, _ = write(tmp_path, full_scores(), [], d_model=17, text_columns=["a", "b"])
    chosen, others = page.split('lang="en">Settings</span>')[1].split("<details>")
    assert ">d_model</th><td>17<" in chosen
    assert "a, b" in chosen
    assert "warmup" in others
    assert "warmup" not in chosen
    assert "overwrite" not in chosen + others


def test_how_to_go_on(tmp_path: Path) -> None:
    _, read = write(tmp_path, full_scores(), [])
    text = "".join(read.text)
    out = tmp_path / "mine"
    assert f"glassformer predict {out} " in text
    assert f"glassformer eval {out}\n" in f"{text}\n"
    assert f"glassformer train classify --out {out} --resume --steps 80" in text
    assert "Training" not in text


def test_lines_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    page, _ = write(tmp_path, full_scores(), [*entries(), 3, {"loss": 1.0}])
    assert "Skipped 2 unreadable lines of metrics.jsonl" in page


def test_a_training_ends_with_its_report(tmp_path: Path) -> None:
    out = tmp_path / "dates"
    tiny = ["--steps=2", "--examples=50", "--d-model=16", "--num-layers=1", "--num-heads=2", "--batch-tokens=128"]
    assert run("train", "translate", "--out", out, *tiny) == 0
    read = Reader((out / "report.html").read_text(encoding="utf-8"))
    text = " ".join(" ".join(read.text).split())
    assert "the built-in dates" in text
    assert "Scored on 500 pairs not used in training." in text
    assert f"glassformer eval {out}" in text
    assert read.count("svg") >= 4


def test_a_report_of_a_run_that_wrote_nothing_down(tmp_path: Path) -> None:
    """There are no curves and no times, and a forecast without actual values."""
    curve = ForecastCurve(name="load", past=[1.0, 2.0], truth=[], forecast=[3.0])
    page, read = write(tmp_path, Scores(metrics={"mse": 0.5}, count=1, unit="windows", curves=[curve]), [])
    assert read.count("svg") == 1
    assert "the forecast" in page
    assert "actual" not in page


class Smoothed(Pretended):
    @property
    def label_smoothing(self) -> float:
        return 0.1


def test_a_report_says_why_the_losses_differ_and_how_to_look_inside(tmp_path: Path) -> None:
    page, _ = write(tmp_path, full_scores(), entries())
    assert "label smoothing" not in page
    assert "glassformer explore" in page
    write_page(
        tmp_path / "report.html", record_of(tmp_path / "mine"), Smoothed(), full_scores(), tmp_path / "metrics.jsonl"
    )
    assert "label smoothing (0.1)" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder", "fill"])
def test_a_report_shows_attention_as_record_sees_it(kind: str, folder_of: Callable[[str], Path]) -> None:
    folder = folder_of(kind)
    task = Pretended()
    task.model, task.tokenizer = gf.load(folder), gf.load_tokenizer(folder)
    text, answer = "The quick fox", "Once upon"
    page = "".join(
        attention_of_example(task, [{"text": "long " * 90, "answer": "a"}, {"text": text, "answer": answer}])
    )
    shown = [float(x) for x in re.findall(r": (\d\.\d+)\"></td>", page)]
    arguments = {"input_ids": task.tokenizer.encode([text]).input_ids}
    if kind == "encoder-decoder":
        labels = task.tokenizer.encode([answer], target=True).input_ids
        arguments["decoder_input_ids"] = task.model.shift_right(labels)
    with torch.no_grad(), gf.record(task.model.eval(), attention=True) as seen:
        task.model(**arguments)
    weights = list(seen.values())[-1][0]
    assert any(shown == pytest.approx(head.flatten().tolist(), abs=6e-4) for head in weights)
    assert f"layer {task.model.config.last_stack.num_layers - 1}" in page


class Pictured(Pretended):
    """A task whose example is not a text."""

    def __init__(self, model: gf.Transformer, seen: Batch) -> None:
        super().__init__()
        self.model, self.seen = model, seen

    def seen_example(self) -> Batch:
        return self.seen


@pytest.mark.parametrize("kind", ["image", "pooled", "series", "folded"])
def test_a_report_draws_what_the_patches_get(kind: str, folder_of: Callable[[str], Path]) -> None:
    torch.manual_seed(0)
    model = gf.load(folder_of("image" if kind == "pooled" else "series" if kind == "folded" else kind)).eval()
    if kind == "pooled":
        model = gf.Transformer(model.config.replace(pooling="mean")).eval()
    if kind == "folded":
        series = gf.SeriesConfig(length=24, patch=4, stride=4, horizon=2, fold=2, channels=2)
        model = gf.Transformer(model.config.replace(series=series)).eval()
    if kind in ("image", "pooled"):
        image = model.config.image
        seen = {"pixel_values": torch.rand(1, image.channels, image.size, image.size)}
    else:
        seen = {"past_values": torch.rand(1, model.config.series.length, model.config.series.channels or 1)}
    page = "".join(attention_of_example(Pictured(model, seen), []))
    Reader(page)
    shown = [float(x) for x in re.findall(r"<title>.*?: (\d\.\d+)</title>", page)]
    with torch.no_grad(), gf.record(model, attention=True) as found:
        model(**seen)
    weights = list(found.values())[-1]  # (B, H, N, N)
    weights = weights[:2].mean(dim=0) if kind == "folded" else weights[0]  # the rows of the first channel
    first = model.config.image.prefix_tokens if model.config.image else 0
    shares = weights[:, 0, first:] if kind == "image" else weights.mean(dim=1)[:, first:]
    assert any(shown == pytest.approx(head.tolist(), abs=6e-4) for head in shares)
    assert "square-root scale" in page


def test_a_report_speaks_both_languages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "dates"
    monkeypatch.setenv("LC_ALL", "ko_KR.UTF-8")
    tiny = ["--steps=2", "--examples=50", "--d-model=16", "--num-layers=1", "--num-heads=2", "--batch-tokens=128"]
    assert run("train", "translate", "--out", out, *tiny) == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert 'id="ko" checked' in page
    korean = " ".join(Reader(page, "ko").text)
    for sentence in (
        "학습용 문장 쌍",
        "학습에 쓰지 않은 문장 쌍 500개로",
        "레이블 스무딩",
        "완전 일치",
        "더 오래 학습합니다",
    ):
        assert sentence in korean
    # The description of the data, and the data itself, may contain English words; the rest may not.
    bare = re.sub(r"<(pre|style|title|dl|ul)\b.*?</\1>", "", page, flags=re.DOTALL)
    bare = re.sub(r'<table class="(examples|settings|confusion).*?</table>', "", bare, flags=re.DOTALL)
    left = set(re.findall(r"[A-Za-z_]{4,}", " ".join(Reader(bare, "ko").text)))
    assert left <= {"translate", "dates", "English", "bleu", "chrf", "data", "glassformer"}


@pytest.mark.slow
def test_a_report_is_for_everyone_and_switches_its_language(tmp_path: Path, visit: Callable[..., Any]) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    write(tmp_path, full_scores(), entries())
    for scheme in ("light", "dark"):
        page = visit((tmp_path / "report.html").as_uri(), color_scheme=scheme, bypass_csp=True, settle=False)
        for language, title in (("en", "Scores"), ("ko", "점수")):
            page.click(f"label[for={language}]")
            assert page.locator("h2").first.inner_text() == title
            found = axe.Axe().run(page).response["violations"]
            assert [(one["id"], one["nodes"][0]["html"][:160]) for one in found] == []
