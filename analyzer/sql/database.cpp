#include "database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "functions.h"
#include "host/words.h"
#include "tables.h"
#include "views.h"
#include "virtual_table.h"

namespace titan::analyzer {
namespace {

constexpr int kLongestText = 64 << 20;
constexpr int kInstructionsBetweenLooks = 10'000;  // of SQLite's machine

// Questions read; they change nothing and open nothing.
int allow_reading(void*, int action, const char*, const char*, const char*, const char*) {
    const bool reads =
        action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_FUNCTION || action == SQLITE_RECURSIVE;
    return reads ? SQLITE_OK : SQLITE_DENY;
}

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
    State(const Run& run, const QueryLimits& limits)
        : source(run), budget(limits.most_s, limits.most_mib << 20), tables(tables_of(source)) {}
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
        const std::string text = printable(sqlite3_errmsg(connection));
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
};

Database::Database(const Run& run, const QueryLimits& limits) : state_(std::make_unique<State>(run, limits)) {
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
    sqlite3_hard_heap_limit64(static_cast<sqlite3_int64>(limits.most_mib << 20));
    sqlite3_set_authorizer(connection, allow_reading, nullptr);
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
        sqlite3_stmt* made = nullptr;
        const int prepared = sqlite3_prepare_v2(state.connection, rest, -1, &made, &rest);
        const Statement statement(made);
        if (prepared != SQLITE_OK) {
            return state.error_text(prepared);
        }
        if (statement == nullptr) {
            continue;  // blanks, or a comment
        }
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
        query(fmt::format("SELECT * FROM \"{}\" LIMIT 0", view.name),
              {[&help](const std::vector<std::string>& names) {
                   for (const std::string& name : names) {
                       help.columns.push_back({name, "", "", ""});
                   }
               },
               [](const std::vector<Json>&) {}});
        all.push_back(std::move(help));
    }
    return all;
}

std::vector<std::string> Database::problems() { return state_->source.problems(); }

bool Database::is_complete(const std::string& sql) { return sqlite3_complete(sql.c_str()) != 0; }

}  // namespace titan::analyzer
