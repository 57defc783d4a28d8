"""The destination of an exported page."""

import os
from pathlib import Path

import pytest

from glassformer.errors import InputError
from glassformer.explore.export.destination import check_destination


def test_a_file_that_is_somebody_elses_and_a_name_that_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "page.html"
    assert check_destination(file) == file.resolve()
    monkeypatch.setattr(os, "pathconf", lambda path, name: 8)
    with pytest.raises(InputError, match=r"page\.html: the name is too long. Choose a shorter one"):
        check_destination(file)
    file.touch()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != file.resolve())
    with pytest.raises(InputError, match=r"page\.html: no permission to write to this file. Choose another"):
        check_destination(file)
