// Markers as a training program makes them, for a journal: ten spans in each step, one of them within another, and a
// metric. Usage: journal STEPS PAUSE_US. Ends when the test says so, in order or by a signal.
#include <titantrace.h>

#include "client.h"

int main(int argc, char** argv) {
    const long steps = std::atol(argv[1]);
    const long pause_us = std::atol(argv[2]);
    REQUIRE(argc == 3);
    static const char* const names[] = {"data_loading", "forward", "backward", "zero_grad", "optimizer",
                                        "all_reduce",   "clip",    "log",      "gc"};
    for (long step = 0; step < steps; ++step) {
        titan_step(step);
        titan_span_begin("step");
        for (const char* name : names) {
            titan_span_begin(name);
            usleep(static_cast<useconds_t>(pause_us));
            titan_span_end();
        }
        titan_span_end();
        titan_metric("loss", 2.0 - 0.001 * static_cast<double>(step));
    }
    client::say("marked");
    client::await("go");
}
