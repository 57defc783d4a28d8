"""`predict` and `gf.pipeline` on tiny checkpoints of every head, made by transformers and compared with it."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from helpers.command import run
from helpers.head_checkpoints import (
    BART,
    CHATML,
    LABELS,
    LANGUAGES,
    SMALL,
    SPECIAL,
    TEXTS,
    bert,
    llama,
    make,
    make_tokenizer,
    theirs,
)

import glassformer as gf
from glassformer.errors import InputError


def lines(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@torch.no_grad()
def test_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bert(tmp_path, "ForSequenceClassification", id2label=LABELS, label2id={v: k for k, v in LABELS.items()})
    model, tokenizer = theirs(folder, "BertForSequenceClassification")
    assert run("predict", folder, *TEXTS, "--json") == 0
    rows = lines(capsys)
    assert run("predict", folder, *TEXTS) == 0
    plain = capsys.readouterr().out.splitlines()
    for text, row, line in zip(TEXTS, rows, plain, strict=True):
        expected = model(**tokenizer(text, return_tensors="pt")).logits[0].softmax(dim=0)
        assert row["input"] == text
        assert row["label"] == LABELS[int(expected.argmax())]
        assert row["score"] == pytest.approx(float(expected.max()), abs=1e-5)
        assert list(row["scores"].values()) == pytest.approx(expected.tolist(), abs=1e-5)
        assert line.split()[:3] == [row["label"], f"{row['score']:.3f}", text.split()[0]]


@torch.no_grad()
@pytest.mark.parametrize(("kind", "labels"), [("multi_label_classification", 3), (None, 1), ("regression", 1)])
def test_what_is_no_choice_among_classes(kind: str | None, labels: int, tmp_path: Path) -> None:
    folder = bert(tmp_path, "ForSequenceClassification", num_labels=labels, problem_type=kind)
    model, tokenizer = theirs(folder, "BertForSequenceClassification")
    logits = model(**tokenizer(TEXTS[:1], return_tensors="pt")).logits[0]
    expected = logits if kind == "regression" else logits.sigmoid()
    found = gf.pipeline(folder)(TEXTS[:1])[0]
    assert list(found.scores.values()) == pytest.approx(expected.tolist(), abs=1e-5)


@torch.no_grad()
def test_masks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bert(tmp_path, "ForMaskedLM")
    model, tokenizer = theirs(folder, "BertForMaskedLM")
    texts = ["The quick [MASK] fox", "[MASK] world [MASK]", "how [MASK]"]
    found = gf.pipeline(folder)(texts, guesses=4)
    for text, masks in zip(texts, found, strict=True):
        batch = tokenizer(text, return_tensors="pt")
        logits = model(**batch).logits[batch["input_ids"] == tokenizer.mask_token_id]
        best = logits.softmax(dim=1).topk(4, dim=1)
        assert len(masks) == len(logits)
        for guesses, ids, scores in zip(masks, best.indices, best.values, strict=True):
            assert [guess.score for guess in guesses] == pytest.approx(scores.tolist(), abs=1e-5)
            assert [guess.token for guess in guesses] == [tokenizer.decode([i]).strip() or "▁" for i in ids]
    assert run("predict", folder, texts[1], "--guesses", "2") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == texts[1]
    assert [line.split()[:2] for line in shown[1:]] == [["mask", "1"]] * 2 + [["mask", "2"]] * 2
    assert run("predict", folder, texts[0], "--json") == 0
    assert len(lines(capsys)[0]["masks"][0]) == 5
    assert run("predict", folder, "no mask here") == 2
    assert "'no mask here' has no [MASK]: write it where" in capsys.readouterr().err


@torch.no_grad()
def test_labels_of_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bert(tmp_path, "ForTokenClassification", id2label=LABELS, label2id={v: k for k, v in LABELS.items()})
    model, tokenizer = theirs(folder, "BertForTokenClassification")
    assert run("predict", folder, *TEXTS, "--json") == 0
    for text, row in zip(TEXTS, lines(capsys), strict=True):
        batch = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = batch.pop("offset_mapping")[0].tolist()
        best = model(**batch).logits[0].softmax(dim=1).max(dim=1)
        expected = [LABELS[int(i)] for i in best.indices[1:-1]]
        assert [token["label"] for token in row["tokens"]] == expected
        assert [token["score"] for token in row["tokens"]] == pytest.approx(best.values[1:-1].tolist(), abs=1e-5)
        assert [[token["start"], token["end"]] for token in row["tokens"]] == offsets[1:-1]
        assert all(token["text"] == text[token["start"] : token["end"]] for token in row["tokens"])
    assert run("predict", folder, "Hello world") == 0
    assert capsys.readouterr().out.splitlines()[0] == "Hello world"


@torch.no_grad()
def test_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bert(tmp_path, "ForQuestionAnswering")
    model, tokenizer = theirs(folder, "BertForQuestionAnswering")
    question = "how are you?"
    found = gf.pipeline(folder)(TEXTS, question=question)
    for text, answer in zip(TEXTS, found, strict=True):
        batch = tokenizer(question, text, return_tensors="pt", return_offsets_mapping=True, return_token_type_ids=True)
        offsets, inside = batch.pop("offset_mapping")[0], torch.tensor([part == 1 for part in batch.sequence_ids(0)])
        output = model(**batch)
        start, end = (x[0].masked_fill(~inside, -1e9).softmax(dim=0) for x in (output.start_logits, output.end_logits))
        score, a, b = max(
            (float(start[i] * end[j]), i, j) for i in range(len(start)) for j in range(i, min(len(end), i + 30))
        )
        assert answer.score == pytest.approx(score, abs=1e-5)
        assert answer.answer == text[offsets[a][0] : offsets[b][1]].strip()
        assert answer.answer == text[answer.start : answer.end].strip()
    assert run("predict", folder, TEXTS[0], "--question", question) == 0
    assert capsys.readouterr().out.startswith(found[0].answer)
    assert run("predict", folder, TEXTS[0]) == 2
    assert "give the question (--question)" in capsys.readouterr().err
    with pytest.raises(InputError, match="an empty text"):
        gf.pipeline(folder)([""], question=question)


def test_texts_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = llama(tmp_path)
    model, tokenizer = theirs(folder, "LlamaForCausalLM")
    predict = gf.pipeline(folder)
    for choices in ({"max_new_tokens": 9}, {"max_new_tokens": 9, "num_beams": 3}):
        for text, answer in zip(TEXTS, predict(TEXTS, **choices), strict=True):
            batch = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
            ids = model.generate(**batch, do_sample=False, **choices)[0]
            assert text + answer == tokenizer.decode(ids, skip_special_tokens=True)
    drawn = predict(TEXTS, max_new_tokens=9, do_sample=True, temperature=2.0, seed=3)
    assert drawn == predict(TEXTS, max_new_tokens=9, do_sample=True, temperature=2.0, seed=3)
    assert drawn != predict(TEXTS, max_new_tokens=9, do_sample=True, temperature=2.0, seed=4)
    flags = ["--max-new-tokens=9", "--do-sample", "--temperature=2", "--seed=3", "--json"]
    assert run("predict", folder, *TEXTS, *flags) == 0
    assert [row["output"] for row in lines(capsys)] == drawn
    assert predict([]) == []
    assert isinstance(predict([""], max_new_tokens=2)[0], str)


def test_the_length_when_nobody_says(tmp_path: Path) -> None:
    """256 new tokens, or as many as a learned table has room for; else as generation_config.json says."""
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
    shape = {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 40}
    folder = make(tmp_path, "GPT2LMHeadModel", "decoder", **shape, **ids)
    predict = gf.pipeline(folder)
    seen: list[int] = []
    original = predict.tokenizer.decode

    def decode(ids: Any, **options: Any) -> str:
        seen.append(len(ids))
        return original(ids, **options)

    predict.tokenizer.decode = decode
    predict(["Hello"])
    assert max(seen) == 40
    (folder / "generation_config.json").write_text('{"max_new_tokens": 3}', encoding="utf-8")
    seen.clear()
    predict = gf.pipeline(folder)
    predict.tokenizer.decode = decode
    predict(["Hello"])
    assert max(seen) == len(predict.tokenizer.ids("Hello")) + 3


def test_greedy_where_the_model_prefers_to_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = llama(tmp_path)
    plain = gf.pipeline(folder)(TEXTS, max_new_tokens=9)
    (folder / "generation_config.json").write_text('{"do_sample": true, "temperature": 3.0}', encoding="utf-8")
    assert gf.pipeline(folder)(TEXTS, max_new_tokens=9, seed=0) != plain
    assert run("predict", folder, *TEXTS, "--max-new-tokens=9", "--greedy", "--json") == 0
    assert [row["output"] for row in lines(capsys)] == plain


def test_chat(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = llama(tmp_path, tokenizer={"chat_template": CHATML})
    model, tokenizer = theirs(folder, "LlamaForCausalLM")
    assert run("predict", folder, *TEXTS, "--chat", "--json", "--max-new-tokens=9") == 0
    for text, row in zip(TEXTS, lines(capsys), strict=True):
        prompt = f"<|user|>{text}</s><|assistant|>"
        batch = tokenizer(prompt, return_tensors="pt", add_special_tokens=False, return_token_type_ids=False)
        ids = model.generate(**batch, do_sample=False, max_new_tokens=9)[0, batch["input_ids"].shape[1] :]
        assert row == {"input": text, "output": tokenizer.decode(ids, skip_special_tokens=True).strip()}


def test_chat_without_a_template(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("predict", llama(tmp_path), "hi", "--chat") == 2
    shown = capsys.readouterr().err
    assert "has no chat template: its folder needs a chat_template.jinja. Give a plain text instead" in shown
    assert shown.count("\n") == 1


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
    assert "language 'fr': this tokenizer has no languages. Leave the language out" in capsys.readouterr().err


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
    if name == "mbart":  # its config names the language to begin with
        assert run("predict", folder, "hi", "--max-new-tokens=2") == 0
    else:
        assert run("predict", folder, "hi") == 2
        assert f"writes in {len(codes)} languages, such as" in capsys.readouterr().err


def pooled_by(folder: Path, pooling: dict[str, Any] | None, modules: list[str] | None) -> None:
    if pooling is not None:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    if modules is not None:
        paths = {"Transformer": "", "Pooling": "1_Pooling"}
        listed = [
            {
                "idx": i,
                "name": str(i),
                "path": paths.get(name, f"{i}_{name}"),
                "type": f"sentence_transformers.models.{name}",
            }
            for i, name in enumerate(modules)
        ]
        (folder / "modules.json").write_text(json.dumps(listed), encoding="utf-8")


POOLINGS: dict[str, tuple[dict[str, Any], Callable[[torch.Tensor], torch.Tensor]]] = {
    "mean": ({"pooling_mode_mean_tokens": True}, lambda hidden: hidden.mean(dim=0)),
    "cls": ({"pooling_mode_cls_token": True}, lambda hidden: hidden[0]),
    "max": ({"pooling_mode_max_tokens": True}, lambda hidden: hidden.amax(dim=0)),
    "last": ({"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}, lambda hidden: hidden[-1]),
    "root": ({"pooling_mode_mean_sqrt_len_tokens": True}, lambda hidden: hidden.sum(dim=0) / len(hidden) ** 0.5),
    "weighted": (
        {"pooling_mode_weightedmean_tokens": True},
        lambda hidden: torch.arange(1.0, len(hidden) + 1) @ hidden / sum(range(1, len(hidden) + 1)),
    ),
    "both": (
        {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        lambda hidden: torch.cat([hidden[0], hidden.mean(dim=0)]),
    ),
    "word": ({"pooling_mode": "cls"}, lambda hidden: hidden[0]),
}  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize("name", POOLINGS)
def test_vectors(name: str, tmp_path: Path) -> None:
    folder = bert(tmp_path, "Model")
    values, expected = POOLINGS[name]
    pooled_by(folder, values, ["Transformer", "Pooling", "Normalize"])
    model, tokenizer = theirs(folder, "BertModel")
    predict = gf.pipeline(folder)
    vectors, raw = predict(TEXTS), predict(TEXTS, normalise=False)
    for text, vector, plain in zip(TEXTS, vectors, raw, strict=True):
        made = expected(model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0])
        torch.testing.assert_close(plain, made, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(vector, made / made.norm(), atol=1e-5, rtol=1e-5)
    assert predict([]).shape == (0, vectors.shape[1])


def test_vectors_of_a_model_that_has_a_head_by_name_only(tmp_path: Path) -> None:
    """Many sentence transformers are called masked language models, and hold no such head."""
    folder = bert(tmp_path, "Model")
    expected = gf.pipeline(folder)(TEXTS)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["BertForMaskedLM"]}), encoding="utf-8")
    pooled_by(folder, {"pooling_mode_mean_tokens": True}, None)
    torch.testing.assert_close(gf.pipeline(folder)(TEXTS), expected)


def test_vectors_with_the_words_of_the_folder(tmp_path: Path) -> None:
    folder = bert(tmp_path, "Model")
    pooled_by(folder, {"pooling_mode_mean_tokens": True}, ["Transformer", "Pooling"])
    plain = gf.pipeline(folder)(["query: hello world", "query: how"])
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 64, "do_lower_case": true}', encoding="utf-8")
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts), encoding="utf-8")
    torch.testing.assert_close(gf.pipeline(folder)(["Hello World", "HOW"]), plain)


def test_vectors_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bert(tmp_path, "Model")
    vectors = gf.pipeline(folder)(TEXTS)
    assert run("predict", folder, *TEXTS) == 0
    shown = capsys.readouterr()
    assert "does not say how to pool: the vectors are means over the tokens" in shown.err
    table = [[float(x) for x in line.split()[-4:]] for line in shown.out.splitlines()[1:]]
    torch.testing.assert_close(torch.tensor(table), vectors @ vectors.T, atol=6e-4, rtol=0)
    many = [f"{text} {i}" for i in range(4) for text in TEXTS]
    assert run("predict", folder, *many) == 0
    assert all(" nearest " in line for line in capsys.readouterr().out.splitlines())
    assert run("predict", folder, TEXTS[0], "--json") == 0
    assert lines(capsys)[0]["vector"] == pytest.approx(vectors[0].tolist(), abs=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("name", ["ViT", "DeiT"])
def test_images(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np
    from PIL import Image

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(
        **SMALL, image_size=24, patch_size=8, id2label=LABELS, label2id={v: k for k, v in LABELS.items()}
    )
    model = getattr(transformers, f"{name}ForImageClassification")(config).eval()
    model.classifier.weight.normal_()
    model.save_pretrained(tmp_path)
    settings = {
        "image_processor_type": f"{name}ImageProcessor", "do_resize": True, "size": {"height": 24, "width": 24},
        "resample": 2, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
        "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4],
    }  # fmt: skip
    if name == "DeiT":
        settings |= {"size": {"height": 30, "width": 30}, "do_center_crop": True, "resample": 3}
        settings["crop_size"] = {"height": 24, "width": 24}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings), encoding="utf-8")
    colours = np.random.default_rng(0).integers(0, 255, (2, 5, 7, 3), dtype=np.uint8)
    files = [tmp_path / "a.png", tmp_path / "b.png"]
    for file, image in zip(files, colours, strict=True):
        Image.fromarray(image).resize((50, 40)).save(file)
    processor = getattr(transformers, f"{name}ImageProcessorPil", None) or getattr(
        transformers, f"{name}ImageProcessor"
    )
    images = [Image.open(file) for file in files]
    pixels = processor.from_pretrained(tmp_path)(images, return_tensors="pt")["pixel_values"]
    expected = model(pixels).logits.softmax(dim=1)
    assert run("predict", tmp_path, *files, "--json") == 0
    for row, scores in zip(lines(capsys), expected, strict=True):
        assert list(row["scores"].values()) == pytest.approx(scores.tolist(), abs=1e-4)
        assert row["label"] == LABELS[int(scores.argmax())]
    assert run("predict", tmp_path, tmp_path / "none.png") == 2
    assert "none.png: there is no such image file" in capsys.readouterr().err
    assert run("predict", tmp_path, tmp_path / "config.json") == 2
    assert "is no image that pillow reads" in capsys.readouterr().err
    (tmp_path / "preprocessor_config.json").unlink()
    assert run("predict", tmp_path, *files) == 2
    assert "has no preprocessor_config.json" in capsys.readouterr().err


def test_a_tokenizer_that_does_not_fit_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    llama(folder)
    size = make_tokenizer(folder, "decoder", [f"<more {i}>" for i in range(60)], vocab_size=400)
    held = gf.load(folder).config.vocab_size
    assert held is not None
    assert held < size
    assert run("predict", folder, "hello") == 2
    shown = capsys.readouterr().err
    assert f"vocab_size is {held}, and the tokenizer has ids up to {size - 1}" in shown
    assert "Use the tokenizer that belongs to the model" in shown
    with pytest.raises(InputError, match=f"vocab_size is {held}"):
        gf.save(gf.load(folder), tmp_path / "saved", tokenizer=gf.load_tokenizer(folder))
    assert not (tmp_path / "saved").exists()


def test_weights_are_float32_on_the_cpu(tmp_path: Path) -> None:
    folder = llama(tmp_path)
    gf.save(gf.load(folder, dtype=torch.bfloat16), folder, tokenizer=gf.load_tokenizer(folder))
    assert gf.load(folder).head.out.weight.dtype == torch.bfloat16
    assert gf.pipeline(folder).model.head.out.weight.dtype == torch.float32


def bad_options() -> dict[str, tuple[list[str], str]]:
    return {
        "chat": (["--chat"], "chat is for a model that continues a text; this one names the class of a text"),
        "question": (["--question", "why?"], "question is for a model that finds the answer"),
        "sampling": (["--top-k", "3"], "top_k is for a model that writes a text for a text or continues a text"),
        "language": (["--target-language", "ko"], "target_language is for a model that writes a text for a text"),
        "both": (["--do-sample", "--greedy"], "--do-sample and --greedy were both given: choose one"),
        "device": (["--device", "abacus"], "device is 'abacus'"),
        "long": (["word " * 100], "does not fit a learned table of max_len = 64. Shorten it to 64"),
    }


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert(tmp_path_factory.mktemp("classifier"), "ForSequenceClassification")


@pytest.mark.parametrize("name", bad_options())
def test_bad_input_is_one_clear_sentence(name: str, classifier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags, message = bad_options()[name]
    assert run("predict", classifier, "hello", *flags) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert not shown.out


def test_bad_input_in_python(classifier: Path, tmp_path: Path) -> None:
    predict = gf.pipeline(classifier)
    with pytest.raises(InputError, match="a single text 'hello' was given: expected a list"):
        predict("hello")
    with pytest.raises(InputError, match="max_tokens is not known"):
        predict(["hello"], max_tokens=3)
    with pytest.raises(InputError, match="input 1 is 3: expected a text"):
        predict(["hello", 3])
    with pytest.raises(InputError, match="the inputs are 3: expected a list of texts"):
        predict(3)
    for size in (0, -1, "2"):
        with pytest.raises(InputError, match=f"batch_size is {size!r}: expected a whole number of at least 1"):
            predict(["hello"], batch_size=size)
    with pytest.raises(InputError, match="one answer to each text"):
        gf.pipeline(llama(tmp_path))(["hello"], do_sample=True, num_return_sequences=2)


def test_attention_of_a_model_with_one_stack_is_drawn_without_a_part(tmp_path: Path) -> None:
    for name in ("bert", "llama"):
        (tmp_path / name).mkdir()
    for folder, part in (
        (bert(tmp_path / "bert", "ForMaskedLM"), "encoder"),
        (llama(tmp_path / "llama", max_position_embeddings=256), "decoder"),
    ):
        assert run("inspect", folder, "--attention", "hello there") == 0
        assert (folder / f"attention-{part}.png").is_file()


def test_files_of_sentence_transformers_that_are_not_understood(tmp_path: Path) -> None:
    folder = bert(tmp_path, "Model")
    pooled_by(folder, {"pooling_mode_mean_tokens": True}, ["Transformer", "Pooling", "Dense"])
    with pytest.raises(InputError, match="lists a Dense module, which is not known here"):
        gf.pipeline(folder)
    (folder / "modules.json").unlink()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_guess_tokens": true}', encoding="utf-8")
    with pytest.raises(InputError, match=r"the pooling is \['guess'\]: expected one or more of cls, max"):
        gf.pipeline(folder)
    (folder / "1_Pooling" / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="is not JSON"):
        gf.pipeline(folder)


def test_a_key_of_the_oldest_config_files_is_understood(tmp_path: Path) -> None:
    folder = bert(tmp_path, "ForMaskedLM")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_ids": 0}), encoding="utf-8")
    assert gf.pipeline(folder).task == "mlm"


def test_models_without_texts_or_images_to_classify_are_refused(tmp_path: Path) -> None:
    config = transformers.ViTConfig(**SMALL, image_size=24, patch_size=8)
    transformers.ViTModel(config).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="is a model of images with head 'pool': a pipeline reads texts, or images to"):
        gf.pipeline(tmp_path)


@torch.no_grad()
def test_several_classes_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"id2label": LABELS, "label2id": {v: k for k, v in LABELS.items()}}
    folder = bert(tmp_path, "ForSequenceClassification", problem_type="multi_label_classification", **names)
    model, tokenizer = theirs(folder, "BertForSequenceClassification")
    assert run("predict", folder, *TEXTS, "--json") == 0
    rows = lines(capsys)
    assert run("predict", folder, *TEXTS) == 0
    sizes = set()
    for text, row, line in zip(TEXTS, rows, capsys.readouterr().out.splitlines(), strict=True):
        scores = model(**tokenizer(text, return_tensors="pt")).logits[0].sigmoid().tolist()
        expected = sorted(((score, LABELS[i]) for i, score in enumerate(scores) if score > 0.5), reverse=True)
        assert list(row["labels"]) == [name for _, name in expected]
        assert list(row["labels"].values()) == pytest.approx([score for score, _ in expected], abs=1e-5)
        assert list(row["scores"].values()) == pytest.approx(scores, abs=1e-5)
        assert line.startswith(", ".join(f"{name} {score:.3f}" for score, name in expected) or "none")
        sizes.add(len(expected))
    assert len(sizes) > 1


@pytest.fixture(scope="module")
def judge_of_pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    return bert(tmp_path_factory.mktemp("pairs"), "ForSequenceClassification", tokenizer=names, id2label=LABELS)


@torch.no_grad()
def test_pairs_of_texts(judge_of_pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, tokenizer = theirs(judge_of_pairs, "BertForSequenceClassification")
    pairs = [(TEXTS[0], TEXTS[1]), (TEXTS[2], TEXTS[3]), (TEXTS[1], TEXTS[0])]
    expected = []
    for pair in pairs:
        batch = tokenizer(*pair, return_tensors="pt", return_token_type_ids=True)
        expected.append(model(**batch).logits[0].softmax(dim=0).tolist())
    for pair, label, scores in zip(pairs, gf.pipeline(judge_of_pairs)(pairs, batch_size=2), expected, strict=True):
        assert list(label.scores.values()) == pytest.approx(scores, abs=1e-5)
        alone = gf.pipeline(judge_of_pairs)([" ".join(pair)])[0]
        assert list(alone.scores.values()) != pytest.approx(scores, abs=1e-5)
    (tmp_path / "pairs.txt").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    rows = [{"sentence1": a, "sentence2": b, "label": 0} for a, b in pairs]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    table = "".join(f'"{a}",x,"{b}"\n' for a, b in pairs)
    (tmp_path / "pairs.csv").write_text(f"first,other,second\n{table}", encoding="utf-8")
    for flags in (
        ["--file", tmp_path / "pairs.txt"],
        ["--file", tmp_path / "pairs.jsonl"],
        ["--file", tmp_path / "pairs.csv", "--text-columns", "first", "second"],
        ["\t".join(pair) for pair in pairs],
    ):
        assert run("predict", judge_of_pairs, *flags, "--json") == 0
        for row, pair, scores in zip(lines(capsys), pairs, expected, strict=True):
            assert row["input"] == list(pair)
            assert list(row["scores"].values()) == pytest.approx(scores, abs=1e-5)


def test_columns_of_a_table(classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.csv").write_text('id,text,other\n1,"Hello, world",a\n2,how are you,b\n', encoding="utf-8")
    for flags, expected in (([], ["Hello, world", "how are you"]), (["--text-columns", "other"], ["a", "b"])):
        assert run("predict", classifier, "--file", tmp_path / "texts.csv", *flags, "--json") == 0
        assert [row["input"] for row in lines(capsys)] == expected
    (tmp_path / "table.tsv").write_text("text\tlabel\nHello\tx\n", encoding="utf-8")
    assert run("predict", classifier, "--file", tmp_path / "table.tsv", "--text-columns", "text", "--json") == 0
    assert [row["input"] for row in lines(capsys)] == ["Hello"]
    (tmp_path / "numbers.jsonl").write_text('{"text": "one"}\n{"text": 2}\n', encoding="utf-8")
    for flags, message in (
        ([tmp_path / "texts.csv", "--text-columns", "txt"], "none called 'txt': did you mean 'text'?"),
        ([tmp_path / "numbers.jsonl"], "numbers.jsonl, line 2: text is 2, expected a text in quotes"),
        ([tmp_path / "none.txt"], "none.txt: there is no such file"),
    ):
        assert run("predict", classifier, "--file", *flags) == 2
        assert message in capsys.readouterr().err
    assert run("predict", classifier, "a\tb\tc") == 2
    assert "input 1 has 2 tabs: expected a text, or two with one tab" in capsys.readouterr().err
    assert run("predict", classifier, "a", "--text-columns", "text") == 2
    assert "--text-columns names columns of a table" in capsys.readouterr().err
    assert run("predict", classifier, "a", "--out", tmp_path / "out.csv") == 2
    assert "--out is for a model that says how a series goes on" in capsys.readouterr().err
    assert run("predict", classifier, "a", "b\tc") == 2
    assert "input 1 is ('b', 'c'), and the first is 'a'" in capsys.readouterr().err


def test_answers_come_early_in_order_and_in_bounded_memory(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from glassformer.predict import predictors
    from glassformer.verbs import predict

    sizes: list[int] = []
    original = predictors.in_batches

    def in_batches(texts: Any, *rest: Any) -> Any:
        sizes.append(len(texts))
        return original(texts, *rest)

    monkeypatch.setattr(predictors, "in_batches", in_batches)
    monkeypatch.setattr(predict, "CHUNK", 3)
    texts = [f"{'word ' * (7 - i)}{i}" for i in range(7)]
    (tmp_path / "many.txt").write_bytes("\r\n".join(texts).encode() + b"\r\n\xff\r\n")
    assert run("predict", classifier, "--file", tmp_path / "many.txt", "--json") == 2
    shown = capsys.readouterr()
    assert [json.loads(line)["input"] for line in shown.out.splitlines()] == texts[:6]
    assert "many.txt, line 8: byte 0xff is not UTF-8" in shown.err
    assert sizes == [3, 3]


def test_chunks_are_not_drawn_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from glassformer.verbs import predict

    monkeypatch.setattr(predict, "CHUNK", 1)
    flags = ["--max-new-tokens=9", "--do-sample", "--temperature=2", "--seed=3", "--json"]
    assert run("predict", llama(tmp_path), "Hello", "Hello", *flags) == 0
    first, second = (row["output"] for row in lines(capsys))
    assert first != second


@pytest.fixture(scope="module")
def forecaster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forecaster")
    torch.manual_seed(0)
    config = transformers.PatchTSTConfig(
        num_input_channels=2, context_length=24, patch_length=8, patch_stride=4, prediction_length=5, d_model=16,
        num_hidden_layers=1, num_attention_heads=2, ffn_dim=20, norm_type="layernorm", pooling_type=None,
        positional_encoding_type="random", scaling="std", loss="mse", share_projection=True,
    )  # fmt: skip
    transformers.PatchTSTForPrediction(config).save_pretrained(folder)
    return folder


def waves(length: int = 30) -> Any:
    import numpy as np

    steps = np.arange(length)
    return np.stack([np.sin(steps / 3) * 10 + 50, steps % 7 * 1.0], axis=1).astype(np.float32)


def write_wide(file: Path, values: Any, days: bool = False) -> Path:
    from datetime import datetime, timedelta

    step = timedelta(days=1) if days else timedelta(hours=1)
    rows = [f"{datetime(2024, 1, 30) + i * step},{row[0]},{row[1]}" for i, row in enumerate(values)]
    file.write_text("\n".join(["date,load,wind", *rows]) + "\n", encoding="utf-8")
    return file


@torch.no_grad()
def test_forecasts(forecaster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    from glassformer.data.series import read_series

    values = waves()
    model = transformers.PatchTSTForPrediction.from_pretrained(forecaster).eval()
    expected = model(past_values=torch.tensor(values[None, -24:])).prediction_outputs[0].numpy()
    predict = gf.pipeline(forecaster)
    file = write_wide(tmp_path / "wide.csv", values)
    for given in (values, file, str(file), read_series(file), values.tolist()):
        np.testing.assert_allclose(predict(given), expected, rtol=1e-3, atol=1e-3)
    assert run("predict", forecaster, "--file", file) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "date,load,wind"
    assert [row.split(",")[0] for row in shown[1:3]] == ["2024-01-31 06:00:00", "2024-01-31 07:00:00"]
    assert [float(row.split(",")[2]) for row in shown[1:]] == pytest.approx(expected[:, 1].tolist(), abs=1e-3)
    assert run("predict", forecaster, file, "--json") == 0
    (row,) = lines(capsys)
    assert row["forecast"]["load"] == pytest.approx(expected[:, 0].tolist(), abs=1e-3)
    assert len(row["times"]) == 5
    long = [
        f"{name},{2020 + i // 12}-{i % 12 + 1:02}-01,{values[i, c]}" for c, name in enumerate("ab") for i in range(30)
    ]
    (tmp_path / "long.csv").write_text("\n".join(["unique_id,ds,y", *long]), encoding="utf-8")
    out, picture = tmp_path / "forecast.csv", tmp_path / "forecast.png"
    assert run("predict", forecaster, tmp_path / "long.csv", "--out", out, "--picture", picture) == 0
    assert capsys.readouterr().out == ""
    written = out.read_text(encoding="utf-8").splitlines()
    assert written[0] == "date,a,b"
    assert [row.split(",")[0] for row in written[1:3]] == ["2022-07-01", "2022-08-01"]
    assert [float(row.split(",")[1]) for row in written[1:]] == pytest.approx(expected[:, 0].tolist(), abs=1e-3)
    from PIL import Image

    colours = Image.open(picture).convert("RGB").getcolors(maxcolors=1 << 20)
    assert colours is not None
    assert len(colours) > 30


def test_a_forecast_from_standard_input(
    forecaster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_wide(tmp_path / "wide.csv", waves(), days=True)
    assert run("predict", forecaster, file) == 0
    expected = capsys.readouterr().out
    assert expected.splitlines()[1].startswith("2024-02-29,")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert run("predict", forecaster) == 0
    assert capsys.readouterr().out == expected
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"date,a\n2024-01-01,x\n")))
    assert run("predict", forecaster) == 2
    assert "standard input, line 2, column 'a': 'x' is not a number" in capsys.readouterr().err


def test_series_that_cannot_be_forecast(forecaster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predict = gf.pipeline(forecaster)
    with pytest.raises(InputError, match="has 23 values, and this model looks back on 24: give at least as many"):
        predict(waves(23))
    broken = waves()
    broken[28, 1] = float("nan")
    with pytest.raises(InputError, match="the series has nan at row 28: expected numbers only"):
        predict(broken)
    with pytest.raises(InputError, match="expected a file, a Series, or an array of numbers"):
        predict(["a", "b"])
    with pytest.raises(InputError, match="batch_size is not known"):
        predict(waves(), batch_size=3)
    with pytest.raises(InputError, match=r"past_values have shape \(1, 24, 1\)"):
        predict(waves()[:, 0])
    file = write_wide(tmp_path / "wide.csv", broken)
    assert run("predict", forecaster, file) == 2
    assert "line 30, column 'wind': no value" in capsys.readouterr().err
    assert run("predict", forecaster, file, "--fill", "previous") == 0
    assert run("predict", forecaster, file, file) == 2
    assert "2 files were given: this model forecasts one at a time" in capsys.readouterr().err
    assert run("predict", forecaster, "--file", file, "--text-columns", "wind") == 2
    assert "--text-columns is for a model of texts" in capsys.readouterr().err
    assert run("predict", forecaster, file, "--num-beams=2") == 2
    assert "num_beams is for a model that writes a text" in capsys.readouterr().err


def own_series_model(folder: Path, **settings: Any) -> gf.Transformer:
    torch.manual_seed(0)
    stack = gf.StackConfig(d_model=16, num_layers=1, num_heads=2, dropout=0.0)
    series = gf.SeriesConfig(length=12, patch=4, **settings.pop("series", {}))
    model = gf.Transformer(gf.TransformerConfig(encoder=stack, series=series, **settings)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    folder.mkdir(exist_ok=True)
    gf.save(model, folder)
    return model


@torch.no_grad()
def test_a_forecast_comes_back_to_the_scale_of_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    model = own_series_model(tmp_path / "run", head="forecast", series={"horizon": 3})
    values = waves(20)
    plain = gf.pipeline(tmp_path / "run")
    assert "has no series.json: the model reads the values as they are" in plain.note
    logits = model(past_values=torch.tensor(values[None, -12:])).logits[0]
    np.testing.assert_allclose(plain(values), logits.numpy(), rtol=1e-4)
    scale = {"names": ["wind", "load"], "mean": [3.0, 50.0], "deviation": [2.0, 7.0], "frequency": "1 hour"}
    (tmp_path / "run" / "series.json").write_text(json.dumps(scale), encoding="utf-8")
    mean, deviation = np.float32([3, 50]), np.float32([2, 7])
    swapped = values[:, ::-1]
    past = torch.tensor(np.ascontiguousarray((swapped[None, -12:] - mean) / deviation))
    expected = model(past_values=past).logits[0].numpy() * deviation + mean
    scaled = gf.pipeline(tmp_path / "run")
    assert not scaled.note
    np.testing.assert_allclose(scaled(swapped), expected, rtol=1e-4)
    file = write_wide(tmp_path / "wide.csv", values)  # its channels stand in the other order
    np.testing.assert_allclose(scaled(file), expected, rtol=1e-4)
    assert run("predict", tmp_path / "run", file) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "date,wind,load"
    assert float(shown[1].split(",")[1]) == pytest.approx(float(expected[0, 0]), rel=1e-4)
    with pytest.raises(InputError, match="the series has 1 channels: expected 2, which are wind, load"):
        scaled(values[:, :1])
    file.write_text(file.read_text(encoding="utf-8").replace("wind", "sun"), encoding="utf-8")
    with pytest.raises(InputError, match="has no channel 'wind': this model knows the scale of wind, load only"):
        scaled(file)
    (tmp_path / "run" / "series.json").write_text('{"names": ["a"], "mean": [0], "deviation": [0]}', encoding="utf-8")
    with pytest.raises(InputError, match="expected a mean and a deviation above 0 for each of the 1 names"):
        gf.pipeline(tmp_path / "run")


@torch.no_grad()
def test_other_channels_of_a_model_that_finds_its_level_itself(tmp_path: Path) -> None:
    """Far from the scale of training, the answer is as if the values had been near it."""
    import numpy as np

    own_series_model(tmp_path / "run", head="forecast", series={"horizon": 3, "instance_norm": True})
    scale = {"names": ["a"], "mean": [0.0], "deviation": [1.0]}
    (tmp_path / "run" / "series.json").write_text(json.dumps(scale), encoding="utf-8")
    predict = gf.pipeline(tmp_path / "run")
    values = waves(20)
    near = predict(values)
    np.testing.assert_allclose(predict(values * np.float32(1e-4)) * 1e4, near, rtol=1e-3)


@torch.no_grad()
def test_classes_of_series(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from glassformer.checkpoints.labels import name_classes

    model = own_series_model(tmp_path / "run", head="class", num_classes=3)
    name_classes(model, list(LABELS.values()))
    gf.save(model, tmp_path / "run")
    rows = [waves(12)[:, 0].tolist(), waves(12)[:, 1].tolist(), [1.0] * 12]
    expected = model(past_values=torch.tensor(rows)[:, :, None]).logits.softmax(dim=1)
    for label, scores in zip(gf.pipeline(tmp_path / "run")(rows, batch_size=2), expected, strict=True):
        assert list(label.scores.values()) == pytest.approx(scores.tolist(), abs=1e-5)
        assert label.label == LABELS[int(scores.argmax())]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(", ".join(map(str, row)) for row in rows), encoding="utf-8")
    assert run("predict", tmp_path / "run", "--file", file, "--json") == 0
    shown = lines(capsys)
    assert [row["input"] for row in shown] == [pytest.approx(row) for row in rows]
    assert [row["label"] for row in shown] == [LABELS[int(i)] for i in expected.argmax(dim=1)]
    assert run("predict", tmp_path / "run", " ".join(["1"] * 11)) == 2
    assert "series 0 has 11 values: this model reads 12 numbers" in capsys.readouterr().err
    file.write_text("1, 2, three\n", encoding="utf-8")
    assert run("predict", tmp_path / "run", "--file", file) == 2
    assert "rows.csv, line 1: 'three' is not a number" in capsys.readouterr().err


def test_images_of_a_folder_and_of_an_idx_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np
    from PIL import Image

    model = tmp_path / "model"
    config = transformers.ViTConfig(**SMALL, image_size=24, patch_size=8, num_channels=1, id2label=LABELS)
    torch.manual_seed(0)
    transformers.ViTForImageClassification(config).save_pretrained(model)
    settings = {"size": {"height": 24, "width": 24}, "image_mean": [0.5], "image_std": [0.5]}
    (model / "preprocessor_config.json").write_text(json.dumps(settings), encoding="utf-8")
    pixels = np.random.default_rng(0).integers(0, 255, (3, 20, 20), dtype=np.uint8)
    (tmp_path / "images" / "deep").mkdir(parents=True)
    files = [tmp_path / "images" / name for name in ("a.png", "b.png", "deep/c.png")]
    for file, image in zip(files, pixels, strict=True):
        Image.fromarray(image).save(file)
    (tmp_path / "images" / "notes.txt").touch()
    assert run("predict", model, *files, "--json") == 0
    expected = lines(capsys)
    assert run("predict", model, "--file", tmp_path / "images", "--json") == 0
    assert lines(capsys) == expected
    header = (0x0803).to_bytes(4, "big") + b"".join(n.to_bytes(4, "big") for n in pixels.shape)
    idx = tmp_path / "t10k-images-idx3-ubyte"
    idx.write_bytes(header + pixels.tobytes())
    assert run("predict", model, "--file", idx, "--json") == 0
    rows = lines(capsys)
    assert [row["input"] for row in rows] == [f"{idx}[{i}]" for i in range(3)]
    assert [row["scores"] for row in rows] == [row["scores"] for row in expected]
    (tmp_path / "none").mkdir()
    assert run("predict", model, "--file", tmp_path / "none") == 2
    assert "has no image in it" in capsys.readouterr().err


def test_a_terminal_is_told_how_much_is_done_and_nothing_else_is(
    classifier: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    from glassformer.verbs import predict

    assert run("predict", classifier, *TEXTS) == 0
    quiet = capsys.readouterr()
    assert not quiet.err
    terminal = io.StringIO()
    monkeypatch.setattr(predict, "Console", lambda **_: Console(file=terminal, force_terminal=True, width=80))
    assert run("predict", classifier, *TEXTS) == 0
    shown = capsys.readouterr()
    assert f"{len(TEXTS)} done" in terminal.getvalue()
    assert shown.out == quiet.out
    assert not shown.err
