#include "host/json_value.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "host/words.h"

using titan::Json;

namespace {

// The same value for both, written in all ways.
template <typename Make>
void check_as_the_library(const Make& make) {
    const auto ours = make(Json());
    const auto theirs = make(nlohmann::ordered_json());
    constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
    CHECK(ours.dump() == theirs.dump(-1, ' ', false, kReplace));
    const auto compact = [](const std::string& text) { return nlohmann::ordered_json::parse(text).dump(); };
    CHECK(compact(ours.dump(2)) == compact(theirs.dump(2, ' ', false, kReplace)));
}

}  // namespace

TEST_CASE("JSON is written as the library would write it") {
    check_as_the_library([](auto json) {
        using Value = decltype(json);
        json["nothing"] = nullptr;
        json["yes"] = true;
        json["least"] = std::numeric_limits<int64_t>::min();
        json["most"] = UINT64_MAX;
        json["reals"] = {0.0, 1.5, -2.25e-9, 1e20, 123456789.125, 1e-5, 1.0 / 3};
        json["ranks"] = std::vector<int>{3, 1, 2};
        json["named"] = std::set<std::string>{"b", "a"};
        json["none"] = std::vector<int>{};
        json["pair"] = {"first", "second"};
        json["member"] = {{"first", "second"}};
        json["of everything"] = {
            {"a", 1}, {"b", {{"c", Value::array()}, {"d", Value::object()}}}, {"e", {1, "two", 3.5}}};
        json["list"] = Value::array();
        json["list"].push_back({{"x", 1}, {"y", nullptr}});
        json["list"].push_back(7);
        json["yes"] = false;  // keeps its place
        return json;
    });
    check_as_the_library([](auto json) { return json; });
}

TEST_CASE("lists of whole numbers are one line, all else has a line of its own") {
    const Json ranks = std::vector<int>{1, -2, 3};
    CHECK(ranks.dump() == "[1,-2,3]");
    CHECK(ranks.dump(2) == "[1, -2, 3]");
    CHECK(Json::array().dump(2) == "[]");
    CHECK(Json{{"a", ranks}, {"b", "[1,\n2]"}}.dump(2) == "{\n  \"a\": [1, -2, 3],\n  \"b\": \"[1,\\n2]\"\n}");
    CHECK(Json(std::vector<std::string>{"x", "y"}).dump(2) == "[\n  \"x\",\n  \"y\"\n]");
}

TEST_CASE("text is written so that a reader gets it back, and bytes that are no text as a replacement") {
    for (const std::string text :
         {"", "plain", "quote \" and \\", "line\nand\ttab\x01\x1f", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
          "cut \xe2\x82", "\xff\xfe", "lone \xed\xa0\x80 surrogate"}) {
        check_as_the_library([&](auto json) {
            json[text] = text;
            return json;
        });
    }
}

TEST_CASE("what is no number is null") {
    CHECK(Json(std::numeric_limits<double>::infinity()).dump() == "null");
    CHECK(Json(std::numeric_limits<double>::quiet_NaN()).dump() == "null");
}

TEST_CASE("JSON of others is read as the library reads it") {
    const std::string text =
        R"({"a":{"b":[1,-2,3.5,true,null,"x\u00e9"]},"big":18446744073709551615,"twice":1,"twice":2,"e":[[],{}]})";
    const auto json = Json::parse(text);
    REQUIRE(json);
    const auto& list = json->at("a").at("b").items();
    REQUIRE(list.size() == 6);
    CHECK(list[0].integer() == 1);
    CHECK(list[0].natural() == 1U);
    CHECK(list[1].integer() == -2);
    CHECK_FALSE(list[1].natural());
    CHECK(list[2].number() == 3.5);
    CHECK_FALSE(list[2].integer());
    CHECK(list[3].boolean() == true);
    CHECK_FALSE(list[4].text());
    CHECK(list[5].text() == "x\u00e9");
    CHECK(json->at("big").natural() == UINT64_MAX);
    CHECK_FALSE(json->at("big").integer());
    CHECK(json->at("twice").integer() == 2);
    CHECK_FALSE(json->at("nobody").at("nothing").text());
    CHECK(Json::parse(json->dump())->dump() == json->dump());
    for (const char* scalar : {"7", "\"t\"", "null", "[]", "{}"}) {
        CHECK(Json::parse(scalar)->dump() == scalar);
    }
    for (const char* damaged : {"", "{", "{\"a\":}", "[1,]", "{\"a\":1}x", "nul"}) {
        CHECK_MESSAGE(!Json::parse(damaged), damaged);
    }
}

TEST_CASE("JSON that is nested too deep is cut there, however deep it is") {
    CHECK(Json::parse(R"({"a":{"b":{"c":1}},"d":[[2],3]})", 2)->dump() == R"({"a":{"b":null},"d":[null,3]})");
    const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
    CHECK(Json::parse(deep, 2)->dump() == "[[null]]");
    CHECK_FALSE(Json::parse(std::string(1'000'000, '[')));
}

TEST_CASE(
    "JSON that a person looks at does nothing to the terminal: more is escaped than by the library, the text is the "
    "same") {
    const std::string hostile = "\u202eevil\u200b\u0085\x7f\U000e0041 sch\u00f6n";
    Json json;
    json[hostile] = hostile;
    const std::string written = json.dump();
    CHECK(written.find("\"\\u202eevil\\u200b\\u0085\\u007f\\udb40\\udc41 sch\u00f6n\"") != std::string::npos);
    CHECK(titan::printable(written) == written);
    CHECK(Json::parse(written, 4)->at(hostile).text() == hostile);
    json.make_printable();
    CHECK(json.dump() == "{\"?evil???? sch\u00f6n\":\"?evil???? sch\u00f6n\"}");
}
