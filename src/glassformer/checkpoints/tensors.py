"""Reads and writes the tensors of a model folder: safetensors, one file or shards. Reads old `pytorch_model.bin` too.

Files are memory-mapped: a tensor is read from disk when first used, and takes no memory of its own unless changed. A
pickle that could run code is never loaded.
"""

import errno
import os
import pickletools
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from glassformer.errors import InputError
from glassformer.io import parse_json, write_json
from glassformer.schema import shown

SAFE, OLD = "model.safetensors", "pytorch_model.bin"
SHARD = 50 * 10**9  # largest file in bytes
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
BYTE_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
MAX_INSTRUCTIONS, MOST_BYTES = 1 << 20, 1 << 24  # of a pickle: a tensor takes about 40 instructions, 300 bytes
MAX_PICKLE_INT = 1 << 20  # the largest number that a pickle may contain, unless its file is larger
OLD_PICKLES, MAGIC = 4, 0x1950A86A20F9469CFC6C  # files before PyTorch 1.6: a magic number, then three more pickles
HARMLESS = ("torch", "collections", "numpy")  # modules that a pickle of weights needs


class Tensors:
    """The names and shapes of the tensors in a folder; `read` reads one of them."""

    def __init__(self, readers: Mapping[str, Callable[[], Tensor]], shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.shapes, self._readers = dict(shapes), dict(readers)

    def read(self, name: str) -> Tensor:
        return self._readers[name]()

    def without(self, names: set[str]) -> "Tensors":
        return Tensors(self._readers, {name: shape for name, shape in self.shapes.items() if name not in names})

    def replaced(self, name: str, value: Tensor) -> "Tensors":
        return Tensors({**self._readers, name: lambda: value}, {**self.shapes, name: tuple(value.shape)})

    def renamed(self, rename: Callable[[str], str]) -> "Tensors":
        return Tensors(
            {rename(name): reader for name, reader in self._readers.items()},
            {rename(name): shape for name, shape in self.shapes.items()},
        )


def open_tensors(folder: Path, device: torch.device) -> Tensors:
    """The tensors of a folder, in any of the known file formats."""
    for name, open_file in ((SAFE, open_safe), (OLD, open_old)):
        index = folder / f"{name}.index.json"
        if (folder / name).is_file():
            return open_file(folder / name, device)
        if index.is_file():
            return open_shards(index, open_file, device)
    raise InputError(
        f"{folder} is incomplete: it has a config.json, but neither {SAFE} nor {OLD}. Save or download it again"
    )


def weight_files(folder: Path) -> list[Path]:
    """The files that `open_tensors` reads."""
    for name in (SAFE, OLD):
        index = folder / f"{name}.index.json"
        if (folder / name).is_file():
            return [folder / name]
        if index.is_file():
            return [folder / shard for shard in sorted(set(read_index(index).values()))]
    return []


def open_safe(file: Path, device: torch.device) -> Tensors:
    try:
        opened = safe_open(file, framework="pt", device=str(device))
        names = list(opened.keys())
        shapes = {name: tuple(opened.get_slice(name).get_shape()) for name in names}
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(unreadable(file, error)) from None
    return Tensors({name: lambda name=name: opened.get_tensor(name) for name in names}, shapes)  # type: ignore[misc]


def unreadable(file: Path, error: Exception) -> str:
    reason = (str(error).splitlines() or [type(error).__name__])[0].partition(". ")[0]
    size = file.stat().st_size
    return f"{file} ({size:,} bytes) cannot be read: {reason}. It may be incomplete: save or download it again"


def open_old(file: Path, device: torch.device) -> Tensors:
    """Opens a pickle that contains only tensors. One that could run code is refused."""
    can_be_mapped = zipfile.is_zipfile(file)  # files from before PyTorch 1.6 cannot
    if can_be_mapped:
        check_archive(file)
    check_instructions(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about an unknown pickle protocol: a failure is reported below
            values: Any = torch.load(file, map_location=device, weights_only=True, mmap=can_be_mapped)
    except Exception as error:  # a broken file raises many kinds
        named = re.search(r"GLOBAL (\S+)", str(error))
        wanted = named[1] if named else unsafe_global(file)
        if wanted is None:
            raise InputError(unreadable(file, error)) from None
        raise InputError(
            f"{file} is a pickle that needs more than tensors: {wanted}. Loading it could run arbitrary code, so it "
            f"is refused. Look for a {SAFE}, or convert it yourself if you trust the file"
        ) from None
    is_state = isinstance(values, dict) and all(isinstance(value, Tensor) for value in values.values())
    if not is_state or not all(isinstance(name, str) for name in values):
        raise InputError(f"{file} contains more than named tensors: expected the state dict of one model")
    check_storage(values, file)
    shapes = {name: tuple(value.shape) for name, value in values.items()}
    return Tensors({name: lambda value=value: value for name, value in values.items()}, shapes)  # type: ignore[misc]


def check_archive(file: Path) -> None:
    """Refuses an archive that unpacks to more than its size: PyTorch stores its entries uncompressed."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise InputError(unreadable(file, error)) from None
    packed = next((entry for entry in entries if entry.compress_type != zipfile.ZIP_STORED), None)
    if packed is not None:
        raise InputError(
            f"{file} has a compressed entry, {packed.filename[:100]!r}: expected tensors as torch.save stores them. "
            f"Save or download it again, as {SAFE} if you can"
        )
    size, unpacked = file.stat().st_size, sum(entry.file_size for entry in entries)
    if unpacked > size:
        raise InputError(
            f"{file} has {size:,} bytes, but its entries claim {unpacked:,}. It may be incomplete: save or download it "
            "again"
        )


def check_instructions(file: Path) -> None:
    """Refuses a pickle with too many instructions, or with a number larger than the file.

    Such a number may be an amount of memory that is allocated before anything is read. The instructions are read here,
    never run. A truncated pickle, or a file that is not one, is reported when it is loaded.
    """
    size = file.stat().st_size
    try:
        for number, (code, argument, place) in enumerate(instructions(file)):
            if number > MAX_INSTRUCTIONS or (place or 0) > MOST_BYTES:
                raise too_many_instructions(file)
            if isinstance(argument, int) and abs(argument) > max(size, MAX_PICKLE_INT) and argument != MAGIC:
                raise InputError(
                    f"{file} has {size:,} bytes, but claims a size of {shown(argument)} ({code.name}). It may be "
                    "incomplete: save or download it again"
                )
    except InputError:
        raise
    except Exception:  # not a pickle, or a truncated one
        return


def instructions(file: Path) -> Iterator[tuple[Any, Any, int | None]]:
    """The instructions of an archive's pickle, or of the pickles before the tensors in a file before PyTorch 1.6."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            if archive.getinfo(name_of_pickle(archive)).file_size > MOST_BYTES:
                raise too_many_instructions(file)
        yield from pickletools.genops(pickle_of(file))
        return
    with file.open("rb") as stream:
        for _ in range(OLD_PICKLES):
            yield from pickletools.genops(stream)


def too_many_instructions(file: Path) -> InputError:
    return InputError(
        f"{file} is a pickle with more than {MAX_INSTRUCTIONS:,} instructions or {MOST_BYTES // 10**6} MB of them: "
        f"expected a few thousand. Look for a {SAFE}"
    )


def check_storage(values: Mapping[str, Tensor], file: Path) -> None:
    """Refuses tensors whose values are not all in the file: expanded views, and tensors without storage."""
    size, held, storages = file.stat().st_size, 0, set[int]()
    for name, value in values.items():
        odd = value.layout != torch.strided or value.is_meta or value.is_quantized or value.is_nested
        if odd or type(value) not in (Tensor, torch.nn.Parameter):
            raise InputError(f"{file}: {shown(name)} is not a plain tensor. Look for a {SAFE}")
        storage = value.untyped_storage()
        held += 0 if storage.data_ptr() in storages else storage.nbytes()
        storages.add(storage.data_ptr())
        if value.nbytes > storage.nbytes() or held > size:
            raise InputError(
                f"{file} has {size:,} bytes, too few for {shown(name)} of shape {shown(tuple(value.shape))}. Save or "
                "download it again"
            )


def unsafe_global(file: Path) -> str | None:
    """The first function or class in a pickle that tensors do not need. The pickle is read, never run."""
    texts: list[str] = []
    try:
        for code, argument, _ in pickletools.genops(pickle_of(file)):
            if code.name == "GLOBAL":
                texts = str(argument).split(" ", 1)
            elif "UNICODE" in code.name:
                texts.append(str(argument))
            if code.name in ("GLOBAL", "STACK_GLOBAL") and texts[-2:-1] and texts[-2].split(".")[0] not in HARMLESS:
                return ".".join(texts[-2:])
    except Exception:  # not a pickle, or a truncated one
        return None
    return None


def pickle_of(file: Path) -> bytes:
    if not zipfile.is_zipfile(file):
        return file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        return archive.read(name_of_pickle(archive))


def name_of_pickle(archive: zipfile.ZipFile) -> str:
    return next(name for name in archive.namelist() if name.endswith("data.pkl"))


def as_dtype(name: Any) -> torch.dtype | None:
    """The dtype for torch.bfloat16 or "bfloat16"."""
    found = DTYPES.get(name) if isinstance(name, str) else name
    if name is None:
        return None
    if not isinstance(found, torch.dtype) or not can_compute(found):
        raise InputError(f"dtype is {name!r}: expected one of {', '.join(DTYPES)}, or a dtype such as torch.bfloat16")
    return found


def can_compute(dtype: torch.dtype) -> bool:
    """Whether a model can compute in this dtype: floats of at least 16 bits. 8-bit floats are for storage only."""
    return dtype.is_floating_point and dtype.itemsize > 1


def parse_size(size: int | str) -> int:
    """The number of bytes in 5_000_000_000, "5000000000" or "5GB"."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(size))
    if match is None or match[2].upper() not in BYTE_UNITS or float(match[1]) * BYTE_UNITS[match[2].upper()] < 1:
        raise InputError(f"max_shard_size is {size!r}: expected a number of bytes above 0, or a size such as 5GB")
    return int(float(match[1]) * BYTE_UNITS[match[2].upper()])


def open_shards(index: Path, open_file: Callable[[Path, torch.device], Tensors], device: torch.device) -> Tensors:
    """Several files as one. The index says which file holds a tensor; tensors missing in the index are added."""
    where, opened = read_index(index), {}
    for name in sorted(set(where.values())):
        if not (index.parent / name).is_file():
            first = next(tensor for tensor, shard in where.items() if shard == name)
            raise InputError(f"{index} names {name}, which holds {first}, but the file does not exist. Download it")
        opened[name] = open_file(index.parent / name, device)
    lost = [name for name, shard in where.items() if name not in opened[shard].shapes]
    if lost:
        raise InputError(f"{index} says that {where[lost[0]]} holds {lost[0]}, but it does not. Download both again")
    where = {**{name: shard for shard, tensors in opened.items() for name in tensors.shapes}, **where}
    return Tensors(
        {name: lambda name=name, shard=shard: opened[shard].read(name) for name, shard in where.items()},  # type: ignore[misc]
        {name: opened[shard].shapes[name] for name, shard in where.items()},
    )


def read_index(index: Path) -> dict[str, str]:
    """Maps the name of each tensor to the file beside the index that holds it."""
    try:
        where = parse_json(index)["weight_map"]
        shards = set(where.values())
        is_map = bool(where) and all(Path(shard).name == shard and 0 < len(shard) < 200 for shard in shards)
        is_map = is_map and not any("\0" in shard for shard in shards)
    except (ValueError, KeyError, TypeError, AttributeError):
        is_map = False
    if not is_map:
        raise InputError(
            f"{index} is not an index of shards: expected JSON with a weight_map from tensor names to files beside it. "
            "Download it again"
        )
    return dict(where)


def write_tensors(folder: Path, tensors: Mapping[str, Tensor], max_shard: int = SHARD) -> None:
    """Writes one file, or shards with an index if it would be larger than `max_shard` bytes."""
    shards: list[dict[str, Tensor]] = [{}]
    sizes = [0]
    for name, tensor in tensors.items():
        if shards[-1] and sizes[-1] + tensor.nbytes > max_shard:
            shards.append({})
            sizes.append(0)
        shards[-1][name] = tensor
        sizes[-1] += tensor.nbytes
    if len(shards) == 1:
        _write(shards[0], folder / SAFE)
        return
    names = [f"model-{i + 1:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))]
    for name, shard in zip(names, shards, strict=True):
        _write(shard, folder / name)
    where = {tensor: name for name, shard in zip(names, shards, strict=True) for tensor in shard}
    index = {"metadata": {"total_size": sum(sizes)}, "weight_map": dict(sorted(where.items()))}
    write_json(folder / f"{SAFE}.index.json", index)


def _write(tensors: Mapping[str, Tensor], file: Path) -> None:
    try:
        save_file(dict(tensors), file, metadata={"format": "pt"})
    except SafetensorError as error:
        raise OSError(errno.EIO, str(error), str(file)) from error
    umask = os.umask(0)
    os.umask(umask)
    file.chmod(0o666 & ~umask)  # safetensors makes the file readable by its owner only
