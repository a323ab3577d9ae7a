// Functions that SQL lacks for questions about jobs.
//
// Aggregates: quantile(x, share), std(x), arg_max(value, by), arg_min(value, by), rank_ranges(rank).
// Functions of one value: duration(ns), moment(realtime_ns).
#pragma once

#include <sqlite3.h>

namespace titan::analyzer {

// For who misspells one.
inline constexpr const char* kSqlFunctions[] = {"quantile",    "std",      "arg_max", "arg_min",
                                                "rank_ranges", "duration", "moment"};

void add_functions(sqlite3* database);

}  // namespace titan::analyzer
