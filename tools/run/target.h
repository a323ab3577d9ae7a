// The program to run: will the loader preload a library into it?
#pragma once

#include <cstdint>
#include <string>

namespace titan::tools {

struct Target {
    std::string obstacle;  // reason why it will not be recorded; empty: it will
    bool preload = true;   // false: with the preload it would not even start
};

// "x86_64", "aarch64"; empty: no 64-bit ELF file.
std::string architecture_of(const std::string& path);

// The file that execvp() would run; empty: none.
std::string find_program(const std::string& name);

// `command` is as on the command line. Tries the load in a process of its own, without running the program.
Target look_at(const std::string& command, const std::string& library);

}  // namespace titan::tools
