// What each program of doctest cases shares, in the file with its main(): the order of cases, and which of them cannot
// run here, and why, in lines that scripts/test-tally looks for. Such a case says MESSAGE("skipped: why").
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

class Skips : public doctest::IReporter {
  public:
    explicit Skips(const doctest::ContextOptions&) {}
    void test_case_start(const doctest::TestCaseData& started) override { case_ = started.m_name; }
    void test_case_reenter(const doctest::TestCaseData& started) override { case_ = started.m_name; }
    void log_message(const doctest::MessageData& message) override {
        constexpr const char* kMark = "skipped: ";
        const char* const text = message.m_string.c_str();
        if (std::strncmp(text, kMark, std::strlen(kMark)) == 0) {
            std::printf("skipped here: %s: %s\n", case_, text + std::strlen(kMark));
            std::fflush(stdout);
        }
    }
    void report_query(const doctest::QueryData&) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats& run) override { ran_none = run.numTestCasesPassingFilters == 0; }
    void test_case_end(const doctest::CurrentTestCaseStats&) override {}
    void test_case_exception(const doctest::TestCaseException&) override {}
    void subcase_start(const doctest::SubcaseSignature&) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData&) override {}
    void test_case_skipped(const doctest::TestCaseData&) override {}

    static inline bool ran_none = false;

  private:
    const char* case_ = "";
};

REGISTER_LISTENER("skips", 1, Skips);

}  // namespace

inline int run_doctest(int argc, char** argv) {
    doctest::Context context;
    if (const char* seed = std::getenv("TITAN_TEST_SEED")) {  // scripts/test-often
        context.setOption("order-by", "rand");
        context.setOption("rand-seed", seed);
    }
    context.applyCommandLine(argc, argv);
    const int status = context.run();
    if (Skips::ran_none) {
        std::puts("no case has such a name or file (-ltc lists the cases)");
        return 1;
    }
    return status;
}
