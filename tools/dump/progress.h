// What people read while they wait: one line that is drawn over on a terminal, else a line whenever something changed.
#pragma once

#include <string>

namespace titan::tools {

class Progress {
  public:
    Progress();
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void show(const std::string& text);
    // Before anything else is written to the same terminal.
    void clear();

  private:
    bool terminal_ = false;
    bool drawn_ = false;
    std::string last_;
};

}  // namespace titan::tools
