// Hostile safetensors files: whatever is accepted must be readable to its last byte.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "io/safetensors.h"
#include "targets.h"
#include "weft/error.h"

namespace weft::fuzz {
namespace {

// A file that lives in memory, under a path that open() takes.
class MemoryFile {
   public:
    explicit MemoryFile(std::string_view bytes) : file_(::memfd_create("fuzz", MFD_CLOEXEC)) {
        must(file_ >= 0, "no memory file");
        must(::write(file_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "short write");
    }
    ~MemoryFile() { ::close(file_); }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;

    std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

   private:
    int file_;
};

std::string framed(Input input) {
    const std::string_view text = as_text(input);
    if (!text.starts_with('{')) return std::string(text);
    const std::size_t header = std::min(text.find('\0'), text.size());
    std::string file;
    for (int i = 0; i < 8; ++i) file += static_cast<char>(static_cast<std::uint64_t>(header) >> (8 * i));
    file += text.substr(0, header);
    if (header < text.size()) file += text.substr(header + 1);
    return file;
}

// Reads every element; a sanitizer sees what lies outside the map.
void read_all(const Tensor& view) {
    must(view.is_dense(), "a view is not dense");
    volatile double sink = 0;
    for (std::int64_t i = 0; i < view.numel(); ++i) sink = load_element(view.dtype, view.data, i);
    (void)sink;
}

}  // namespace

void safetensors(Input input) {
    const std::string contents = framed(input);
    const MemoryFile file(contents);
    try {
        const Checkpoint checkpoint(file.path());
        std::uint64_t total = 0;
        for (const std::string& name : checkpoint.names()) {
            const SafetensorsEntry& entry = *checkpoint.find(name);
            must(entry.name == name, "found another tensor");
            must(entry.begin <= entry.end, "a tensor ends before it begins");
            total += entry.end - entry.begin;
            try {
                const Tensor view = checkpoint.require(name, entry.dtype.value_or(DType::fp32), entry.shape);
                must(static_cast<std::uint64_t>(weft::bytes(view.dtype, view.numel())) ==
                         entry.end - entry.begin,
                     "a size differs");
                read_all(view);
            } catch (const Error& error) {
                must(!entry.dtype || entry.shape.size() > kMaxRank, error.what());
            }
        }
        must(total <= contents.size(), "tensors overlap");
    } catch (const Error& error) {
        must(error.code() == ErrorCode::io, error.what());
        must(!error.message().empty(), "an empty message");
    }
}

void checkpoint_index(Input input) {
    try {
        for (const auto& [tensor, file] : parse_checkpoint_index(as_text(input), "index")) {
            must(!file.empty() && file != "." && file != "..", "not a file's name");
            must(file.find('/') == std::string::npos && file.find('\0') == std::string::npos, "a path");
        }
    } catch (const Error& error) {
        must(error.code() == ErrorCode::io, error.what());
    }
}

}  // namespace weft::fuzz
