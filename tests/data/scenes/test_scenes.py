"""Scenes: positions, captions, questions and parts."""

import hashlib
from itertools import combinations

import numpy as np
import pytest

from glassformer.data.scenes.make import HELD_OUT_PAIRS, SCENE_PARTS, SceneImages, ScenePart, make_scene, make_scenes
from glassformer.data.scenes.questions import TOPICS, questions_of
from glassformer.data.scenes.read import parse
from glassformer.data.scenes.scene import BETWEEN, CLEAR, RADII, SIZE, Scene, Shape, relation_of
from glassformer.data.scenes.words import CAPTION_LANGUAGES, Language, caption_of, facts_of, share_of_facts
from glassformer.errors import InputError

COUNT = 3000


@pytest.fixture(scope="module")
def made() -> dict[ScenePart, SceneImages]:
    return {part: make_scenes(range(COUNT), seed=7, part=part) for part in SCENE_PARTS}


def test_a_picture_depends_on_part_seed_and_index_alone() -> None:
    together = make_scenes([5, 3, 90000], seed=1)
    for row, index in enumerate((5, 3, 90000)):
        pixels, scene = make_scene(1, index)
        assert np.array_equal(together.pixels[row], pixels)
        assert together.scenes[row] == scene
    others = [make_scene(2, 5)[0], make_scene(1, 6)[0], make_scene(1, 5, "test")[0]]
    assert all(not np.array_equal(together.pixels[0], pixels) for pixels in others)


def test_the_pictures_are_the_same_on_every_machine() -> None:
    made = make_scenes(range(50), seed=0)
    digest = hashlib.sha256(made.pixels.tobytes()).hexdigest()
    assert digest == "f9686e30336defc7b5643abb8b8f35ac22ad542c9a445fd9b0298e5b178285f3"


def test_shapes_lie_inside_the_picture_and_none_hides_another(made: dict[ScenePart, SceneImages]) -> None:
    for pictures in made.values():
        for scene in pictures.scenes:
            assert 1 <= len(scene.shapes) <= 3
            for shape in scene.shapes:
                left, top, right, bottom = shape.box
                assert left >= 0
                assert top >= 0
                assert right <= SIZE
                assert bottom <= SIZE
                assert RADII[0] <= shape.radius <= RADII[1]
            for a, b in combinations(scene.shapes, 2):
                assert max(abs(a.x - b.x), abs(a.y - b.y)) > a.radius + b.radius + 1


