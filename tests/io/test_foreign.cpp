// A file that the safetensors package wrote (test_safetensors.py holds it to that), read through the loader.
#include "files.h"
#include "io/safetensors.h"

namespace weft {
namespace {

TEST(Foreign, ReadsWhatThePackageWrote) {
    const std::filesystem::path path = WEFT_SOURCE_DIR "/tests/io/data/package.safetensors";
    const Checkpoint checkpoint(path);
    EXPECT_EQ(checkpoint.names().size(), 12u);
    EXPECT_EQ(checkpoint.metadata("note"), "a \"quoted\" line\n");
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2,
                              DType::int8, DType::int32, DType::int64, DType::uint8}) {
        const Tensor view = checkpoint.require(name(dtype), dtype, {2, 3});
        const int first = dtype == DType::uint8 ? 0 : -2;
        for (std::int64_t i = 0; i < 6; ++i) {
            EXPECT_EQ(load_element(dtype, view.data, i), static_cast<double>(first + i)) << name(dtype);
        }
    }
    const Tensor scalar = checkpoint.require("scalar", DType::fp32, {});
    EXPECT_EQ(scalar.rank, 0);
    EXPECT_EQ(load_element(scalar.dtype, scalar.data, 0), 2.5);
    EXPECT_EQ(checkpoint.require("empty", DType::fp32, {0, 3}).numel(), 0);
    EXPECT_EQ(checkpoint.find("bool")->format_dtype, "BOOL");
}

}  // namespace
}  // namespace weft
