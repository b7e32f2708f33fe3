"""The one exception whose text is meant for the person at the terminal."""

from __future__ import annotations


class UserError(Exception):
    """Something that the user can mend: a config, a file, a folder, a full disk.

    The text says what was expected, what came and what to do. The command line prints it as it is, without a
    traceback, and exits with 1; everything else that escapes is a bug of ours and keeps its traceback.
    """


def is_interrupt(error: BaseException) -> bool:
    """Say whether `error` comes from Ctrl-C: directly, or as the exit that Lightning turns it into."""
    return isinstance(error, KeyboardInterrupt) or (
        isinstance(error, SystemExit) and isinstance(error.__context__, KeyboardInterrupt)
    )
