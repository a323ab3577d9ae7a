// Who a user number is.
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
