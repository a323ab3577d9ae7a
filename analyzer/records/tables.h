// The tables of a run: each kind of record by the table of fields (records.def), and what the run is made of.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "records.h"
#include "run.h"
#include "table.h"

namespace titan::analyzer {

// Loads the run, with the histories of its processes or without (LoadOptions::records_alone).
using LoadForTables = std::function<Run(bool records_alone)>;

// Reads records for all tables, one process at a time. Not thread-safe.
class SqlSource {
  public:
    explicit SqlSource(LoadForTables load) : load_(std::move(load)) {}

    // Comes before rows of tables are read. What is loaded already stays.
    void load(bool with_histories);
    const Run& run() const { return loaded_->run; }
    const std::vector<const Process*>& processes() const { return loaded_->reader.processes(); }
    // Calls visit(records), unless they cannot be read.
    template <typename Visit>
    void visit(size_t process, const Visit& visit) {
        const Result<ProcessRecords> records = loaded_->reader.open(*processes()[process]);
        if (records) {
            visit(*records);
        } else {
            unread_.insert(processes()[process]->source.label + ": " + records.error().text());
        }
    }
    // What could not be read so far.
    std::vector<std::string> problems();

  private:
    struct Loaded {
        explicit Loaded(Run of) : run(std::move(of)) {}
        Run run;
        Symbols symbols{Symbols::Search::kNearby};
        RecordReader reader{run, symbols};
    };

    LoadForTables load_;
    std::unique_ptr<Loaded> loaded_;
    bool has_histories_ = false;
    std::set<std::string> unread_;
};

// The source must outlive them.
std::vector<std::unique_ptr<SqlTable>> tables_of(SqlSource& source);

}  // namespace titan::analyzer
