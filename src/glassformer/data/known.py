"""The known public data sets: their origin and licence, and how they are downloaded and verified.

`fetch` takes a data set from a folder (`source`) or from the network. A file is written as `.part` and renamed once its
SHA-256 is verified. Existing correct files are kept. Files that are gzipped at their origin are decompressed, unless
the data set is meant to be read gzipped.
"""

import gzip
import hashlib
import http.client
import shlex
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from glassformer.errors import InputError, did_you_mean
from glassformer.io import atomic_file, checksum

CHUNK_BYTES = 1 << 16
TIMEOUT = 30  # seconds without a byte

OnBytes = Callable[[str, int], None]  # the file, and the number of bytes received


@dataclass(frozen=True)
class KnownFile:
    """One file: its local name, its checksum, and its path at the origin, or None if it was made from several."""

    name: str
    sha256: str
    path: str | None = None


@dataclass(frozen=True)
class Known:
    """A public data set."""

    task: str  # the task to train on it
    recipe: str  # its settings, recipes/NAME.toml
    size: int  # bytes of all files on disk
    description: str
    licence: str
    origin: str  # GitHub's owner/name@commit
    files: tuple[KnownFile, ...]
    note: str = ""
    pretraining: str = ""  # recipe of a masked language model that its recipe starts from

    def address(self, file: KnownFile) -> str | None:
        """The URL of this file."""
        repository, commit = self.origin.split("@") if "@" in self.origin else ("", "")
        return f"https://raw.githubusercontent.com/{repository}/{commit}/{file.path}" if file.path else None


def fetch(name: str, out: Path, source: Path | None = None, progress: OnBytes | None = None) -> list[Path]:
    """Writes the verified files of a data set to the folder `out`, from `source` if given, otherwise from the network.

    `source` holds the files, or a folder with the name of the data set.
    """
    check_name(name)
    known = KNOWN[name]
    if source is not None and not source.is_dir():
        raise InputError(f"{source} is not a folder: expected one that holds {name}/ or its files")
    tell = progress or (lambda *_: None)
    return [fetch_file(name, known, file, out / file.name, source, tell) for file in known.files]


def check_downloaded(paths: Iterable[Path]) -> None:
    """Refuses a missing file that `glassformer data` can download, with the command."""
    for path in paths:
        name = next((part for part in path.parts if part in KNOWN), None)
        if name is not None and not path.exists():
            folder = Path(*path.parts[: path.parts.index(name)])
            flag = "" if folder == Path("data") else f" --out {shlex.quote(str(folder))}"
            raise InputError(f"{path}: there is no such file. Download it with: glassformer data {name}{flag}")


def check_name(name: str) -> None:
    if name not in KNOWN:
        raise InputError(f"unknown data set {name!r}{did_you_mean(name, KNOWN)}")


def fetch_file(name: str, known: Known, file: KnownFile, target: Path, source: Path | None, progress: OnBytes) -> Path:
    if target.is_file() and checksum(target) == file.sha256:
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_origin(name, known, file, source) as (stream, origin), atomic_file(target) as written:
            digest, count = hashlib.sha256(), 0
            while block := read_block(stream, origin):
                written.write(block)
                digest.update(block)
                count += len(block)
                progress(file.name, count)
            if digest.hexdigest() != file.sha256:
                raise InputError(
                    f"{origin} has the SHA-256 {digest.hexdigest()}: expected {file.sha256}. "
                    f"It is damaged or another version; nothing was written to {target}"
                )
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror or error}") from None
    return target


@contextmanager
def open_origin(
    name: str, known: Known, file: KnownFile, source: Path | None
) -> Iterator[tuple[BinaryIO | gzip.GzipFile, str]]:
    """The content of a file after decompression, and where it comes from."""
    if source is not None:
        path = find_local(name, file, source)
        with path.open("rb") as raw:
            packed = path.name.endswith(".gz") and not file.name.endswith(".gz")
            yield (gzip.GzipFile(fileobj=raw) if packed else raw), str(path)
        return
    address = known.address(file)
    if address is None:
        raise InputError(f"{name}/{file.name} cannot be downloaded: {known.note} Give a folder that has it, --from DIR")
    with open_address(address) as answer:
        packed = address.endswith(".gz") and not file.name.endswith(".gz")
        yield (gzip.GzipFile(fileobj=answer) if packed else answer), address


