// Reading photographs: binary PPM (P6), 8 bits a channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "weft/tensor.h"

namespace weft {

struct Image {
    std::int64_t height = 0, width = 0;
    std::vector<std::uint8_t> pixels;  // [height, width, 3], red first

    Tensor view() { return {pixels.data(), DType::uint8, {height, width, 3}}; }
};

// Throws Error(io) that starts with the file's name for anything but one whole P6 image of maximum 255.
Image read_ppm(const std::filesystem::path& path);
Image parse_ppm(std::span<const std::byte> file, const std::string& file_name);

}  // namespace weft
