// The machine that a program runs on.
#pragma once

#include <string>

namespace titan {

// As gethostname tells it; empty where it does not.
std::string this_host();

}  // namespace titan