def find_local(name: str, file: KnownFile, source: Path) -> Path:
    """Looks in the folder itself and in the one named after the data set, for a plain or gzipped file."""
    places = [folder / f"{file.name}{ending}" for folder in (source / name, source) for ending in ("", ".gz")]
    for place in places:
        if place.is_file():
            return place
    raise InputError(f"{source} has no {file.name}: looked for {', '.join(map(str, places))}")


def open_address(address: str) -> BinaryIO:
    try:
        return urllib.request.urlopen(address, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        raise InputError(
            f"{address} answers {error.code} {error.reason}. Get the file elsewhere and give its folder, --from DIR"
        ) from None
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError) as error:
        reason = getattr(error, "reason", error)
        raise InputError(
            f"{address} cannot be reached ({reason}). Is this machine offline? "
            f"Get the files on another one and give their folder, --from DIR"
        ) from None


def read_block(stream: BinaryIO | gzip.GzipFile, origin: str) -> bytes:
    try:
        return stream.read(CHUNK_BYTES)
    except (OSError, EOFError, zlib.error, http.client.HTTPException) as error:
        raise InputError(f"{origin} was interrupted: {error}. Try again") from None


def known_files(table: str, under: str = "") -> tuple[KnownFile, ...]:
    """The files of a table below; `under` is the beginning of their paths at the origin."""
    rows = (line.split() for line in table.strip().splitlines())
    return tuple(KnownFile(name, sha256, under + path[0] if path else None) for sha256, name, *path in rows)


# SHA-256, local name, and path at the origin if it can be downloaded from there.
MULTI30K = """
460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6  train.en  raw/train.en.gz
2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72  train.de  raw/train.de.gz
5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d  train.fr  raw/train.fr.gz
1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227  val.en  raw/val.en.gz
660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660  val.de  raw/val.de.gz
5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc  val.fr  raw/val.fr.gz
399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182  test2016.en  raw/test_2016_flickr.en.gz
4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16  test2016.de  raw/test_2016_flickr.de.gz
cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6  test2016.fr  raw/test_2016_flickr.fr.gz
08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119  tok/train.en  tok/train.lc.norm.tok.en
cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505  tok/train.de  tok/train.lc.norm.tok.de
8fa41bb718412bcb7c5dfa58603842810a01543eae86a51279f9886b901266e1  tok/train.fr  tok/train.lc.norm.tok.fr
46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec  tok/val.en  tok/val.lc.norm.tok.en
97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00  tok/val.de  tok/val.lc.norm.tok.de
b303e301aa21fe7822a846b2b3fb2d5a1121ec807cd5b1d006fb7b2b5507168a  tok/val.fr  tok/val.lc.norm.tok.fr
5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2  tok/test2016.en  tok/test_2016_flickr.lc.norm.tok.en
c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4  tok/test2016.de  tok/test_2016_flickr.lc.norm.tok.de
1463bd5960f9bfe098ec3cd752d3df0c49c84dc646fb518964a29232658cd836  tok/test2016.fr  tok/test_2016_flickr.lc.norm.tok.fr
"""
NSMC = """
e03b7d14e9e41be8d464a28057cd25d7396c53e67aa7fd5f7e552c59b0ee2940  train.tsv  ratings_train.txt
8ac9f64052f11dbf6ae0acb5e038f03d90a76f0eda7820cfb3a92d02edfcebda  test.tsv  ratings_test.txt
"""
SHAKESPEARE = """
86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed  input.txt  input.txt
"""
FASHION_MNIST = """
3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84  train-images-idx3-ubyte.gz  train-images-idx3-ubyte.gz
a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845  train-labels-idx1-ubyte.gz  train-labels-idx1-ubyte.gz
346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073  t10k-images-idx3-ubyte.gz  t10k-images-idx3-ubyte.gz
67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5  t10k-labels-idx1-ubyte.gz  t10k-labels-idx1-ubyte.gz
"""
ETT = """
f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066  ETTh1.csv  ETTh1.csv
"""
KO_EN = """
2a57352db76367c3fc5d09d63556610f8bcbc436d1f09a3dde11facb630209cd  bible.dev.en
edad309de81c10ff43027f9ee1e945d23fc318273002fc5f6d046e2c39d56cf6  bible.dev.ko
2c8d8de0b7caa3fb584081e835cc229305998ccea1158d13ce6c3da956a55686  bible.test.en
308976bc9a32fff14b8cb72a99d3db3b3baf1460fa67308cabc9a5c81602148f  bible.test.ko
1ba9aabce17aae1fa886dd91f02f07eefcf70437ee6ef6700a3081d62fcb4145  bible.train.en
649a65bfdd58e7c558684750305b1ef874199e13ee815bb88932794015417ac3  bible.train.ko
61337f1a199f156cd6d0d6812488088f380d642a219599506913f028a66e0e9f  jhe.dev.en
0e665c1647181b09209d014b668a60efae886a82d1cb317ecad1b4271e1b8173  jhe.dev.ko
0ee0698dc8f0bafef3b690da2f1b37bb6696d3d16d996c6716209cb78282dc39  jhe.test.en
c70fc0525853bcaad6c5ad02613da62e19050a74337259cefb96aa9d09d3d707  jhe.test.ko
98e0d1284685328701410f9656098d9939ca69ab262bf69a9e1a7f9d716ef1dc  news.dev.en
7849997e679efe69b226cdacc292b0f384ae7533970edb43398f4bafed1da7b5  news.dev.ko
76e43f2ed5ce5d20e4187fb7bb167f5771db8d06ec34c66410ea044c35eed77c  news.test.en
dbadd3e6321faa65596c75d3e815a126ac5cc75807d4154a79025a8e54009803  news.test.ko
13767ea4d0d9a67a18a886b0ddcc7b73411285d76d517dc209a4d307710e8bb7  tatoeba.train.attribution
36c9e13ca84b0501a8ca58c62c8c70ccdf9ca53e5accd74604cf12bf80145c2c  tatoeba.train.en
4f7aef7c948a11afc83bb90dad64d9417ea64aa0ad7b5323f1254c7716f71e8f  tatoeba.train.ko
"""

