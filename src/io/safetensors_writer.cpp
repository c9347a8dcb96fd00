// Streaming writing of safetensors files.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "io/io_error.h"
#include "io/safetensors.h"

namespace weft {

struct SafetensorsWriter::Slot {
    std::string name;
    DType dtype;
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, size = 0;
    std::atomic<std::uint64_t> written = 0;
};

namespace {

// The format asks for 8; a cache line lets mapped views of widths that divide it use the widest loads.
constexpr std::size_t kDataAlignment = 64;

void write_all(int file, std::span<const std::byte> bytes, std::uint64_t offset, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t done = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) fail_io("{}: cannot write {} bytes: {}", path, bytes.size(), system_error());
        bytes = bytes.subspan(static_cast<std::size_t>(done));
        offset += static_cast<std::uint64_t>(done);
    }
}

// Copies the elements of a strided view, in row-major order, to `out`.
std::byte* gather(const Tensor& tensor, int axis, const std::byte* from, std::size_t element,
                  std::byte* out) {
    if (axis == tensor.rank) {
        std::memcpy(out, from, element);
        return out + element;
    }
    for (std::int64_t i = 0; i < tensor.shape[axis]; ++i) {
        const auto step = i * tensor.stride[axis] * static_cast<std::int64_t>(element);
        out = gather(tensor, axis + 1, from + step, element, out);
    }
    return out;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path)
    : path_(path), part_(path.string() + ".part") {}

SafetensorsWriter::~SafetensorsWriter() {
    if (file_ < 0) return;
    ::close(file_);
    ::unlink(part_.c_str());
}

void SafetensorsWriter::declare(const std::string& name, DType dtype, std::span<const std::int64_t> shape) {
    if (file_ >= 0)
        fail_io("{}: tensor {}: declared after the header was written", path_.string(), quote(name));
    if (name == "__metadata__") fail_io("{}: no tensor can be called '__metadata__'", path_.string());
    if (!safetensors_name(dtype)) {
        fail_io("{}: tensor {}: safetensors has no dtype for {}", path_.string(), quote(name),
                weft::name(dtype));
    }
    auto made = std::make_unique<Slot>();
    made->name = name;
    made->dtype = dtype;
    made->shape.assign(shape.begin(), shape.end());
    std::int64_t elements = 1;
    for (const std::int64_t size : shape) {
        if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) {
            fail_io("{}: tensor {}: no tensor has shape {}", path_.string(), quote(name), shape_text(shape));
        }
    }
    made->size = static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(bits(dtype)) / 8;
    if (!by_name_.emplace(name, made.get()).second) {
        fail_io("{}: tensor {}: declared twice", path_.string(), quote(name));
    }
    slots_.push_back(std::move(made));
}

void SafetensorsWriter::begin() {
    std::ranges::stable_sort(slots_,
                             [](const auto& a, const auto& b) { return bits(a->dtype) > bits(b->dtype); });
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata_.empty()) header["__metadata__"] = metadata_;
    std::uint64_t at = 0;
    for (const auto& slot : slots_) {
        slot->begin = at;
        at += slot->size;
        header[slot->name] = {{"dtype", *safetensors_name(slot->dtype)},
                              {"shape", slot->shape},
                              {"data_offsets", {slot->begin, at}}};
    }
    std::string text;
    try {
        text = json_text(header);
    } catch (const nlohmann::json::exception&) {
        fail_io("{}: a name or metadata is not valid UTF-8", path_.string());
    }
    constexpr std::size_t kLengthBytes = 8;
    text.resize(
        (text.size() + kLengthBytes + kDataAlignment - 1) / kDataAlignment * kDataAlignment - kLengthBytes,
        ' ');
    std::string prefix(kLengthBytes, '\0');
    for (std::size_t i = 0; i < kLengthBytes; ++i) prefix[i] = static_cast<char>(text.size() >> (8 * i));
    text = prefix + text;

    file_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file_ < 0) fail_io("{}: cannot create: {}", part_.string(), system_error());
    data_start_ = text.size();
    write_all(file_, std::as_bytes(std::span(text)), 0, part_.string());
}

SafetensorsWriter::Slot& SafetensorsWriter::slot(const std::string& name) {
    const auto it = by_name_.find(name);
    if (it == by_name_.end()) fail_io("{}: tensor {}: was not declared", path_.string(), quote(name));
    if (file_ < 0) fail_io("{}: tensor {}: written before begin()", path_.string(), quote(name));
    return *it->second;
}

void SafetensorsWriter::write(const std::string& name, const Tensor& tensor) {
    const Slot& to = slot(name);
    if (tensor.device.type == DeviceType::cuda) {
        fail_io("{}: tensor {}: in device memory; copy it to the host first", path_.string(), quote(name));
    }
    const std::span<const std::int64_t> shape(tensor.shape,
                                              static_cast<std::size_t>(std::max(tensor.rank, 0)));
    if (!tensor || tensor.dtype != to.dtype || !std::ranges::equal(shape, to.shape)) {
        fail_io("{}: tensor {}: declared {}{}, got {}", path_.string(), quote(name), weft::name(to.dtype),
                shape_text(to.shape), tensor ? to_string(tensor) : "nothing");
    }
    const auto* const data = static_cast<const std::byte*>(tensor.data);
    if (tensor.is_dense()) return write_bytes(name, 0, {data, to.size});
    std::vector<std::byte> dense(to.size);
    gather(tensor, 0, data, static_cast<std::size_t>(bits(to.dtype)) / 8, dense.data());
    write_bytes(name, 0, dense);
}

void SafetensorsWriter::write_bytes(const std::string& name, std::uint64_t offset,
                                    std::span<const std::byte> bytes) {
    Slot& to = slot(name);
    if (offset > to.size || bytes.size() > to.size - offset) {
        fail_io("{}: tensor {}: bytes [{}, {}) of {}", path_.string(), quote(name), offset,
                offset + bytes.size(), to.size);
    }
    write_all(file_, bytes, data_start_ + to.begin + offset, part_.string());
    to.written += bytes.size();
}

void SafetensorsWriter::finish() {
    if (file_ < 0) fail_io("{}: finished before begin()", path_.string());
    for (const auto& slot : slots_) {
        if (slot->written != slot->size) {
            fail_io("{}: tensor {}: {} of its {} bytes were written", path_.string(), quote(slot->name),
                    slot->written.load(), slot->size);
        }
    }
    const int closed = ::close(file_);
    file_ = -1;
    if (closed != 0 || ::rename(part_.c_str(), path_.c_str()) != 0) {
        const std::string why = system_error();
        ::unlink(part_.c_str());
        fail_io("{}: cannot complete: {}", path_.string(), why);
    }
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
    SafetensorsWriter writer(path);
    for (const auto& [key, value] : metadata) writer.set_metadata(key, value);
    for (const auto& [name, tensor] : tensors) {
        if (!tensor) fail_io("{}: tensor {}: absent", path.string(), quote(name));
        writer.declare(name, tensor.dtype, std::span(tensor.shape, static_cast<std::size_t>(tensor.rank)));
    }
    writer.begin();
    for (const auto& [name, tensor] : tensors) writer.write(name, tensor);
    writer.finish();
}

}  // namespace weft
