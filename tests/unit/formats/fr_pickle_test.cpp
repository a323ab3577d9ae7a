// The pickle machine: every opcode of plain data, every refusal, and what a hostile file may try.
#include <doctest/doctest.h>

#include <string>

#include "formats/fr/read.h"

using namespace titan::format;
using namespace std::string_literals;
using fr::Kind;
using fr::Tree;
using fr::Value;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// A value as Python would print it, so that a test can say what it expects in one line.
std::string print(const Tree& tree, const Value& value) {
    const auto items = tree.items(value);
    std::string text;
    switch (value.kind) {
        case Kind::kNone: return "None";
        case Kind::kBool: return value.integer != 0 ? "True" : "False";
        case Kind::kInt: return std::to_string(value.integer);
        case Kind::kWideInt: return "wide";
        case Kind::kFloat: return std::to_string(value.real);
        case Kind::kText: return "'" + std::string(tree.text(value)) + "'";
        case Kind::kBytes: return "b'" + std::string(tree.text(value)) + "'";
        case Kind::kDict:
            for (size_t i = 0; i + 1 < items.size(); i += 2) {
                text += (i == 0 ? "" : ", ") + print(tree, items[i]) + ": " + print(tree, items[i + 1]);
            }
            return "{" + text + "}";
        default:
            for (size_t i = 0; i < items.size(); ++i) {
                text += (i == 0 ? "" : ", ") + print(tree, items[i]);
            }
            return value.kind == Kind::kList ? "[" + text + "]" : "(" + text + ")";
    }
}

std::string read(const std::string& pickle) {
    Tree tree;
    const auto error = fr::read_pickle(bytes_of(pickle), tree);
    return error ? "refused: " + error->text() : print(tree, tree.root());
}

bool refuses(const std::string& pickle, const std::string& because) {
    const std::string said = read(pickle);
    INFO(said);
    return said.starts_with("refused: ") && said.find(because) != std::string::npos;
}

TEST_CASE("numbers") {
    CHECK(read("K\x07.") == "7");
    CHECK(read("M\x01\x02.") == "513");
    CHECK(read("J\xFE\xFF\xFF\xFF.") == "-2");
    CHECK(read("\x8a\x00."s) == "0");
    CHECK(read("\x8a\x01\xFF.") == "-1");
    CHECK(read("\x8a\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F.") == "9223372036854775807");
    CHECK(read("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."s) == "-9223372036854775808");
    CHECK(read("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00."s) == "wide");  // 2^63
    CHECK(read("\x8a\x09\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\x00."s) == "9223372036854775807");
    CHECK(read("\x8b\x02\x00\x00\x00\x01\x02."s) == "513");
    CHECK(read("I42\n.") == "42");
    CHECK(read("I01\n.") == "True");
    CHECK(read("I00\n.") == "False");
    CHECK(read("L-12L\n.") == "-12");
    CHECK(read("L99999999999999999999L\n.") == "wide");
    CHECK(read("F1.5\n.") == "1.500000");
    CHECK(read("G\x3F\xF8\x00\x00\x00\x00\x00\x00."s) == "1.500000");
    CHECK(read("N.") == "None");
    CHECK(read("\x88.") == "True");
    CHECK(read("\x89.") == "False");
    CHECK(refuses("I4x\n.", "cannot be read"));
    CHECK(refuses("F\n.", "cannot be read"));
}

TEST_CASE("texts and bytes") {
    CHECK(read("X\x03\x00\x00\x00"s + "abc.") == "'abc'");
    CHECK(read("\x8c\x03"s + "abc.") == "'abc'");
    CHECK(read("\x8d\x03\x00\x00\x00\x00\x00\x00\x00"s + "abc.") == "'abc'");
    CHECK(read("T\x03\x00\x00\x00"s + "abc.") == "'abc'");
    CHECK(read("U\x03"s + "abc.") == "'abc'");
    CHECK(read("C\x03"s + "abc.") == "b'abc'");
    CHECK(read("B\x03\x00\x00\x00"s + "abc.") == "b'abc'");
    CHECK(read("\x8e\x03\x00\x00\x00\x00\x00\x00\x00"s + "abc.") == "b'abc'");
    CHECK(read("\x96\x03\x00\x00\x00\x00\x00\x00\x00"s + "abc.") == "b'abc'");
    CHECK(read("S'a\\n\\x41\\\\'\n.") == "'a\nA\\'");
    CHECK(read("V\\u00e9\\U0001f600\xE9\n.") == "'\xC3\xA9\xF0\x9F\x98\x80\xC3\xA9'");
    CHECK(refuses("S'a\n.", "cannot be read"));
    CHECK(refuses("S'\\q'\n.", "cannot be read"));
    CHECK(refuses("V\\u12\n.", "cannot be read"));
    CHECK(refuses("V\\Uffffffff\n.", "cannot be read"));
}

