// The machine that a program runs on: its name, and its users.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace titan {

// As gethostname tells it; empty where it does not.
std::string this_host();

struct User {
    std::string name;
    gid_t group;
};

// Of that id. Not thread-safe.
std::optional<User> known_user(uid_t user);

}  // namespace titan
