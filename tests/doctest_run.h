// What each test program's main() does. Beside DOCTEST_CONFIG_IMPLEMENT and doctest.h, once per program.
#pragma once

#include <cstdlib>

inline int run_doctest(int argc, char** argv) {
    doctest::Context context;
    if (const char* seed = std::getenv("TITAN_TEST_SEED")) {  // scripts/test-often
        context.setOption("order-by", "rand");
        context.setOption("rand-seed", seed);
    }
    context.applyCommandLine(argc, argv);
    return context.run();
}
