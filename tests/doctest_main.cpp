#include "doctest_run.h"

int main(int argc, char** argv) { return run_doctest(argc, argv); }
