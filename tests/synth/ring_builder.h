// Writes the ring of one process through the layout headers, field by field, so that tests can make any ring that a
// tracer could leave behind, and some that it could not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/layout/ring_layout.h"

namespace titan::synth {

struct RingSpec {
    int rank = 0;
    int world_size = 1;
    std::string run = "synth";
    int attempt = 0;
    int pid = 1000;
    uint64_t pid_start_ticks = 77;
    std::string host = "node-0";
    std::string boot_id = "00000000-synthetic-boot";
    uint64_t collectives = 64;  // slots
    uint64_t cuda_calls = 16;
    uint64_t markers = 16;
    uint64_t communicators = 32;
    uint64_t threads = 8;
    uint64_t texts = 128;
    uint64_t heap_bytes = 8192;
    uint64_t p2p_bytes = 65536;
    uint64_t stream_work = 256;
    uint64_t launch_marks = 64;
    uint64_t channels = 64;
    uint64_t readings = 64;
    uint64_t open_spans = 16;
};

inline constexpr uint64_t kSecond = 1'000'000'000;
// Ticks are nanoseconds; tick kEpochTicks is the moment kEpochRealtimeNs.
inline constexpr uint64_t kEpochTicks = 1000 * kSecond;
inline constexpr uint64_t kEpochRealtimeNs = 1'800'000'000 * kSecond;

class RingBuilder {
  public:
    explicit RingBuilder(const RingSpec& spec);

    format::RingHeader& header() { return *at<format::RingHeader>(0); }
    uint32_t text(std::string_view text);
    // A fresh row, published, live, without counters.
    uint32_t add_communicator(uint64_t id, int size, int rank, std::string_view name);
    format::CommunicatorRecord& communicator(uint32_t row);
    void count_p2p(uint32_t row, bool send, int peer);
    // The entry of a fresh ticket, complete, of that communicator; the caller fills in the rest.
    format::CollectiveEntry& add_call(uint32_t communicator_row, format::OpKind kind);
    format::CollectiveEntry& call(uint64_t ticket);
    uint64_t next_ticket() const;
    format::ThreadRecord& add_thread(uint32_t thread);
    format::MarkerEntry& add_marker(format::MarkerKind kind);
    // Fresh tickets, complete; the caller fills in the rest.
    format::StreamWorkEntry& add_work(format::WorkKind kind, uint64_t stream);
    format::ChannelEntry& add_channel(uint64_t collective_ticket, format::ChannelRole role);
    // A reading of the machine, at that moment and since.
    format::HealthEntry& add_reading(std::string_view name, double value, double first_value, uint64_t ticks);
    // A span of that thread that is open since that moment.
    format::OpenSpanRecord& add_open_span(std::string_view name, uint32_t thread, uint64_t begin_ticks);
    format::CudaCallEntry& add_cuda_call(std::string_view name);
    // The row of the launch that an entry names.
    format::LaunchMarks& marks(uint64_t launch);

    std::vector<std::byte>& bytes() { return bytes_; }
    const std::vector<std::byte>& bytes() const { return bytes_; }

  private:
    enum Index : uint32_t {
        kCalls,
        kCuda,
        kMarks,
        kComms,
        kThreads,
        kTexts,
        kHeap,
        kPeers,
        kWork,
        kLaunches,
        kChannels
    };

    template <typename T>
    T* at(uint64_t offset) {
        return reinterpret_cast<T*>(bytes_.data() + offset);
    }
    template <typename T>
    T* slot(const format::RegionDescriptor& region, uint64_t number);
    template <typename T>
    T* slot(Index region, uint64_t number) {
        return slot<T>(header().regions[region], number);
    }
    uint64_t& head(Index region) { return header().cursors[region].head; }

    RingSpec spec_;
    std::vector<std::byte> bytes_;
};

// The meta section of a dump of this ring. `nccl_algo`: the variable NCCL_ALGO of the process, "" without any variable.
std::string dump_meta(uint64_t now_ticks, std::string_view reason, bool process_alive, uint64_t dump_number = 0,
                      std::string_view nccl_algo = "");
// The whole dump file.
std::vector<std::byte> make_dump(const RingBuilder& ring, std::string_view meta_json);
// Creates directories as needed. Throws where it cannot.
void write_file(const std::string& path, const std::vector<std::byte>& bytes);

}  // namespace titan::synth
