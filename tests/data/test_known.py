"""Known data sets: fetched from a folder or a server, and never kept if a checksum is wrong."""

import gzip
import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from helpers.shared import shared

from glassformer.data import known
from glassformer.data.known import KNOWN, Known, KnownFile, fetch
from glassformer.errors import InputError
from glassformer.io import checksum

PLAIN, PACKED = b"one\ntwo\n" * 20_000, b"three\n"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


TINY = Known(
    task="lm",
    recipe="tiny",
    size=len(PLAIN) + len(PACKED),
    description="for tests",
    licence="none",
    origin="owner/name@commit",
    files=(
        KnownFile("plain.txt", sha256(PLAIN), "data/plain.txt"),
        KnownFile("tok/packed.txt", sha256(PACKED), "data/packed.gz"),
    ),
)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN, "tiny", TINY)


@pytest.fixture
def server(tmp_path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder served by a local server instead of GitHub."""
    folder = tmp_path / "server"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "plain.txt").write_bytes(PLAIN)
    (folder / "data" / "packed.gz").write_bytes(gzip.compress(PACKED))
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    monkeypatch.setattr(
        Known,
        "address",
        lambda _, file: f"http://127.0.0.1:{http.server_address[1]}/{file.path}" if file.path else None,
    )
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield folder
    http.shutdown()
    thread.join(timeout=60)
    http.server_close()


@pytest.mark.parametrize("inside", ["", "tiny"])
def test_from_a_folder(tmp_path: Path, tiny: None, inside: str) -> None:
    source = tmp_path / "source"
    (source / inside / "tok").mkdir(parents=True)
    (source / inside / "plain.txt").write_bytes(PLAIN)
    (source / inside / "tok" / "packed.txt.gz").write_bytes(gzip.compress(PACKED))
    files = fetch("tiny", tmp_path / "out", source)
    assert files == [tmp_path / "out" / "plain.txt", tmp_path / "out" / "tok" / "packed.txt"]
    assert [file.read_bytes() for file in files] == [PLAIN, PACKED]


def test_from_a_server(tmp_path: Path, server: Path) -> None:
    seen: list[tuple[str, int]] = []
    files = fetch("tiny", tmp_path / "out", progress=lambda name, count: seen.append((name, count)))
    assert [file.read_bytes() for file in files] == [PLAIN, PACKED]
    assert ("plain.txt", len(PLAIN)) in seen
    assert seen[0][1] < len(PLAIN)  # progress is reported during the download
    assert not list((tmp_path / "out").rglob("*.part"))


def test_what_is_there_and_right_is_kept_and_what_is_wrong_is_replaced(tmp_path: Path, server: Path) -> None:
    out = tmp_path / "out"
    fetch("tiny", out)
    (out / "tok" / "packed.txt").write_bytes(b"damaged")
    (server / "data" / "plain.txt").unlink()  # so that it cannot be downloaded again
    fetch("tiny", out)
    assert (out / "tok" / "packed.txt").read_bytes() == PACKED


def test_a_wrong_checksum_leaves_nothing(tmp_path: Path, server: Path) -> None:
    (server / "data" / "plain.txt").write_bytes(PLAIN + b"!")
    with pytest.raises(InputError, match=rf"has the SHA-256 {sha256(PLAIN + b'!')}: expected {sha256(PLAIN)}"):
        fetch("tiny", tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*"))


def test_a_file_that_breaks_off(tmp_path: Path, server: Path) -> None:
    (server / "data" / "packed.gz").write_bytes(gzip.compress(PACKED)[:-4])
    with pytest.raises(InputError, match=r"packed\.gz was interrupted"):
        fetch("tiny", tmp_path / "out")
    assert not (tmp_path / "out" / "tok" / "packed.txt").exists()


def test_what_the_server_does_not_have(tmp_path: Path, server: Path) -> None:
    (server / "data" / "plain.txt").unlink()
    with pytest.raises(InputError, match=r"plain\.txt answers 404 .*--from DIR"):
        fetch("tiny", tmp_path / "out")


def test_without_a_network(tmp_path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Known, "address", lambda *_: "http://127.0.0.1:9/plain.txt")  # nothing listens there
    with pytest.raises(InputError, match=r"cannot be reached .* Is this machine offline\?"):
        fetch("tiny", tmp_path / "out")


def test_bad_requests(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown data set 'multi30': did you mean 'multi30k'"):
        fetch("multi30", tmp_path)
    with pytest.raises(InputError, match="not a folder"):
        fetch("ett", tmp_path, tmp_path / "none")
    with pytest.raises(InputError, match=r"has no ETTh1\.csv: looked for .*ett.*ETTh1\.csv"):
        fetch("ett", tmp_path / "out", tmp_path)
    with pytest.raises(InputError, match=r"ko-en/.* cannot be downloaded: it was compiled .* --from DIR"):
        fetch("ko-en", tmp_path)


@pytest.mark.parametrize("name", ["multi30k", "nsmc", "shakespeare", "fashion-mnist", "ett", "ko-en"])
def test_every_data_set_is_described(name: str) -> None:
    data = KNOWN[name]
    assert data.description
    assert data.licence
    assert len({file.name for file in data.files}) == len(data.files)
    for file in data.files:
        assert len(bytes.fromhex(file.sha256)) == 32
        address = data.address(file)
        assert (address is None) == bool(data.note)
        commit = data.origin.partition("@")[2]
        assert address is None or (len(commit) == 40 and f"/{commit}/" in address)


@pytest.mark.parametrize("name", ["multi30k", "nsmc", "shakespeare", "ett", "ko-en", "fashion-mnist"])
def test_the_shared_copies(tmp_path: Path, name: str) -> None:
    files = fetch(name, tmp_path, shared(name).parent)
    assert [checksum(file) for file in files] == [file.sha256 for file in KNOWN[name].files]
    assert sum(file.stat().st_size for file in files) == KNOWN[name].size
    assert known.fetch(name, tmp_path, tmp_path) == files


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, server: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file.* cannot be written: "):
        fetch("tiny", tmp_path / "file")
