"""`glassformer explore`: the address, a port in use, Ctrl-C, and the exported file."""

import errno
import http.client
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.command import run, started
from helpers.tiny_models import make_of_languages

import glassformer as gf
from glassformer.errors import InputError
from glassformer.explore.export.destination import replace_page
from glassformer.explore.view.session import Session


def test_a_port_in_use_is_named(folder_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run("explore", folder_of("decoder"), "--port", str(port)) == 2
    error = capsys.readouterr().err
    assert f"port {port} on 127.0.0.1 is in use: choose another with --port" in error
    assert "Traceback" not in error
    assert len(error.strip().splitlines()) == 1


def test_it_serves_until_it_is_interrupted(folder_of: Callable[[str], Path]) -> None:
    with started("-m", "glassformer", "explore", folder_of("decoder"), "--port", "0") as served:
        assert served.stdout is not None
        line = served.stdout.readline()
        assert "http://127.0.0.1:" in line
        port = int(line.split("http://127.0.0.1:")[1].split("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/api/model")
        assert connection.getresponse().status == 200
        connection.close()
        served.send_signal(signal.SIGINT)
        _, error = served.communicate(timeout=20)
    assert served.returncode == 0
    assert error.strip() == "stopped"


def test_a_file_of_the_first_example_or_of_a_text(
    folder_of: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("explore", folder_of("image"), "--export", tmp_path / "image.html") == 0
    assert run("explore", folder_of("encoder"), "--export", tmp_path / "text.html", "--text", "The fox") == 0
    assert "It opens in any browser" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["image.html", "text.html"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--port", "70000"], "--port is 70000: expected a number from 0 to 65535"),
        (["--text", "a"], "--export page.html"),
        (["--export", "none/page.html"], "no folder none"),
    ],
)
def test_bad_flags(
    arguments: list[str], says: str, folder_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("explore", folder_of("encoder"), *arguments) == 2
    assert says in " ".join(capsys.readouterr().err.replace("|", " ").split())


def test_a_file_that_cannot_be_written_is_one_sentence(
    folder_of: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "folder.html").mkdir()
    os.mkfifo(tmp_path / "pipe.html")
    (tmp_path / "circle.html").symlink_to(tmp_path / "circle.html")
    with socket.socket(socket.AF_UNIX) as bound:
        monkeypatch.chdir(tmp_path)  # the path of a socket must be short
        bound.bind("socket.html")
        (tmp_path / "link.html").symlink_to("socket.html")
        before = sorted(tmp_path.iterdir())
        for name, says in (
            ("", "is a folder: name a file in it, such as page.html"),
            (tmp_path / "folder.html", "is a folder"),
            (tmp_path / "pipe.html", "is a device, a pipe or a socket"),
            (tmp_path / "socket.html", "is a device, a pipe or a socket"),
            (tmp_path / "link.html", "is a device, a pipe or a socket"),
            (tmp_path / "circle.html", "Choose another file"),
            (tmp_path / "page.txt", "does not end in .html"),
            (tmp_path / "page", "does not end in .html"),
            (tmp_path / "none" / "page.html", f"no folder {tmp_path / 'none'}. Create it first"),
            (tmp_path / ("a" * 300 + ".html"), "too long. Choose another file"),
        ):
            assert run("explore", folder_of("encoder"), "--export", name) == 2, name
            error = capsys.readouterr().err
            assert says in error
            assert len(error.strip().splitlines()) == 1
        assert sorted(tmp_path.iterdir()) == before
        monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
        assert run("explore", folder_of("encoder"), "--export", tmp_path / "page.html") == 2
        assert "no permission to write to the folder" in capsys.readouterr().err
        assert sorted(tmp_path.iterdir()) == before


def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, link = tmp_path / ("a" * 250 + ".html"), tmp_path / "link.html"
    file.write_text("before", encoding="utf-8")
    link.symlink_to(file)
    replace_page(link, "after")
    assert link.is_symlink()
    assert file.read_text(encoding="utf-8") == "after"

    def full(path: Path, *arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError, match="cannot be written: no space left on device"):
        replace_page(file, "too large")
    assert file.read_text(encoding="utf-8") == "after"
    assert sorted(tmp_path.iterdir()) == sorted([file, link])


def test_no_model_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explore", tmp_path) == 2
    assert "not a model folder" in capsys.readouterr().err


def test_a_model_of_several_languages_is_told_which(
    tmp_path: Path, folder_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    codes = ["eng_Latn", "kor_Hang"]
    make_of_languages(tmp_path, codes)
    with pytest.raises(InputError, match="Choose one with --target-language"):
        Session(tmp_path).view({"text": "hello"})
    shown = Session(tmp_path, source_language=codes[0], target_language=codes[1]).view({"text": "hello"}).shown
    assert shown["lines"]["encoder"]["tokens"][0]["text"] == codes[0]
    assert shown["lines"]["decoder"]["writes"][0]["text"] == codes[1]
    expected = gf.pipeline(tmp_path)(["hello"], source_language=codes[0], target_language=codes[1], max_new_tokens=12)
    assert shown["text"] == expected[0]
    assert run("explore", tmp_path, "--target-language", "klingon") == 2
    assert "unknown language 'klingon'" in capsys.readouterr().err
    assert run("explore", folder_of("encoder"), "--target-language", "kor_Hang") == 2
    assert "does not translate" in capsys.readouterr().err
