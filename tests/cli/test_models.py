"""`zidane models`: a picker on the command line; it needs no server."""

from tests.cli.conftest import Cli


async def test_models_lists_what_is_known_of_a_provider(cli: Cli) -> None:
    """CAT-04."""
    shown = await cli("models", "anthropic")
    assert shown.code == 0, shown.err
    row = next(line for line in shown.out.splitlines() if "claude-sonnet-5-5" in line)
    assert row.split() == ["anthropic:claude-sonnet-5-5", "1,000,000", "128,000", "yes", "2", "10"]


async def test_models_prints_one_document(cli: Cli) -> None:
    """CAT-04."""
    listed = (await cli("models", "--json")).json
    assert {entry["provider"] for entry in listed} == {
        "anthropic",
        "openai",
        "openrouter",
        "cerebras",
    }
    known = {f"{entry['provider']}:{entry['model']}": entry for entry in listed}
    assert known["openai:gpt-5"]["price"]["input"] == 1.25


async def test_a_provider_of_which_nothing_is_known_is_a_usage_error(cli: Cli) -> None:
    refused = await cli("models", "antropic")
    assert refused.code == 2
    assert "'antropic'" in refused.err
    assert "anthropic" in refused.err


async def test_doctor_counts_a_credentials_file_as_a_key(cli: Cli) -> None:
    """HOOK-58."""
    folder = cli.folder / "other-home" / "credentials"
    folder.mkdir(parents=True)
    (folder / "anthropic.json").write_text('{"access": "planted-1"}')
    (folder / "anthropic.json").chmod(0o600)
    home = str(folder.parent)
    address = {"TEMPORAL_ADDRESS": "127.0.0.1:1"}
    report = await cli("doctor", "--json", ZIDANE_HOME=home, **address)
    assert report.json["providers"]["anthropic"] == {"ok": True}
    assert report.json["providers"]["openai"]["ok"] is False
    (folder / "anthropic.json").chmod(0o644)
    report = await cli("doctor", "--json", ZIDANE_HOME=home, **address)
    assert "chmod 600" in report.json["providers"]["anthropic"]["needs"]
    assert "planted" not in report.out + report.err
