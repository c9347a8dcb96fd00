// The edges of the loaders and of the writer: what the last byte, the last digit and the last file are taken for.
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "files.h"
#include "io/image.h"
#include "io/io_error.h"
#include "io/mapped_file.h"
#include "io/safetensors.h"

namespace weft {
namespace {

using test::Folder;
using test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

// ---- messages ----

TEST(Quotes, EscapeWhatDoesNotPrintAndCutWhatIsLong) {
    EXPECT_EQ(quote(std::string("\x1f\x20\x7e\x7f\x80", 5)), "'\\x1f \x7e\\x7f\x80'");
    EXPECT_EQ(quote(std::string("a\0b", 3)), "'a\\x00b'");
    EXPECT_EQ(quote(""), "''");
    EXPECT_EQ(quote(std::string(120, 'n')), "'" + std::string(120, 'n') + "'");
    EXPECT_EQ(quote(std::string(121, 'n')), "'" + std::string(120, 'n') + "...'");
    const std::int64_t shape[] = {0, kAnySize, 7};
    EXPECT_EQ(shape_text(shape), "[0, *, 7]");
    EXPECT_EQ(shape_text({}), "[]");
}

// ---- maps ----

std::ptrdiff_t open_files() {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

TEST(Maps, GoAwayWithTheirFiles) {
    const Folder folder;
    const fs::path path = folder.write("mapped.bin", "abc");
    const auto is_mapped = [&] {
        return test::read_all("/proc/self/maps").find(path.string()) != std::string::npos;
    };
    const auto before = open_files();
    {
        const MappedFile file(path);
        EXPECT_EQ(file.bytes().size(), 3u);
        EXPECT_EQ(std::memcmp(file.bytes().data(), "abc", 3), 0);
        EXPECT_TRUE(is_mapped());
        EXPECT_EQ(open_files(), before) << "the map does without the file";
    }
    EXPECT_FALSE(is_mapped());
    EXPECT_TRUE(MappedFile(folder.write("empty.bin", "")).bytes().empty());
    EXPECT_THAT(message_of([&] { MappedFile{folder.path()}; }), HasSubstr("not a regular file"));
    EXPECT_THAT(message_of([&] { MappedFile{folder / "none"}; }),
                HasSubstr("none: cannot open: No such file"));
    EXPECT_EQ(open_files(), before);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which take terabytes of addresses
TEST(Maps, SayWhatHasNoRoom) {
    const Folder folder;
    const fs::path path = folder.write("large.bin", "");
    fs::resize_file(path, std::uintmax_t{1} << 36);  // without a byte on the disk
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
    const rlimit less{rlim_t{1} << 35, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &less), 0);
    const std::string message = message_of([&] { MappedFile{path}; });
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
    EXPECT_THAT(message, HasSubstr("large.bin: cannot map 68719476736 bytes: Cannot allocate memory"));
}
#endif

// ---- photographs ----

Image parse(const std::string& file) { return parse_ppm(test::as_bytes(file), "p"); }

TEST(PpmEdges, AreWhatTheFormatSays) {
    for (const char space : {' ', '\t', '\n', '\v', '\f', '\r'}) {
        const std::string s(1, space);
        EXPECT_EQ(parse("P6" + s + "1" + s + "1" + s + "255" + s + "123").pixels.size(), 3u) << int{space};
    }
    for (const char other : {'\x08', '\x0e', '\0', '\x1f', '!'}) {
        EXPECT_THAT(message_of([&] { parse(std::string("P6") + other + "1 1 255\n123"); }),
                    HasSubstr("expected white space before the width"));
        EXPECT_THAT(message_of([&] { parse(std::string("P6 1 1 255") + other + "123"); }),
                    HasSubstr("expected white space before the pixels"));
    }
    for (const char other : {'/', ':'})
        EXPECT_THAT(message_of([&] { parse(std::string("P6 ") + other + " 1 255\n123"); }),
                    HasSubstr("expected the width of the PPM in decimal"));
    EXPECT_EQ(parse("P6 09 1 255\n" + std::string(27, 'x')).width, 9) << "every digit is one";
    EXPECT_THAT(message_of([] { parse("P6 1048576 1 255\n"); }),
                HasSubstr("a PPM of 1048576 x 1 has 3145728 bytes"));
    EXPECT_THAT(message_of([] { parse("P6 1048577 1 255\n"); }),
                HasSubstr("the width of the PPM exceeds 1048576"));
    EXPECT_THAT(message_of([] { parse("P6 1 1048577 255\n"); }),
                HasSubstr("the height of the PPM exceeds 1048576"));
    EXPECT_THAT(message_of([] { parse("P6 1 1 65535\n"); }), HasSubstr("the maximum of the PPM is 65535"));
    EXPECT_THAT(message_of([] { parse("P6 1 1 0\n"); }), HasSubstr("the maximum of the PPM is 0"));
    EXPECT_THAT(message_of([] { parse("P6 1 1 256\n123"); }), HasSubstr("is 256, expected 255"));
    EXPECT_THAT(message_of([] { parse("P6 # and no more"); }),
                HasSubstr("expected the width of the PPM in decimal"));
    EXPECT_THAT(message_of([] { parse("P6#\n#\n"); }), HasSubstr("expected the width of the PPM in decimal"));
    EXPECT_THAT(message_of([] { parse("X6 1 1 255\n123"); }), HasSubstr("not a binary PPM"));
    EXPECT_THAT(message_of([] { parse("PX 1 1 255\n123"); }), HasSubstr("not a binary PPM"));
    Image image = parse("P6 2 1 255\nabcdef");
    EXPECT_EQ(to_string(image.view()), "uint8[1,2,3]");
    EXPECT_EQ(image.view().data, image.pixels.data());
}

// ---- the index ----

using Map = std::map<std::string, std::string>;

TEST(IndexEdges, KnowTheirMapByItsPlace) {
    const auto read = [](const char* json) { return parse_checkpoint_index(json, "i"); };
    EXPECT_EQ(read(R"({"weight_map":{"a":"f"},"after":{"b":"g"},"more":"h"})"), (Map{{"a", "f"}}));
    EXPECT_EQ(read(R"({"before":{"weight_map":"no"},"weight_map":{"weight_map":"f"}})"),
              (Map{{"weight_map", "f"}}));
    EXPECT_EQ(read(R"({"x":{"y":{"weight_map":{"b":"g"}}},"weight_map":{"a":"f"}})"), (Map{{"a", "f"}}));
    EXPECT_EQ(read(R"({"x":[{"a":1},[2]],"weight_map":{},"y":[3]})"), (Map{}));
    EXPECT_EQ(read(R"({"weight_map":{"a":"f","b":"f","c":"..."}})"),
              (Map{{"a", "f"}, {"b", "f"}, {"c", "..."}}));
    const auto message = [](const char* json) {
        return message_of([&] { parse_checkpoint_index(json, "i"); });
    };
    for (const char* value : {"null", "true", "-1", "1", "1.5", "[]", "{}"}) {
        EXPECT_EQ(message((std::string(R"({"weight_map":{"t":)") + value + "}}").c_str()),
                  "i: tensor 't': expected the name of a file");
        if (std::strcmp(value, "{}") != 0) {
            EXPECT_EQ(message((std::string(R"({"weight_map":)") + value + "}").c_str()),
                      "i: 'weight_map': expected an object");
        }
    }
    for (const char* value : {"null", "true", "-1", "1", "1.5", "[]", "\"s\""})
        EXPECT_EQ(message(value), "i: expected an object");
    EXPECT_EQ(message(R"({"weight_map":{"t":"a/b"}})"),
              "i: tensor 't': 'a/b' is not the bare name of a file beside the index");
}

TEST(CheckpointEdges, SayWhatIsThere) {
    const Folder folder;
    float value = 1;
    const NamedTensor tensor[] = {{"t", Tensor(&value, DType::fp32, {1})}};
    write_safetensors(folder / "only.safetensors", tensor);
    folder.write("notes.txt", "");
    EXPECT_TRUE(Checkpoint(folder.path()).contains("t")) << "other files do not count";
    write_safetensors(folder / "other.safetensors", tensor);
    write_safetensors(folder / "third.safetensors", tensor);
    EXPECT_THAT(message_of([&] { Checkpoint{folder.path()}; }), HasSubstr(", found 3 *.safetensors"));
    EXPECT_THAT(message_of([&] { Checkpoint{folder / std::string(300, 'n')}; }),
                HasSubstr("no such file or folder"));
    EXPECT_THAT(message_of([&] { Checkpoint(folder / "only.safetensors").require("u", kFp8, {2}); }),
                HasSubstr("expected fp8_e4m3 or fp8_e5m2 of shape [2]; the checkpoint has 1 tensors"));
    const Checkpoint checkpoint(folder / "only.safetensors");
    EXPECT_EQ(checkpoint.path(), (folder / "only.safetensors").string());
    EXPECT_EQ(checkpoint.find("u"), nullptr);
    EXPECT_EQ(checkpoint.find("t")->name, "t");
    EXPECT_EQ(message_of([&] { checkpoint.require("t", kFloat, {2}); }),
              checkpoint.path() + ": tensor 't': shape: expected [2], got [1]");
    EXPECT_EQ(message_of([&] { checkpoint.require("t", kFloat, {1, kAnySize}); }),
              checkpoint.path() + ": tensor 't': shape: expected [1, *], got [1]");
}

// ---- the header ----

std::string with_offsets(const std::string& shape, const std::string& offsets, const std::string& data) {
    return test::safetensors(
        R"({"t":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}", data);
}

TEST(HeaderEdges, AreWithinTheirLimits) {
    const auto parse = [](const std::string& file) {
        return parse_safetensors_header(test::as_bytes(file), "f");
    };
    const auto message = [&](const std::string& file) { return message_of([&] { parse(file); }); };
    EXPECT_EQ(parse(with_offsets("[4]", "[0,4]", "1234")).entries[0].end, 4u);
    EXPECT_EQ(parse(with_offsets("[0]", "[0,0]", "")).entries.size(), 1u);
    EXPECT_THAT(message(with_offsets("[9223372036854775807]", "[0,4]", "1234")),
                HasSubstr("overflows 64 bits"));
    EXPECT_THAT(message(with_offsets("[9223372036854775807,0]", "[0,4]", "1234")),
                HasSubstr("overflows 64 bits"));
    EXPECT_THAT(message(with_offsets("[1152921504606846975]", "[0,4]", "1234")),
                HasSubstr("has 1152921504606846975 bytes, data_offsets [0, 4] have 4"));
    EXPECT_THAT(message(with_offsets("[4]", "[1,4]", "1234")), HasSubstr("U8 of shape [4] has 4 bytes"));
    EXPECT_THAT(message(with_offsets("[3]", "[1,4]", "1234")),
                HasSubstr("begins at byte 1 of the data, expected 0: there is a gap"));
    EXPECT_THAT(message(test::safetensors("{}}")),
                HasSubstr("the header's JSON is malformed at byte 3 of it"));
    EXPECT_THAT(message(test::safetensors(R"({"__metadata__":null})")),
                HasSubstr("__metadata__: expected an object of strings, got null"));
    EXPECT_THAT(message(test::safetensors(R"({"__metadata__":{"a":[]}})")),
                HasSubstr("expected a string, got an array"));
    EXPECT_THAT(message(test::safetensors(R"({"t":{"dtype":{}}})")),
                HasSubstr("dtype: expected a string, got an object"));
    EXPECT_THAT(message(test::safetensors(R"({"t":{"shape":{}}})")),
                HasSubstr("shape: expected an array of sizes, got an object"));
    EXPECT_THAT(message(test::safetensors(R"({"t":{"data_offsets":{}}})")),
                HasSubstr("data_offsets: expected an array of two numbers, got an object"));
    EXPECT_THAT(message(test::safetensors(R"({"t":{"data_offsets":[[]]}})")),
                HasSubstr("data_offsets: expected a number of bytes, got an array"));
    EXPECT_THAT(message(test::safetensors(R"({"t":{"shape":["x"]}})")),
                HasSubstr("shape: expected a size, got the string 'x'"));
    EXPECT_THAT(
        message(test::safetensors(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"shape":[0]}})")),
        HasSubstr("tensor 't': has shape twice"));
    EXPECT_THAT(message(test::safetensors(R"({"t":{"data_offsets":[0,0],"data_offsets":[0,0]}})")),
                HasSubstr("tensor 't': has data_offsets twice"));
    EXPECT_THAT(message(std::string(8, '\0')), HasSubstr("the header does not begin with '{'"));
    // The parts of a word of more than 8 bits count: 0x0102 bytes of header.
    const std::string header = "{" + std::string(256, ' ') + "}";
    EXPECT_EQ(parse(test::safetensors(header)).data_start, 8u + 258u);
    EXPECT_THAT(message(test::safetensors(header).substr(0, 8 + 257)),
                HasSubstr("states a header of 258 bytes, but only 257 follow"));
    EXPECT_EQ(parse(test::safetensors(R"({"__metadata__":{"a":"1","b":"2"}})")).metadata,
              (Map{{"a", "1"}, {"b", "2"}}));
}

TEST(HeaderEdges, KnowTheSizeOfEveryDType) {
    const std::pair<const char*, int> bits[] = {
        {"F32", 32},        {"BF16", 16},   {"F16", 16},    {"F8_E4M3", 8}, {"F8_E5M2", 8},
        {"I8", 8},          {"I32", 32},    {"I64", 64},    {"U8", 8},      {"BOOL", 8},
        {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
        {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"U32", 32},    {"U64", 64},
        {"F64", 64},        {"C64", 64}};
    for (const auto& [word, size] : bits) {
        const std::string file =
            test::safetensors(std::string(R"({"t":{"dtype":")") + word +
                                  R"(","shape":[4],"data_offsets":[0,)" + std::to_string(size / 2) + "]}}",
                              std::string(static_cast<std::size_t>(size / 2), 'x'));
        EXPECT_EQ(parse_safetensors_header(test::as_bytes(file), "f").entries.size(), 1u) << word;
    }
}