TEST_CASE("containers") {
    CHECK(read("].") == "[]");
    CHECK(read("}.") == "{}");
    CHECK(read(").") == "()");
    CHECK(read("](K\x01K\x02"s + "e.") == "[1, 2]");
    CHECK(read("]K\x01"s + "aK\x02"s + "a.") == "[1, 2]");
    CHECK(read("(K\x01K\x02l.") == "[1, 2]");
    CHECK(read("(K\x01K\x02t.") == "(1, 2)");
    CHECK(read("K\x01\x85.") == "(1)");
    CHECK(read("K\x01K\x02\x86.") == "(1, 2)");
    CHECK(read("K\x01K\x02K\x03\x87.") == "(1, 2, 3)");
    CHECK(read("}(U\x01"s + "aK\x01U\x01"s + "bK\x02u.") == "{'a': 1, 'b': 2}");
    CHECK(read("}U\x01"s + "aK\x01s.") == "{'a': 1}");
    CHECK(read("(U\x01"s + "aK\x01"s + "d.") == "{'a': 1}");
    // A list that grows again after others were made keeps what it has.
    CHECK(read("](K\x01"s + "e(](K\x09"s + "eK\x02K\x03"s + "e.") == "[1, [9], 2, 3]");
    CHECK(refuses("(K\x01"s + "d.", "a key without a value"));
    CHECK(refuses("](K\x01K\x02u.", "another type"));
    CHECK(refuses("}K\x01"s + "a.", "another type"));
    CHECK(refuses("e.", "mark"));
    CHECK(refuses("(e.", "nothing on the stack"));
    CHECK(refuses("K\x01\x86.", "nothing on the stack"));
    CHECK(refuses("K\x01(\x85.", "nothing on the stack"));  // not from below a mark
}

TEST_CASE("stack, memo and frames") {
    CHECK(read("K\x01K\x02"s + "0.") == "1");
    CHECK(read("K\x01(K\x02"s + "1.") == "1");
    CHECK(read("K\x01("s + "0.") == "1");
    CHECK(read("K\x01"s + "2\x86.") == "(1, 1)");
    CHECK(read("U\x01"s + "aq\x00h\x00\x86."s) == "('a', 'a')");
    CHECK(read("U\x01"s + "ar\x00\x00\x00\x00j\x00\x00\x00\x00\x86."s) == "('a', 'a')");
    CHECK(read("U\x01"s + "ap0\ng0\n\x86.") == "('a', 'a')");
    CHECK(read("U\x01"s + "a\x94U\x01"s + "b\x94h\x01h\x00\x86."s) == "('b', 'a')");
    CHECK(read("\x80\x05\x95\x02\x00\x00\x00\x00\x00\x00\x00N."s) == "None");
    CHECK(read("\x80\x00N."s) == "None");
    CHECK(refuses("0.", "nothing on the stack"));
    CHECK(refuses("1.", "mark"));
    CHECK(refuses("2.", "nothing on the stack"));
    CHECK(refuses(".", "nothing on the stack"));
    CHECK(refuses("h\x00."s, "never remembered"));
    CHECK(refuses("q\x00."s, "nothing on the stack"));
    CHECK(refuses("Nr\xFF\xFF\xFF\xFF.", "far above the count"));
    CHECK(refuses("Np-1\n.", "cannot be read"));
    CHECK(refuses("\x80\x06N.", "newer protocol"));
    CHECK(refuses("\x95\xFF\x00\x00\x00\x00\x00\x00\x00N."s, "ends inside"));
    CHECK(refuses("z.", "no such opcode"));
    CHECK(refuses("", "ends at byte 0"));
}

TEST_CASE("whatever could run code is refused by name, at its place") {
    const std::pair<std::string, const char*> code[] = {{"cos\nsystem\n", "GLOBAL"},
                                                        {"\x93", "STACK_GLOBAL"},
                                                        {"R", "REDUCE"},
                                                        {"b", "BUILD"},
                                                        {"ios\nsystem\n", "INST"},
                                                        {"o", "OBJ"},
                                                        {"\x81", "NEWOBJ"},
                                                        {"\x92", "NEWOBJ_EX"},
                                                        {"P0\n", "PERSID"},
                                                        {"Q", "BINPERSID"},
                                                        {"\x82\x01", "EXT1"},
                                                        {"\x83\x01\x01", "EXT2"},
                                                        {"\x84\x01\x01\x01\x01", "EXT4"}};
    for (const auto& [opcode, name] : code) {
        INFO(name);
        CHECK(read("NN" + opcode + ".") == "refused: pickle opcode "s + name +
                                               " at byte 2: this file asks to run code, which no Flight Recorder dump "
                                               "does; nothing was run");
    }
    const std::pair<std::string, const char*> other[] = {{"\x8f", "EMPTY_SET"},
                                                         {"\x90", "ADDITEMS"},
                                                         {"\x91", "FROZENSET"},
                                                         {"\x97", "NEXT_BUFFER"},
                                                         {"\x98", "READONLY_BUFFER"}};
    for (const auto& [opcode, name] : other) {
        CHECK(read(opcode + ".").starts_with("refused: pickle opcode "s + name + " at byte 0: no part of"));
    }
}

