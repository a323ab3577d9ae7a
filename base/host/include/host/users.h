// Looks up the name of a user id.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace titan {

struct User {
    std::string name;
    gid_t group;
};

// Not thread-safe.
std::optional<User> known_user(uid_t user);

}  // namespace titan
