// A file mapped read-only into memory.
#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/io_error.h"

namespace weft {

MappedFile::MappedFile(const std::filesystem::path& path) {
    struct Descriptor {
        int fd;
        ~Descriptor() {
            if (fd >= 0) ::close(fd);
        }
    } file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (file.fd < 0) fail_io("{}: cannot open: {}", path.string(), system_error());
    struct stat status{};
    if (::fstat(file.fd, &status) != 0)
        fail_io("{}: cannot read its size: {}", path.string(), system_error());
    if (!S_ISREG(status.st_mode)) fail_io("{}: not a regular file", path.string());
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ == 0) return;  // an empty map is not allowed, and an empty span says it all
    void* const map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (map == MAP_FAILED) fail_io("{}: cannot map {} bytes: {}", path.string(), size_, system_error());
    data_ = map;
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace weft
