"""A hub id is passed to huggingface_hub with the given options; a local path never opens a socket."""

import os
import shutil
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from helpers.command import python
from helpers.small_checkpoints import Made, same_parameters, save_small
from helpers.tiny_runs import tiny, train

import glassformer as gf
from glassformer.errors import InputError
from glassformer.tasks.settings import TranslateSettings
from glassformer.tasks.translate import Translate


@pytest.fixture
def made(tmp_path: Path) -> Made:
    def made(architecture: str) -> Path:
        save_small(architecture, tmp_path / architecture)
        return tmp_path / architecture

    return made


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a socket was opened")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)


class Hub:
    """Replaces huggingface_hub: keeps the arguments of its calls, and returns an existing folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.asked, self.files = folder, [], ["config.json", "model.safetensors"]
        monkeypatch.setattr(huggingface_hub, "HfApi", self.api)
        monkeypatch.setattr(huggingface_hub, "snapshot_download", self.download)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)

    def api(self, **kwargs: Any) -> "Hub":
        self.asked.append(kwargs)
        return self

    def list_repo_files(self, name: str, **kwargs: Any) -> list[str]:
        self.asked.append({"name": name, **kwargs})
        return self.files

    def download(self, name: str, **kwargs: Any) -> str:
        self.asked.append({"name": name, **kwargs})
        return str(self.folder)


@pytest.fixture
def hub(made: Made, monkeypatch: pytest.MonkeyPatch) -> Hub:
    return Hub(made("LlamaForCausalLM"), monkeypatch)


@pytest.mark.usefixtures("no_network")
def test_revision_and_token_are_passed_on(hub: Hub) -> None:
    model = gf.load("someone/something-1.5", revision="v2", token="secret")
    assert same_parameters(model, gf.load(hub.folder))
    api, listed, fetched = hub.asked
    assert api == {"token": "secret"}
    assert listed == {"name": "someone/something-1.5", "revision": "v2"}
    patterns = fetched.pop("allow_patterns")
    assert fetched == {
        "name": "someone/something-1.5", "revision": "v2", "token": "secret", "local_files_only": False,
    }  # fmt: skip
    assert "model*.safetensors" in patterns
    assert "*.safetensors" not in patterns, "other files of the same weights would be fetched too"
    assert not any("bin" in pattern for pattern in patterns), "the weights would be fetched twice"


@pytest.mark.parametrize("ask", [gf.load_tokenizer, gf.pipeline, gf.verify], ids=lambda ask: ask.__name__)
def test_every_reader_of_a_hub_id_passes_them_on(ask: Any, hub: Hub) -> None:
    with suppress(InputError):  # the folder has no tokenizer
        ask("someone/something", revision="v2", token="secret")
    asked = hub.asked[-1]
    assert (asked["revision"], asked["token"]) == ("v2", "secret")


def test_old_weights_are_fetched_where_there_are_no_others(hub: Hub) -> None:
    hub.files = ["config.json", "pytorch_model.bin", "consolidated.safetensors", "onnx/model.safetensors"]
    gf.load("someone/something")
    patterns = hub.asked[-1]["allow_patterns"]
    assert "pytorch_model*.bin" in patterns
    assert not any("safetensors" in pattern for pattern in patterns)


def test_offline_only_the_cache_is_asked(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    gf.load("someone/something")
    assert [call["local_files_only"] for call in hub.asked] == [True]


def cached(folder: Path, home: Path) -> None:
    """The folder in the layout of huggingface_hub's cache."""
    repository, commit = home / "hub" / "models--someone--something", "0123456789abcdef0123456789abcdef01234567"
    shutil.copytree(folder, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)


@pytest.mark.parametrize("name", ["someone/something", "someone/else"])
def test_the_variables_of_the_hub_hold(name: str, made: Made, tmp_path: Path) -> None:
    cached(made("BertForMaskedLM"), tmp_path / "home")
    program = f"""
import socket
def refuse(*args, **kwargs):
    raise AssertionError("a socket was opened")
socket.socket.connect = socket.getaddrinfo = refuse
import glassformer as gf
try:
    print(gf.load({name!r}).config.head)
except ValueError as error:
    print(type(error).__name__, error)
"""
    variables = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    variables.pop("HF_HUB_CACHE", None)
    printed = python("-c", program, env=variables)
    if name == "someone/something":
        assert printed == "language\n"
    else:
        assert printed.startswith("InputError someone/else is not a local folder, and downloading it")
        assert "offline, only models downloaded before" in printed


def test_what_the_hub_says_is_one_sentence(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("no route\nand a page of details")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(InputError, match=r"the hub failed \(ConnectionError: no route\)\. Check the path") as error:
        gf.load("someone/something")
    assert "\n" not in str(error.value)
    monkeypatch.setattr(hub, "list_repo_files", lambda *_, **__: [][0])
    with pytest.raises(InputError, match=r"\(IndexError: list index out of range\)"):
        gf.load("someone/something")


@pytest.mark.usefixtures("no_network")
def test_a_local_path_opens_no_socket(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made("GPT2LMHeadModel")
    model = gf.load(folder)
    gf.save(model, tmp_path / "owner" / "name")
    monkeypatch.chdir(tmp_path)
    assert same_parameters(gf.load("owner/name"), model), "what looks like a hub id is local where it exists"


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    "path", ["./runs", "../runs", "runs", "runs/", "a/b/c", "/no/where", ".runs/x", "~/x", "a b/c"]
)
def test_what_can_only_be_a_path_is_not_asked_of_the_hub(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")  # independent of files beside the project
    with pytest.raises(InputError, match=r"there is no such folder\. Expected a run or model folder, or a hub id"):
        gf.load(path)
    with pytest.raises(InputError, match="there is no such folder"):
        gf.load(Path("owner/name"))
    for nothing in (None, 3, [path]):
        with pytest.raises(InputError, match=r"the path is .*: expected a run or model folder, or a hub id"):
            gf.load(nothing)  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_network")
def test_a_mistyped_run_is_not_asked_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs" / "demo").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="runs/dmeo: there is no such folder"):
        gf.load("runs/dmeo")


def test_without_a_network_what_was_fetched_before_is_used(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*args: Any, **kwargs: Any) -> None:
        raise OSError("no network")

    monkeypatch.setattr(hub, "list_repo_files", unreachable)
    assert same_parameters(gf.load("someone/something"), gf.load(hub.folder))
    assert hub.asked[-1]["local_files_only"] is True


def test_a_call_looks_a_model_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights, tokenizer and the rest are read from the folder that was found."""
    train(tiny(tmp_path / "run"))
    hub = Hub(tmp_path / "run", monkeypatch)
    gf.pipeline("owner/model")
    assert sum("allow_patterns" in asked for asked in hub.asked) == 1
    hub.asked.clear()
    settings = TranslateSettings(init="owner/model", out=tmp_path / "more", examples=60)
    task = Translate(settings)
    assert sum("allow_patterns" in asked for asked in hub.asked) == 1
    assert task.tokenizer is not None
    assert "from owner/model" in task.describe()["model"]
