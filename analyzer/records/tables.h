// The tables of a run: each kind of record by the table of fields (records.def), and what the run is made of.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "records.h"
#include "run.h"
#include "table.h"

namespace titan::analyzer {

// Reads records for all tables, one process at a time. Not thread-safe.
class SqlSource {
  public:
    // The run must outlive it.
    explicit SqlSource(const Run& run) : run_(run), symbols_(Symbols::Search::kNearby), reader_(run, symbols_) {}

    const Run& run() const { return run_; }
    const std::vector<const Process*>& processes() const { return reader_.processes(); }
    // Calls visit(records), unless they cannot be read.
    template <typename Visit>
    void visit(size_t process, const Visit& visit) {
        const Result<ProcessRecords> records = reader_.open(*processes()[process]);
        if (records) {
            visit(*records);
        } else {
            unread_.insert(processes()[process]->source.label + ": " + records.error().text());
        }
    }
    // What could not be read so far.
    std::vector<std::string> problems();

  private:
    const Run& run_;
    Symbols symbols_;
    RecordReader reader_;
    std::set<std::string> unread_;
};

// The source must outlive them.
std::vector<std::unique_ptr<SqlTable>> tables_of(SqlSource& source);

}  // namespace titan::analyzer
