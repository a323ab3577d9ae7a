// What a dump tells about the machine of its process.
#include "machine.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "scratch.h"

using namespace titan::tracer;
using titan::test::Scratch;
namespace fs = std::filesystem;

namespace {

struct InventedMachine {
    Scratch scratch;
    std::string root = scratch.path("root");

    void write(const std::string& path, const std::string& text) const {
        fs::create_directories(fs::path(root + path).parent_path());
        std::ofstream(root + path) << text;
    }

    Machine read() const { return read_machine(root.c_str()); }
};

}  // namespace

TEST_CASE("the devices of a machine are told in one order, whatever the order of the directory") {
    InventedMachine invented;
    invented.write("/proc/cpuinfo", "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9654\nflags\t: fpu\n");
    invented.write("/sys/module/nvidia/version", "570.86.15\n");
    for (const char* bus_id : {"0000:db:00.0", "0000:1b:00.0", "0000:9a:00.0"}) {
        invented.write(std::string("/proc/driver/nvidia/gpus/") + bus_id + "/information",
                       "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t GPU-1\n");
    }
    invented.write("/proc/driver/nvidia/gpus/0000:aa:00.0/information", "Model: \t\t NVIDIA A100-SXM4-80GB\n");
    invented.write("/sys/class/infiniband/mlx5_1/hca_type", "MT4129\n");
    invented.write("/sys/class/infiniband/mlx5_0/hca_type", "MT4129\n");
    invented.write("/sys/class/infiniband/rxe0/node_guid", "0\n");
    const Machine machine = invented.read();
    CHECK(std::string(machine.processor) == "AMD EPYC 9654");
    CHECK(std::string(machine.gpu_driver) == "570.86.15");
    CHECK(std::string(machine.gpus) == "1 x NVIDIA A100-SXM4-80GB, 3 x NVIDIA H100 80GB HBM3");
    CHECK(std::string(machine.infiniband) == "mlx5_0 MT4129, mlx5_1 MT4129, rxe0");
    CHECK(machine.kernel[0] != '\0');
}

TEST_CASE("a machine without GPUs and network devices has none, and too many are cut") {
    InventedMachine invented;
    const Machine none = invented.read();
    CHECK(std::string(none.processor) + none.gpu_driver + none.gpus + none.infiniband == "");
    for (int i = 0; i < 200; ++i) {
        invented.write("/sys/class/infiniband/mlx5_" + std::to_string(i) + "/hca_type", std::string(300, 'x'));
    }
    const std::string cut = invented.read().infiniband;
    CHECK(cut.size() == sizeof(Machine::infiniband) - 1);
    CHECK(cut.starts_with("mlx5_"));
}
