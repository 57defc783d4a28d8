"""Translations, and the choice of the source and target language."""

from pathlib import Path

import pytest
import torch
from helpers.command import lines, run
from helpers.head_checkpoints import (
    BART,
    LANGUAGES,
    SPECIAL,
    TEXTS,
    make,
    theirs,
)


def test_translations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, "BartForConditionalGeneration", "both", **BART)
    model, tokenizer = theirs(folder, "BartForConditionalGeneration")
    assert run("predict", folder, *TEXTS, "--max-new-tokens=9", "--num-beams=2") == 0
    shown = capsys.readouterr().out
    expected = []
    for text in TEXTS:
        batch = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        ids = model.generate(**batch, do_sample=False, max_new_tokens=9, num_beams=2)[0]
        expected.append(tokenizer.decode(ids, skip_special_tokens=True))
    assert shown == "".join(f"{text}\n" for text in expected)
    assert run("predict", folder, "hi", "--target-language", "fr") == 2
    assert (
        "language 'fr': this model has no languages to choose from. Leave --source-language and"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("name", ["mbart", "mbart50", "m2m_100", "nllb"])
def test_languages_by_name(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = LANGUAGES[name.removesuffix("50")]
    family, architecture = {
        "mbart": ("MBartTokenizer", "MBart"),
        "mbart50": ("MBart50Tokenizer", "MBart"),
        "m2m_100": ("M2M100Tokenizer", "M2M100"),
        "nllb": ("NllbTokenizer", "M2M100"),
    }[name]
    first_language = len(SPECIAL)
    settings = {**BART, "decoder_start_token_id": first_language + 1} if name == "mbart" else BART
    folder = make(
        tmp_path, f"{architecture}ForConditionalGeneration", "both",
        extra=codes, tokenizer={"tokenizer_class": family}, **settings,
    )  # fmt: skip
    model, tokenizer = theirs(folder, f"{architecture}ForConditionalGeneration")
    source, target = (tokenizer.convert_tokens_to_ids(codes[i]) for i in (1, 0))
    flags = [f"--source-language={codes[1].strip('_')}", f"--target-language={codes[0].strip('_')}"]
    assert run("predict", folder, *TEXTS, *flags, "--max-new-tokens=9", "--json") == 0
    for text, row in zip(TEXTS, lines(capsys), strict=True):
        plain = tokenizer.encode(text, add_special_tokens=False)
        ids = [*plain, 2, source] if name == "mbart" else [source, *plain, 2]
        begin = {"decoder_start_token_id": target} if name == "mbart" else {"forced_bos_token_id": target}
        made = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=9, **begin)[0]
        assert target in made[:2]
        assert row["output"] == tokenizer.decode(made, skip_special_tokens=True)
    assert run("predict", folder, "hi", "--target-language=klingon") == 2
    assert "unknown language 'klingon'" in capsys.readouterr().err
    if name == "mbart":  # its config sets the start language
        assert run("predict", folder, "hi", "--max-new-tokens=2") == 0
    else:
        assert run("predict", folder, "hi") == 2
        assert f"translates into {len(codes)} languages, such as" in capsys.readouterr().err