// ---- the writer ----

std::string header_of(const fs::path& path) {
    const std::string bytes = test::read_all(path);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    return bytes.substr(8, length);
}

TEST(WriterEdges, AlignTheDataWhateverTheHeaderIs) {
    const Folder folder;
    const std::uint8_t data[] = {1, 2, 3};
    std::set<std::size_t> paddings;
    for (std::size_t length = 0; length < 130; ++length) {
        SafetensorsWriter writer(folder / "w.safetensors");
        writer.set_metadata("m", std::string(length, 'x'));
        writer.declare("t", DType::uint8, {3});
        writer.begin();
        writer.write_bytes("t", 0, std::as_bytes(std::span(data)));
        writer.finish();
        const std::string header = header_of(folder / "w.safetensors");
        EXPECT_EQ((header.size() + 8) % 64, 0u);
        const std::size_t padding = header.size() - 1 - header.find_last_not_of(' ');
        EXPECT_LT(padding, 64u) << "and no more";
        paddings.insert(padding);
        const SafetensorsFile file(folder / "w.safetensors");
        EXPECT_EQ(file.metadata().at("m").size(), length);
        EXPECT_EQ(std::memcmp(file.view(*file.find("t")).data, data, 3), 0);
    }
    EXPECT_TRUE(paddings.contains(0) && paddings.contains(63));
}

