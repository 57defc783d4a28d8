"""The command line as users see it: output, figures and errors."""

import io
import json
import re
import shlex
from pathlib import Path

import pytest
from helpers.command import run

from glassformer.cli import VERBS, _split_verb, main
from glassformer.verbs.flags import read_settings

TINY = ["--steps=2", "--examples=50", "--d-model=16", "--num-layers=2", "--num-heads=2", "--batch-tokens=128"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "dates"
    assert run("train", "translate", "--out", out, *TINY) == 0
    return out


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    shown = capsys.readouterr().out
    assert {word for name in VERBS for word in name.split()} <= set(shown.replace(",", "").split())
    for part in ("train TASK", "inspect LOOK", "study norms", "--config", "--debug"):
        assert part in shown
    assert run("train", "translate", "--help") == 0
    assert "Peak learning rate" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("first", "second"), [("train", "TASK"), ("inspect", "LOOK")])
def test_verbs_of_two_words_are_listed_with_what_they_do(
    first: str, second: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(first, "--help") == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: glassformer {first} {second} [flags]\n")
    assert run(first) == 2
    refused = capsys.readouterr().err
    rows = {name.split()[1]: verb.help for name, verb in VERBS.items() if name.split()[0] == first}
    assert len(rows) >= 6
    for name, text in rows.items():
        for page in (shown, refused):
            assert [name, *text.split()] in [line.split() for line in page.splitlines()]


def commands() -> list[str]:
    """All commands that a page shows."""
    root = Path(__file__).parent.parent
    pages = [*root.glob("*.md"), *root.glob("docs/*.md")]
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    return sorted({line for line in lines if re.match(r"glassformer [a-z]+ ", line)})


@pytest.mark.parametrize("command", commands())
def test_the_commands_of_the_pages_exist(command: str) -> None:
    words = shlex.split(command, comments=True)
    name, rest = _split_verb(words[1:])
    if "--config" not in rest and "--resume" not in rest:
        read_settings(VERBS[name].settings, name, rest)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    import glassformer

    assert run("--version") == 0
    assert capsys.readouterr().out.strip() == glassformer.__version__


def test_train_says_what_it_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "translate", "--out", tmp_path / "run", *TINY) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for part in ("the built-in dates", "500 held out", "parameters", "step 2/2 loss", "tokens/s", "exact_match"):
        assert part in shown


def test_predict_from_arguments_file_and_standard_input(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["May 1st, 2031", "noon on 2 April 1929"]
    assert run("predict", trained, *texts, "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["input"] for row in rows] == texts
    plain = "".join(row["output"] + "\n" for row in rows)
    (tmp_path / "in.txt").write_text("\n".join(texts), encoding="utf-8")
    assert run("predict", trained, "--file", tmp_path / "in.txt") == 0
    assert capsys.readouterr().out == plain
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\r\n".join(texts).encode())))
    assert run("predict", trained) == 0
    assert capsys.readouterr().out == plain


def test_text_of_the_user_is_shown_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """rich reads square brackets as markup, and matplotlib reads dollar signs as formulas."""
    lines = [f"[/b] costs ${i} :smile:\t[bold]{i} 달러" for i in range(30)]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines), encoding="utf-8")
    out = tmp_path / "run[a]"
    assert run("train", "translate", "--data", tmp_path / "pairs.tsv", "--out", out, *TINY) == 0
    shown = capsys.readouterr().out
    assert f"Saved to {out}. Report: {out / 'report.html'}. Next:" in shown
    assert "'[/b] costs $" in shown
    assert run("inspect", "attention", out, "costs $3 and $4", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"attention": str(out / "attention-cross.png")}


def test_settings_from_a_file_and_flags_over_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = "steps = 2\nexamples = 50\nd_model = 16\nnum_layers = 1\nnum_heads = 2\nbatch_tokens = 128\n"
    (tmp_path / "run.toml").write_text(small + 'norm_order = "pre"\n', encoding="utf-8")
    assert run("train", "translate", "--config", tmp_path / "run.toml", "--out", tmp_path / "a", "--steps", "1") == 0
    settings = json.loads((tmp_path / "a" / "run.json").read_text(encoding="utf-8"))["settings"]
    assert (settings["steps"], settings["norm_order"], settings["warmup"]) == (1, "pre", 50)
    (tmp_path / "bad.toml").write_text("stepz = 2\n", encoding="utf-8")
    assert run("train", "translate", "--config", tmp_path / "bad.toml") == 2
    assert "bad.toml, line 1: unknown setting 'stepz': did you mean 'steps'?" in capsys.readouterr().err
    (tmp_path / "worse.toml").write_text("steps = \n", encoding="utf-8")
    assert run("train", "translate", "--config", tmp_path / "worse.toml") == 2
    assert "not valid TOML" in capsys.readouterr().err
    assert run("train", "translate", "--config", tmp_path / "none.toml") == 2
    assert "none.toml cannot be read: No such file" in capsys.readouterr().err
    assert run("train", "translate", f"--config={tmp_path}") == 2
    assert "cannot be read: Is a directory" in capsys.readouterr().err


