"""The requests of the page, by their paths."""

from collections.abc import Callable

import pytest
import torch
from helpers.tiny_models import TEXT

import glassformer as gf
from glassformer.explore.view.bounds import GoneError
from glassformer.explore.view.routes import Routes


def test_a_row_of_the_mean_of_all_heads_is_that_of_the_map(routes_of: Callable[[str], Routes]) -> None:
    routes = routes_of("decoder")
    view = routes.session.view({"text": TEXT})
    name = "decoder.blocks.0.attn"
    found = routes.answer(f"view/{view.id}/row", {"name": name, "row": "2", "head": "mean"})
    with torch.no_grad(), gf.record(routes.session.model) as seen:
        view.prepared.run(routes.session.model)
    assert isinstance(found, dict)
    assert found["scores"] is None
    torch.testing.assert_close(torch.tensor(found["weights"]), seen[name][0, :, 2].mean(dim=0), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("path", ["nothing", "view/1/nothing", "view/1/map/2"])
def test_what_no_page_of_this_version_asks_for(path: str, routes_of: Callable[[str], Routes]) -> None:
    with pytest.raises(GoneError, match=r"unknown path .*: the page and the server may have different versions"):
        routes_of("decoder").answer(path, {})
