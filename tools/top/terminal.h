// The terminal as a page that is drawn anew: its other screen, no cursor, single keys. Left as it was found, also when
// a signal ends us or the shell takes the terminal back (Ctrl-Z).
#pragma once

#include <cstddef>
#include <string>

namespace titan::tools {

class Terminal {
  public:
    Terminal();  // uses standard input and output, which must be terminals
    ~Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    struct Size {
        size_t columns;
        size_t lines;
    };
    static Size size();

    // False: standard output is gone.
    bool draw(const std::string& view);

    enum class Event { kTime, kLeave, kRedraw };
    // Until a key or a signal asks to leave, something asks for a new page, or the time is over.
    Event wait(int timeout_ms);
};

}  // namespace titan::tools
