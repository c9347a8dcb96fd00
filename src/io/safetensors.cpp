// One memory-mapped safetensors file.
#include "io/safetensors.h"

#include "io/io_error.h"

namespace weft {

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path.string()), map_(path), header_(parse_safetensors_header(map_.bytes(), path_)) {
    by_name_.reserve(header_.entries.size());
    for (const SafetensorsEntry& entry : header_.entries) by_name_.emplace(entry.name, &entry);
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : it->second;
}

Tensor SafetensorsFile::view(const SafetensorsEntry& entry) const {
    if (!entry.dtype) {
        fail_io("{}: tensor {}: weft has no dtype for {}", path_, quote(entry.name), entry.format_dtype);
    }
    if (entry.shape.size() > kMaxRank) {
        fail_io("{}: tensor {}: rank {} exceeds {}", path_, quote(entry.name), entry.shape.size(), kMaxRank);
    }
    const std::byte* const data = map_.bytes().data() + header_.data_start + entry.begin;
    return {const_cast<std::byte*>(data), *entry.dtype, std::span(entry.shape)};
}

}  // namespace weft
