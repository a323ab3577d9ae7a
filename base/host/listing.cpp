#include "host/listing.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "host/mapped.h"
#include "host/words.h"

namespace titan {
namespace {

constexpr size_t kWidest = 64;           // one long name must not push all rows off the screen
constexpr size_t kMostWaiting = 10'000;  // rows, for their columns to be as wide as they need
constexpr size_t kGap = 2;               // between columns
constexpr size_t kIndent = 6;            // of what stands below
constexpr size_t kLeastText = 24;        // a text that is wrapped in less is no text

// "Bus GB/s" and "bus-gb-s" are one column.
std::string plain_title(std::string_view title) {
    std::string plain;
    for (const char c : title) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80) {
            plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        }
    }
    return plain;
}

struct SortBy {
    std::string title;
    bool greatest_first = false;
};

SortBy sort_by(const ListingOptions& options) {
    const bool greatest_first = options.sort.starts_with('-');
    return {plain_title(options.sort), greatest_first};
}

// Index of the column with this title; columns.size() if there is none.
size_t place_of(const std::vector<ListColumn>& columns, const std::string& title) {
    return static_cast<size_t>(std::find_if(columns.begin(), columns.end(),
                                            [&](const ListColumn& column) {
                                                return !column.title.empty() && plain_title(column.title) == title;
                                            }) -
                               columns.begin());
}

struct Unit {
    std::string_view name;
    double factor;
};
constexpr Unit kUnits[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {"%", 1}, {"", 1}};

// "1,234", "3.2 ms", "2 min 05 s", "41.5%", "#40", "24 of 72" and "6 (rank 3)" are numbers; "2026-11-22" is none.
std::optional<double> quantity_in(std::string_view cell) {
    std::string text;
    std::copy_if(cell.begin(), cell.end(), std::back_inserter(text), [](char c) { return c != ',' && c != '#'; });
    std::optional<double> sum;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at != end) {
        double number = 0;
        const auto [behind, error] = std::from_chars(at, end, number);
        if (error != std::errc() || !std::isfinite(number)) {
            return std::nullopt;
        }
        at = behind + (behind != end && *behind == ' ' ? 1 : 0);
        const char* const word = at;
        at = std::find(at, end, ' ');
        std::string_view name(word, static_cast<size_t>(at - word));
        const bool goes_on = name.starts_with('(') || name == "of" || name == "+";
        const auto* const unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                              [&](const Unit& known) { return known.name == (goes_on ? "" : name); });
        if (unit == std::end(kUnits)) {
            return std::nullopt;
        }
        sum = sum.value_or(0) + number * unit->factor;
        if (goes_on || name.empty()) {
            return sum;
        }
        at += at != end ? 1 : 0;
    }
    return sum;
}

// What a cell is ordered by. Numbers come before words, and both before what is not known.
struct CellOrder {
    enum Kind { kNumber, kWords, kNothing } kind;
    double number = 0;
    const std::string* words;

    explicit CellOrder(const std::string& cell) : words(&cell) {
        const std::optional<double> quantity = quantity_in(cell);
        kind = cell.empty() || cell == "-" ? kNothing : quantity ? kNumber : kWords;
        number = quantity.value_or(0);
    }
    bool operator<(const CellOrder& other) const {
        return kind == kNumber ? number < other.number : kind == kWords && NumbersByValue()(*words, *other.words);
    }
};

// By RFC 4180. Names are strangers': what a spreadsheet would take for a formula gets a quote in front.
std::string csv_cell(const std::string& cell) {
    if (cell == "-") {
        return {};
    }
    const bool number = quantity_in(cell).has_value();
    const bool grouped =
        number && cell.find_first_not_of("0123456789,") == std::string::npos && cell.find(',') != std::string::npos;
    std::string text = !number && !cell.empty() && std::string_view("=+-@").find(cell.front()) != std::string_view::npos
                           ? "'" + cell
                           : cell;
    if (grouped) {
        std::erase(text, ',');
    }
    if (text.find_first_of(",\"\r\n") == std::string::npos) {
        return text;
    }
    std::string quoted = "\"";
    for (const char c : text) {
        quoted += c == '"' ? "\"\"" : std::string(1, c);
    }
    return quoted + "\"";
}

}  // namespace

void check_sort(const std::vector<std::vector<ListColumn>>& tables, const ListingOptions& options) {
    const SortBy by = sort_by(options);
    if (options.sort.empty() || std::any_of(tables.begin(), tables.end(), [&](const auto& columns) {
            return place_of(columns, by.title) != columns.size();
        })) {
        return;
    }
    std::vector<std::string> titles;
    for (const auto& table : tables) {
        for (const ListColumn& column : table) {
            if (!column.title.empty() && std::find(titles.begin(), titles.end(), column.title) == titles.end()) {
                titles.push_back(column.title);
            }
        }
    }
    if (titles.empty()) {
        return;  // nothing to sort, or all is well and no table is shown
    }
    const std::string asked = options.sort.substr(options.sort.starts_with('-') ? 1 : 0);
    const std::string meant = nearest_word(asked, titles);
    throw NoSuchColumn("--sort: there is no column '" + printable(asked) + "'" +
                       (meant.empty() ? std::string() : "; did you mean '" + meant + "'?") +
                       "; there are: " + listed(titles));
}

