"""The engine's two kernels (`kernels.cpp`): compiled by the machine's own C++ compiler when they are first needed.

The library is kept in the cache folder, for the next process. Without a compiler there are no kernels, and the engine
runs without them.
"""

import os
import shutil
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from glassformer.generation.shelf import Shelf, fingerprint

SOURCE = Path(__file__).with_name("kernels.cpp")
FLAGS = ("-O3", "-march=native", "-std=c++20", "-shared", "-fPIC", "-fno-math-errno", "-w")
TIME_LIMIT = 300  # seconds; it takes about six

_lock = threading.Lock()


class NoKernels(Exception):  # noqa: N818 - a reason, which the engine says once
    """Why the kernels cannot be had on this machine."""


@cache
def compiler() -> str:
    """The C++ compiler of this machine: what CXX says, or the first that is found."""
    asked = os.environ.get("CXX")
    for name in (asked,) if asked else ("g++", "clang++", "c++"):
        if name and shutil.which(name):
            return name
    raise NoKernels(f"no C++ compiler: CXX={asked} was not found" if asked else "no C++ compiler was found")


@cache
def load_kernels() -> Path:
    """Makes `torch.ops.glassformer` ready, compiling it if no earlier process has; returns the library's file."""
    name = library_name()
    with _lock:
        file = Shelf("kernels").get(name, build)
        try:
            torch.ops.load_library(file / "kernels.so")
        except OSError as error:
            raise NoKernels(str(error)) from None
        register_shapes()
        return file / "kernels.so"


def kernels_ready() -> bool:
    """Whether this process or an earlier one has compiled the library."""
    return load_kernels.cache_info().currsize > 0 or (Shelf("kernels").home / library_name()).is_dir()


def library_name() -> str:
    """What the library follows from."""
    if sys.platform == "win32":
        raise NoKernels("the kernels are not built on Windows")
    return fingerprint(SOURCE.read_bytes(), FLAGS, compiler())


def build(folder: Path) -> None:
    """Compiles the source into a folder."""
    home = Path(torch.__file__).parent
    includes = [f"-I{home / 'include'}", f"-I{home / 'include/torch/csrc/api/include'}"]
    libraries = [f"-L{home / 'lib'}", "-ltorch_cpu", "-lc10"]
    threads = ["-fopenmp"] if torch.backends.openmp.is_available() else []
    abi = [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    command = [compiler(), *FLAGS, *threads, *abi, *includes, str(SOURCE), "-o", str(folder / "kernels.so"), *libraries]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIME_LIMIT)
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if "error" in line] or error.stderr.splitlines() or ["?"]
        raise NoKernels(f"{compiler()} failed: {lines[0]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoKernels(f"{compiler()} failed: {error}") from None


def register_shapes() -> None:
    """What comes out of the kernels, for whoever traces them."""

    def linear(
        x: Tensor,
        weights: list[Tensor],
        outputs: list[int],
        scales: list[Tensor | None],
        biases: list[Tensor | None],
    ) -> list[Tensor]:
        return [x.new_empty(*x.shape[:-1], width) for width in outputs]

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, rows: Tensor | None, scale: float) -> Tensor:
        return q.new_empty(q.shape)

    torch.library.register_fake("glassformer::linear", linear)
    torch.library.register_fake("glassformer::attend", attend)
