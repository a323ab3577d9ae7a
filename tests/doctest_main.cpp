#define DOCTEST_CONFIG_IMPLEMENT
#include "doctest_run.h"

int main(int argc, char** argv) { return run_doctest(argc, argv); }
