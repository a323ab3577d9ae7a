#include "host/users.h"

#include <pwd.h>

#include <cstdio>

namespace titan {
namespace {

// A static libc would load the machine's name services to answer, which belong to another libc: it reads the file
// alone.
const passwd* look_up(uid_t user) {
#ifdef TITAN_STATIC_PROGRAM
    std::FILE* const users = std::fopen("/etc/passwd", "re");
    const passwd* known = nullptr;
    while (users != nullptr && (known = ::fgetpwent(users)) != nullptr && known->pw_uid != user) {
    }
    if (users != nullptr) {
        std::fclose(users);
    }
    return known;
#else
    return ::getpwuid(user);
#endif
}

}  // namespace

std::optional<User> known_user(uid_t user) {
    const passwd* const known = look_up(user);
    return known == nullptr ? std::nullopt : std::optional<User>({known->pw_name, known->pw_gid});
}

}  // namespace titan
