"""The one kind of error that a user is meant to read."""


class LensproofError(Exception):
    """Something the user can mend. The message is one line: what is wrong, and what to do.

    The command line prints it without a traceback and exits with status 2; any other exception is a fault of
    ours and keeps its traceback.
    """
