// titan-analyze sql: questions in SQL over the records of a run.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "database.h"
#include "host/json_value.h"
#include "host/listing.h"
#include "host/mapped.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

// --- The rows of a query, for people or as JSON Lines, as they come.

class RowsOutput {
  public:
    // Calls write(text) with whole lines.
    RowsOutput(Listing::Write write, bool json, const ListingOptions& table)
        : write_(std::move(write)), json_(json), table_(table) {}

    QueryOutput query_output();
    void finish();
    size_t rows() const { return rows_; }  // of the newest statement

  private:
    void begin(const std::vector<std::string>& names);
    void begin_listing(const std::vector<Json>& first);
    void add(const std::vector<Json>& values);

    Listing::Write write_;
    bool json_;
    ListingOptions table_;
    std::vector<std::string> names_;
    std::unique_ptr<Listing> listing_;  // from the first row on
    size_t listings_ = 0;
    size_t rows_ = 0;
};

constexpr size_t kRowsOfAPart = 1000;  // columns are as wide as what is in so many rows

// As exact as people read: "2.5", "1234567.891", "1.5e-07".
std::string real_text(double value) {
    if (!std::isfinite(value) || value == 0 || std::abs(value) >= 1e15 || std::abs(value) < 1e-3) {
        return fmt::format("{:.6g}", value);
    }
    std::string text = fmt::format("{:.3f}", value);
    text.erase(text.find_last_not_of('0') + 1);
    return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::string cell_text(const Json& value, bool csv) {
    if (const auto integer = value.integer()) {
        return std::to_string(*integer);
    }
    if (const auto number = value.number()) {
        return csv ? fmt::format("{}", *number) : real_text(*number);
    }
    const auto text = value.text();
    return text ? printable(*text) : csv ? "" : "-";
}

QueryOutput RowsOutput::query_output() {
    return {[this](const std::vector<std::string>& names) { begin(names); },
            [this](const std::vector<Json>& values) { add(values); }};
}

void RowsOutput::finish() {
    if (listing_ != nullptr) {
        listing_->end_part();
        listing_->finish();
        listing_.reset();
    }
}

void RowsOutput::begin(const std::vector<std::string>& names) {
    finish();
    names_ = names;
    rows_ = 0;
}

// Text stands on the left, numbers on the right, as the first row has them.
void RowsOutput::begin_listing(const std::vector<Json>& first) {
    std::vector<ListColumn> columns;
    for (size_t i = 0; i < names_.size(); ++i) {
        columns.push_back({printable(names_[i]), 0, !first[i].text()});
    }
    check_sort({columns}, table_);
    if (++listings_ > 1) {
        write_("\n");
    }
    listing_ = std::make_unique<Listing>(std::move(columns), 0, write_, table_);
}

void RowsOutput::add(const std::vector<Json>& values) {
    ++rows_;
    if (json_) {
        Json row = Json::object();
        for (size_t i = 0; i < values.size(); ++i) {
            row.add_member(names_[i], values[i]);
        }
        write_(row.dump() + "\n");
        return;
    }
    if (listing_ == nullptr) {
        begin_listing(values);
    }
    std::vector<std::string> cells;
    std::ranges::transform(values, std::back_inserter(cells),
                           [this](const Json& value) { return cell_text(value, table_.csv); });
    listing_->add(std::move(cells));
    if (rows_ % kRowsOfAPart == 0) {
        listing_->end_part();
    }
}

constexpr const char* kSqlFooter =
    R"(The records of the run are tables of SQLite: calls, markers, parts, ranks, findings and others, from any
recorder, with views over them. --tables lists all with their columns; docs/use/sql.md answers twenty questions.

Functions beside SQLite's own: quantile(x, share), std(x), arg_max(value, by), arg_min(value, by), rank_ranges(rank);
duration(ns) and moment(realtime_ns) write for people. Times are nanoseconds; NaN is null.

A query reads only the columns that it names; `WHERE rank = 3` opens only the records of that rank. A query can write
nothing and open no file, so a query from somebody else does no harm.

examples:
  titan-analyze sql dumps/ --tables
  titan-analyze sql dumps/ "SELECT op, count(*), sum(count) FROM calls GROUP BY op"
  titan-analyze sql dumps/ "SELECT last_rank, count(*) AS times FROM arrivals GROUP BY 1 ORDER BY times DESC LIMIT 5"
  titan-analyze sql dumps/ "SELECT name, duration(p99_ns), max_rank FROM totals WHERE kind = 'span'"
  titan-analyze sql dumps/ --file questions.sql --csv
  titan-analyze sql dumps/ --interactive

Exit status: 0 the query ran, 2 unusable input, arguments or SQL, or a limit was reached.)";

struct SqlArguments {
    CommonOptions common;
    QueryLimits limits;
    std::string file;
    bool interactive = false;
    bool tables = false;
    bool json = false;
    ListingOptions table;
};

