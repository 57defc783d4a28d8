"""The console of the verbs: on a terminal, in a file, and in a notebook."""

import builtins
import io
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.progress import Progress

from glassformer import terminal
from glassformer.terminal import NotebookConsole, make_console


class ZMQInteractiveShell:
    """A class with the name of a notebook's shell."""


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Simulates a notebook and returns what its cell shows."""
    found: list[Any] = []
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    display = ModuleType("IPython.display")
    display.display = lambda part, **_: found.append(part)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return found


def texts_of(shown: list[Any]) -> str:
    return "".join(part.text for part in shown if hasattr(part, "text"))


def test_a_notebook_without_widgets_gets_plain_lines(shown: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "find_spec", lambda name: None)
    console = make_console()
    assert not console.is_terminal
    console.print("step 1")
    assert "step 1" in texts_of(shown)


def test_a_notebook_with_widgets_gets_a_bar_that_moves(shown: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    class Output:
        """Replaces the widget that shows a progress bar."""

        drawn = 0

        def __enter__(self) -> None:
            Output.drawn += 1

        def __exit__(self, *_: object) -> None: ...
        def clear_output(self, *, wait: bool) -> None: ...

    monkeypatch.setattr(terminal, "find_spec", lambda name: SimpleNamespace())
    widgets = ModuleType("ipywidgets")
    widgets.Output = Output  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ipywidgets", widgets)
    console = make_console()
    assert isinstance(console, NotebookConsole)
    assert console.is_terminal
    with Progress(console=console, auto_refresh=False, disable=not console.is_terminal) as bar:
        line = bar.add_task("rows", total=2)
        bar.update(line, completed=1)
        bar.refresh()
        console.print("a line between")
    assert Output.drawn > 0
    said = texts_of(shown)
    assert said.count("a line between") == 1
    assert "\x1b[?25l" not in said, "there is no cursor to hide"


def test_elsewhere_it_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    console = make_console()
    assert not console.is_terminal
    console.print("[bold]:smile:", "x" * 300)
    assert sys.stdout.getvalue() == "[bold]:smile: " + "x" * 300 + "\n"  # type: ignore[attr-defined]
