// The rows of a query, for people or as JSON Lines, as they come.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "database.h"
#include "host/listing.h"

namespace titan::analyzer {

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

}  // namespace titan::analyzer
