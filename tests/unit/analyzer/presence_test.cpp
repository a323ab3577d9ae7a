// Whether a process is held up by somebody else.
#include "host/presence.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "temporary_directory.h"

using namespace titan;
using namespace titan::test;

TEST_CASE("a process that is frozen is told by its control group, of either version") {
    const TemporaryDirectory directory;
    const std::filesystem::path root = directory.path;
    std::filesystem::create_directories(root / "job" / "step");
    std::filesystem::create_directories(root / "freezer" / "old");
    std::ofstream(root / "job" / "step" / "cgroup.events") << "populated 1\nfrozen 1\n";
    std::ofstream(root / "job" / "cgroup.events") << "populated 1\nfrozen 0\n";
    std::ofstream(root / "freezer" / "old" / "freezer.state") << "FROZEN\n";
    CHECK(is_frozen("0::/job/step\n", root));
    CHECK(!is_frozen("0::/job\n", root));
    CHECK(is_frozen("9:name=systemd:/\n6:freezer:/old\n0::/job\n", root));
    CHECK(!is_frozen("6:freezer:/\n0::/\n", root));
    CHECK(!is_frozen("nonsense\n:\n::\n", root));
    CHECK(halt_of('t', "ptrace_stop") == Halt::kTraced);
    CHECK(halt_of('S', "do_freezer_trap") == Halt::kFrozen);
}
