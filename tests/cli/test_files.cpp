// What the tool writes into files: the inputs and results of a case, and checkpoints.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/json_text.h"
#include "io/gemma_checkpoint.h"
#include "tests/cli/tool.h"
#include "weft/dtype.h"

namespace weft {
namespace {

using test::Result;
using test::weft;

std::filesystem::path fresh(const std::string& name) {
    const auto folder = std::filesystem::path(testing::TempDir()) / name;
    std::filesystem::remove_all(folder);
    return folder;
}

std::vector<double> numbers(const SafetensorsFile& file, const std::string& name) {
    const SafetensorsEntry* entry = file.find(name);
    if (entry == nullptr) return {};
    const Tensor t = file.view(*entry);
    std::vector<double> found;
    for (std::int64_t i = 0; i < t.numel(); ++i) found.push_back(load_element(t.dtype, t.data, i));
    return found;
}

// Stored as int64, bit for bit.
std::vector<double> doubles(const SafetensorsFile& file, const std::string& name) {
    const Tensor t = file.view(*file.find(name));
    std::vector<double> found(static_cast<std::size_t>(t.numel()));
    std::memcpy(found.data(), t.data, found.size() * sizeof(double));
    return found;
}

TEST(Dump, WritesWhatAnOracleNeeds) {
    const auto folder = fresh("weft_dump");
    EXPECT_EQ(weft({"verify", "planted x=bf16[4,9]", "--dump", folder.string(), "--device", "cpu", "--seed",
                    "7", "--values", "tiny"})
                  .code,
              0);
    std::ifstream in(folder / "case.json");
    const auto description = parse_json(in);
    EXPECT_EQ(description["case"], "planted x=bf16[4,9] out=bf16[4,9]");
    EXPECT_EQ(description["seed"], 7);
    EXPECT_EQ(description["values"], "tiny");
    const SafetensorsFile inputs(folder / "inputs.safetensors"), results(folder / "reference.safetensors");
    EXPECT_EQ(inputs.entries().size(), 1U);
    EXPECT_EQ(results.entries().size(), 4U);
    const std::vector<double> x = numbers(inputs, "x"), exact = doubles(results, "out.exact");
    ASSERT_EQ(x.size(), 36U);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(exact[i], 2 * x[i]);
    EXPECT_THAT(doubles(results, "out.error"), testing::Each(0.0));
    EXPECT_THAT(numbers(results, "out.written"), testing::Each(1.0));
    EXPECT_EQ(results.find("out")->shape, (std::vector<std::int64_t>{4, 9}));
}

TEST(Dump, SaysWhatTheOpLeavesUnwritten) {
    const auto folder = fresh("weft_dump_partial");
    EXPECT_EQ(weft({"verify", "grouped_gemm a=bf16[2,3,8] b=bf16[2,4,8] counts=int32[2] out=bf16[2,3,4]",
                    "--dump", folder.string(), "--device", "cpu"})
                  .code,
              0);
    const SafetensorsFile inputs(folder / "inputs.safetensors"), results(folder / "reference.safetensors");
    const std::vector<double> counts = numbers(inputs, "counts"), written = numbers(results, "out.written");
    ASSERT_EQ(written.size(), 24U);
    EXPECT_LT(counts[0] + counts[1], 6) << "a row is in no group";
    for (std::size_t i = 0; i < written.size(); ++i)
        EXPECT_EQ(written[i], static_cast<double>(i / 4 % 3) < counts[i / 12] ? 1 : 0) << i;
    EXPECT_NE(inputs.find("a"), nullptr);
    EXPECT_EQ(results.find("a"), nullptr);
}

// Four bits have no name in a file.
TEST(Dump, WritesTheCodesOfDtypesThatFilesLack) {
    const auto folder = fresh("weft_dump_codes");
    EXPECT_EQ(
        weft({"verify", "quantize x=bf16[1,32] out=fp4_e2m1[1,32] scale=fp32[1] group_scale=fp8_e4m3[1,2]",
              "--dump", folder.string(), "--device", "cpu"})
            .code,
        0);
    const SafetensorsFile results(folder / "reference.safetensors");
    EXPECT_EQ(results.find("out")->dtype, DType::uint8);
    const std::vector<double> codes = numbers(results, "out");
    ASSERT_EQ(codes.size(), 32U);
    EXPECT_THAT(codes, testing::Each(testing::Lt(16)));
    EXPECT_THAT(codes, testing::Contains(testing::Gt(8)));
}

TEST(Dump, OfAnOpHasItsDrawnCasesAlone) {
    const auto folder = fresh("weft_dump_many");
    EXPECT_EQ(
        weft({"verify", "timestep_embedding", "--dump", folder.string(), "--device", "cpu", "--cases", "2"})
            .code,
        0);
    EXPECT_TRUE(std::filesystem::exists(folder / "0001/case.json"));
    EXPECT_FALSE(std::filesystem::exists(folder / "0002")) << "a row of a workload";
}

TEST(MakeCheckpoint, WritesOneAndRefusesNonsense) {
    const std::string path = testing::TempDir() + "/weft_small.safetensors";
    const Result r =
        weft({"make-checkpoint", path, "--layers", "1", "--width", "32", "--ffn", "64", "--vocab", "16",
              "--head-dim", "8", "--query-heads", "2", "--rope-base", "500000", "--norm-eps", "1e-5"});
    EXPECT_EQ(r.code, 0) << r.error;
    EXPECT_EQ(r.out, "wrote " + path + " (1 layers, bf16, seed 0)\n");
    const GemmaConfig config = gemma_config(Checkpoint(path));
    EXPECT_EQ(config.rope_base, 500000.0f);
    EXPECT_EQ(config.norm_eps, 1e-5f);
    EXPECT_EQ(weft({"make-checkpoint", path, "--dtype", "int8"}).code, 2);
    EXPECT_EQ(weft({"make-checkpoint", path, "--layers", "0"}).code, 2);
}

TEST(MakeCheckpoint, CutsItIntoFiles) {
    const auto folder = fresh("weft_shards");
    EXPECT_EQ(weft({"make-checkpoint", folder.string(), "--layers", "2", "--width", "64", "--ffn", "64",
                    "--vocab", "64", "--head-dim", "8", "--query-heads", "2", "--shard-gib", "0.00005"})
                  .code,
              0);
    std::uintmax_t files = 0, largest = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".safetensors") continue;
        ++files;
        largest = std::max(largest, entry.file_size());
    }
    EXPECT_GT(files, 2U);
    EXPECT_LT(largest, 80'000U) << "the largest tensor has 75264 bytes";
    EXPECT_EQ(gemma_config(Checkpoint(folder)).layers, 2);
}

// A size that 32 bits would make small.
TEST(MakeCheckpoint, LeavesWhatIsBelowFourGibWhole) {
    const auto folder = fresh("weft_whole");
    EXPECT_EQ(weft({"make-checkpoint", folder.string(), "--layers", "1", "--width", "64", "--ffn", "64",
                    "--vocab", "64", "--head-dim", "8", "--query-heads", "2", "--shard-gib", "4.00005"})
                  .code,
              0);
    EXPECT_TRUE(std::filesystem::exists(folder / "model.safetensors"));
}

}  // namespace
}  // namespace weft
