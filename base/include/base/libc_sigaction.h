// libc's own sigaction, under the name that nobody interposes: sigaction itself is our wrapper.
#pragma once

#include <signal.h>

extern "C" int __sigaction(int number, const struct sigaction* action, struct sigaction* old) noexcept;
