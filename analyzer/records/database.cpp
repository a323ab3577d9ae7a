#include "database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "host/words.h"
#include "tables.h"
#include "value_sketch.h"
#include "virtual_table.h"

namespace titan::analyzer {
namespace {

// --- Functions that SQL lacks for questions about jobs.
//
// Aggregates: quantile(x, share), std(x), arg_max(value, by), arg_min(value, by), rank_ranges(rank).
// Functions of one value: duration(ns), moment(realtime_ns).

// For who misspells one.
inline constexpr const char* kSqlFunctions[] = {"quantile",    "std",      "arg_max", "arg_min",
                                                "rank_ranges", "duration", "moment"};

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

void add_functions(sqlite3* database) {
    add_aggregate<Quantile>(database, "quantile", 2);
    add_aggregate<Deviation>(database, "std", 1);
    add_aggregate<Extreme<true>>(database, "arg_max", 2);
    add_aggregate<Extreme<false>>(database, "arg_min", 2);
    add_aggregate<Ranks>(database, "rank_ranges", 1);
    add(database, "duration", 1, tell_duration);
    add(database, "moment", 1, tell_moment);
}

constexpr int kLongestText = 64 << 20;
constexpr int kInstructionsBetweenLooks = 10'000;  // of SQLite's machine

struct EndStatement {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, EndStatement>;

Json value_of(sqlite3_stmt* statement, int column) {
    switch (sqlite3_column_type(statement, column)) {
        case SQLITE_INTEGER: return sqlite3_column_int64(statement, column);
        case SQLITE_FLOAT: return number_or_word(sqlite3_column_double(statement, column));
        case SQLITE_NULL: return nullptr;
        default: break;
    }
    const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
    const auto size_bytes = static_cast<size_t>(sqlite3_column_bytes(statement, column));
    return text == nullptr ? Json(std::string()) : Json(std::string(text, size_bytes));
}

std::vector<std::string> names_of(sqlite3_stmt* statement) {
    std::vector<std::string> names;
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
        names.emplace_back(sqlite3_column_name(statement, i));
    }
    return names;
}

}  // namespace

struct Database::State {
    State(LoadForTables load, const QueryLimits& limits)
        : source(std::move(load)), budget(limits.most_s, limits.most_mib << 20), tables(tables_of(source)) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() { sqlite3_close(connection); }

    void expect(int status) const {
        if (status != SQLITE_OK) {
            throw std::runtime_error(fmt::format("SQLite: {}", sqlite3_errmsg(connection)));
        }
    }

    // The words of SQLite, and what is meant where a name is misspelt.
    std::string error_text(int status) {
        std::string text = printable(sqlite3_errmsg(connection));
        switch (status) {
            case SQLITE_INTERRUPT: return budget.time_text();
            case SQLITE_NOMEM:
            case SQLITE_TOOBIG: return budget.memory_text();
            case SQLITE_AUTH: return "only SELECT is allowed (WITH and VALUES, too): records are read, never changed";
            default: break;
        }
        for (const std::string_view start : {"no such column: ", "no such table: ", "no such function: "}) {
            if (text.starts_with(start)) {
                const std::string word = text.substr(start.size());
                const std::string name = word.substr(word.rfind('.') + 1);
                const std::string near = nearest_word(name, names(start));
                const bool helps = !near.empty() && near != name;
                return fmt::format("{};{} --tables lists all", text, helps ? " did you mean " + near + "?" : "");
            }
        }
        return text;
    }

    // Questions read; they change nothing and open nothing. Notes what a statement needs as SQLite compiles it.
    int allow_reading(int action, const char* table) {
        needs_histories |= action == SQLITE_READ && std::ranges::any_of(tables, [table](const auto& one) {
                               return one->needs_histories() && one->name() == table;
                           });
        const bool reads =
            action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_FUNCTION || action == SQLITE_RECURSIVE;
        return reads ? SQLITE_OK : SQLITE_DENY;
    }

    std::vector<std::string> names(std::string_view start) const {
        std::vector<std::string> all;
        for (const auto& table : tables) {
            if (start.starts_with("no such column")) {
                for (const SqlColumn& column : table->columns()) {
                    all.push_back(column.name);
                }
            } else {
                all.push_back(table->name());
            }
        }
        for (const View& view : kViews) {
            all.emplace_back(view.name);
        }
        all.insert(all.end(), std::begin(kSqlFunctions), std::end(kSqlFunctions));
        return all;
    }

