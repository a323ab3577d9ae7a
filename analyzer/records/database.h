// The records of a run, for questions in SQL: tables (tables.h), functions (functions.h) and views (views/*.sql) in
// SQLite. Nothing can be written, and no file opened.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/json_value.h"
#include "host/result.h"
#include "tables.h"

namespace titan::analyzer {

struct QueryLimits {
    double most_s = 60;
    uint64_t most_mib = 1024;
};

// A table or a view.
struct SqlTableHelp {
    std::string name;
    std::string meaning;
    std::vector<SqlColumn> columns;  // of a view: their names alone
    bool is_view = false;
};

struct QueryOutput {
    std::function<void(const std::vector<std::string>& names)> columns;  // once for each statement that has some
    std::function<void(const std::vector<Json>& values)> row;
};

// Not thread-safe.
class Database {
  public:
    // The run is loaded when a statement needs it.
    Database(LoadForTables load, const QueryLimits& limits);
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;
    ~Database();

    // Runs the statements one after the other. Answers what is wrong with one, or that it took too much; empty:
    // nothing. What it has put out before remains. Throws what the loading of the run throws.
    std::string query(const std::string& sql, const QueryOutput& output);
    // Tables first.
    std::vector<SqlTableHelp> help();
    // What could not be read so far.
    std::vector<std::string> problems();
    // Is the text at its end, or in the middle of a statement?
    static bool is_complete(const std::string& sql);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// --- The views of views/*.sql: a report each, in SQL. What its first lines say, as comments, is its meaning.

struct View {
    const char* name;
    const char* sql;
};

extern const std::span<const View> kViews;

std::string meaning_of(const View& view);

}  // namespace titan::analyzer
