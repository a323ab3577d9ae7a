// Progress for people who wait: one line that is drawn over on a terminal, else a line every few seconds.
#pragma once

#include <chrono>
#include <string>

namespace titan::tools {

class Progress {
  public:
    Progress();
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void show(const std::string& text);
    // Call before anything else is written to the same terminal.
    void clear();

  private:
    bool terminal_ = false;
    bool drawn_ = false;
    std::string last_;
    std::chrono::steady_clock::time_point shown_;
};

}  // namespace titan::tools