TEST_CASE("no cycle can be made") {
    CHECK(refuses("]q\x00h\x00"s + "a.", "cyclic"));                        // a list in itself
    CHECK(refuses("]q\x00(]q\x01(h\x00"s + "ee.", "cyclic"));               // in one that is in it
    CHECK(refuses("}q\x00U\x01"s + "ah\x00s."s, "cyclic"));                 // a dict in itself
    CHECK(refuses("]q\x00\x85q\x01"s + "0h\x00h\x01"s + "a."s, "cyclic"));  // by way of a tuple
    CHECK(read("]q\x00K\x01"s + "a0h\x00h\x00\x86."s) == "([1], [1])");     // sharing is none
}

TEST_CASE("nesting is limited, and the end of the limit is where it says") {
    const auto nested = [](size_t depth) { return std::string(depth + 1, ']') + std::string(depth, 'a') + "."; };
    CHECK(read(nested(Tree::kMaxDepth)).starts_with("[["));
    CHECK(refuses(nested(Tree::kMaxDepth + 1), "nested too deeply"));
    CHECK(refuses(nested(1'000'000), "nested too deeply"));
    CHECK(refuses(std::string(1'000'000, '('), "nested too deeply"));  // not 8 bytes of memory for each
}

TEST_CASE("sizes that the file does not have") {
    for (const std::string head :
         {"X\xFF\xFF\xFF\xFF", "T\xFF\xFF\xFF\xFF", "B\xFF\xFF\xFF\xFF", "\x8a\xFF", "\x8b\xFF\xFF\xFF\xFF",
          "\x8b\xFF\xFF\xFF\x7F", "\x8d\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", "\x8e\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
          "\x96\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", "\x8c\xFF"}) {
        CHECK(refuses(head + "abc.", "ends inside"));
    }
}

TEST_CASE("cut at every byte, it is an error and nothing else") {
    const std::string whole = "\x80\x02}(X\x01\x00\x00\x00"s +
                              "aq\x00](K\x01M\x01\x02J\x01\x02\x03\x04\x8a\x01\x01G\x3F\xF8\x00\x00\x00\x00\x00\x00"s +
                              "eh\x00N\x85U\x02"s + "ccK\x01u."s;
    CHECK(read(whole).starts_with("{'a': [1, 513"));
    for (size_t size = 0; size < whole.size(); ++size) {
        CHECK(read(whole.substr(0, size)).starts_with("refused: "));
    }
}

TEST_CASE("the same in JSON") {
    Tree tree;
    const auto read_json = [&](const std::string& text) {
        const auto error = fr::read_json(bytes_of(text), tree);
        return error ? "refused: " + error->text() : print(tree, tree.root());
    };
    CHECK(read_json(R"({"a": [1, -2, 1.5, null, true, false, "x"], "b": {}})") ==
          "{'a': [1, -2, 1.500000, None, True, False, 'x'], 'b': {}}");
    CHECK(read_json("9223372036854775807") == "9223372036854775807");
    CHECK(read_json("9223372036854775808") == "wide");
    CHECK(read_json("[" + std::string(100, 'x')).starts_with("refused: invalid JSON"));
    CHECK(read_json("") != "None");
    CHECK(read_json(std::string(1'000'000, '[')).find("nested too deeply") != std::string::npos);
    const std::string whole = R"({"version": "2.4", "entries": [{"a": [[1, 2], []]}]})";
    for (size_t size = 0; size < whole.size(); ++size) {
        CHECK(read_json(whole.substr(0, size)).starts_with("refused: "));
    }
}

TEST_CASE("what a file is, by its first bytes") {
    CHECK(fr::guess_encoding(bytes_of("\x80\x02}")) == fr::Encoding::kPickle);
    CHECK(fr::guess_encoding(bytes_of("\x80\x09}")) == fr::Encoding::kUnknown);
    CHECK(fr::guess_encoding(bytes_of(" \n{\"")) == fr::Encoding::kJson);
    CHECK(fr::guess_encoding(bytes_of("\x7F"s + "ELF")) == fr::Encoding::kUnknown);
    CHECK(fr::guess_encoding(bytes_of("")) == fr::Encoding::kUnknown);
}

TEST_CASE("a tree serves file after file") {
    Tree tree;
    for (int i = 0; i < 3; ++i) {
        CHECK(!fr::read_pickle(bytes_of("(S'a'\n]t."), tree));
        CHECK(print(tree, tree.root()) == "('a', [])");
    }
}

}  // namespace
