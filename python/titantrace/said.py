"""What the package's commands print: paths, names and errors come from outside, and do nothing to a terminal."""
import sys
from typing import Optional, TextIO


def say(text: str, file: Optional[TextIO] = None) -> None:
    """Prints lines; what is not printable (controls, turned directions, no width) becomes '?', as in titan-analyze."""
    clean = "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
    print(clean, file=file or sys.stdout)