def bad_inputs() -> dict[str, tuple[list[str], str]]:
    """Arguments, where RUN and DIR stand for a trained run and an empty folder, and the expected error."""
    return {
        "verb": (["trian"], "unknown verb 'trian': did you mean 'train'?"),
        "no task": (["train"], "needs a task. Choose from translate"),
        "task": (["train", "translat"], "unknown task 'translat'"),
        "flag": (["train", "translate", "--stepz", "3"], "--stepz"),
        "value": (["train", "translate", "--steps", "0"], "--steps is 0: expected a number above 0"),
        "number": (["train", "translate", "--steps", "many"], "many"),
        "choice": (["train", "translate", "--norm-order", "later"], "later"),
        "heads": (["train", "translate", "--out", "DIR/x", "--d-model", "10", "--num-heads", "3"], "is not divisible"),
        "finished": (["train", "translate", "--out", "RUN"], "holds a finished run"),
        "one of two": (["train", "translate", "--data", "DIR/a", "DIR/b", "DIR/c"], "there is no such file"),
        "no data": (["train", "lm", "--out", "DIR/x", "--data", "--steps", "3"], "--data needs a file"),
        "no run to resume": (["train", "lm", "--out", "DIR/x", "--resume"], "there is no run to continue"),
        "two ways": (["train", "lm", "--resume", "--overwrite"], "choose one"),
        "no such metric": (
            ["train", "translate", "--out", "DIR/x", *TINY, "--metric", "taste"],
            "--metric taste: translate does not measure it; choose from bleu",
        ),
        "one process": (["train", "translate", "--out", "DIR/x", *TINY, "--shard"], "with torchrun"),
        "float16": (["train", "translate", "--out", "DIR/x", *TINY, "--precision", "float16"], "needs a GPU"),
        "head of nothing": (["train", "classify", "--head", "class"], "names a new head for the model of --init"),
        "no file": (["train", "translate", "--data", "DIR/nowhere.tsv"], "there is no such file"),
        "no run": (["predict", "DIR/nowhere", "hello"], "there is no such folder"),
        "not a run": (["predict", "DIR", "hello"], "it is incomplete, or not a model folder"),
        "no layer": (["inspect", "attention", "RUN", "May", "--layer", "7"], "--layer is 7: expected 0 to 1"),
        "no head": (["inspect", "attention", "RUN", "May", "--head", "-1"], "--head is -1: expected 0 to 1"),
        "no text": (["inspect", "attention", "RUN", " "], "is empty"),
        "no look": (["inspect"], "needs a look. Choose from shapes every tensor"),
        "old look": (["inspect", "RUN", "--shapes"], "inspect --shapes is now: glassformer inspect shapes"),
        "no folder": (["inspect", "positions", "RUN", "--picture", "DIR/no/x.png"], "does not exist. Create it first"),
        "no such ending": (["inspect", "positions", "RUN", "--picture", "DIR/x.xyz"], "expected the extension .png"),
        "not finite": (["train", "translate", "--rate", "nan"], "--rate is nan: expected a finite number"),
        "no width": (["train", "translate", "--out", "DIR/x", "--d-ff", "0"], "--d-ff is 0"),
        "a run is no demo": (["demo", "--out", "RUN"], "holds a run that is not a demo"),
        "both": (["predict", "RUN", "hello", "--file", "DIR/x"], "choose one"),
    }


@pytest.mark.parametrize("name", bad_inputs())
def test_bad_input_is_one_clear_error(
    name: str, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, message = bad_inputs()[name]
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    code = run(*(a.replace("RUN", str(trained)).replace("DIR", str(tmp_path)) for a in arguments))
    shown = capsys.readouterr().err
    assert code == 2
    assert message in " ".join(shown.replace("│", " ").split())
    assert "Traceback" not in shown
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pairs.tsv").write_bytes("안녕\thello\n".encode("cp949"))
    assert run("train", "translate", "--data", tmp_path / "pairs.tsv", "--out", tmp_path / "run") == 2
    assert "pairs.tsv, line 1: byte 0xbe is not UTF-8" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_debug_shows_where_an_error_arose(tmp_path: Path) -> None:
    from glassformer.errors import InputError

    with pytest.raises(InputError):
        main(["predict", str(tmp_path / "nowhere"), "hello", "--debug"])


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("train classify --steps many", "--steps many: expected a whole number. See glassformer train classify --help"),
        ("train classify --rate=fast", "--rate fast: expected a number. See glassformer train classify --help"),
        ("train classify --delimiter colon", "--delimiter colon: expected one of comma, pipe, semicolon, tab"),
        ("train classify --steps 0", "--steps is 0: expected a number above 0"),
        ("train classify --steps 1 2", "unexpected argument 2. See glassformer train classify --help"),
        ("train classify --stepz 3", "glassformer train classify has no flag --stepz: did you mean '--steps'?"),
        (
            "train classify --xyzzy",
            "--xyzzy. glassformer train classify --help lists all flags; docs/not-here.md",
        ),
        (
            "predict",
            "glassformer predict needs RUN (the run or model folder, or a hub id owner/name). See glassformer predict",
        ),
        ("xyzzy", "unknown verb 'xyzzy'; choose from bench, "),
    ],
)
def test_what_cannot_be_read_is_told_in_one_sentence(typed: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Errors have no box from a library and no names of classes or types."""
    with pytest.raises(SystemExit) as end:
        main(typed.split())
    assert end.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert said in shown
    assert shown.count("\n") == 1
    assert "Settings" not in shown


def test_what_nobody_has_points_to_the_page_of_what_is_not_here(capsys: pytest.CaptureFixture[str]) -> None:
    for typed in ("xyzzy", "train xyzzy", "train classify --xyzzy 1", "train ner", "train lm --lora 8"):
        with pytest.raises(SystemExit):
            main(typed.split())
        said = capsys.readouterr().err
        assert "docs/not-here.md" in said
        assert "what to use instead" in said
