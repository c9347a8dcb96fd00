// Copies of a small model's file with other weights in them, and what a run of one gives.
#pragma once

#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/small_model.h"
#include "verify/fuzz.h"

namespace weft::test {

inline SessionResult run(const SessionOptions& options) {
    return run_session(options, [](const std::string&) {});
}

// A copy of the model's file that `change` has had, told where its data begin.
inline std::string copy_with(const std::string& name,
                             const std::function<void(std::string& file, std::size_t data)>& change) {
    std::stringstream text;
    text << std::ifstream(checkpoint(), std::ios::binary).rdbuf();
    std::string file = text.str();
    std::uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof(header));
    change(file, sizeof(header) + header);
    const std::string path = testing::TempDir() + "/weft_" + name + ".safetensors";
    std::ofstream(unpublished(path), std::ios::binary) << file;
    publish(unpublished(path), path);
    return path;
}

// The places of a tensor's values in a file of the model.
inline std::pair<std::size_t, std::size_t> place_of(const std::string& file, std::size_t data,
                                                    const std::string& name) {
    const auto header =
        nlohmann::json::parse(file.substr(sizeof(std::uint64_t), data - sizeof(std::uint64_t)));
    const auto& offsets = header.at(name).at("data_offsets");
    return {data + offsets[0].get<std::size_t>(), data + offsets[1].get<std::size_t>()};
}

// A value of the file's fp32, changed.
inline void change(std::string& file, std::pair<std::size_t, std::size_t> place,
                   const std::function<float(float)>& changed) {
    for (std::size_t at = place.first; at < place.second; at += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, file.data() + at, sizeof(value));
        value = changed(value);
        std::memcpy(file.data() + at, &value, sizeof(value));
    }
}

// A product of other rows may add in another order.
inline void expect_same(const std::vector<float>& a, const std::vector<float>& b) {
    EXPECT_LT(closeness(a, b).relative_error, 1e-6);
}

}  // namespace weft::test
