"""The client: start agent runs on a Temporal server, watch and steer them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zidane_client.client import ZidaneClient
    from zidane_client.handle import RunHandle

__all__ = ["RunHandle", "ZidaneClient"]


def __getattr__(name: str) -> Any:
    # Temporal's SDK takes half a second to import, which `zidane --help` must not pay.
    match name:
        case "ZidaneClient":
            from zidane_client.client import ZidaneClient

            return ZidaneClient
        case "RunHandle":
            from zidane_client.handle import RunHandle

            return RunHandle
        case _:
            raise AttributeError(f"module 'zidane_client' has no attribute {name!r}")
