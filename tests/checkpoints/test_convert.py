"""`glassformer convert`: reads any layout, writes today's, keeps the model the same, and never writes half a folder."""

import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from helpers.command import run
from helpers.reference import Checkpoint, save_sample
from helpers.samples import ARCHITECTURES, SAMPLES
from safetensors.torch import load_file

import glassformer as gf
from glassformer.checkpoints.convert import parse_size
from glassformer.checkpoints.run import TextRules, read_text_rules
from glassformer.predict.embed import PoolingRecipe, read_recipe

NAMED = {str(sample): sample for sample in SAMPLES}


def made(name: str, folder: Path, kind: str = "language") -> Checkpoint:
    return save_sample(NAMED[name], ARCHITECTURES[NAMED[name].model_type][kind], folder)


@pytest.fixture
def old_bert(tmp_path: Path) -> Path:
    """A BERT in the format of 2019: a pickle, with gamma and beta in the norms, and a vocab.txt."""
    folder = tmp_path / "old"
    made("bert-plain", folder)
    tensors = load_file(folder / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }
    assert old.keys() != tensors.keys()
    (folder / "model.safetensors").rename(tmp_path / "modern.safetensors")
    torch.save(old, folder / "pytorch_model.bin")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##s", *(f"word{i}" for i in range(93))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return folder


def test_a_pickle_with_old_names_becomes_safetensors(
    old_bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("convert", old_bert, tmp_path / "new") == 0
    shown = capsys.readouterr().out
    for part in ("bert, head language", "in float32, with its tokenizer", "model.safetensors", "tokenizer.json"):
        assert part in shown
    assert not (tmp_path / "new" / "pytorch_model.bin").exists()
    new, modern = load_file(tmp_path / "new" / "model.safetensors"), load_file(tmp_path / "modern.safetensors")
    assert new.keys() == modern.keys()
    assert all(torch.equal(new[name], modern[name]) for name in modern)
    assert gf.load_tokenizer(tmp_path / "new").ids("word7") == gf.load_tokenizer(old_bert).ids("word7")
    assert gf.verify(tmp_path / "new").passed


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_another_dtype(dtype: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = made("llama-plain", tmp_path / "full")
    assert run("convert", tmp_path / "full", tmp_path / "half", "--dtype", dtype, "--json") == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["dtype"], done["model_type"], done["tokenizer"]) == (dtype, "llama", False)
    assert done["files"]["model.safetensors"] == (tmp_path / "half" / "model.safetensors").stat().st_size
    assert done["files"].keys() == {file.name for file in (tmp_path / "half").iterdir()}
    wanted = getattr(torch, dtype)
    tensors = load_file(tmp_path / "full" / "model.safetensors")
    for name, tensor in load_file(tmp_path / "half" / "model.safetensors").items():
        assert torch.equal(tensor, tensors[name].to(wanted))
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "half", attn_implementation="eager").eval()
    assert theirs.dtype == wanted
    with torch.no_grad():
        logits = theirs(**checkpoint.inputs).logits.float()
    assert (logits - checkpoint.output.logits).abs().max() < 0.05 * checkpoint.output.logits.abs().max()
    back = gf.convert(tmp_path / "half", tmp_path / "back", dtype=torch.float32)
    assert back.dtype == "float32"
    assert gf.load(tmp_path / "back").decoder.norm.weight.dtype == torch.float32


def test_the_dtype_of_the_weights_stays_whatever_the_config_says(tmp_path: Path) -> None:
    made("llama-plain", tmp_path / "old")
    file = tmp_path / "old" / "config.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    for word in ("float16", "auto", None):
        file.write_text(json.dumps(values | {"dtype": word}), encoding="utf-8")
        assert gf.convert(tmp_path / "old", tmp_path / "new", overwrite=True).dtype == "float32"
    assert gf.load(tmp_path / "old", dtype="bfloat16").decoder.norm.weight.dtype == torch.bfloat16
    file.write_text(json.dumps(values | {"dtype": None, "torch_dtype": "banana"}), encoding="utf-8")
    with pytest.raises(gf.InputError, match="torch_dtype is 'banana': expected one of float32"):
        gf.load(tmp_path / "old")


