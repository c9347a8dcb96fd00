// Checkpoints: one file, a folder, shards with an index, and what require() says.
#include "files.h"
#include "io/safetensors.h"

namespace weft {
namespace {

using test::Folder;
using test::message_of;
using testing::HasSubstr;

void write_one(const std::filesystem::path& path, const std::string& name, float value) {
    const NamedTensor tensor[] = {{name, Tensor(&value, DType::fp32, {1, 1})}};
    write_safetensors(path, tensor, {{"from", name}});
}

float value_of(const Checkpoint& checkpoint, const std::string& name) {
    return *checkpoint.require(name, kFloat, {1, 1}).as<float>();
}

TEST(Checkpoint, FindsTheFileOfAFolder) {
    const Folder folder;
    EXPECT_THAT(message_of([&] { Checkpoint{folder.path()}; }),
                HasSubstr("or one *.safetensors, found none"));
    write_one(folder / "any.safetensors", "any", 1);
    EXPECT_EQ(value_of(Checkpoint(folder.path()), "any"), 1);
    write_one(folder / "other.safetensors", "other", 2);
    EXPECT_THAT(message_of([&] { Checkpoint{folder.path()}; }), HasSubstr("found 2 *.safetensors"));
    write_one(folder / "model.safetensors", "model", 3);
    EXPECT_EQ(value_of(Checkpoint(folder.path()), "model"), 3);
    folder.write("model.safetensors.index.json", R"({"weight_map":{"other":"other.safetensors"}})");
    EXPECT_EQ(value_of(Checkpoint(folder.path()), "other"), 2);
    EXPECT_EQ(value_of(Checkpoint(folder / "any.safetensors"), "any"), 1);
}

TEST(Checkpoint, ReadsShardsThroughTheIndex) {
    const Folder folder;
    write_one(folder / "1.safetensors", "a", 1);
    write_one(folder / "2.safetensors", "b", 2);
    const auto index =
        folder.write("x.index.json", R"({"metadata":{"total_size":8,"deep":[{"weight_map":[1,null,true]}]},)"
                                     R"("weight_map":{"b":"2.safetensors","a":"1.safetensors"}})");
    const Checkpoint checkpoint(index);
    EXPECT_THAT(checkpoint.names(), testing::ElementsAre("a", "b"));
    EXPECT_EQ(value_of(checkpoint, "a"), 1);
    EXPECT_EQ(value_of(checkpoint, "b"), 2);
    EXPECT_EQ(checkpoint.metadata("from"), "a");
    EXPECT_EQ(checkpoint.metadata("to"), std::nullopt);
    EXPECT_TRUE(checkpoint.contains("a"));
    EXPECT_FALSE(checkpoint.contains("c"));
}

TEST(Checkpoint, NamesTensorAndFileWhereTheShardsDisagree) {
    const Folder folder;
    write_one(folder / "1.safetensors", "a", 1);
    auto open = [&](const std::string& map) {
        const auto index = folder.write("x.index.json", R"({"weight_map":)" + map + "}");
        return message_of([&] { Checkpoint{index}; });
    };
    EXPECT_THAT(open(R"({"a":"2.safetensors"})"), HasSubstr("x.index.json: tensor 'a': its file"));
    EXPECT_THAT(open(R"({"a":"2.safetensors"})"), HasSubstr("2.safetensors is missing"));
    EXPECT_THAT(open(R"({"b":"1.safetensors"})"), HasSubstr("tensor 'b': missing in"));
    EXPECT_THAT(open(R"({"b":")" + std::string(5000, 'n') + "\"}"), HasSubstr("is missing"));
}

TEST(Checkpoint, RejectsABadIndexByItsMessage) {
    auto parse = [](std::string_view json) { return message_of([&] { parse_checkpoint_index(json, "i"); }); };
    EXPECT_THAT(parse(""), HasSubstr("i: the JSON is malformed at byte 1"));
    EXPECT_THAT(parse("{"), HasSubstr("malformed at byte 2"));
    EXPECT_THAT(parse("[]"), HasSubstr("expected an object"));
    EXPECT_THAT(parse("3"), HasSubstr("expected an object"));
    EXPECT_THAT(parse("\"s\""), HasSubstr("expected an object"));
    EXPECT_THAT(parse("{}"), HasSubstr("has no 'weight_map'"));
    EXPECT_THAT(parse(R"({"x":{"weight_map":{}}})"), HasSubstr("has no 'weight_map'"));
    EXPECT_THAT(parse(R"({"weight_map":1})"), HasSubstr("'weight_map': expected an object"));
    EXPECT_THAT(parse(R"({"weight_map":[]})"), HasSubstr("'weight_map': expected an object"));
    EXPECT_THAT(parse(R"({"weight_map":"f"})"), HasSubstr("'weight_map': expected an object"));
    EXPECT_THAT(parse(R"({"weight_map":{},"weight_map":{}})"), HasSubstr("has 'weight_map' twice"));
    EXPECT_THAT(parse(R"({"weight_map":{"t":1}})"), HasSubstr("tensor 't': expected the name of a file"));
    EXPECT_THAT(parse(R"({"weight_map":{"t":{}}})"), HasSubstr("tensor 't': expected the name of a file"));
    EXPECT_THAT(parse(R"({"weight_map":{"t":[]}})"), HasSubstr("tensor 't': expected the name of a file"));
    EXPECT_THAT(parse(R"({"weight_map":{"t":"f","t":"f"}})"), HasSubstr("has 't' twice"));
    for (const char* name : {"", ".", "..", "../f", "/etc/f", "a/b", "a\\u0000b"}) {
        EXPECT_THAT(parse(std::string(R"({"weight_map":{"t":")") + name + "\"}}"),
                    HasSubstr("is not the bare name of a file beside the index"));
    }
}

TEST(Checkpoint, RequireSaysWhatWasExpectedAndWhatCame) {
    const Folder folder;
    write_one(folder / "m.safetensors", "w", 1);
    const Checkpoint checkpoint(folder / "m.safetensors");
    auto require = [&](const char* name, DTypeSet dtypes, std::initializer_list<std::int64_t> shape) {
        const std::string message = message_of([&] { checkpoint.require(name, dtypes, shape); });
        EXPECT_THAT(message, HasSubstr("m.safetensors: tensor "));
        return message;
    };
    EXPECT_THAT(
        require("v", kHalf, {2, kAnySize}),
        HasSubstr("'v': missing (expected bf16 or fp16 of shape [2, *]; the checkpoint has 1 tensors)"));
    EXPECT_THAT(require("w", kHalf, {1, 1}), HasSubstr("'w': dtype: expected bf16 or fp16, got fp32"));
    EXPECT_THAT(require("w", kFloat, {1, 2}), HasSubstr("'w': shape: expected [1, 2], got [1, 1]"));
    EXPECT_THAT(require("w", kFloat, {1}), HasSubstr("'w': shape: expected [1], got [1, 1]"));
    EXPECT_TRUE(checkpoint.require("w", kFloat, {kAnySize, 1}));

    folder.write("b.safetensors",
                 test::safetensors(R"({"w":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", "x"));
    EXPECT_THAT(message_of([&] { Checkpoint(folder / "b.safetensors").require("w", kFloat, {1}); }),
                HasSubstr("dtype: expected fp32 or bf16 or fp16, got BOOL"));
}

TEST(Checkpoint, NamesTheTensorThatATruncatedFileLacks) {
    const Folder folder;
    write_one(folder / "m.safetensors", "w", 1);
    std::filesystem::resize_file(folder / "m.safetensors",
                                 std::filesystem::file_size(folder / "m.safetensors") - 1);
    EXPECT_THAT(
        message_of([&] { Checkpoint{folder / "m.safetensors"}; }),
        HasSubstr("tensor 'w': data_offsets [0, 4] reach beyond the 3 bytes of data; the file is truncated"));
    EXPECT_THAT(message_of([&] { Checkpoint{folder / "none"}; }), HasSubstr("none: no such file or folder"));
}

}  // namespace
}  // namespace weft
