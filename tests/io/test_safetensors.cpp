// Writing safetensors files and reading them back.
#include <cstring>

#include "files.h"
#include "io/safetensors.h"

namespace weft {
namespace {

using test::Folder;
using test::message_of;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::uint8_t> counting_bytes(std::size_t count) {
    std::vector<std::uint8_t> out(count);
    for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::uint8_t>(i * 37 + 11);
    return out;
}

TEST(Safetensors, RoundTripsEveryDTypeAndRank) {
    const Folder folder;
    std::vector<std::vector<std::uint8_t>> data;
    std::vector<NamedTensor> tensors;
    for (const DType dtype : {DType::fp8_e4m3, DType::uint8, DType::fp32, DType::bf16, DType::fp16,
                              DType::fp8_e5m2, DType::int8, DType::int32, DType::int64}) {
        for (const std::vector<std::int64_t>& shape :
             {std::vector<std::int64_t>{}, {3}, {2, 3}, {1, 2, 3, 1, 2, 1}, {5, 0}}) {
            std::int64_t count = 1;
            for (const auto size : shape) count *= size;
            data.push_back(counting_bytes(static_cast<std::size_t>(bytes(dtype, count))));
            tensors.push_back({std::string(name(dtype)) + "." + std::to_string(tensors.size()),
                               Tensor(data.back().data(), dtype, std::span(shape))});
        }
    }
    write_safetensors(folder / "all.safetensors", tensors, {{"made by", "a test"}, {"quote", "\"\\\n"}});

    const SafetensorsFile file(folder / "all.safetensors");
    EXPECT_EQ(file.entries().size(), tensors.size());
    EXPECT_EQ(file.metadata().at("quote"), "\"\\\n");
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const SafetensorsEntry* const entry = file.find(tensors[i].name);
        ASSERT_NE(entry, nullptr) << tensors[i].name;
        const Tensor view = file.view(*entry);
        EXPECT_EQ(to_string(view), to_string(tensors[i].tensor));
        EXPECT_EQ(
            reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::size_t>(bits(view.dtype) / 8), 0u);
        if (!data[i].empty()) {
            EXPECT_EQ(std::memcmp(view.data, data[i].data(), data[i].size()), 0) << entry->name;
        }
    }
    EXPECT_EQ(file.find("fp32"), nullptr);
}

TEST(Safetensors, WritesStridedViewsDensely) {
    const Folder folder;
    std::vector<std::int32_t> data(24);
    for (int i = 0; i < 24; ++i) data[static_cast<std::size_t>(i)] = i;
    const std::int64_t shape[] = {3, 2}, transposed[] = {1, 4}, reversed[] = {-4, 1};
    const NamedTensor tensors[] = {
        {"slice", Tensor(data.data(), DType::int32, {4, 6}).slice(1, 2, 4)},
        {"transposed", Tensor(data.data(), DType::int32, shape, transposed)},
        {"reversed", Tensor(data.data() + 8, DType::int32, shape, reversed)},
    };
    write_safetensors(folder / "s.safetensors", tensors);
    const Checkpoint file(folder / "s.safetensors");
    auto values = [&](const char* name) {
        const Tensor view = file.require(name, DType::int32, {kAnySize, 2});
        return std::vector<std::int32_t>(view.as<std::int32_t>(), view.as<std::int32_t>() + view.numel());
    };
    EXPECT_THAT(values("slice"), testing::ElementsAre(2, 3, 8, 9, 14, 15, 20, 21));
    EXPECT_THAT(values("transposed"), testing::ElementsAre(0, 4, 1, 5, 2, 6));
    EXPECT_THAT(values("reversed"), testing::ElementsAre(8, 9, 4, 5, 0, 1));
}

TEST(Safetensors, WritesPartsInAnyOrderWithAlignedData) {
    const Folder folder;
    const std::string text = "0123456789";
    {
        SafetensorsWriter writer(folder / "p.safetensors");
        writer.declare("odd", DType::uint8, {3});
        writer.declare("wide", DType::int64, {1});
        writer.begin();
        writer.write_bytes("odd", 1, test::as_bytes(text).subspan(1, 2));
        writer.write_bytes("wide", 0, test::as_bytes(text).subspan(2, 8));
        EXPECT_FALSE(std::filesystem::exists(folder / "p.safetensors"));
        writer.write_bytes("odd", 0, test::as_bytes(text).subspan(0, 1));
        writer.finish();
    }
    const std::string bytes = test::read_all(folder / "p.safetensors");
    EXPECT_EQ(bytes.size() % 64, 11u);  // the header ends at a multiple of 64
    EXPECT_THAT(bytes, testing::EndsWith("23456789"
                                         "012"));
    EXPECT_FALSE(std::filesystem::exists(folder / "p.safetensors.part"));
}

TEST(Safetensors, ViewsUnalignedData) {
    const Folder folder;
    const float value = 1.5f;
    std::string data = "x" + std::string(reinterpret_cast<const char*>(&value), sizeof value);
    std::string header =
        R"({"pad":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"v":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const Checkpoint file(folder.write("u.safetensors", test::safetensors(header, data)));
    const Tensor view = file.require("v", DType::fp32, {1});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data) % 4, 1u);
    EXPECT_EQ(load_element(view.dtype, view.data, 0), 1.5);
}

