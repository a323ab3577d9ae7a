// Tables as users sort them, and as CSV.
#include "host/listing.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "host/words.h"

using namespace titan;

namespace {

const std::vector<ListColumn> kColumns = {{"what", 4}, {"mean time", 6, true}, {"", 4}};

// The first column of the rows in their order.
std::string order_of(const std::string& sort, const std::vector<std::string>& cells) {
    Rows rows;
    for (size_t i = 0; i < cells.size(); ++i) {
        rows.push_back({std::string(1, static_cast<char>('a' + i)), cells[i], ""});
    }
    sort_rows(kColumns, {.sort = sort}, rows);
    std::string order;
    for (const auto& row : rows) {
        order += row.front();
    }
    return order;
}

std::string complaint(const std::string& sort) {
    try {
        check_sort({kColumns, {{"rank", 0}}}, {.sort = sort});
    } catch (const NoSuchColumn& error) {
        return error.what();
    }
    return {};
}

}  // namespace

TEST_CASE("rows are sorted by what their cells mean") {
    CHECK(order_of("mean time", {"1.2 ms", "900 us", "2 min 05 s", "3.0 s", "-", "1 h 00 min"}) == "badcfe");
    CHECK(order_of("-mean time", {"1.2 ms", "900 us", "2 min 05 s", "3.0 s", "-", "1 h 00 min"}) == "fcdabe");
    CHECK(order_of("mean time", {"1,024", "99", "#100"}) == "bca");
    CHECK(order_of("mean time", {"24 of 72", "3 of 9", "5 (rank 3)"}) == "bca");
    CHECK(order_of("mean time", {"41.5%", "-3%", "9%"}) == "bca");
    CHECK(order_of("mean time", {"node-10", "node-2", "7", ""}) == "cbad");
    CHECK(order_of("mean time", {"2026-11-23 00:00:01 +01:00", "2026-11-22 08:27:56 +01:00"}) == "ba");
    CHECK(order_of("mean time", {"nan", "inf", "1"}) == "cba");
    CHECK(order_of("mean time", {"5", "5", "1"}) == "cab");
}

TEST_CASE("a column is found by its title, and a misspelt one is not taken") {
    CHECK(order_of("Mean-Time", {"2", "1"}) == "ba");
    CHECK(order_of("what", {"2", "1"}) == "ab");
    CHECK(order_of("no such", {"2", "1"}) == "ab");  // another table of the command may have it
    CHECK(complaint("").empty());
    CHECK(complaint("-rank").empty());
    CHECK(complaint("maen time") ==
          "--sort: there is no column 'maen time'; did you mean 'mean time'?; there are: what, mean time, rank");
    CHECK(complaint("-x\x1b[2J") == "--sort: there is no column 'x?[2J'; there are: what, mean time, rank");
}

TEST_CASE("CSV holds names of any kind, and no formulas") {
    const std::vector<ListColumn> columns = {{"name", 8}, {"count", 8, true}};
    CHECK(listing_text(columns, {{"a \"b\", c", "1,234"}, {"=1+1", "-"}, {"-3.5 ms", "-0.5"}, {"@x", "7 of 9"}},
                       {.csv = true}) == "name,count\n\"a \"\"b\"\", c\",1234\n'=1+1,\n-3.5 ms,-0.5\n'@x,7 of 9\n");
}

TEST_CASE("sorted rows wait for all parts of a listing") {
    std::string text;
    const Listing::Write write = [&](const std::string& line) { text += line; };
    Listing listing({{"rank", 4, true}, {"state", 0}}, 0, write, {.sort = "-rank"});
    listing.add({"2", "b"});
    listing.end_part();
    CHECK(text.empty());
    listing.add({"10", "a"});
    listing.finish();
    CHECK(text == "rank  state\n  10  a\n   2  b\n");
    CHECK(listing.rows() == 2);
}

TEST_CASE("long texts are cut between characters, and misspelt words are near others") {
    CHECK(shortened("abcdef", 6) == "abcdef");
    CHECK(shortened("abcdefg", 6) == "abc...");
    CHECK(shortened("\u00e4\u00f6\u00fc\u00df\u00e9\u00e8", 5) == "\u00e4\u00f6...");
    CHECK(shortened("abc", 2) == "..");
    CHECK(nearest_word("shwo", {"stacks", "show"}) == "show");
    CHECK(nearest_word("dumps", {"stacks", "show"}).empty());
    CHECK(nearest_word("x", {"show"}).empty());
}

TEST_CASE("rows without end are written as they come") {
    size_t lines = 0;
    const titan::Listing::Write count = [&lines](const std::string& text) {
        lines += static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
    };
    titan::Listing listing({{"n", 1}, {"text", 0}}, 0, count);
    for (size_t i = 1; i <= 100'000; ++i) {
        listing.add({std::to_string(i), "row"});
        CHECK(i - std::min(i, lines) <= 10'000);
    }
    listing.finish();
    CHECK(lines == 100'001);
    CHECK(listing.rows() == 100'000);
}
