"""One name for one idea: no class or type of the package shares its name with another."""

import ast
from collections import defaultdict
from pathlib import Path

import glassformer

SOURCE = Path(glassformer.__file__).parent
SAME_EVERYWHERE = {"Int64Array"}  # a short name for one numpy type


def test_a_class_name_means_one_thing() -> None:
    places = defaultdict[str, list[str]](list)
    for file in SOURCE.rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(file.relative_to(SOURCE)))
            elif isinstance(node, ast.Assign):
                aliases = (target.id for target in node.targets if isinstance(target, ast.Name))
                for alias in (name for name in aliases if name[0].isupper() and not name.isupper()):
                    places[alias].append(str(file.relative_to(SOURCE)))
    twice = {name: files for name, files in places.items() if len(files) > 1 and name not in SAME_EVERYWHERE}
    assert not twice
    assert len(places) > 300
