#include "host/this_host.h"

#include <pwd.h>
#include <unistd.h>

#include <array>
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

std::string this_host() {
    std::array<char, 256> name{};  // the last byte stays 0, which gethostname does not promise
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::optional<User> known_user(uid_t user) {
    const passwd* const known = look_up(user);
    return known == nullptr ? std::nullopt : std::optional<User>({known->pw_name, known->pw_gid});
}

}  // namespace titan
