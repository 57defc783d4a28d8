"""The engine's two kernels (`kernels.cpp`), compiled with the system's C++ compiler on first use.

The library is cached for later processes. Without a compiler, the engine runs without these kernels.
"""

import errno
import os
import shlex
import shutil
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from glassformer.generation.shelf import Shelf, shelf_key

SOURCE = Path(__file__).with_name("kernels.cpp")
COMPILER_FLAGS = ("-O3", "-march=native", "-std=c++20", "-shared", "-fPIC", "-fno-math-errno", "-w")
TIME_LIMIT = 300  # seconds; compiling takes about six
FULL = os.strerror(errno.ENOSPC)  # as the linker says it

_lock = threading.Lock()
_failed = dict[str, str]()  # why this process could not build a library; it is not tried again


class NoKernels(Exception):  # noqa: N818 - a reason, which the engine prints once
    """The kernels are not available on this machine; the message says why."""


@cache
def compiler() -> str:
    """The system's C++ compiler: CXX, or the first one found."""
    asked = os.environ.get("CXX")
    for name in (asked,) if asked else ("g++", "clang++", "c++"):
        if name.split() and shutil.which(shlex.split(name)[0]):
            return name
    raise NoKernels(f"no C++ compiler: CXX={asked} was not found" if asked else "no C++ compiler was found")


@cache
def load_kernels() -> Path:
    """Loads `torch.ops.glassformer`, compiling it if needed; returns the library's file."""
    name, shelf = library_name(), Shelf("kernels")
    key = f"{shelf.home} {name}"
    with _lock:
        try:
            if key in _failed:
                raise NoKernels(_failed[key])
            file = shelf.get(name, build)
            torch.ops.load_library(file / "kernels.so")
        except (OSError, NoKernels) as error:
            _failed[key] = str(error)
            raise NoKernels(str(error)) from None
        register_shapes()
        return file / "kernels.so"


def kernels_ready() -> bool:
    """Whether this process or an earlier one has compiled the library."""
    return load_kernels.cache_info().currsize > 0 or Shelf("kernels").has(library_name())


def library_name() -> str:
    """A name from everything the library depends on."""
    if sys.platform == "win32":
        raise NoKernels("the kernels are not built on Windows")
    return shelf_key(SOURCE.read_bytes(), COMPILER_FLAGS, compiler())


def build(folder: Path) -> None:
    """Compiles the source into a folder."""
    home = Path(torch.__file__).parent
    includes = [f"-I{home / 'include'}", f"-I{home / 'include/torch/csrc/api/include'}"]
    libraries = [f"-L{home / 'lib'}", "-ltorch_cpu", "-lc10"]
    threads = ["-fopenmp"] if torch.backends.openmp.is_available() else []
    abi = [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    command = [
        *shlex.split(compiler()),
        *COMPILER_FLAGS,
        *threads,
        *abi,
        *includes,
        str(SOURCE),
        "-o",
        str(folder / "kernels.so"),
        *libraries,
    ]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIME_LIMIT)
    except subprocess.CalledProcessError as error:
        if FULL in error.stderr:
            raise OSError(errno.ENOSPC, FULL) from None
        lines = [line for line in error.stderr.splitlines() if "error" in line] or error.stderr.splitlines()
        raise NoKernels(f"{compiler()} failed: {lines[0] if lines else f'exit code {error.returncode}'}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoKernels(f"{compiler()} failed: {error}") from None


def register_shapes() -> None:
    """Registers the output shapes of the kernels, for tracing."""

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
