// The job's grid and its settings as JSON, alone or as a part of a diagnosis.
#pragma once

#include <set>

#include "host/json_value.h"
#include "run.h"

namespace titan::analyzer {

// {"dims": [...], "ranks": {"5": {...}}}. `named`: only these ranks; null: all, all communicators with their role, and
// all processes. Two lists go by rank in the communicator, with null where nothing is known: `all_ranks`, also of
// members without a record, and `issued`, how many collectives each has called; `ranks` are those on record.
Json layout_json(const Run& run, const std::set<int>* named);

// {"settings": [{"name": ..., "value": null where it is not set, "ranks": [...]}, ...]}, by name.
Json config_json(const Run& run);

}  // namespace titan::analyzer
