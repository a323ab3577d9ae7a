#include "functions.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "host/words.h"
#include "value_sketch.h"

namespace titan::analyzer {
namespace {

void tell(sqlite3_context* to, const std::string& text) {
    sqlite3_result_text64(to, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

bool is_null(sqlite3_value* value) { return sqlite3_value_type(value) == SQLITE_NULL; }

// What an aggregate has taken so far. SQLite gives a pointer's room, filled with zeros.
template <typename Sum>
Sum* sum_of(sqlite3_context* context, bool make) {
    auto** const place =
        static_cast<Sum**>(sqlite3_aggregate_context(context, make ? static_cast<int>(sizeof(Sum*)) : 0));
    if (place != nullptr && *place == nullptr && make) {
        *place = new (std::nothrow) Sum();
    }
    if (make && (place == nullptr || *place == nullptr)) {
        sqlite3_result_error_nomem(context);
    }
    return place == nullptr ? nullptr : *place;
}

// Calls the steps of an aggregate with its sum, and the end with what was taken, which may be nothing. No exception may
// pass through SQLite.
template <typename Sum>
void step(sqlite3_context* context, int, sqlite3_value** values) {
    if (Sum* const sum = sum_of<Sum>(context, true)) {
        try {
            sum->take(values);
        } catch (const std::bad_alloc&) {
            sqlite3_result_error_nomem(context);
        }
    }
}

template <typename Sum>
void finish(sqlite3_context* context) {
    if (const std::unique_ptr<Sum> sum{sum_of<Sum>(context, false)}) {
        sum->tell(context);
    } else {
        sqlite3_result_null(context);
    }
}

void add_finite(ValueSketch& sketch, sqlite3_value* value) {
    const double number = sqlite3_value_double(value);
    if (!is_null(value) && std::isfinite(number)) {
        sketch.add(number);
    }
}

struct Quantile {
    ValueSketch sketch;
    double share = 0.5;

    void take(sqlite3_value** values) {
        share = sqlite3_value_double(values[1]);
        add_finite(sketch, values[0]);
    }
    void tell(sqlite3_context* to) const {
        if (sketch.count() != 0) {
            sqlite3_result_double(to, sketch.quantile(share));
        }
    }
};

struct Deviation {
    ValueSketch sketch;

    void take(sqlite3_value** values) { add_finite(sketch, values[0]); }
    void tell(sqlite3_context* to) const {
        if (sketch.count() != 0) {
            sqlite3_result_double(to, sketch.std());
        }
    }
};

struct FreeValue {
    void operator()(sqlite3_value* value) const { sqlite3_value_free(value); }
};

// Numbers of 64 bits are compared as such: moments in nanoseconds differ where doubles do not.
bool is_less(sqlite3_value* a, sqlite3_value* b) {
    return sqlite3_value_type(a) == SQLITE_INTEGER && sqlite3_value_type(b) == SQLITE_INTEGER
               ? sqlite3_value_int64(a) < sqlite3_value_int64(b)
               : sqlite3_value_double(a) < sqlite3_value_double(b);
}

template <bool greatest>
struct Extreme {
    std::unique_ptr<sqlite3_value, FreeValue> value, by;

    void take(sqlite3_value** values) {
        if (is_null(values[1]) ||
            (by != nullptr && !(greatest ? is_less(by.get(), values[1]) : is_less(values[1], by.get())))) {
            return;
        }
        value.reset(sqlite3_value_dup(values[0]));
        by.reset(sqlite3_value_dup(values[1]));
        if (value == nullptr || by == nullptr) {
            throw std::bad_alloc();
        }
    }
    void tell(sqlite3_context* to) const {
        if (value != nullptr) {
            sqlite3_result_value(to, value.get());
        }
    }
};

struct Ranks {
    std::vector<int> ranks;

    void take(sqlite3_value** values) {
        if (is_null(values[0])) {
            return;
        }
        const int rank = sqlite3_value_int(values[0]);
        if (ranks.empty() || ranks.back() != rank) {
            ranks.push_back(rank);
        }
    }
    void tell(sqlite3_context* to) const { analyzer::tell(to, rank_ranges(ranks)); }
};

void tell_duration(sqlite3_context* to, int, sqlite3_value** values) {
    const double ns = sqlite3_value_double(values[0]);
    if (!is_null(values[0])) {
        tell(to, ns < 0 ? "-" + fine_duration_text(-ns) : fine_duration_text(ns));
    }
}

void tell_moment(sqlite3_context* to, int, sqlite3_value** values) {
    if (!is_null(values[0])) {
        tell(to, fine_date_text(sqlite3_value_int64(values[0])));
    }
}

constexpr int kPure = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;

void add(sqlite3* database, const char* name, int values, void (*tell)(sqlite3_context*, int, sqlite3_value**)) {
    sqlite3_create_function_v2(database, name, values, kPure, nullptr, tell, nullptr, nullptr, nullptr);
}

template <typename Sum>
void add_aggregate(sqlite3* database, const char* name, int values) {
    sqlite3_create_function_v2(database, name, values, kPure, nullptr, nullptr, step<Sum>, finish<Sum>, nullptr);
}

}  // namespace

void add_functions(sqlite3* database) {
    add_aggregate<Quantile>(database, "quantile", 2);
    add_aggregate<Deviation>(database, "std", 1);
    add_aggregate<Extreme<true>>(database, "arg_max", 2);
    add_aggregate<Extreme<false>>(database, "arg_min", 2);
    add_aggregate<Ranks>(database, "rank_ranges", 1);
    add(database, "duration", 1, tell_duration);
    add(database, "moment", 1, tell_moment);
}

}  // namespace titan::analyzer
