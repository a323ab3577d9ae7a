// gpu-sampled LIBRARY COMMAND...: runs COMMAND, looks every 50 us where its threads are on a processor, and says how
// much of their time was in the library of that name: "key value" lines. Differences of times drown in noise on a busy
// host; this share does not. Needs perf_event_open, which containers often refuse: then the status is 3.
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace {

constexpr uint64_t kPeriodNs = 50'000;
constexpr size_t kRingBytes = 2 << 20;  // of one processor: 20,000 samples a second are 480 kB
constexpr int kLookMs = 20;
constexpr int kRefused = 3;

struct Range {
    uint64_t begin, end;
};

// What the kernel writes for one processor.
class Samples {
  public:
    bool open(pid_t process, int processor) {
        perf_event_attr wanted{};
        wanted.size = sizeof(wanted);
        wanted.type = PERF_TYPE_SOFTWARE;
        wanted.config = PERF_COUNT_SW_CPU_CLOCK;
        wanted.sample_period = kPeriodNs;
        wanted.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID;
        wanted.inherit = wanted.mmap = wanted.disabled = wanted.enable_on_exec = 1;
        const long event = syscall(SYS_perf_event_open, &wanted, process, processor, -1, PERF_FLAG_FD_CLOEXEC);
        if (event < 0) {
            return false;
        }
        void* const memory =
            mmap(nullptr, page_bytes() + kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(event), 0);
        page_ = memory == MAP_FAILED ? nullptr : static_cast<perf_event_mmap_page*>(memory);
        return page_ != nullptr;
    }

    template <typename Take>
    void read(const Take& take) {
        const uint64_t head = std::atomic_ref(page_->data_head).load(std::memory_order_acquire);
        uint64_t tail = page_->data_tail;
        while (tail < head) {
            perf_event_header header;
            copy(&header, tail, sizeof(header));
            record_.resize(header.size);
            copy(record_.data(), tail, header.size);
            take(header.type, record_.data() + sizeof(header));
            tail += header.size;
        }
        std::atomic_ref(page_->data_tail).store(tail, std::memory_order_release);
    }

  private:
    static size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

    void copy(void* to, uint64_t from, size_t bytes) const {
        const char* const ring = reinterpret_cast<const char*>(page_) + page_bytes();
        for (size_t i = 0; i < bytes; ++i) {
            static_cast<char*>(to)[i] = ring[(from + i) % kRingBytes];
        }
    }

    perf_event_mmap_page* page_ = nullptr;
    std::vector<char> record_;
};

class Counts {
  public:
    Counts(pid_t process, std::string_view library) : process_(process), library_(library) {}

    void take(uint32_t type, const char* record) {
        if (type == PERF_RECORD_MMAP) {
            take_mapping(record);
        } else if (type == PERF_RECORD_SAMPLE) {
            take_sample(record);
        } else if (type == PERF_RECORD_LOST) {
            lost_ += number_at<uint64_t>(record + 8);
        }
    }

    void print() const {
        const auto ms_of = [](uint64_t samples) {
            return static_cast<double>(samples) * static_cast<double>(kPeriodNs) / 1e6;
        };
        std::printf("on_processor_ms %.2f\nin_library_ms %.2f\nsamples_lost %lu\n", ms_of(samples_), ms_of(inside_),
                    static_cast<unsigned long>(lost_));
    }

  private:
    template <typename Number>
    static Number number_at(const char* bytes) {
        Number number;
        std::memcpy(&number, bytes, sizeof(number));
        return number;
    }

    // pid, tid, address, length, offset in the file, its name
    void take_mapping(const char* record) {
        const std::string_view file = record + 32;
        const auto address = number_at<uint64_t>(record + 8);
        if (number_at<pid_t>(record) == process_ && file.ends_with(library_)) {
            ranges_.push_back({address, address + number_at<uint64_t>(record + 16)});
        }
    }

    // address, pid, tid
    void take_sample(const char* record) {
        if (number_at<pid_t>(record + 8) != process_) {
            return;  // of a child
        }
        ++samples_;
        const auto address = number_at<uint64_t>(record);
        for (const Range& range : ranges_) {
            inside_ += range.begin <= address && address < range.end ? 1 : 0;
        }
    }

    pid_t process_;
    std::string_view library_;
    std::vector<Range> ranges_;
    uint64_t samples_ = 0, inside_ = 0, lost_ = 0;
};

// The process waits for a byte before it becomes the command.
pid_t start(char** command, int& go) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    const pid_t process = fork();
    if (process == 0) {
        char byte;
        if (read(ends[0], &byte, 1) == 1) {
            execvp(command[0], command);
        }
        _exit(127);
    }
    go = ends[1];
    return process;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: %s LIBRARY COMMAND...\n", argv[0]);
        return 2;
    }
    int go = -1;
    const pid_t process = start(argv + 2, go);
    std::vector<std::unique_ptr<Samples>> processors;
    for (int i = 0; i < sysconf(_SC_NPROCESSORS_ONLN); ++i) {
        processors.push_back(std::make_unique<Samples>());
        if (!processors.back()->open(process, i)) {
            std::perror("perf_event_open");
            return kRefused;  // the command ends, too: nobody tells it to go on
        }
    }
    Counts counts(process, argv[1]);
    int status = 0;
    bool over = write(go, "", 1) != 1;
    do {
        usleep(kLookMs * 1000);
        over = over || waitpid(process, &status, WNOHANG) != 0;
        for (const auto& processor : processors) {
            processor->read([&](uint32_t type, const char* record) { counts.take(type, record); });
        }
    } while (!over);
    counts.print();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
