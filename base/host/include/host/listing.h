// A listing in columns that are as wide as what is in them, or as CSV; in the order in which its rows come, or by one
// of its columns. Where rows are wider than the terminal, the columns that do not fit stand in lines of their own below
// the others, titles and cells alike: nothing is cut.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

struct ListColumn {
    std::string title;  // no column has one: no line of titles
    size_t width;       // minimum
    bool right = false;
};

// What the user asks of all tables of a command (--sort, --csv).
struct ListingOptions {
    std::string
        sort{};  // title of a column, the least first; behind a "-": the greatest first; empty: as the rows come
    bool csv = false;
    size_t width = 0;  // of the terminal, 0: no end
};

// The message names the columns that there are.
struct NoSuchColumn : std::runtime_error {
    using std::runtime_error::runtime_error;
};

using Rows = std::vector<std::vector<std::string>>;

// Throws NoSuchColumn where there are tables and none of them has the column to sort by.
void check_sort(const std::vector<std::vector<ListColumn>>& tables, const ListingOptions& options);
// By the column that the options name; leaves the rows of a table without it alone. Cells are compared as what they
// show: "900 us" is less than "1.2 ms", "node-2" than "node-10", and "-" comes last.
void sort_rows(const std::vector<ListColumn>& columns, const ListingOptions& options, Rows& rows);

class Listing {
  public:
    using Write = std::function<void(const std::string&)>;
    // `most`: of each part only so many rows, the newest ones; 0: all.
    Listing(std::vector<ListColumn> columns, size_t most, const Write& write, ListingOptions options = {})
        : columns_(std::move(columns)), most_(most), write_(write), options_(std::move(options)) {}

    // Expects one cell for each column.
    void add(std::vector<std::string> cells);
    // Ends a part: writes its rows; the first time, below the titles. Sorted rows wait for finish().
    void end_part();
    void finish();
    size_t rows() const { return written_ + sorted_.size(); }

  private:
    // Columns that stand beside each other.
    struct Deck {
        size_t begin;
        size_t end;
        bool operator==(const Deck&) const = default;
    };

    std::string line(const std::vector<std::string>& cells) const;
    std::string csv_line(const std::vector<std::string>& cells) const;
    std::vector<Deck> decks() const;
    void write_titles();
    void widen(const std::vector<std::string>& cells);
    template <typename List>
    void write_all(const List& rows);

    std::vector<ListColumn> columns_;
    size_t most_;
    const Write& write_;
    ListingOptions options_;
    std::deque<std::vector<std::string>> rows_;
    Rows sorted_;              // to be
    size_t last_width_ = 0;    // of what is in the last column
    std::vector<Deck> decks_;  // as the titles have them
    size_t written_ = 0;
};

// A whole listing, with its titles.
std::string listing_text(std::vector<ListColumn> columns, Rows rows, const ListingOptions& options = {});

}  // namespace titan
