"""The bases of everything that crosses a boundary; they hold no behaviour of their own."""

from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
)

Json = dict[str, JsonValue]
"""A JSON object, as it stands in a Temporal payload or a column of the store."""


class Value(BaseModel):
    """A frozen value that may be written to a workflow's history or to the store.

    Unknown fields are dropped when reading, so that an older worker can read what a newer
    one wrote. Fields are only ever added, and always with a default.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    def packed(self) -> Json:
        """Return the value as a JSON object without the fields that hold their default."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @classmethod
    def unpacked(cls, packed: Any) -> Self:
        """Read what `packed` wrote.

        Raises:
            pydantic.ValidationError: The object is not one of this class.
        """
        return cls.model_validate(packed)


class Tagged(Value):
    """A value of a union: its `kind` is written although it is the field's default."""

    @model_serializer(mode="wrap")
    def _keep_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return {"kind": type(self).model_fields["kind"].default, **fields}


class UserInput(BaseModel):
    """A frozen value that a person types; a field that does not exist is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def packed(self) -> Json:
        """Return the value as a JSON object without the fields that hold their default."""
        return self.model_dump(mode="json", exclude_defaults=True)
