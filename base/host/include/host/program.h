// Setup and error handling that all our programs share around their command line.
#pragma once

#include <exception>
#include <new>

#include "host/command_line.h"
#include "host/output.h"

namespace titan {

// The exit status of `run_command_line`; 2, with a line on standard error, where it throws or its output cannot be
// written.
inline int run_program(const char* name, int (*run_command_line)(int, char**), int argc, char** argv) {
    keep_standard_descriptors();
    int status = 2;
    try {
        status = run_command_line(argc, argv);
    } catch (const std::bad_alloc&) {
        for (const char* part : {name, ": out of memory\n"}) {
            say_text(part);
        }
    } catch (const CommandLineError& error) {
        say("{}: {} (--help shows how)\n", name, error.what());
    } catch (const std::exception& error) {
        say("{}: {}\n", name, error.what());
    }
    return finish_output(name) ? status : 2;
}

}  // namespace titan