TEST(WriterEdges, PutWiderElementsFirstAndElseKeepTheOrder) {
    const Folder folder;
    SafetensorsWriter writer(folder / "w.safetensors");
    for (const auto& [name, dtype] : {std::pair{"z8", DType::uint8},
                                      {"a8", DType::int8},
                                      {"z32", DType::fp32},
                                      {"a32", DType::int32},
                                      {"b16", DType::bf16},
                                      {"c64", DType::int64}})
        writer.declare(name, dtype, {0});
    writer.begin();
    writer.finish();
    const auto json = nlohmann::ordered_json::parse(header_of(folder / "w.safetensors"));
    std::vector<std::string> names;
    for (const auto& [name, entry] : json.items()) names.push_back(name);
    EXPECT_THAT(names, ElementsAre("c64", "z32", "a32", "b16", "z8", "a8"))
        << "and no metadata where none is given";
}

TEST(WriterEdges, HoldBytesToTheirTensor) {
    const Folder folder;
    const std::uint8_t data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const auto bytes = [&](std::size_t count) { return std::as_bytes(std::span(data, count)); };
    SafetensorsWriter writer(folder / "w.safetensors");
    EXPECT_THAT(message_of([&] {
                    writer.declare("big", DType::uint8, {std::int64_t{1} << 40, std::int64_t{1} << 40});
                }),
                HasSubstr("tensor 'big': no tensor has shape [1099511627776, 1099511627776]"));
    EXPECT_THAT(message_of([&] { writer.declare("n", DType::uint8, {-1}); }),
                HasSubstr("no tensor has shape [*]"));
    writer.declare("a", DType::uint8, {4});
    writer.declare("b", DType::int32, {1});
    writer.declare("none", DType::int32, {3, 0});
    writer.begin();
    EXPECT_THAT(message_of([&] { writer.write_bytes("a", 5, bytes(0)); }), HasSubstr("bytes [5, 5) of 4"));
    EXPECT_THAT(message_of([&] { writer.write_bytes("a", 0, bytes(5)); }), HasSubstr("bytes [0, 5) of 4"));
    EXPECT_THAT(message_of([&] { writer.write_bytes("a", 1, bytes(4)); }), HasSubstr("bytes [1, 5) of 4"));
    EXPECT_NO_THROW(writer.write_bytes("a", 4, bytes(0)));
    EXPECT_NO_THROW(writer.write_bytes("none", 0, bytes(0)));
    writer.write_bytes("a", 0, bytes(4));
    writer.write_bytes("b", 2, bytes(2));
    EXPECT_THAT(message_of([&] { writer.finish(); }), HasSubstr("tensor 'b': 2 of its 4 bytes were written"));
    writer.write_bytes("b", 0, bytes(2));
    writer.finish();
    EXPECT_THAT(message_of([&] { writer.finish(); }), HasSubstr("finished before begin()"));
    EXPECT_THAT(message_of([&] { writer.write_bytes("b", 0, bytes(1)); }),
                HasSubstr("written before begin()"));
    const SafetensorsFile file(folder / "w.safetensors");
    EXPECT_EQ(std::memcmp(file.view(*file.find("a")).data, "\1\2\3\4", 4), 0);
    EXPECT_EQ(std::memcmp(file.view(*file.find("b")).data, "\1\2\1\2", 4), 0);
}

