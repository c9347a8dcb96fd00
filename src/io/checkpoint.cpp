// A model's tensors by name, from one safetensors file or many.
#include <algorithm>

#include "io/io_error.h"
#include "io/safetensors.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexSuffix = ".index.json";

// Without the exceptions of the plain forms: a path that cannot exist does not.
bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
    std::error_code ignored;
    return fs::is_directory(path, ignored);
}

fs::path file_of_folder(const fs::path& folder) {
    for (const char* name : {"model.safetensors.index.json", "model.safetensors"}) {
        if (is_there(folder / name)) return folder / name;
    }
    fs::path only;
    int found = 0;
    std::error_code failure;
    for (fs::directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure)) {
        if (it->path().extension() != ".safetensors") continue;
        only = it->path();
        ++found;
    }
    if (failure) fail_io("{}: cannot list the folder: {}", folder.string(), failure.message());
    if (found == 1) return only;
    fail_io("{}: expected model.safetensors.index.json, model.safetensors or one *.safetensors, found {}",
            folder.string(), found == 0 ? "none" : fmt::format("{} *.safetensors", found));
}

std::string dtypes_text(DTypeSet dtypes) {
    std::string out;
    for (int i = 0; i < kDTypeCount; ++i) {
        const auto dtype = static_cast<DType>(i);
        if (!dtypes.contains(dtype)) continue;
        if (!out.empty()) out += " or ";
        out += name(dtype);
    }
    return out;
}

bool shapes_agree(std::span<const std::int64_t> expected, std::span<const std::int64_t> got) {
    return std::ranges::equal(expected, got,
                              [](std::int64_t e, std::int64_t g) { return e == kAnySize || e == g; });
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& path) : path_(path.string()) {
    if (!is_there(path)) fail_io("{}: no such file or folder", path_);
    const fs::path file = is_folder(path) ? file_of_folder(path) : path;
    if (file.string().ends_with(kIndexSuffix)) {
        open_index(file);
        return;
    }
    const auto& only = files_.emplace_back(std::make_unique<SafetensorsFile>(file));
    for (const SafetensorsEntry& entry : only->entries())
        places_.emplace(entry.name, Place{only.get(), &entry});
}

void Checkpoint::open_index(const fs::path& index) {
    const MappedFile text(index);
    const std::string_view json(reinterpret_cast<const char*>(text.bytes().data()), text.bytes().size());
    std::map<std::string, const SafetensorsFile*> shards;
    for (const auto& [tensor, shard] : parse_checkpoint_index(json, index.string())) {
        const SafetensorsFile*& file = shards[shard];
        if (file == nullptr) {
            const fs::path path = index.parent_path() / shard;
            if (!is_there(path)) {
                fail_io("{}: tensor {}: its file {} is missing", index.string(), quote(tensor),
                        path.string());
            }
            file = files_.emplace_back(std::make_unique<SafetensorsFile>(path)).get();
        }
        const SafetensorsEntry* const entry = file->find(tensor);
        if (entry == nullptr) {
            fail_io("{}: tensor {}: missing in {}, where the index places it", index.string(), quote(tensor),
                    file->path());
        }
        places_.emplace(tensor, Place{file, entry});
    }
}

std::vector<std::string> Checkpoint::names() const {
    std::vector<std::string> out;
    out.reserve(places_.size());
    for (const auto& [name, place] : places_) out.push_back(name);
    return out;
}

const SafetensorsEntry* Checkpoint::find(std::string_view name) const {
    const auto it = places_.find(name);
    return it == places_.end() ? nullptr : it->second.entry;
}

std::optional<std::string> Checkpoint::metadata(const std::string& key) const {
    for (const auto& file : files_) {
        const auto it = file->metadata().find(key);
        if (it != file->metadata().end()) return it->second;
    }
    return std::nullopt;
}

Tensor Checkpoint::require(std::string_view name, DTypeSet dtypes,
                           std::span<const std::int64_t> shape) const {
    const auto it = places_.find(name);
    if (it == places_.end()) {
        fail_io("{}: tensor {}: missing (expected {} of shape {}; the checkpoint has {} tensors)", path_,
                quote(name), dtypes_text(dtypes), shape_text(shape), places_.size());
    }
    const auto& [file, entry] = it->second;
    if (!entry->dtype || !dtypes.contains(*entry->dtype)) {
        fail_io("{}: tensor {}: dtype: expected {}, got {}", file->path(), quote(name), dtypes_text(dtypes),
                entry->dtype ? std::string(weft::name(*entry->dtype)) : entry->format_dtype);
    }
    if (!shapes_agree(shape, entry->shape)) {
        fail_io("{}: tensor {}: shape: expected {}, got {}", file->path(), quote(name), shape_text(shape),
                shape_text(entry->shape));
    }
    return file->view(*entry);
}

}  // namespace weft
