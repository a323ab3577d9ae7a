// Lets root look after other users' jobs safely: touches their files as they would, so that nothing in their
// directories (links, other people's names) can make root read or write where they could not. Does nothing for others.
// Changes the whole process: not thread-safe.
#pragma once

#include <sys/types.h>

#include <vector>

namespace titan::tools {

class AsUser {
  public:
    explicit AsUser(uid_t user);
    ~AsUser();
    AsUser(const AsUser&) = delete;
    AsUser& operator=(const AsUser&) = delete;

  private:
    bool changed_ = false;
    gid_t group_ = 0;
    std::vector<gid_t> groups_;
};

}  // namespace titan::tools
