"""CONTRIBUTING.md is correct: its files exist, and its examples work as printed."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import transformers

import glassformer as gf
from glassformer import families
from glassformer.cli import VERBS
from glassformer.data.dates import date_pairs
from glassformer.tasks import registry
from glassformer.tasks import settings as task_settings

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NEW = re.compile(r"arcee|sort|tokens|entropy")  # what the examples add


def module_of(path: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that the page shows below a path."""
    code = re.search(rf"`src/{re.escape(path)}`[^`]*```python\n(.*?)```", TEXT, re.DOTALL)
    assert code is not None, path
    module = ModuleType(path.removesuffix(".py").replace("/", "."))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code[1], path, "exec"), vars(module))
    return module


def block_below(path: str) -> str:
    """The first code that the page shows below a path."""
    code = re.search(rf"`{re.escape(path)}`.*?```python\n(.*?)```", TEXT, re.DOTALL)
    assert code is not None, path
    return code[1]


@pytest.fixture
def translator(tmp_path: Path) -> Path:
    """A saved encoder-decoder with a tokenizer, untrained."""
    texts = [text for pair in date_pairs(50, seed=0) for text in (pair.source, pair.target)]
    tokenizer = gf.train_tokenizer(texts, vocab_size=300)
    stack = gf.StackConfig(d_model=16, num_layers=2, num_heads=2)
    config = gf.TransformerConfig(
        encoder=stack, decoder=stack, vocab_size=len(tokenizer), decoder_start_token_id=tokenizer.bos_token_id,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    gf.save(gf.Transformer(config), tmp_path, tokenizer=tokenizer)
    return tmp_path


def test_the_files_it_names_exist() -> None:
    paths = set(re.findall(r"`((?:src|tests|docs|\.ci)/[\w./-]+)`", TEXT))
    assert len(paths) > 15
    assert sorted(path for path in paths if not NEW.search(path) and not (ROOT / path).exists()) == []


def test_its_examples_are_still_new() -> None:
    """The examples must be things that do not exist yet, to show how to add them."""
    assert "arcee" not in families.FAMILIES
    assert not {"tokens", "inspect entropy", "train sort"} & set(VERBS)


def test_its_family_computes_as_transformers_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = module_of("glassformer/families/arcee.py", monkeypatch)
    monkeypatch.setitem(families.FAMILIES, "arcee", families._family(page, "arcee"))
    torch.manual_seed(0)
    config = transformers.ArceeConfig(
        vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    theirs = transformers.ArceeForCausalLM(config).eval()
    theirs.save_pretrained(tmp_path)
    ids = torch.randint(3, 50, (2, 7))
    with torch.no_grad():
        torch.testing.assert_close(gf.load(tmp_path).eval()(ids).logits, theirs(ids).logits, rtol=1e-5, atol=1e-5)


def test_its_inspection_passes_its_own_test(monkeypatch: pytest.MonkeyPatch) -> None:
    module_of("glassformer/inspect/looks/entropy.py", monkeypatch)
    code = re.search(r"`tests/inspect/looks/test_entropy.py`:\n\n```python\n(.*?)```", TEXT, re.DOTALL)
    assert code is not None
    names: dict[str, object] = {}
    exec(code[1], names)
    tests = [test for name, test in names.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        assert callable(test)
        test()


def test_its_commands_run(
    translator: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = module_of("glassformer/verbs/tokens.py", monkeypatch)
    tokens.main(tokens.TokensSettings(run=str(translator), text="May 1st"))
    assert "May" in capsys.readouterr().out
    module_of("glassformer/inspect/looks/entropy.py", monkeypatch)
    entropy = module_of("glassformer/verbs/inspect/entropy.py", monkeypatch)
    entropy.main(entropy.EntropySettings(run=str(translator), text="May 1st"))
    assert "decoder.blocks.1.cross" in capsys.readouterr().out


def test_its_task_loads_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    names = dict(vars(task_settings))
    exec(block_below("src/glassformer/tasks/settings.py"), names)
    settings = names["SortSettings"]
    entry = eval(block_below("src/glassformer/tasks/registry.py"), {**vars(registry), "SortSettings": settings})
    monkeypatch.setattr(registry, "TASKS", {**registry.TASKS, "sort": entry})
    page = module_of("glassformer/tasks/sort.py", monkeypatch)
    splits = page.Sort(settings(examples=2000)).load()
    sources = [{pair.source for pair in split} for split in splits]
    assert all(sources)
    assert sum(map(len, sources)) == len(set().union(*sources))
    assert splits[0][0].target.split() == sorted(splits[0][0].source.split())
