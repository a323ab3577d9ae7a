#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "doctest_run.h"

int main(int argc, char** argv) { return run_doctest(argc, argv); }
