// A listing in columns that are as wide as what is in them; the newest rows only, where that is asked for.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace titan {

struct ListColumn {
    std::string title;  // no column has one: no line of titles
    size_t width;       // minimum
    bool right = false;
};

class Listing {
  public:
    using Write = std::function<void(const std::string&)>;
    // `most` = 0: all rows.
    Listing(std::vector<ListColumn> columns, size_t most, const Write& write)
        : columns_(std::move(columns)), most_(most), write_(write) {}

    // Expects one cell for each column.
    void add(std::vector<std::string> cells);
    // Writes the rows added since the last time; the first time, below the titles.
    void write_rows();
    size_t rows() const { return written_; }

  private:
    std::string line(const std::vector<std::string>& cells) const;
    void write_titles();
    void widen(const std::vector<std::string>& cells);

    std::vector<ListColumn> columns_;
    size_t most_;
    const Write& write_;
    std::deque<std::vector<std::string>> rows_;
    size_t written_ = 0;
};

// A whole listing, with its titles.
std::string listing_text(std::vector<ListColumn> columns, std::vector<std::vector<std::string>> rows);

}  // namespace titan
