#include <doctest/doctest.h>

#include <string>

#include "code_place.h"
#include "fake_memory.h"

using namespace titan::tracer::python;

namespace {

std::string copied(const FakePython& python, uint64_t object, size_t room_bytes = 64) {
    char out[64];
    bool cut;
    const uint32_t bytes = copy_text_object(python.memory.reader(), python.runtime, object, out, room_bytes, cut);
    CHECK(out[bytes] == '\0');
    return std::string(out, bytes) + (cut ? "|" : "");
}

struct Table {
    FakeMemory memory;
    uint64_t address, bytes;
    LineTable kind;

    Table(LineTable the_kind, const std::string& content) : bytes(content.size()), kind(the_kind) {
        address = memory.take(content.size() + 1);
        memory.put(address, content.data(), content.size());
    }
    int32_t line(int32_t offset) const { return line_of(memory.reader(), kind, address, bytes, 100, offset); }
};

}  // namespace

TEST_CASE("text of every width becomes UTF-8") {
    for (const uint32_t minor : {9u, 12u, 14u}) {
        FakePython python(minor, minor == 14);
        CHECK(copied(python, python.text("train.py")) == "train.py");
        CHECK(copied(python, python.text("")) == "");
        CHECK(copied(python, python.wide_text({'g', 'r', 0xf6, 0xdf, 'e'}, 1)) == "größe");
        CHECK(copied(python, python.wide_text({0x6587, 0x4ef6}, 2)) == "文件");
        CHECK(copied(python, python.wide_text({0x1f40d, 'x'}, 4)) == "🐍x");
        CHECK(copied(python, python.wide_text({0xdc80}, 2)) == "\xEF\xBF\xBD");    // surrogateescape
        CHECK(copied(python, python.wide_text({0x110000}, 4)) == "\xEF\xBF\xBD");  // no character at all
    }
}

TEST_CASE("text is cut between characters") {
    FakePython python(12);
    CHECK(copied(python, python.text("abcdef"), 4) == "abc|");
    CHECK(copied(python, python.text("abc"), 4) == "abc");
    CHECK(copied(python, python.wide_text({0x6587, 0x4ef6}, 2), 6) == "文|");
    CHECK(copied(python, python.text("a"), 1) == "|");
}

TEST_CASE("what is no str gives no text") {
    FakePython python(12);
    CHECK(copied(python, 0) == "");
    CHECK(copied(python, 12345) == "");
    CHECK(copied(python, python.runtime.text_type) == "");
    const uint64_t object = python.text("abc");
    python.memory.set(object + python.runtime.layout.text_length, int64_t{1} << 40);
    CHECK(copied(python, object) == "");
    python.memory.set(object + python.runtime.layout.text_length, int64_t{-1});
    CHECK(copied(python, object) == "");
    const uint64_t wide = python.wide_text({1, 2}, 2);
    python.memory.set(wide + python.runtime.layout.text_state, 0b01011u << 2);  // width 3
    CHECK(copied(python, wide) == "");
}

TEST_CASE("line tables of 3.9: a line holds until the next begins, also backwards") {
    const Table table(LineTable::kLnotab, std::string("\6\1\10\376\377\0\4\5", 8));
    CHECK(table.line(-1) == 100);
    CHECK(table.line(0) == 100);
    CHECK(table.line(6) == 101);
    CHECK(table.line(13) == 101);
    CHECK(table.line(14) == 99);
    CHECK(table.line(14 + 255 + 3) == 99);
    CHECK(table.line(14 + 255 + 4) == 104);
    CHECK(table.line(100000) == 104);
}

TEST_CASE("line tables of 3.10: ranges, some of which have no line") {
    const Table table(LineTable::kRanges, std::string("\4\0\6\200\2\3\0\377\2\0", 10));
    CHECK(table.line(0) == 100);
    CHECK(table.line(4) == 0);
    CHECK(table.line(9) == 0);
    CHECK(table.line(10) == 103);
    CHECK(table.line(12) == 102);
    CHECK(table.line(14) == 0);
}

TEST_CASE("line tables of 3.11: every form") {
    std::string content;
    content += "\x80\x11";                  // short form, 1 unit: line 100
    content += "\xD9\x01\x02";              // one line on, 2 units: form 11 -> 101
    content += "\xE8\x05";                  // no columns, 1 unit: -2 -> 99
    content += "\xF8";                      // none, 1 unit
    content += "\xF0\x40\x01\x01\x01\x01";  // long form, 1 unit, varint of two bytes: 64 -> +32 -> 131
    const Table table(LineTable::kLocations, content);
    const int32_t lines[] = {100, 101, 101, 99, 0, 131, 0};
    for (int unit = 0; unit < 7; ++unit) {
        CAPTURE(unit);
        CHECK(table.line(unit * 2) == lines[unit]);
        CHECK(table.line(unit * 2 + 1) == lines[unit]);
    }
    CHECK(Table(LineTable::kLocations, std::string("\xF0\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f")).line(0) == 0);
    CHECK(Table(LineTable::kLocations, "\x01\x02").line(0) == 0);
    CHECK(Table(LineTable::kLocations, "").line(0) == 0);
}

TEST_CASE("a table longer than one piece is read on") {
    std::string content;
    for (int i = 0; i < 2000; ++i) {
        content += "\xD8\x01\x02";  // one line on, 1 unit
    }
    const Table table(LineTable::kLocations, content);
    CHECK(table.line(0) == 101);
    CHECK(table.line(2 * 1999) == 2100);
}