    sqlite3* connection = nullptr;
    SqlSource source;
    QueryBudget budget;
    std::vector<std::unique_ptr<SqlTable>> tables;
    bool needs_histories = false;  // the newest statement
};

Database::Database(LoadForTables load, const QueryLimits& limits)
    : state_(std::make_unique<State>(std::move(load), limits)) {
    State& state = *state_;
    state.expect(sqlite3_open_v2(":memory:", &state.connection, SQLITE_OPEN_READWRITE, nullptr));
    sqlite3* const connection = state.connection;
    // As SQLite first meets such a table, it asks for leave to make one.
    const auto meet = [connection](const std::string& table) {
        return sqlite3_exec(connection, fmt::format("SELECT 1 FROM {} LIMIT 0", table).c_str(), nullptr, nullptr,
                            nullptr);
    };
    for (const auto& table : state.tables) {
        add_virtual_table(connection, *table, state.budget);
        state.expect(meet(table->name()));
    }
    state.expect(meet("json_each('[]')"));
    state.expect(meet("json_tree('[]')"));
    add_functions(connection);
    for (const View& view : kViews) {
        state.expect(sqlite3_exec(connection, view.sql, nullptr, nullptr, nullptr));
    }
    state.expect(sqlite3_exec(connection, "PRAGMA temp_store = MEMORY", nullptr, nullptr, nullptr));
    sqlite3_limit(connection, SQLITE_LIMIT_LENGTH, kLongestText);
    sqlite3_limit(connection, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_hard_heap_limit64(static_cast<sqlite3_int64>(limits.most_mib) << 20);
    sqlite3_set_authorizer(
        connection,
        [](void* of, int action, const char* table, const char*, const char*, const char*) {
            return static_cast<State*>(of)->allow_reading(action, table);
        },
        &state);
    sqlite3_progress_handler(
        connection, kInstructionsBetweenLooks,
        [](void* budget) { return static_cast<const QueryBudget*>(budget)->is_over() ? 1 : 0; }, &state.budget);
}

Database::~Database() = default;

std::string Database::query(const std::string& sql, const QueryOutput& output) {
    State& state = *state_;
    const char* rest = sql.c_str();
    while (*rest != '\0') {
        state.budget.start();
        state.needs_histories = false;
        sqlite3_stmt* made = nullptr;
        const int prepared = sqlite3_prepare_v2(state.connection, rest, -1, &made, &rest);
        const Statement statement(made);
        if (prepared != SQLITE_OK) {
            return state.error_text(prepared);
        }
        if (statement == nullptr) {
            continue;  // blanks, or a comment
        }
        state.source.load(state.needs_histories);
        state.budget.start();
        output.columns(names_of(statement.get()));
        std::vector<Json> row(static_cast<size_t>(sqlite3_column_count(statement.get())));
        int status = SQLITE_ROW;
        while ((status = sqlite3_step(statement.get())) == SQLITE_ROW) {
            for (size_t i = 0; i < row.size(); ++i) {
                row[i] = value_of(statement.get(), static_cast<int>(i));
            }
            output.row(row);
        }
        if (status != SQLITE_DONE) {
            return state.error_text(status);
        }
    }
    return "";
}

std::vector<SqlTableHelp> Database::help() {
    std::vector<SqlTableHelp> all;
    std::transform(state_->tables.begin(), state_->tables.end(), std::back_inserter(all), [](const auto& table) {
        return SqlTableHelp{table->name(), table->meaning(), table->columns()};
    });
    for (const View& view : kViews) {
        SqlTableHelp help{view.name, meaning_of(view), {}, true};
        sqlite3_stmt* made = nullptr;
        state_->expect(sqlite3_prepare_v2(state_->connection, fmt::format("SELECT * FROM \"{}\"", view.name).c_str(),
                                          -1, &made, nullptr));
        const Statement statement(made);
        for (const std::string& name : names_of(made)) {
            help.columns.push_back({name, "", "", ""});
        }
        all.push_back(std::move(help));
    }
    return all;
}

std::vector<std::string> Database::problems() { return state_->source.problems(); }

bool Database::is_complete(const std::string& sql) { return sqlite3_complete(sql.c_str()) != 0; }

}  // namespace titan::analyzer
