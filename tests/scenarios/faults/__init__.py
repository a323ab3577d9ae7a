"""All classes of cases, in an order that decides which number is of which class."""

from faults.table import CLASSES  # noqa: F401
from faults import hosts, arguments, counts, orders, messages, devices, several, slow, fine  # noqa: F401, I100
