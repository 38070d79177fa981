"""`zidane models`: the models that the process-wide catalogue and the bundled one know."""

from rich.table import Table
from rich.text import Text

from activities.providers.catalog import LISTED, ListedModel, list_models
from zidane_client.cli.exits import Exit, print_json
from zidane_client.cli.render import make_console
from zidane_core.errors import UnknownModelError


async def list_known(provider: str | None, *, as_json: bool) -> int:
    """Print models by provider, with window, output ceiling and prices where they are known.

    What agents and runs override is not in it (CAT-04).

    Raises:
        UnknownModelError: Nothing is known of the provider; names those that are.
    """
    models = list_models(provider)
    if provider is not None and not models:
        raise UnknownModelError(
            f"No model of provider {provider!r} is known. Known providers: {list(LISTED)}.",
            provider=provider,
        )
    if as_json:
        print_json([_document(entry) for entry in models])
    else:
        make_console().print(_table(models))
    return Exit.COMPLETED


def _document(entry: ListedModel) -> dict[str, object]:
    facts = entry.info.model_dump(mode="json")
    return {"provider": entry.provider, "model": entry.model, **facts}


def _table(models: tuple[ListedModel, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("MODEL", no_wrap=True)
    table.add_column("WINDOW", justify="right", no_wrap=True)
    table.add_column("ANSWER", justify="right", no_wrap=True)
    table.add_column("REASONS", no_wrap=True)
    table.add_column("USD PER MILLION IN", justify="right", no_wrap=True)
    table.add_column("OUT", justify="right", no_wrap=True)
    for entry in models:
        info, price = entry.info, entry.info.price
        table.add_row(
            f"{entry.provider}:{entry.model}",
            _tokens(info.context_window),
            _tokens(info.max_tokens),
            {True: "yes", False: "no", None: ""}[info.reasoning],
            _usd(None if price is None else price.input),
            _usd(None if price is None else price.output),
        )
    return table


def _tokens(count: int | None) -> Text:
    return Text("-", style="dim") if count is None else Text(f"{count:,}")


def _usd(price: float | None) -> Text:
    return Text("-", style="dim") if price is None else Text(f"{price:g}")
