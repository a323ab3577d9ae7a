"""Files that only their owner reads, and that never follow a link that somebody put there."""
import os


def create(path: str) -> int:
    """A new file, open for writing: its descriptor. FileExistsError where there is something already."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