KNOWN: dict[str, Known] = {
    "multi30k": Known(
        task="translate",
        recipe="multi30k-en-de",
        size=13_096_160,
        description="captions of photos in English, German and French, aligned; 29,000 / 1,014 / 1,000 lines each",
        licence="none given; derived from Flickr30K, for non-commercial research and education",
        origin="multi30k/dataset@a3d2e0d26b56f3846f66a952536ffed4e401d05a",
        files=known_files(MULTI30K, under="data/task1/"),
    ),
    "nsmc": Known(
        task="classify",
        recipe="nsmc",
        pretraining="nsmc-mlm",
        size=19_522_142,
        description="Korean film reviews, good (1) or bad (0), in columns id, document, label; 150,000 / 50,000",
        licence="CC0 1.0",
        origin="e9t/nsmc@cc0670e872d4ac27bfe36c87456783004b39ef6c",
        files=known_files(NSMC),
    ),
    "shakespeare": Known(
        task="lm",
        recipe="shakespeare",
        size=1_115_394,
        description="plays of Shakespeare, one text of 1,115,394 characters",
        licence="the text is in the public domain, its repository MIT",
        origin="karpathy/char-rnn@6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e",
        files=known_files(SHAKESPEARE, under="data/tinyshakespeare/"),
    ),
    "fashion-mnist": Known(
        task="images",
        recipe="fashion-mnist",
        size=30_878_645,
        description="images of clothes, 28x28 grey, ten classes; 60,000 / 10,000",
        licence="MIT",
        origin="zalandoresearch/fashion-mnist@b2617bb6d3ffa2e429640350f613e3291e10b141",
        files=known_files(FASHION_MNIST, under="data/fashion/"),
    ),
    "ett": Known(
        task="forecast",
        recipe="etth1",
        size=2_589_657,
        description="load and oil temperature of a power transformer, 17,420 hours, 7 series; split 8640 / 2880 / 2880",
        licence="CC BY-ND 4.0",
        origin="zhouhaoyi/ETDataset@1d16c8f4f943005d613b5bc962e9eeb06058cf07",
        files=known_files(ETT, under="ETT-small/"),
    ),
    "ko-en": Known(
        task="translate",
        recipe="ko-en",
        size=9_900_793,
        description="Korean and English, aligned: Bible verses, everyday sentences, news, a newspaper for pupils",
        licence="bible: public domain; tatoeba: CC BY 2.0 FR; news and jhe: CC BY-SA 3.0",
        origin="ez2k/bible-korean-free, virsagothethird/Korean-English-translator, jungyeul/korean-parallel-corpora",
        files=known_files(KO_EN),
        note="it was compiled from three repositories, cleaned, shuffled and split, so it is not at any URL.",
    ),
}
