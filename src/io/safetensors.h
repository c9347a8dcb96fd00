// Safetensors files: strict memory-mapped reading, checkpoints of one or many files, streaming writing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/mapped_file.h"
#include "weft/tensor.h"

namespace weft {

// One tensor of a file, as its header states it.
struct SafetensorsEntry {
    std::string name;
    std::string format_dtype;    // the format's word, "BF16"
    std::optional<DType> dtype;  // absent where weft has no such dtype (BOOL, F64, ...)
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, end = 0;  // bytes from the start of the data
};

struct SafetensorsHeader {
    std::vector<SafetensorsEntry> entries;  // in the order of their data
    std::map<std::string, std::string> metadata;
    std::uint64_t data_start = 0;  // where the data begins in the file
};

// Validates everything that can be validated without reading the data: the header's length and JSON, no
// name or field twice, known dtypes, sizes that equal shape times dtype without overflow, and tensors that
// cover the data exactly, without gap or overlap. Throws Error(io) that starts with `file_name`.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& file_name);

// The weft dtype of a format's word and back; absent where the other side has no such dtype.
std::optional<DType> safetensors_dtype(std::string_view format_dtype);
std::optional<std::string_view> safetensors_name(DType dtype);

// One file, memory-mapped read-only for as long as the object lives. Views point into the map: writing
// through one is a fault, and so is reading after another process cut the file short. The format does not
// align data, so a view's pointer may be aligned to nothing; load_element() and memcpy are always safe.
class SafetensorsFile {
   public:
    explicit SafetensorsFile(const std::filesystem::path& path);

    const std::string& path() const { return path_; }
    const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
    const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
    const SafetensorsEntry* find(std::string_view name) const;  // null: no such tensor
    // Throws Error(io) for a dtype or rank that weft::Tensor cannot hold.
    Tensor view(const SafetensorsEntry& entry) const;

   private:
    std::string path_;
    MappedFile map_;
    SafetensorsHeader header_;
    std::unordered_map<std::string_view, const SafetensorsEntry*> by_name_;  // keys live in header_
};

inline constexpr std::int64_t kAnySize = -1;  // in a required shape: every size will do

// The tensors of a model by name: one .safetensors file, a *.index.json with its shards beside it, or a
// folder that holds either (model.safetensors.index.json, then model.safetensors, then the only
// *.safetensors).
class Checkpoint {
   public:
    explicit Checkpoint(const std::filesystem::path& path);

    const std::string& path() const { return path_; }
    std::vector<std::string> names() const;  // sorted
    bool contains(std::string_view name) const { return find(name) != nullptr; }
    const SafetensorsEntry* find(std::string_view name) const;
    // The metadata of the first file that has `key`.
    std::optional<std::string> metadata(const std::string& key) const;

    // The tensor as a view on the map (see SafetensorsFile). Throws Error(io), naming the tensor, the file,
    // what was expected and what came, where it is missing or differs.
    Tensor require(std::string_view name, DTypeSet dtypes, std::span<const std::int64_t> shape) const;
    Tensor require(std::string_view name, DTypeSet dtypes, std::initializer_list<std::int64_t> shape) const {
        return require(name, dtypes, std::span(shape.begin(), shape.size()));
    }

   private:
    struct Place {
        const SafetensorsFile* file;
        const SafetensorsEntry* entry;
    };
    void open_index(const std::filesystem::path& index);

    std::string path_;
    std::vector<std::unique_ptr<SafetensorsFile>> files_;
    std::map<std::string, Place, std::less<>> places_;
};

// Parses a *.index.json: tensor name to file name, a bare name in the index's own folder.
std::map<std::string, std::string> parse_checkpoint_index(std::string_view json,
                                                          const std::string& file_name);

// Writes one file: declare() every tensor, begin(), then write them in any order, finish(). The file appears
// under its name at finish() and is removed if that never comes.
class SafetensorsWriter {
   public:
    explicit SafetensorsWriter(const std::filesystem::path& path);
    ~SafetensorsWriter();
    SafetensorsWriter(const SafetensorsWriter&) = delete;
    SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

    void set_metadata(const std::string& key, const std::string& value) { metadata_[key] = value; }
    void declare(const std::string& name, DType dtype, std::span<const std::int64_t> shape);
    void declare(const std::string& name, DType dtype, std::initializer_list<std::int64_t> shape) {
        declare(name, dtype, std::span(shape.begin(), shape.size()));
    }
    // Writes the header. Wider elements come first, so that in files of this writer all data is aligned.
    void begin();
    // A host tensor of the declared dtype and shape, with any strides.
    void write(const std::string& name, const Tensor& tensor);
    // Bytes [offset, offset + size) of a tensor's dense data. Different threads may write different parts.
    void write_bytes(const std::string& name, std::uint64_t offset, std::span<const std::byte> bytes);
    // Throws Error(io) where a tensor's bytes were not all written.
    void finish();

   private:
    struct Slot;
    Slot& slot(const std::string& name);

    std::filesystem::path path_, part_;
    int file_ = -1;
    std::uint64_t data_start_ = 0;
    std::map<std::string, std::string> metadata_;
    std::vector<std::unique_ptr<Slot>> slots_;  // in the order of their data, once begun
    std::unordered_map<std::string, Slot*> by_name_;
};

struct NamedTensor {
    std::string name;
    Tensor tensor;
};
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace weft
