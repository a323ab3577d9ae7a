// Functions that SQL lacks for questions about jobs.
//
// Aggregates: quantile(x, share), std(x), arg_max(value, by), arg_min(value, by), rank_ranges(rank).
// Of one value: duration(ns), moment(realtime_ns).
#pragma once

#include <sqlite3.h>

namespace titan::analyzer {

struct SqlFunction {
    const char* form;
    const char* meaning;
};
// What there is, for help.
inline constexpr SqlFunction kSqlFunctions[] = {
    {"quantile(x, share)", "the value that a share of all values does not exceed, to 1 %: quantile(duration_ns, 0.99)"},
    {"std(x)", "standard deviation of all values"},
    {"arg_max(value, by)", "the value where `by` is the greatest: arg_max(rank, entered_realtime_ns)"},
    {"arg_min(value, by)", "the value where `by` is the least"},
    {"rank_ranges(rank)", "all of them, as text: 0-3,7"},
    {"duration(ns)", "as text for people: 1.2 ms"},
    {"moment(realtime_ns)", "date and time of day, with the zone"},
};

void add_functions(sqlite3* database);

}  // namespace titan::analyzer
