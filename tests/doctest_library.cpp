// doctest's own part: a compiler takes seconds for it.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
