"""The last equations of a walkthrough: from the output of the final norm to the probabilities of the answer."""

from collections.abc import Callable, Iterator

from torch import Tensor, nn

from glassformer.checkpoints.labels import class_names, problem_of
from glassformer.core.heads import ClassHead, Head, LanguageHead, SpanHead, TokenHead
from glassformer.core.model import Transformer
from glassformer.inspect.steps.step import SourceLine, line_of, step_of
from glassformer.inspect.walk.equations import Equation, Numbers, Worked, numbers, products
from glassformer.inspect.walk.scene import norm_rows, row_of_layer
from glassformer.predict.captions import CaptionPreparer
from glassformer.predict.texts import TextPreparer
from glassformer.watch.record import Record

TOP = 5
# The line that pools the vectors; mean and learned pooling share one.
POOLING_FORMULAS = {
    "first": "return x[torch.arange(len(x), device=x.device), first]",
    "first_end": "return x[torch.arange(len(x), device=x.device), first]",
    "highest_id": "return x[torch.arange(len(x), device=x.device), first]",
    "last": "return x[torch.arange(len(x), device=x.device), last]",
    "end": "return x[torch.arange(len(x), device=x.device), last]",
    "max": "return x.masked_fill(",
}


def answer_equations(
    preparer: TextPreparer | CaptionPreparer, seen: Record, row: int, source: Tensor | None, hidden: Tensor
) -> list[Equation]:
    """The equations of the head, for the vector of one token, or for the whole text (1, T, D) if the head pools it."""
    model, head = preparer.model, preparer.model.head
    if not isinstance(head, LanguageHead | TokenHead | ClassHead | SpanHead):
        return []
    equations, is_pooled = [], isinstance(head, ClassHead)
    if isinstance(head, ClassHead):
        x = head.pool(hidden, model.pooled_over(source, None, hidden))[0]  # (D)
        line = line_of(ClassHead.pool, POOLING_FORMULAS.get(head.pooling, "return (x * weights)"))
        rows: list[Numbers | Worked] = [numbers(f"{head.pooling}(x)", x)]
        equations.append(equation(model, "head.pooled", "one vector for the text", rows, made=line))
    else:
        x = hidden[0, row]  # (D)
    for made, told in own_layers(model, head, x, lambda name: seen[name][0] if is_pooled else seen[name][0, row]):
        x = made
        equations.append(told)
    if isinstance(head, SpanHead):
        return [*equations, span_equation(model, head, seen, row, x)]
    if "logits" not in seen:
        return equations
    logits = seen["logits"][0] if is_pooled else seen["logits"][0, row]
    best = logits.argsort(descending=True, stable=True)[:TOP].tolist()
    if isinstance(head, LanguageHead):
        places = {i: repr(word) for i, word in zip(best, preparer.words.names(best), strict=True)}
    else:
        places = {i: repr(class_names(model)[i]) for i in best}
    rows = [numbers("x", x), logit_row(head, x, logits, best[0], places[best[0]])]
    equations.append(equation(model, "logits", "logits", [*rows, numbers("logits", logits, places)]))
    if len(logits) > 1:
        equations.append(probabilities(model, logits, places))
    return equations


def own_layers(
    model: Transformer, head: Head, x: Tensor, recorded: Callable[[str], Tensor]
) -> Iterator[tuple[Tensor, Equation]]:
    """The optional layers before the output layer, norm(act(x W + b)): the result of each, and its equation."""
    stack, activation = "encoder" if model.decoder is None else "decoder", model.config.head_activation
    line = line_of(Head.transform, "return self.norm(")
    rows: list[Numbers | Worked]
    if isinstance(head.project, nn.Linear):
        made = recorded("head.project")
        bias = "" if head.project.bias is None else " + b"
        rows = [numbers("x", x), row_of_layer("project[0]", head.project, 0, x, made), numbers("project", made)]
        said = f"project = x W{bias}"
        yield made, equation(model, "head.project", "the head's dense layer", rows, said=said, made=line)
        x = made
    if activation is not None:
        made = head.activate(x)
        worked = Worked("activated[0]", f"{activation}({{}})", [float(x[0])], float(made[0]))
        said, rows = f"activated = {activation.replace('_', ' ')}(project)", [worked, numbers("activated", made)]
        english, korean = "The activation function of the head.", "헤드의 활성화 함수입니다."
        yield made, Equation("head.project", "the head's activation", said, english, korean, line, rows)
        x = made
    if not isinstance(head.norm, nn.Identity):
        made, step = recorded("head.norm"), step_of(f"{stack}.blocks.0.attn_norm", model.config)
        rows, title = norm_rows(head.norm, x, made), "the head's norm"
        yield made, Equation("head.norm", title, step.equation, step.english, step.korean, step.place, rows)


def span_equation(model: Transformer, head: SpanHead, seen: Record, row: int, x: Tensor) -> Equation:
    """The scores for an answer that starts at this token and for one that ends there."""
    rows: list[Numbers | Worked] = [numbers("x", x)]
    for unit, name in enumerate(("start", "end")):
        rows.append(row_of_layer(name, head.out, unit, x, seen[f"{name}_logits"][0, row].reshape(1)))
    return equation(model, "start_logits", "logits of the start and the end", rows)


def logit_row(head: Head, x: Tensor, logits: Tensor, best: int, name: str) -> Worked:
    """The largest logit: x . W[token] + b, scaled and capped as in the head."""
    assert isinstance(head.out, nn.Linear)
    added = [] if head.out.bias is None else [float(head.out.bias[best])]
    row = products(f"logit of {name}", x, head.out.weight[best], float(logits[best]), added=added)
    template, values = row.template, row.values
    if isinstance(head, LanguageHead) and head.scale != 1.0:
        template, values = f"({template}) * {{}}", [*values, head.scale]
    if isinstance(head, LanguageHead) and head.cap is not None:
        template, values = f"{{}} * tanh(({template}) / {{}})", [head.cap, *values, head.cap]
    return Worked(row.name, template, values, row.result)


def probabilities(model: Transformer, logits: Tensor, places: dict[int, str]) -> Equation:
    """Softmax over all tokens or classes; for multi-label classification, the sigmoid of each logit."""
    wide = logits.double()
    if problem_of(model) == "multi_label_classification":
        chances = 1 / (1 + (-wide).exp())
        rows: list[Numbers | Worked] = [numbers("p", chances, places)]
        said, made = "p = 1 / (1 + exp(-logit)), each class by itself", "chances = 1 /"
    else:
        powers = (wide - wide.max()).exp()
        chances = powers / powers.sum()
        rows = [numbers("max", float(wide.max())), numbers("exp(logit - max)", powers, places)]
        rows += [numbers("sum of all", float(powers.sum())), numbers("p", chances, places)]
        said, made = "p = softmax(logits)", "chances = powers /"
    english, korean = "The logits as probabilities.", "로짓을 확률로 바꿉니다."
    return Equation("logits", "probabilities", said, english, korean, line_of(probabilities, made), rows)


def equation(
    model: Transformer,
    name: str,
    title: str,
    rows: list[Numbers | Worked],
    *,
    said: str | None = None,
    made: SourceLine | None = None,
) -> Equation:
    step = step_of(name, model.config)
    return Equation(name, title, said or step.equation, step.english, step.korean, made or step.place, rows)
