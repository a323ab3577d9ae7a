#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#include "doctest_run.h"

int main(int argc, char** argv) { return run_doctest(argc, argv); }
