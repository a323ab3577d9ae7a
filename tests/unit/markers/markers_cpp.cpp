// The same header from C++, also with a using-declaration's worth of syntax around the calls.
#include "titantrace.h"

#include <cstdio>

int main() {
    ::titan_step(2);
    if (true)
        titan_event("in an if");
    std::printf("%d\n", ::titan_dump(nullptr));
}
