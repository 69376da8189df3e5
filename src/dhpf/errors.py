"""The one exception that is meant for a person rather than for a debugger."""


class InputError(ValueError):
    """Something given by the user cannot be used.

    The message is one line: what was given, what is wanted, what to do. The command line prints it
    on stderr and exits with code 2; in Python it is an ordinary ``ValueError``.
    """