def test_an_old_config_loads_in_transformers_with_the_same_logits(tmp_path: Path) -> None:
    checkpoint = made("llama-llama3_tied", tmp_path / "old")
    config = json.loads((tmp_path / "old" / "config.json").read_text(encoding="utf-8"))
    rope = config.pop("rope_parameters")
    config |= {"torch_dtype": config.pop("dtype"), "rope_theta": rope.pop("rope_theta"), "rope_scaling": rope}
    expected = checkpoint.output.logits
    (tmp_path / "old" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    gf.convert(tmp_path / "old", tmp_path / "new")
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "new", attn_implementation="eager").eval()
    with torch.no_grad():
        assert torch.equal(theirs(**checkpoint.inputs).logits, expected)


def test_shards(tmp_path: Path) -> None:
    made("gpt2-plain", tmp_path / "one")
    done = gf.convert(tmp_path / "one", tmp_path / "many", max_shard_size="40KB")
    shards = [name for name in done.files if name.endswith(".safetensors")]
    assert len(shards) > 2
    assert "model.safetensors.index.json" in done.files
    certificate = gf.verify(tmp_path / "many")
    assert certificate.passed
    assert sorted(certificate.sha256) == shards
    gf.save(gf.load(tmp_path / "one"), tmp_path / "saved", max_shard_size="40KB")
    assert sorted(file.name for file in (tmp_path / "saved").glob("model-*")) == shards
    gf.convert(tmp_path / "one", tmp_path / "many", overwrite=True)
    assert [file.name for file in (tmp_path / "many").glob("model*")] == ["model.safetensors"], "no old shards"


def test_how_images_are_prepared_comes_along(tmp_path: Path) -> None:
    made("vit-plain", tmp_path / "old", "class")
    (tmp_path / "old" / "preprocessor_config.json").write_text('{"size": 12}', encoding="utf-8")
    assert "preprocessor_config.json" in gf.convert(tmp_path / "old", tmp_path / "new").files


def test_how_sentences_are_pooled_comes_along(tmp_path: Path) -> None:
    made("bert-plain", tmp_path / "old")
    (tmp_path / "old" / "1_Pooling").mkdir()
    (tmp_path / "old" / "1_Pooling" / "config.json").write_text('{"pooling_mode": "max"}', encoding="utf-8")
    (tmp_path / "old" / "modules.json").write_text("[]", encoding="utf-8")
    (tmp_path / "old" / "sentence_bert_config.json").write_text('{"max_seq_length": 9}', encoding="utf-8")
    files = gf.convert(tmp_path / "old", tmp_path / "new").files
    assert {"1_Pooling/config.json", "modules.json", "sentence_bert_config.json"} <= files.keys()
    assert read_recipe(tmp_path / "new") == read_recipe(tmp_path / "old") == PoolingRecipe(ways=("max",), max_length=9)


def test_how_a_run_prepares_its_inputs_comes_along(tmp_path: Path) -> None:
    made("bert-plain", tmp_path / "old")
    rules = {"task": "classify", "settings": {"max_len": 9, "truncate": True}}
    (tmp_path / "old" / "run.json").write_text(json.dumps(rules), encoding="utf-8")
    (tmp_path / "old" / "series.json").write_text("{}", encoding="utf-8")
    assert {"run.json", "series.json"} <= gf.convert(tmp_path / "old", tmp_path / "new").files.keys()
    assert read_text_rules(tmp_path / "new") == TextRules(max_len=9, truncate=True)
    made("gpt2-plain", tmp_path / "other")
    gf.convert(tmp_path / "other", tmp_path / "new", overwrite=True)
    assert not (tmp_path / "new" / "run.json").exists()  # it belonged to the model before


