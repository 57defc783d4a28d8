"""Chat templates, against transformers."""

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.vocabularies import saved, theirs_of

from glassformer.errors import InputError
from glassformer.text import load_tokenizer

Make = Callable[..., Path]
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "안녕 <b>&</b>"},
    {"role": "assistant", "content": "Hi!"},
    {"role": "user", "content": "Bye"},
]
CHATML = """{% for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{% endfor %}
{% if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{% endif %}"""
LLAMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% else %}
{% set rest = messages %}{% endif %}
{% for message in rest %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must take turns') }}{% endif %}
{% if message['role'] == 'user' %}[INST] {{ message['content'] | trim }} [/INST]{% else %}
{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}{% endif %}
{% if loop.index0 > 10 %}{% break %}{% endif %}
{% endfor %}"""
JSON = "{{ messages | tojson }}{{ messages[0] | tojson(indent=2) }}{{ strftime_now('%Y') }}"


@pytest.mark.parametrize("template", [CHATML, LLAMA, JSON])
@pytest.mark.parametrize("prompt", [True, False])
def test_the_text_is_that_of_transformers(template: str, prompt: bool, make: Make, tmp_path: Path) -> None:
    folder = make("LlamaTokenizer", chat_template=template, add_bos_token=True)
    ours, theirs = load_tokenizer(folder), theirs_of(folder, "LlamaTokenizer")
    expected = theirs.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=prompt)
    again, auto = saved(ours, tmp_path / "saved")
    assert (tmp_path / "saved" / "chat_template.jinja").read_text(encoding="utf-8") == template
    for tokenizer in (ours, again):
        assert tokenizer.apply_chat(MESSAGES, add_generation_prompt=prompt) == expected
    assert auto.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=prompt) == expected
    ids = theirs.apply_chat_template(MESSAGES, add_generation_prompt=prompt)["input_ids"]
    assert ours.encode([expected], add_special=False).input_ids.tolist() == [ids]


def test_templates_with_names(make: Make, tmp_path: Path) -> None:
    both = [{"name": "default", "template": CHATML}, {"name": "rag", "template": "rag {{ messages[0].content }}"}]
    ours = load_tokenizer(make("LlamaTokenizer", chat_template=both))
    again, auto = saved(ours, tmp_path / "saved")
    assert again.apply_chat(MESSAGES, template="rag") == "rag Be brief."
    assert again.apply_chat(MESSAGES) == ours.apply_chat(MESSAGES)
    assert auto.apply_chat_template(MESSAGES, chat_template="rag", tokenize=False) == "rag Be brief."
    thinking = load_tokenizer(make("LlamaTokenizer", chat_template="{{ enable_thinking }} {{ tools | length }}"))
    assert thinking.apply_chat(MESSAGES, enable_thinking=False, tools=[1, 2]) == "False 2"
    with pytest.raises(InputError, match="unknown chat template 'rug': did you mean 'rag'"):
        ours.apply_chat(MESSAGES, template="rug")


def test_a_file_counts_more_than_the_settings(make: Make) -> None:
    folder = make("LlamaTokenizer", chat_template="old")
    (folder / "chat_template.jinja").write_text("new", encoding="utf-8")
    assert load_tokenizer(folder).apply_chat(MESSAGES) == "new"


def test_what_a_template_cannot_write_is_named(make: Make) -> None:
    plain = load_tokenizer(make("LlamaTokenizer"))
    with pytest.raises(InputError, match=r"no chat template: its folder needs a chat_template\.jinja"):
        plain.apply_chat(MESSAGES)
    llama = load_tokenizer(make("LlamaTokenizer", chat_template=LLAMA))
    with pytest.raises(InputError, match="refuses these messages: roles must take turns"):
        llama.apply_chat([MESSAGES[1], MESSAGES[1]])
    for wrong in ([], "Hi", [{"content": "Hi"}]):
        with pytest.raises(InputError, match=r"expected a list of messages like \{'role': 'user'"):
            llama.apply_chat(wrong)  # type: ignore[arg-type]
    for program in (
        "{% for %}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ 1 / 0 }}",
        "{{ x.y.z }}",
    ):
        with pytest.raises(InputError, match="the chat template cannot render these messages"):
            load_tokenizer(make("LlamaTokenizer", chat_template=program)).apply_chat(MESSAGES)
