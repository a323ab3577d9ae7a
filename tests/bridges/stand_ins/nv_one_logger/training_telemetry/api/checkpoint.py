from enum import Enum


class CheckPointStrategy(str, Enum):
    __str__ = str.__str__

    SYNC = "sync"
    ASYNC = "async"