def test_boxes_fit_the_masks_and_masks_fit_the_colours(made: dict[ScenePart, SceneImages]) -> None:
    pictures = made["train"]
    for pixels, scene in zip(pictures.pixels[:500], pictures.scenes, strict=False):
        masks = scene.masks()
        for shape, mask in zip(scene.shapes, masks, strict=True):
            rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
            assert shape.box == (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
        values = pixels.astype(int)
        colourful = values.max(axis=0) - values.min(axis=0) > 50
        assert np.array_equal(colourful, masks.any(axis=0))  # the background is grey, the shapes are not


def test_relations_are_clear(made: dict[ScenePart, SceneImages]) -> None:
    for scene in made["train"].scenes:
        if len(scene.shapes) < 2:
            continue
        first, second, *third = scene.shapes
        across, down = abs(first.x - second.x), abs(first.y - second.y)
        assert abs(across - down) >= CLEAR
        for one in third:
            along, between = ("y", "x") if across > down else ("x", "y")
            values = [(getattr(shape, along), getattr(shape, between)) for shape in (first, second, one)]
            (a, low), (b, high), (c, middle) = values
            assert c <= min(a, b) - CLEAR or c >= max(a, b) + CLEAR
            assert min(low, high) + BETWEEN <= middle <= max(low, high) - BETWEEN
            assert scene.relations[1] == {
                ("y", True): "above", ("y", False): "below", ("x", True): "left", ("x", False): "right",
            }[along, c < a]  # fmt: skip


def test_every_picture_is_read_back_with_its_noise(made: dict[ScenePart, SceneImages]) -> None:
    for pictures in made.values():
        for pixels, scene in zip(pictures.pixels[:800], pictures.scenes, strict=False):
            assert parse(pixels) == scene


def test_a_blank_or_odd_picture_holds_no_shape() -> None:
    grey = np.full((3, SIZE, SIZE), 120, dtype=np.uint8)
    assert parse(grey) == Scene(())
    grey[0, 4:6, 2:30] = 250  # a line
    assert parse(grey) == Scene(())
    with pytest.raises(InputError, match="expected"):
        parse(grey[:1])


@pytest.mark.parametrize("language", CAPTION_LANGUAGES)
def test_there_are_more_than_a_thousand_captions_and_one_for_each_scene(
    made: dict[ScenePart, SceneImages], language: Language
) -> None:
    meant: dict[str, tuple[object, ...]] = {}
    for part in SCENE_PARTS:
        for scene in made[part].scenes:
            told = (tuple((shape.colour, shape.kind) for shape in scene.shapes), scene.relations)
            assert meant.setdefault(caption_of(scene, language), told) == told
    assert len(set(meant.values())) == len(meant) > 1000


def test_no_caption_is_in_two_parts(made: dict[ScenePart, SceneImages]) -> None:
    captions = {part: {caption_of(scene) for scene in made[part].scenes} for part in SCENE_PARTS}
    for a, b in combinations(SCENE_PARTS, 2):
        assert not captions[a] & captions[b]
    assert all(len(captions[part]) >= 50 for part in SCENE_PARTS)
    for part in SCENE_PARTS:
        assert {len(scene.shapes) for scene in made[part].scenes} == {1, 2, 3}


def test_held_out_pairs_are_in_their_part_alone(made: dict[ScenePart, SceneImages]) -> None:
    for part in SCENE_PARTS:
        for scene in made[part].scenes:
            assert any((shape.colour, shape.kind) in HELD_OUT_PAIRS for shape in scene.shapes) == (part == "pairs")
    shapes = {(shape.colour, shape.kind) for scene in made["train"].scenes for shape in scene.shapes}
    assert len(shapes) == 12 - len(HELD_OUT_PAIRS)
    assert {colour for colour, _ in shapes} == {"red", "green", "blue", "yellow"}


def test_captions_read_as_they_should() -> None:
    red = Shape("circle", "red", 6, 20, 4)
    green, blue = Shape("triangle", "green", 14, 6, 4), Shape("square", "blue", 24, 20, 4)
    assert caption_of(Scene((red,))) == "a red circle"
    assert caption_of(Scene((red, blue))) == "a red circle, a blue square right of it"
    scene = Scene((red, green, blue))
    assert caption_of(scene) == "a red circle, a green triangle above it, a blue square right of both"
    assert caption_of(scene, "ko") == "빨간 원이 초록 삼각형 아래에 있고, 파란 사각형이 둘의 오른쪽에 있다"
    assert caption_of(Scene((red,)), "ko") == "빨간 원이 있다"
    with pytest.raises(InputError, match="blue square, red circle"):
        Scene((blue, red))


@pytest.mark.parametrize("language", CAPTION_LANGUAGES)
def test_a_caption_states_its_facts(made: dict[ScenePart, SceneImages], language: Language) -> None:
    for scene in made["pairs"].scenes[:500]:
        caption = caption_of(scene, language)
        facts = facts_of(caption, language)
        assert len(facts) == 2 * len(scene.shapes) - 1
        assert {(f"{shape.colour} {shape.kind}",) for shape in scene.shapes} <= facts
        assert share_of_facts(caption, caption, language) == 1


def test_wrong_facts_count_against_a_caption() -> None:
    truth = "a red circle, a blue square right of it, a green triangle above both"
    assert share_of_facts("a red circle, a blue square right of it, a green triangle below both", truth) == 0.8
    assert share_of_facts("a red circle", truth) == 0.2
    assert share_of_facts(truth, "a red circle") == 0.2
    assert share_of_facts("", truth) == 0


@pytest.mark.parametrize("language", CAPTION_LANGUAGES)
def test_questions_have_one_answer_that_is_right(made: dict[ScenePart, SceneImages], language: Language) -> None:
    for scene in made["test"].scenes[:500]:
        asked = questions_of(scene, language)
        texts = [question.text for question in asked]
        assert len(texts) == len(set(texts))
        assert not any(question.held_out for question in asked)
        assert {question.topic for question in asked} <= set(TOPICS)
    scene = made["pairs"].scenes[0]
    assert any(question.held_out for question in questions_of(scene, language))


def test_answers_of_a_scene() -> None:
    scene = Scene(
        (Shape("circle", "red", 6, 20, 4), Shape("square", "red", 16, 4, 3), Shape("square", "blue", 26, 20, 4))
    )
    answers = {question.text: question.answer for question in questions_of(scene)}
    assert answers["what colour is the circle?"] == "red"
    assert answers["what shape is blue?"] == "square"
    assert "what shape is red?" not in answers
    assert "what colour is the square?" not in answers
    assert answers["how many squares are there?"] == "two"
    assert answers["how many yellow shapes are there?"] == "zero"
    assert answers["on which side of the blue square is the red circle?"] == "left"
    assert answers["on which side of the red circle is the blue square?"] == "right"
    assert relation_of(scene.shapes[0], scene.shapes[2]) == "left"
    korean = {question.text: question.answer for question in questions_of(scene, "ko")}
    assert korean["사각형은 몇 개인가요?"] == "2개"
    assert korean["빨간 원은 파란 사각형의 어느 쪽에 있나요?"] == "왼쪽"


def test_a_part_that_is_none_and_a_number_below_zero_are_refused() -> None:
    with pytest.raises(InputError, match=r"'all'.*expected train, valid, test, pairs"):
        make_scenes([0], seed=0, part="all")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="scene -1: expected 0 or more"):
        make_scenes([-1], seed=0)
