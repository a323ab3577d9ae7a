"""CUPTI's names of its callbacks, from its own headers: rows {domain, id, "name"} for cuptiGetCallbackName.

    names.py OUTPUT TOOLKIT_INCLUDE
"""
import pathlib
import re
import sys

output, include = map(pathlib.Path, sys.argv[1:])
rows = [f'{{{domain}, {number}, "{name}"}},\n'
        for domain, api in ((1, "driver"), (2, "runtime"))
        for name, number in re.findall(rf"CUPTI_{api.upper()}_TRACE_CBID_(\w+)\s*=\s*(\d+)\s*,",
                                       (include / f"cupti_{api}_cbid.h").read_text())
        if name not in ("INVALID", "SIZE")]
assert len(rows) > 500, "the headers look different"
output.write_text("".join(rows))
