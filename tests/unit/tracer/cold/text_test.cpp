#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "base/text.h"
#include "dump_meta.h"

using namespace titan;
using namespace titan::tracer;

TEST_CASE("text is cut, never overrun") {
    char out[8];
    memset(out, 'x', sizeof(out));
    TextWriter writer(out, 6);
    writer.format("%s-%05d", "abc", 7);
    CHECK(std::string(out) == "abc-0");
    CHECK(writer.cut());
    CHECK(out[6] == 'x');
}

TEST_CASE("numbers come out as printf would write them") {
    char out[128];
    format_text(out, sizeof(out), "%d %lu %x %016lx %05d %c %%", -12, 18446744073709551615ul, 255u, 0xabcul, 3, 'z');
    CHECK(std::string(out) == "-12 18446744073709551615 ff 0000000000000abc 00003 z %");
}

TEST_CASE("untrusted text is escaped") {
    char out[64];
    TextWriter writer(out, sizeof(out));
    writer.escaped("a\x1b[31m\n\\b", 7);
    CHECK(std::string(out) == "a\\x1b[31m\\x0a...");
}

TEST_CASE("whole numbers only") {
    uint64_t value = 0;
    CHECK(parse_u64("18446744073709551615", value));
    for (const char* bad : {"", "-1", "1x", " 1", "18446744073709551616", "+1"}) {
        CHECK_FALSE(parse_u64(bad, value));
    }
}

TEST_CASE("what the environment says becomes valid JSON") {
    const char* variables[] = {"NCCL_DEBUG=IN\"FO\\\n\x01", "HOME=/root", "CUDA_X=\xff\xc3\xa4\xed\xa0\x80",
                               "NCCL_NOVALUE", nullptr};
    char out[16 << 10];
    write_environment(out, sizeof(out), variables);
    CHECK(std::string(out) ==
          "{\"NCCL_DEBUG\":\"IN\\\"FO\\\\\\u000a\\u0001\",\"CUDA_X\":"
          "\"\\ufffd\xc3\xa4\\ufffd\\ufffd\\ufffd\"}");
    char small[7000];
    const char* many[] = {"NCCL_A=1", "NCCL_B=2", nullptr};
    write_environment(small, sizeof(small), many);
    CHECK(std::string(small) == "{\"NCCL_A\":\"1\",\"NCCL_B\":\"2\"}");
    write_environment(small, 3000, many);
    CHECK(std::string(small) == "{}");
}
