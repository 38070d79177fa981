"""`python -m zidane_client.cli`: the same command, for subprocesses of this Python."""

from zidane_client.cli.app import main

if __name__ == "__main__":
    main()