TEST(WriterEdges, LeaveNoPartOfAFileBehind) {
    const Folder folder;
    const auto before = open_files();
    const mode_t mask = ::umask(022);
    folder.write("w.safetensors.part", std::string(5000, 'x'));  // of a run that was killed
    {
        SafetensorsWriter writer(folder / "w.safetensors");
        writer.declare("t", DType::uint8, {0});
        writer.begin();
        EXPECT_TRUE(fs::exists(folder / "w.safetensors.part"));
        writer.finish();
    }
    ::umask(mask);
    EXPECT_LT(fs::file_size(folder / "w.safetensors"), 200u);
    EXPECT_EQ(fs::status(folder / "w.safetensors").permissions(), fs::perms{0644});
    EXPECT_EQ(open_files(), before);
    fs::create_directory(folder / "taken.safetensors");
    {
        SafetensorsWriter writer(folder / "taken.safetensors");
        writer.begin();
        EXPECT_THAT(message_of([&] { writer.finish(); }), HasSubstr("taken.safetensors: cannot complete: "));
    }
    EXPECT_FALSE(fs::exists(folder / "taken.safetensors.part"));
    fs::create_symlink("/dev/full", folder / "full.safetensors.part");
    {
        SafetensorsWriter writer(folder / "full.safetensors");
        EXPECT_THAT(
            message_of([&] { writer.begin(); }),
            testing::MatchesRegex(".*full.safetensors.part: cannot write 64 bytes: No space left on device"));
    }
    EXPECT_EQ(open_files(), before);
    const NamedTensor absent[] = {{"t", Tensor()}};
    EXPECT_THAT(message_of([&] { write_safetensors(folder / "a.safetensors", absent); }),
                HasSubstr("a.safetensors: tensor 't': absent"));
}

TEST(WriterEdges, GatherElementsOfAnyWidth) {
    const Folder folder;
    for (const DType dtype : {DType::uint8, DType::bf16, DType::fp32, DType::int64}) {
        std::vector<std::byte> data(8 * 24);
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i);
        const std::int64_t shape[] = {2, 3}, stride[] = {1, 5};
        const NamedTensor tensor[] = {{"t", Tensor(data.data(), dtype, shape, stride)}};
        write_safetensors(folder / "w.safetensors", tensor);
        const SafetensorsFile file(folder / "w.safetensors");
        const Tensor view = file.view(*file.find("t"));
        for (std::int64_t i = 0; i < 6; ++i)
            EXPECT_EQ(load_integer(DType::uint8, view.data, i * bits(dtype) / 8),
                      (i / 3 + i % 3 * 5) * bits(dtype) / 8);
    }
}

}  // namespace
}  // namespace weft
