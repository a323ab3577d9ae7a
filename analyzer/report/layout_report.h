// The job's grid and its settings as JSON, alone or as a part of a diagnosis.
#pragma once

#include <set>

#include "host/json_value.h"
#include "run.h"

namespace titan::analyzer {

// {"dims": [...], "ranks": {"5": {...}}}. `named`: only these ranks; null: all, and all communicators with their role.
Json layout_json(const Run& run, const std::set<int>* named);

// {"settings": [{"name": ..., "value": null where it is not set, "ranks": [...]}, ...]}, by name.
Json config_json(const Run& run);

}  // namespace titan::analyzer
