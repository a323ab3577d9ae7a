#include <doctest/doctest.h>

#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "string_table.h"

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

TEST_CASE("an id tells its text, and one without a text none") {
    Table table;
    const uint32_t forward = table.strings.intern("forward");
    size_t length = 0;
    const char* const bytes = table.strings.text_of(forward, length);
    REQUIRE(bytes != nullptr);
    CHECK(std::string_view(bytes, length) == "forward");
    const uint32_t unused = forward == 1 ? 2 : 1;
    CHECK(table.strings.text_of(unused, length) == nullptr);
    CHECK(table.strings.text_of(0, length) == nullptr);
    CHECK(table.strings.text_of(static_cast<uint32_t>(table.rows.size()) + 1, length) == nullptr);
    table.rows[forward - 1].offset_bytes = static_cast<uint32_t>(table.heap.size());
    CHECK(table.strings.text_of(forward, length) == nullptr);
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

TEST_CASE("names that differ at their end share the table evenly") {
    for (const char* pattern : {"iteration %d", "step_%06d", "triton_poi_fused_add_%d", "%d"}) {
        std::vector<format::StringRecord> rows(8192);
        std::vector<char> heap(512 << 10);
        format::RegionCursor cursor{};
        uint64_t dropped = 0;
        tracer::StringTable strings(rows.data(), rows.size(), heap.data(), heap.size(), cursor, dropped);
        std::set<uint32_t> ids;
        for (int i = 0; i < 5000; ++i) {
            char name[64];
            snprintf(name, sizeof(name), pattern, i);
            ids.insert(strings.intern_for_now(name));
        }
        CHECK(dropped == 0);
        CHECK(ids.size() == 5000);
    }
}

TEST_CASE("names for now leave room for those that stay, and are freed by the sweep alone") {
    std::vector<tracer::StringState> states(256);
    Table table;
    tracer::StringTable strings(table.rows.data(), 256, table.heap.data(), table.heap.size(), table.cursor,
                                table.dropped, states.data());
    const uint32_t kept = strings.intern_for_now("kept");
    CHECK(strings.intern("kept") == kept);
    for (int i = 0; i < 1000; ++i) {
        strings.intern_for_now(("range " + std::to_string(i)).c_str());
    }
    CHECK(strings.names_for_now() <= strings.limit_for_now());
    CHECK(table.dropped > 0);
    const uint64_t before = table.dropped;
    for (int i = 0; i < 40; ++i) {
        CHECK(strings.intern(("communicator " + std::to_string(i)).c_str()) != 0);
    }
    CHECK(table.dropped == before);
    const uint32_t id = strings.intern_for_now("communicator 7");
    // As often as a program likes: freed rows keep their places in the heap for the names to come.
    for (int round = 0; round < 50; ++round) {
        for (uint64_t row = 0; row < strings.rows(); ++row) {
            if (strings.is_for_now(row)) {
                strings.free_row(row);
            }
        }
        CHECK(strings.names_for_now() == 0);
        for (int i = 0; i < 60; ++i) {
            const std::string name = "range " + std::to_string(100 * round + i);
            const uint32_t range = strings.intern_for_now(name.c_str());
            REQUIRE(range != 0);
            CHECK(table.text(range) == name);
        }
    }
    CHECK(table.dropped == before);
    CHECK(strings.intern("kept") == kept);
    CHECK(table.text(id) == "communicator 7");
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
