// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace weft {

class MappedFile {
   public:
    explicit MappedFile(const std::filesystem::path& path);  // throws Error(io)
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

   private:
    void* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace weft
