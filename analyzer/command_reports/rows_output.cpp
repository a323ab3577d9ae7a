#include "rows_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "host/words.h"

namespace titan::analyzer {
namespace {

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

}  // namespace

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
    std::transform(values.begin(), values.end(), std::back_inserter(cells),
                   [this](const Json& value) { return cell_text(value, table_.csv); });
    listing_->add(std::move(cells));
    if (rows_ % kRowsOfAPart == 0) {
        listing_->end_part();
    }
}

}  // namespace titan::analyzer
