"""The explorer works for every family: all steps have descriptions and costs, and maps match `gf.record`."""

import pytest
import torch
from helpers.reference import family_configs

import glassformer as gf
from glassformer.explore.view.flow import StepCosts, flow_of, steps_of
from glassformer.explore.view.seen import seeing
from glassformer.explore.view.slices import whole_map
from glassformer.inspect.ledger.sizes import sized_inputs

CONFIGS = family_configs(one_each=True)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_family_is_seen_through(name: str) -> None:
    config = CONFIGS[name]
    torch.manual_seed(0)
    model = gf.Transformer(config).eval()
    inputs = {key: value for key, value in sized_inputs(config, device="cpu").items() if key != "labels"}
    with torch.no_grad(), gf.record(model) as recorded, seeing(model) as seen:
        model(**inputs)
    steps, flow = steps_of(model), flow_of(seen.shapes, config, StepCosts(model))
    for entry in flow:
        described = steps.get(entry["name"]) or steps[entry["step"]]
        assert described["axes"] == entry["axes"]
        assert len(entry["shape"]) == len(entry["axes"])
    assert list(seen.layers) == list(recorded)
    for path, layer in seen.layers.items():
        for head in (0, layer.num_heads - 1):
            with torch.no_grad():
                torch.testing.assert_close(whole_map(layer, head), recorded[path][0, head], rtol=1e-4, atol=1e-6)