void sort_rows(const std::vector<ListColumn>& columns, const ListingOptions& options, Rows& rows) {
    const SortBy by = sort_by(options);
    const size_t place = options.sort.empty() ? columns.size() : place_of(columns, by.title);
    if (place == columns.size()) {
        return;
    }
    std::vector<std::pair<CellOrder, size_t>> order;  // and the number of the row
    for (size_t i = 0; i < rows.size(); ++i) {
        order.emplace_back(CellOrder(rows[i][place]), i);
    }
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
        return a.first.kind != b.first.kind ? a.first.kind < b.first.kind
               : by.greatest_first          ? b.first < a.first
                                            : a.first < b.first;
    });
    Rows sorted = mapped(order, [&](const auto& one) { return rows[one.second]; });
    rows = std::move(sorted);
}

void Listing::add(std::vector<std::string> cells) {
    rows_.push_back(std::move(cells));
    if (most_ != 0 && rows_.size() > most_) {
        rows_.pop_front();
    }
    if (most_ == 0 && options_.sort.empty() && rows_.size() == kMostWaiting) {
        end_part();
    }
}

void Listing::widen(const std::vector<std::string>& cells) {
    for (size_t i = 0; i + 1 < columns_.size(); ++i) {
        columns_[i].width = std::max(columns_[i].width, std::min(characters(cells[i]), kWidest));
    }
    last_width_ = std::max(last_width_, characters(cells.back()));
}

std::vector<Listing::Deck> Listing::decks() const {
    std::vector<Deck> decks{{0, 0}};
    size_t used = 0;
    for (size_t i = 0; i < columns_.size(); ++i) {
        const bool last = i + 1 == columns_.size();
        const size_t least = last ? std::min(last_width_, kLeastText) : columns_[i].width;
        const size_t gap = i == decks.back().begin ? 0 : kGap;
        if (options_.width != 0 && gap != 0 && used + gap + least > options_.width) {
            decks.push_back({i, i});
            used = kIndent + least;
        } else {
            used += gap + least;
        }
        decks.back().end = i + 1;
    }
    return decks;
}

std::string Listing::csv_line(const std::vector<std::string>& cells) const {
    std::string text;
    for (size_t i = 0; i < columns_.size(); ++i) {
        text += (i == 0 ? "" : ",") + csv_cell(cells[i]);
    }
    return text + "\n";
}

std::string Listing::line(const std::vector<std::string>& cells) const {
    if (options_.csv) {
        return csv_line(cells);
    }
    std::string all;
    for (const Deck& deck : decks_) {
        std::string text(deck.begin == 0 ? 0 : kIndent, ' ');
        for (size_t i = deck.begin; i < deck.end; ++i) {
            text += std::string(i == deck.begin ? 0 : kGap, ' ');
            const size_t length = characters(cells[i]);
            const std::string padding(length < columns_[i].width ? columns_[i].width - length : 0, ' ');
            if (i + 1 < columns_.size()) {
                text += columns_[i].right ? padding + cells[i] : cells[i] + padding;
            } else if (options_.width == 0 || characters(text) + length <= options_.width) {
                text += cells[i];
            } else {
                const std::string below(characters(text), ' ');
                text = wrapped(cells[i], options_.width, text, below);
                text.pop_back();  // its end of line
            }
        }
        text.erase(text.find_last_not_of(' ') + 1);
        all += text.empty() ? "" : text + "\n";
    }
    return all.empty() ? "\n" : all;
}

void Listing::write_titles() {
    std::vector<std::string> titles = mapped(columns_, &ListColumn::title);
    widen(titles);
    if (std::any_of(titles.begin(), titles.end(), [](const std::string& title) { return !title.empty(); })) {
        write_(line(titles));
    }
}

template <typename List>
void Listing::write_all(const List& rows) {
    for (const auto& row : rows) {
        widen(row);
    }
    const bool first = written_ == 0 && !rows.empty();
    const std::vector<Deck> before = std::exchange(decks_, decks());
    if (first || (written_ != 0 && before != decks_ && !options_.csv)) {
        write_titles();
    }
    for (const auto& row : rows) {
        write_(line(row));
    }
    written_ += rows.size();
}

void Listing::end_part() {
    if (options_.sort.empty()) {
        write_all(rows_);
    } else {
        sorted_.insert(sorted_.end(), std::make_move_iterator(rows_.begin()), std::make_move_iterator(rows_.end()));
    }
    rows_.clear();
}

void Listing::finish() {
    end_part();
    sort_rows(columns_, options_, sorted_);
    const Rows sorted = std::exchange(sorted_, {});
    write_all(sorted);
}

std::string listing_text(std::vector<ListColumn> columns, Rows rows, const ListingOptions& options) {
    std::string text;
    const Listing::Write append = [&text](const std::string& line) { text += line; };
    Listing listing(std::move(columns), 0, append, options);
    for (std::vector<std::string>& row : rows) {
        listing.add(std::move(row));
    }
    listing.finish();
    return text;
}

}  // namespace titan
