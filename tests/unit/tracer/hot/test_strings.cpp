#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "hot/strings.h"

using namespace titan;

namespace {

struct Table {
    std::vector<format::StringRecord> rows = std::vector<format::StringRecord>(256);
    std::vector<char> heap = std::vector<char>(4096);
    format::RegionCursor cursor{};
    uint64_t dropped = 0;
    tracer::StringTable strings{rows.data(), rows.size(), heap.data(), heap.size(), cursor, dropped};

    std::string_view text(uint32_t id) const {
        const format::StringRecord& record = rows.at(id - 1);
        return {heap.data() + record.offset_bytes, record.length_bytes - 1};
    }
};

}  // namespace

TEST_CASE("the same text has one id, other texts have others") {
    Table table;
    const uint32_t forward = table.strings.intern("forward");
    CHECK(forward != 0);
    CHECK(table.strings.intern(std::string("forward").c_str()) == forward);
    CHECK(table.strings.intern("forwarD") != forward);
    CHECK(table.strings.intern("forward ") != forward);
    CHECK(table.text(forward) == "forward");
}

TEST_CASE("null and empty are id 0 and take no room") {
    Table table;
    CHECK(table.strings.intern(nullptr) == 0);
    CHECK(table.strings.intern("") == 0);
    CHECK(table.cursor.head == 0);
}

TEST_CASE("long texts are cut, not refused") {
    Table table;
    const std::string text(1000, 'x');
    CHECK(table.text(table.strings.intern(text.c_str())).size() == tracer::kMaxStringBytes);
}

TEST_CASE("a full table drops names and counts them") {
    Table table;
    int unnamed = 0;
    for (int i = 0; i < 1000; ++i) {
        unnamed += table.strings.intern(("name " + std::to_string(i)).c_str()) == 0;
    }
    CHECK(unnamed > 0);
    CHECK(table.dropped >= static_cast<uint64_t>(unnamed));
}

TEST_CASE("threads that intern the same new names agree on the ids") {
    Table table;
    constexpr int kNames = 100;
    std::vector<std::vector<uint32_t>> ids(4, std::vector<uint32_t>(kNames));
    std::vector<std::thread> threads;
    for (auto& mine : ids) {
        threads.emplace_back([&] {
            for (int i = 0; i < kNames; ++i) {
                mine[static_cast<size_t>(i)] = table.strings.intern(("span " + std::to_string(i)).c_str());
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    for (const auto& other : ids) {
        CHECK(other == ids.front());
    }
    for (int i = 0; i < kNames; ++i) {
        CHECK(table.text(ids.front()[static_cast<size_t>(i)]) == "span " + std::to_string(i));
    }
}
