#include "host/listing.h"

#include <algorithm>
#include <utility>

#include "host/words.h"

namespace titan {

namespace {
constexpr size_t kWidest = 64;  // one long name must not push all rows off the screen
}

void Listing::add(std::vector<std::string> cells) {
    rows_.push_back(std::move(cells));
    if (most_ != 0 && rows_.size() > most_) {
        rows_.pop_front();
    }
}

void Listing::widen(const std::vector<std::string>& cells) {
    for (size_t i = 0; i + 1 < columns_.size(); ++i) {
        columns_[i].width = std::max(columns_[i].width, std::min(characters(cells[i]), kWidest));
    }
}

std::string Listing::line(const std::vector<std::string>& cells) const {
    std::string text;
    for (size_t i = 0; i < columns_.size(); ++i) {
        const bool last = i + 1 == columns_.size();
        const size_t length = characters(cells[i]);
        const std::string padding(length < columns_[i].width && !last ? columns_[i].width - length : 0, ' ');
        text += (i == 0 ? "" : "  ") + (columns_[i].right ? padding + cells[i] : cells[i] + padding);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
}

void Listing::write_titles() {
    std::vector<std::string> titles;
    for (const ListColumn& column : columns_) {
        titles.push_back(column.title);
    }
    widen(titles);
    if (const std::string all = line(titles); all != "\n") {
        write_(all);
    }
}

void Listing::write_rows() {
    for (const auto& row : rows_) {
        widen(row);
    }
    if (written_ == 0 && !rows_.empty()) {
        write_titles();
    }
    for (const auto& row : rows_) {
        write_(line(row));
    }
    written_ += rows_.size();
    rows_.clear();
}

std::string listing_text(std::vector<ListColumn> columns, std::vector<std::vector<std::string>> rows) {
    std::string text;
    const Listing::Write append = [&text](const std::string& line) { text += line; };
    Listing listing(std::move(columns), 0, append);
    for (std::vector<std::string>& row : rows) {
        listing.add(std::move(row));
    }
    listing.write_rows();
    return text;
}

}  // namespace titan
