// What the tests of the loaders share: a folder that goes away, and files made by hand.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>

#include "weft/error.h"

namespace weft::test {

class Folder {
   public:
    Folder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "weft-io-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
        path_ = pattern;
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
    std::filesystem::path write(const std::string& name, const std::string& bytes) const {
        std::ofstream(path_ / name, std::ios::binary) << bytes;
        return path_ / name;
    }

   private:
    std::filesystem::path path_;
};

inline std::string read_all(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// A safetensors file of this header and data, its length stated rightly.
inline std::string safetensors(const std::string& header, const std::string& data = "") {
    std::string out;
    for (int i = 0; i < 8; ++i)
        out += static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i));
    return out + header + data;
}

inline std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

// The message of the Error(code) that `act` throws; a failure of the test where it throws none.
inline std::string message_of(const std::function<void()>& act, ErrorCode code = ErrorCode::io) {
    try {
        act();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        return error.what();
    }
    ADD_FAILURE() << "no error was thrown";
    return "";
}

}  // namespace weft::test