int list_tables(Database& database, const SqlArguments& arguments) {
    const std::vector<ListColumn> columns = {{"table", 16}, {"column", 12}, {"type", 14}, {"unit", 8}, {"meaning", 0}};
    check_sort({columns}, arguments.table);
    Rows rows;
    for (const SqlTableHelp& table : database.help()) {
        if (arguments.json) {
            Json fields = mapped(table.columns, [](const SqlColumn& column) -> Json {
                return {
                    {"name", column.name}, {"type", column.type}, {"unit", column.unit}, {"meaning", column.meaning}};
            });
            const Json line{{"table", table.name},
                            {"meaning", table.meaning},
                            {"view", table.is_view},
                            {"columns", std::move(fields)}};
            print_text(line.dump() + "\n");
            continue;
        }
        rows.push_back({table.name, "", table.is_view ? "view" : "table", "", table.meaning});
        for (const SqlColumn& column : table.columns) {
            rows.push_back({table.name, column.name, column.type, column.unit, column.meaning});
        }
    }
    if (!arguments.json) {
        print_text(listing_text(columns, std::move(rows), arguments.table));
    }
    return kExitHealthy;
}

// Prints what a query puts out; what is wrong with it goes to standard error. Returns the exit status.
int run_query(Database& database, const std::string& sql, const SqlArguments& arguments) {
    RowsOutput output([](const std::string& text) { print_text(text); }, arguments.json, arguments.table);
    const std::string wrong = database.query(sql, output.query_output());
    output.finish();
    if (wrong.empty() && output.rows() == 0) {
        say("titan-analyze: no rows\n");
    }
    for (const std::string& problem : database.problems()) {
        say("titan-analyze: {}\n", problem);
    }
    return wrong.empty() ? kExitHealthy : fail(wrong);
}

// A line at a time, until a statement is whole; what is wrong with one does not end it.
int run_interactively(Database& database, const SqlArguments& arguments) {
    const bool prompts = ::isatty(STDIN_FILENO) != 0;
    if (prompts) {
        say("statements end with \";\"; .tables lists tables and views, .quit or Ctrl-D ends this\n");
    }
    int status = kExitHealthy;
    std::string statement;
    for (std::string line;;) {
        if (prompts) {
            say("{}", statement.empty() ? "sql> " : "...> ");
        }
        if (!std::getline(std::cin, line) || (statement.empty() && line == ".quit")) {
            break;
        }
        if (statement.empty() && line == ".tables") {
            list_tables(database, arguments);
            continue;
        }
        if (statement.empty() && line.find_first_not_of(" \t") == std::string::npos) {
            continue;
        }
        statement += line + "\n";
        if (Database::is_complete(statement)) {
            status = run_query(database, statement, arguments);
            statement.clear();
        }
    }
    return statement.empty() ? status : run_query(database, statement, arguments);
}

Result<std::string> text_of_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file.is_open() || file.bad()) {
        return Error(path + ": " + std::strerror(errno));
    }
    return text;
}

// The query stands behind the paths, or comes from a file or from standard input.
Result<std::string> query_of(SqlArguments& arguments) {
    if (!arguments.file.empty()) {
        return text_of_file(arguments.file);
    }
    std::vector<std::string>& paths = arguments.common.paths;
    if (paths.size() > 1) {
        std::string query = std::move(paths.back());
        paths.pop_back();
        return query;
    }
    if (::isatty(STDIN_FILENO) != 0) {
        return Error("no query: write it behind the path, or give --file, --interactive or --tables (see --help)");
    }
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

int run_sql(SqlArguments& arguments) {
    const std::string query = arguments.interactive || arguments.tables ? "" : usable(query_of(arguments));
    bool is_first = true;
    Database database(
        [&](bool records_alone) {
            LoadOptions options = arguments.common.load_options(true);
            options.records_alone = records_alone;
            Run run = usable(load_run(options));
            if (std::exchange(is_first, false)) {
                say_which_is_read(run, arguments.common);
            }
            return run;
        },
        arguments.limits);
    return arguments.tables        ? list_tables(database, arguments)
           : arguments.interactive ? run_interactively(database, arguments)
                                   : run_query(database, query, arguments);
}

}  // namespace

Command sql_command(CommandLine& app) {
    const auto arguments = std::make_shared<SqlArguments>();
    CommandLine& command = app.command("sql", "Ask questions in SQL over the records of a run.", kSqlFooter);
    command.option("PATH", arguments->common.paths, "as for the diagnosis; the last one is the query").required();
    add_run(command, arguments->common);
    const CommandOption file =
        command.option("--file", arguments->file, "file with the query, statements separated by \";\"");
    const CommandOption interactive =
        command.flag("--interactive", arguments->interactive, "ask for one statement after the other");
    command.flag("--tables", arguments->tables, "list tables and views with their columns, and run nothing")
        .excludes(file)
        .excludes(interactive);
    command.option("--limit-s", arguments->limits.most_s, "stop a statement after so many seconds")
        .positive()
        .show_default();
    command.option("--limit-mib", arguments->limits.most_mib, "stop a statement that needs more memory")
        .positive()
        .show_default();
    add_table_options(command, arguments->table,
                      command.flag("--json", arguments->json, "JSON Lines, one object per row"));
    return {&command, [arguments] { return run_sql(*arguments); }};
}

}  // namespace titan::analyzer
