#include "node/as_user.h"

#include <grp.h>
#include <unistd.h>

#include <stdexcept>

#include "host/this_host.h"

namespace titan::tools {

AsUser::AsUser(uid_t user) {
    if (::geteuid() != 0 || user == 0) {
        return;
    }
    const std::optional<User> known = known_user(user);
    const gid_t group = known ? known->group : user;
    group_ = ::getegid();
    const int count = ::getgroups(0, nullptr);
    groups_.resize(count > 0 ? static_cast<size_t>(count) : 0);
    if (::getgroups(count, groups_.data()) < 0 || ::setgroups(1, &group) != 0 || ::setegid(group) != 0 ||
        ::seteuid(user) != 0) {
        throw std::runtime_error("cannot act as user " + std::to_string(user));
    }
    changed_ = true;
}

AsUser::~AsUser() {
    if (changed_ && (::seteuid(0) != 0 || ::setegid(group_) != 0 || ::setgroups(groups_.size(), groups_.data()) != 0)) {
        ::_exit(2);  // half of two users: nothing that follows could be trusted
    }
}

}  // namespace titan::tools
