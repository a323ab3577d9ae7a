// Tables as SQLite's virtual tables. A query reads of a table only the columns that it names, of the rows that meet its
// conditions; `rank = 3` opens the records of that rank alone. A table that a query goes through again and again (a
// join) stays in memory, found by what it is joined on.
#pragma once

#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "table.h"

namespace titan::analyzer {

// A query has taken too long, or too much memory.
struct LimitReached : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// What a query may take; counts for all tables of a database.
class QueryBudget {
  public:
    QueryBudget(double most_s, uint64_t most_bytes) : most_s_(most_s), most_bytes_(most_bytes) {}

    void start() {
        started_ = std::chrono::steady_clock::now();
        ++query_;
    }
    uint64_t query() const { return query_; }  // the n-th
    bool is_over() const {
        return std::chrono::steady_clock::now() - started_ > std::chrono::duration<double>(most_s_);
    }
    void check_time() const;  // throws LimitReached
    // What a query is told that has reached a limit.
    std::string time_text() const;
    std::string memory_text() const;
    uint64_t most_bytes() const { return most_bytes_; }

  private:
    double most_s_;
    uint64_t most_bytes_;
    std::chrono::steady_clock::time_point started_{};
    uint64_t query_ = 0;
};

// The table and the budget must outlive the connection.
void add_virtual_table(sqlite3* database, const SqlTable& table, const QueryBudget& budget);

}  // namespace titan::analyzer
