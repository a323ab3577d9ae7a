// titan-analyze sql: questions in SQL over the records of a run.
#include <unistd.h>

#include <cerrno>
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
#include "rows_output.h"

namespace titan::analyzer {
namespace {

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
            Json fields = Json::array();
            for (const SqlColumn& column : table.columns) {
                fields.push_back(
                    {{"name", column.name}, {"type", column.type}, {"unit", column.unit}, {"meaning", column.meaning}});
            }
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
    Result<std::string> query = std::string();
    if (!arguments.interactive && !arguments.tables) {
        query = query_of(arguments);
        if (!query) {
            return fail(query.error().text());
        }
    }
    LoadOptions load = arguments.common.load_options();
    load.with_journals = true;
    const auto run = load_run(load);
    if (!run) {
        return fail(run.error().text());
    }
    Database database(*run, arguments.limits);
    return arguments.tables        ? list_tables(database, arguments)
           : arguments.interactive ? run_interactively(database, arguments)
                                   : run_query(database, *query, arguments);
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
