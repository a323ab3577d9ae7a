// What all our programs do around their command line.
#pragma once

#include <cstdio>
#include <exception>
#include <new>

#include "host/command_line.h"

namespace titan {

// The exit status of `run_command_line`; 2, with a line on standard error, where it throws.
inline int run_program(const char* name, int (*run_command_line)(int, char**), int argc, char** argv) {
    try {
        return run_command_line(argc, argv);
    } catch (const std::bad_alloc&) {
        std::fprintf(stderr, "%s: out of memory\n", name);
    } catch (const CommandLineError& error) {
        std::fprintf(stderr, "%s: %s (--help shows how)\n", name, error.what());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
    }
    return 2;
}

}  // namespace titan
