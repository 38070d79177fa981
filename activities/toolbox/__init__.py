"""The built-in tools; `basic_tools` is what an agent that works on files needs.

Implements: TOOL-17 (in part).
"""

from activities.toolbox.editing import edit, multi_edit
from activities.toolbox.files import read_file, write_file
from activities.toolbox.processes import kill_leftovers
from activities.toolbox.search import glob, grep, list_files
from activities.toolbox.shell import shell
from zidane_core.authoring import Tool

basic_tools: tuple[Tool, ...] = (
    read_file,
    write_file,
    edit,
    multi_edit,
    list_files,
    glob,
    grep,
    shell,
)
"""Read, write, edit, find and run, all within the run's workspace."""

__all__ = [
    "basic_tools",
    "edit",
    "glob",
    "grep",
    "kill_leftovers",
    "list_files",
    "multi_edit",
    "read_file",
    "shell",
    "write_file",
]
