"""Removes Python's traceback from errors that users shall act on.

PL/Python shows in CONTEXT the traceback that an error has when it leaves the outermost frame, which has then just added
itself. Python 3.12 and later report each frame that an error leaves; there the traceback is taken off. Before 3.12 it
stays.
"""

import sys
from types import CodeType
from typing import Any, TypeVar

# One of the six tool numbers of `sys.monitoring` that has no fixed meaning.
_TOOL = 4


E = TypeVar("E", bound=BaseException)


def without_traceback(error: E) -> E:
    """Return `error`, which is about to be raised, prepared to leave Python without a traceback."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None or monitoring.get_tool(_TOOL) not in (None, __name__):
        return error
    unwind = monitoring.events.PY_UNWIND

    def cut(code: CodeType, _offset: int, leaving: BaseException) -> None:
        if leaving is not error:
            return
        leaving.__traceback__ = None
        # The body of a PL/Python function, or a generator whose rows it fetches: nothing of Python is left to leave.
        if code.co_name in ("<module>", "__iter__"):
            monitoring.set_events(_TOOL, 0)
            monitoring.register_callback(_TOOL, unwind, None)

    if monitoring.get_tool(_TOOL) is None:
        monitoring.use_tool_id(_TOOL, __name__)
    monitoring.register_callback(_TOOL, unwind, cut)
    monitoring.set_events(_TOOL, unwind)
    return error
