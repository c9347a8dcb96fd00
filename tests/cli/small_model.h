// A Gemma of two narrow layers, in a file that is written once, and a run of it.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "pipelines/pi05/session.h"
#include "tests/cli/tool.h"

namespace weft::test {

inline constexpr std::int64_t kVocab = 16, kWidth = 32, kLayers = 2;

// Another process of the tests may be reading the file that has this name: it keeps what it has.
inline void publish(const std::string& written, const std::string& path) {
    std::filesystem::rename(written, path);
}
inline std::string unpublished(const std::string& path) {
    return fmt::format("{}.{}.safetensors", path, getpid());
}

// A model in a file that is written once.
inline const std::string& checkpoint() {
    static const std::string path = [] {
        std::string file = testing::TempDir() + "/weft_pipeline.safetensors";
        EXPECT_EQ(weft({"make-checkpoint", unpublished(file), "--layers", "2", "--width", "32", "--ffn", "64",
                        "--vocab", "16", "--head-dim", "8", "--query-heads", "2", "--dtype", "fp32"})
                      .code,
                  0);
        publish(unpublished(file), file);
        return file;
    }();
    return path;
}

// Of a picture of the tree.
inline SessionOptions small(const char* picture) {
    SessionOptions options;
    options.checkpoint = checkpoint();
    options.image = picture;
    options.dtype = DType::fp32;
    options.crop = 28;
    options.prompt = {2, 5, 0, kVocab - 1};
    return options;
}

}  // namespace weft::test
