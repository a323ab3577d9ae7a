#include "formats/dump_builder.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "formats/dump_layout.h"
#include "formats/ring_layout.h"

namespace titan::format {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kMaxSectionBytes = size_t{4} << 20;

struct FreeContext {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

class Packer {
  public:
    explicit Packer(int level) : context_(ZSTD_createCCtx()) {
        if (context_ != nullptr) {
            ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level);
            ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
        }
        DumpHeader header{kDumpMagic, kDumpMajor, kDumpMinor, sizeof(DumpHeader), 0, 0};
        append_checked(header);
    }

    bool add(SectionKind kind, std::span<const std::byte> raw, uint64_t ring_offset_bytes) {
        if (context_ == nullptr) {
            return false;
        }
        packed_.resize(ZSTD_compressBound(raw.size()));
        const size_t stored = ZSTD_compress2(context_.get(), packed_.data(), packed_.size(), raw.data(), raw.size());
        if (ZSTD_isError(stored) != 0) {
            return false;
        }
        SectionHeader header{kind, 0, stored, raw.size(), ring_offset_bytes, 0};
        append_checked(header);
        file_.insert(file_.end(), packed_.begin(), packed_.begin() + static_cast<std::ptrdiff_t>(stored));
        return true;
    }

    std::vector<std::byte> finish() {
        SectionHeader end{SectionKind::kEnd, 0, 0, 0, 0, 0};
        append_checked(end);
        return std::move(file_);
    }

  private:
    template <typename T>
    void append_checked(T& header) {
        const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
        header.check = fnv1a64(bytes, offsetof(T, check));
        const auto* begin = reinterpret_cast<const std::byte*>(&header);
        file_.insert(file_.end(), begin, begin + sizeof(T));
    }

    std::unique_ptr<ZSTD_CCtx, FreeContext> context_;
    std::vector<std::byte> packed_;
    std::vector<std::byte> file_;
};

bool all_zero(std::span<const std::byte> bytes) {
    return bytes.empty() ||
           (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

Result<std::vector<std::byte>> build_dump(std::span<const std::byte> image, std::string_view meta_json,
                                          int compression_level) {
    Packer packer(compression_level);
    bool good = packer.add(SectionKind::kMeta, std::as_bytes(std::span(meta_json.data(), meta_json.size())), 0);
    size_t begin = 0;
    while (good && begin < image.size()) {
        size_t end = begin;
        while (end < image.size() && end - begin < kMaxSectionBytes &&
               !(end > 0 && all_zero(image.subspan(end, std::min(kPageBytes, image.size() - end))))) {
            end = std::min(end + kPageBytes, image.size());
        }
        if (end > begin) {
            good = packer.add(SectionKind::kRing, image.subspan(begin, end - begin), begin);
        }
        begin = end > begin ? end : std::min(begin + kPageBytes, image.size());
    }
    if (!good) {
        return Error("cannot be compressed");
    }
    return packer.finish();
}

}  // namespace titan::format