def test_a_tokenizer_that_nobody_explains_is_copied_as_it_is(
    old_bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A guessed tokenizer must not be written as a tokenizer.json."""
    lines = (old_bert / "vocab.txt").read_text(encoding="utf-8").replace("##s", "s")
    (old_bert / "vocab.txt").write_text(lines, encoding="utf-8")
    assert run("convert", old_bert, tmp_path / "new") == 0
    shown = capsys.readouterr()
    assert "the tokenizer's files are copied unchanged: " in shown.err
    assert "without a tokenizer" in shown.out
    assert not (tmp_path / "new" / "tokenizer.json").exists()
    assert (tmp_path / "new" / "vocab.txt").read_text(encoding="utf-8") == lines


def test_what_belongs_to_the_model_before_does_not_stay(tmp_path: Path) -> None:
    made("llama-plain", tmp_path / "source")
    target = tmp_path / "target"
    (target / "1_Pooling").mkdir(parents=True)
    (target / "1_Pooling" / "config.json").write_text('{"pooling_mode": "max"}', encoding="utf-8")
    gone = ("modules.json", "special_tokens_map.json", "vocab.txt", "added_tokens.json", "preprocessor_config.json")
    stays = ("README.md", "notes.txt", "mine.json")
    for name in (*gone, *stays):
        (target / name).write_text("[]", encoding="utf-8")
    gf.convert(tmp_path / "source", target, overwrite=True)
    assert not [name for name in ("1_Pooling", *gone) if (target / name).exists()]
    assert all((target / name).read_text(encoding="utf-8") == "[]" for name in stays)


def test_nothing_is_overwritten_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made("gpt2-plain", tmp_path / "old")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "thesis.txt").write_text("years of work", encoding="utf-8")
    (tmp_path / "new" / "pytorch_model.bin").write_text("of a model before", encoding="utf-8")
    for arguments, message in (
        ([tmp_path / "old", tmp_path / "new"], "is not empty"),
        ([tmp_path / "old", tmp_path / "old", "--overwrite"], "is the source folder"),
        ([tmp_path / "old", tmp_path / "new" / "thesis.txt"], "is a file"),
        ([tmp_path / "nowhere", tmp_path / "x"], "there is no such folder"),
        ([tmp_path / "old", tmp_path / "x", "--max-shard-size", "5 parsecs"], "expected a number of bytes"),
        ([tmp_path / "old", tmp_path / "x", "--dtype", "int3"], "int3"),
    ):
        assert run("convert", *arguments) == 2
        shown = capsys.readouterr().err
        assert message in " ".join(shown.replace("│", " ").split())
        assert "Traceback" not in shown
        assert not (tmp_path / "x").exists()
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == ["pytorch_model.bin", "thesis.txt"]
    assert run("convert", tmp_path / "old", tmp_path / "new", "--overwrite") == 0
    assert (tmp_path / "new" / "thesis.txt").read_text(encoding="utf-8") == "years of work"
    assert not (tmp_path / "new" / "pytorch_model.bin").exists()
    assert gf.load(tmp_path / "new")


def test_an_interrupted_conversion_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made("gpt2-plain", tmp_path / "old")
    shutil.copytree(tmp_path / "old", tmp_path / "there")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("glassformer.checkpoints.tensors.save_file", interrupt)
    before = {file: file.read_bytes() for file in (tmp_path / "there").iterdir()}
    assert run("convert", tmp_path / "old", tmp_path / "new") == 130
    assert run("convert", tmp_path / "old", tmp_path / "there", "--overwrite") == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "there"]
    assert {file: file.read_bytes() for file in (tmp_path / "there").iterdir()} == before


def test_sizes() -> None:
    assert [parse_size(size) for size in (7, "7", "5GB", "1.5 MiB", "2kb")] == [7, 7, 5 * 10**9, 3 * 2**19, 2000]
    for size in ("", "GB", "-1", "0", "3 apples", 0):
        with pytest.raises(gf.InputError, match="max_shard_size is"):
            parse_size(size)