TEST(Safetensors, HasNoViewOfWhatATensorCannotHold) {
    const Folder folder;
    const SafetensorsFile file(
        folder.write("v.safetensors",
                     test::safetensors(R"({"b":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
                                       R"("r":{"dtype":"U8","shape":[1,1,1,1,1,1,1],"data_offsets":[8,9]}})",
                                       "123456789")));
    EXPECT_THAT(message_of([&] { file.view(*file.find("b")); }),
                HasSubstr("tensor 'b': weft has no dtype for F64"));
    EXPECT_THAT(message_of([&] { file.view(*file.find("r")); }), HasSubstr("tensor 'r': rank 7 exceeds 6"));
}

TEST(Safetensors, SaysWhyAFileCannotBeOpened) {
    const Folder folder;
    EXPECT_THAT(message_of([&] { SafetensorsFile{folder / "none"}; }),
                HasSubstr("none: cannot open: No such file or directory"));
    EXPECT_THAT(message_of([&] { SafetensorsFile{folder.path()}; }), HasSubstr(": not a regular file"));
    EXPECT_THAT(message_of([&] { SafetensorsFile{folder.write("empty", "")}; }),
                HasSubstr("0 bytes are too few"));
}

TEST(SafetensorsWriter, NamesWhatIsWrong) {
    const Folder folder;
    const std::filesystem::path path = folder / "w.safetensors";
    std::uint8_t data[4] = {};
    SafetensorsWriter writer(path);
    writer.declare("t", DType::uint8, {4});
    auto message = [&](const auto& act) {
        std::string text = message_of(act);
        EXPECT_THAT(text, StartsWith(path.string()));
        return text;
    };
    EXPECT_THAT(message([&] { writer.declare("t", DType::uint8, {4}); }),
                HasSubstr("tensor 't': declared twice"));
    EXPECT_THAT(message([&] { writer.declare("__metadata__", DType::uint8, {4}); }),
                HasSubstr("no tensor can be"));
    EXPECT_THAT(message([&] { writer.declare("f", DType::fp4_e2m1, {4}); }),
                HasSubstr("no dtype for fp4_e2m1"));
    EXPECT_THAT(message([&] { writer.declare("n", DType::uint8, {4, -1}); }),
                HasSubstr("no tensor has shape [4, *]"));
    EXPECT_THAT(message([&] { writer.write_bytes("t", 0, {}); }), HasSubstr("written before begin()"));
    EXPECT_THAT(message([&] { writer.finish(); }), HasSubstr("finished before begin()"));
    writer.begin();
    EXPECT_THAT(message([&] { writer.declare("u", DType::uint8, {4}); }),
                HasSubstr("declared after the header"));
    EXPECT_THAT(message([&] { writer.write("u", Tensor(data, DType::uint8, {4})); }),
                HasSubstr("was not declared"));
    EXPECT_THAT(message([&] { writer.write("t", Tensor(data, DType::uint8, {2})); }),
                HasSubstr("tensor 't': declared uint8[4], got uint8[2]"));
    EXPECT_THAT(message([&] { writer.write("t", Tensor(data, DType::int8, {4})); }),
                HasSubstr("got int8[4]"));
    EXPECT_THAT(message([&] { writer.write("t", Tensor()); }), HasSubstr("got nothing"));
    EXPECT_THAT(message([&] { writer.write("t", Tensor(data, DType::uint8, {4}, kCuda)); }),
                HasSubstr("device memory"));
    EXPECT_THAT(message([&] { writer.write_bytes("t", 3, std::as_bytes(std::span(data, 2))); }),
                HasSubstr("bytes [3, 5) of 4"));
    writer.write_bytes("t", 0, std::as_bytes(std::span(data, 3)));
    EXPECT_THAT(message([&] { writer.finish(); }), HasSubstr("tensor 't': 3 of its 4 bytes were written"));
}

TEST(SafetensorsWriter, LeavesNothingBehindWhenItFails) {
    const Folder folder;
    {
        SafetensorsWriter writer(folder / "w.safetensors");
        writer.declare("t", DType::uint8, {4});
        writer.begin();
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    SafetensorsWriter lost(folder / "no-folder" / "w.safetensors");
    EXPECT_THAT(message_of([&] { lost.begin(); }), HasSubstr("cannot create: No such file or directory"));
    SafetensorsWriter misnamed(folder / "w.safetensors");
    misnamed.declare("\xff", DType::uint8, {4});
    EXPECT_THAT(message_of([&] { misnamed.begin(); }), HasSubstr("not valid UTF-8"));
}

}  // namespace
}  // namespace weft
