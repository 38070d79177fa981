"""Every value survives the way to history and store and back."""

import importlib
import json
import pkgutil
import types
import typing
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError
from pydantic_core import PydanticUndefined

import zidane_core
from zidane_core.content import Block, DocumentBlock, ImageBlock
from zidane_core.values import Tagged, UserInput, Value

BASES = (Value, UserInput, Tagged, Block)


def value_classes() -> list[type[BaseModel]]:
    for module in pkgutil.walk_packages(zidane_core.__path__, "zidane_core."):
        importlib.import_module(module.name)
    found = {cls for base in (Value, UserInput) for cls in _below(base)}
    ours = [cls for cls in found if cls.__module__.startswith("zidane_core")]
    return sorted(
        (cls for cls in ours if cls not in BASES and not _is_base(cls)),
        key=lambda cls: f"{cls.__module__}.{cls.__qualname__}",
    )


def _below(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for cls in base.__subclasses__():
        yield cls
        yield from _below(cls)


def _is_base(cls: type[BaseModel]) -> bool:
    """A base of a union has no tag of its own, so it cannot be written."""
    tagged = issubclass(cls, Tagged) and "kind" not in cls.model_fields
    return (
        tagged
        or (issubclass(cls, Block) and "type" not in cls.model_fields)
        or (cls.__name__ == "Part")
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=3,
)
NAMES = st.from_regex(r"[a-z]{1,6}", fullmatch=True)
LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    str: NAMES,
    int: st.integers(1, 1000),
    float: st.sampled_from([0.5, 1.0, 2.25]),
    bool: st.booleans(),
    type(None): st.none(),
    Any: json_values,
}


def values_of(hint: Any, depth: int = 2) -> st.SearchStrategy[Any]:
    """Values of a field's type, nested ones down to a depth."""
    if hint is JsonValue:
        return json_values
    if hint in LEAVES:
        return LEAVES[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return values_of(arguments[0], depth)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(argument, depth) for argument in arguments])
    if origin in (dict, Mapping, typing.Mapping):
        size = 1 if depth > 0 else 0
        return st.dictionaries(NAMES, values_of(arguments[1], depth - 1), max_size=size)
    if origin is tuple:
        size = 2 if depth > 0 else 0
        return st.lists(values_of(arguments[0], depth - 1), max_size=size).map(tuple)
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return models(hint, depth)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        members: list[StrEnum] = list(hint)
        return st.sampled_from(members)
    raise AssertionError(f"no strategy for {hint!r}")


def models(cls: type[BaseModel], depth: int = 2) -> st.SearchStrategy[BaseModel]:
    """Instances of a model; fields with defaults are now and then left out."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in cls.model_fields.items():
        hint = field.annotation
        if field.metadata and get_origin(hint) is not Annotated and field.discriminator is None:
            hint = Annotated[(hint, *field.metadata)]
        is_needed = field.default is PydanticUndefined and field.default_factory is None
        if not is_needed and depth <= 0:
            continue
        fields[name] = values_of(hint, depth - 1)
    if cls in (ImageBlock, DocumentBlock):
        fields["ref"] = st.none()
        fields["data"] = NAMES
    return st.fixed_dictionaries(fields).map(lambda made: _made(cls, made))


def _made(cls: type[BaseModel], fields: dict[str, Any]) -> BaseModel:
    try:
        return cls(**fields)
    except ValidationError:
        needed = [n for n, f in cls.model_fields.items() if f.is_required()]
        return cls(**{name: fields[name] for name in needed})


@pytest.mark.parametrize("cls", value_classes(), ids=lambda cls: cls.__name__)
def test_a_value_is_the_same_after_packing_and_json(cls: type[BaseModel]):
    """DUR-06, ERR-09: what is left out are defaults, never a tag."""
    adapter = TypeAdapter(cls)

    @settings(
        max_examples=6,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(models(cls))
    def check(value: BaseModel) -> None:
        assert isinstance(value, Value | UserInput)
        packed = json.loads(json.dumps(value.packed()))
        assert adapter.validate_python(packed) == value
        if cls.model_config.get("extra") == "ignore":
            # What a newer version wrote too, so that old workers go on in a rolling deploy.
            assert adapter.validate_python({**packed, "newer": 1}) == value

    check()
