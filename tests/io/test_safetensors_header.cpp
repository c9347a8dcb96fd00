// The header of a safetensors file: what is accepted, and every rejection by its message.
#include <ostream>

#include "files.h"
#include "io/safetensors.h"

namespace weft {
namespace {

using test::as_bytes;
using test::message_of;
using testing::HasSubstr;
using testing::StartsWith;

SafetensorsHeader parse(const std::string& file) { return parse_safetensors_header(as_bytes(file), "f"); }

TEST(SafetensorsHeader, ReadsEveryField) {
    const std::string json =
        R"({"__metadata__":{"format":"pt","note":"x"},"b":{"data_offsets":[4,8],"shape":[2],"dtype":"F16"},)"
        R"("a":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}}   )";
    const SafetensorsHeader header = parse(test::safetensors(json, "12345678"));
    EXPECT_EQ(header.data_start, 8 + json.size());
    EXPECT_EQ(header.metadata.at("format"), "pt");
    ASSERT_EQ(header.entries.size(), 2u);
    EXPECT_EQ(header.entries[0].name, "a");
    EXPECT_EQ(header.entries[0].shape, (std::vector<std::int64_t>{2, 2}));
    EXPECT_EQ(header.entries[1].dtype, DType::fp16);
    EXPECT_EQ(header.entries[1].begin, 4u);
    EXPECT_EQ(header.entries[1].end, 8u);
}

TEST(SafetensorsHeader, AcceptsTheEdgesOfTheFormat) {
    EXPECT_TRUE(parse(test::safetensors("{}")).entries.empty());
    EXPECT_TRUE(parse(test::safetensors(R"({"__metadata__":{}})")).metadata.empty());
    // A scalar, tensors without elements, and two of them at one place.
    const auto header = parse(test::safetensors(
        R"({"e":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
        R"("d":{"dtype":"I64","shape":[3,0],"data_offsets":[0,0]}})",
        "1234"));
    EXPECT_EQ(header.entries.size(), 3u);
    EXPECT_TRUE(header.entries[1].shape.empty());
}

TEST(SafetensorsHeader, MapsEveryDTypeBothWays) {
    for (const char* word : {"F32", "BF16", "F16", "F8_E4M3", "F8_E5M2", "I8", "I32", "I64", "U8"}) {
        const auto dtype = safetensors_dtype(word);
        ASSERT_TRUE(dtype) << word;
        EXPECT_EQ(safetensors_name(*dtype), word);
    }
    EXPECT_FALSE(safetensors_dtype("F64"));
    EXPECT_FALSE(safetensors_name(DType::fp4_e2m1));
}

struct Rejection {
    const char* title;
    std::string file;
    std::string message;
};

void PrintTo(const Rejection& rejection, std::ostream* out) { *out << rejection.title; }

std::string with_length(std::uint64_t length, const std::string& rest) {
    std::string out = test::safetensors("") + rest;
    for (int i = 0; i < 8; ++i) out[static_cast<std::size_t>(i)] = static_cast<char>(length >> (8 * i));
    return out;
}

// One tensor "t" whose description is `fields`.
std::string tensor(const std::string& fields, const std::string& data = "1234") {
    return test::safetensors(R"({"t":{)" + fields + "}}", data);
}

class Rejected : public testing::TestWithParam<Rejection> {};

TEST_P(Rejected, ByItsMessage) {
    const std::string message = message_of([] { parse(GetParam().file); });
    EXPECT_THAT(message, StartsWith("f: "));
    EXPECT_THAT(message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Frame, Rejected,
    testing::Values(Rejection{"Empty", "", "0 bytes are too few for a safetensors file"},
                    Rejection{"SevenBytes", "1234567", "7 bytes are too few for a safetensors file"},
                    Rejection{"HugeLength", with_length(~0ull, "{}"),
                              "18446744073709551615 bytes, more than 100000000"},
                    Rejection{"AboveTheLimit", with_length(100'000'001, "{}"), "more than 100000000"},
                    Rejection{"CutHeader", with_length(9, "{}"),
                              "states a header of 9 bytes, but only 2 follow; the file is"},
                    Rejection{"NoHeader", with_length(0, "{}"), "does not begin with '{'"},
                    Rejection{"SpaceFirst", test::safetensors(" {}"), "does not begin with '{'"},
                    Rejection{"ArrayFirst", test::safetensors("[]"), "does not begin with '{'"},
                    Rejection{"Unclosed", test::safetensors("{"), "JSON is malformed at byte 2"},
                    Rejection{"TrailingText", test::safetensors("{} x"), "JSON is malformed at byte 4"},
                    Rejection{"BadUtf8", test::safetensors("{\"\xff\":{}}"), "JSON is malformed"},
                    Rejection{"DataWithoutTensors", test::safetensors("{}", "1"),
                              "the tensors cover 0 bytes of data, the file has 1"}),
    [](const auto& info) { return info.param.title; });

INSTANTIATE_TEST_SUITE_P(
    Structure, Rejected,
    testing::Values(
        Rejection{"TensorIsNumber", test::safetensors(R"({"t":1})"),
                  "tensor 't': expected an object, got a number"},
        Rejection{"TensorIsNull", test::safetensors(R"({"t":null})"),
                  "tensor 't': expected an object, got null"},
        Rejection{"TensorIsArray", test::safetensors(R"({"t":[]})"),
                  "tensor 't': expected an object, got an array"},
        Rejection{"MetadataIsString", test::safetensors(R"({"__metadata__":"x"})"),
                  "expected an object of strings"},
        Rejection{"MetadataOfNumbers", test::safetensors(R"({"__metadata__":{"a":1}})"),
                  "expected a string, got a number"},
        Rejection{"MetadataNested", test::safetensors(R"({"__metadata__":{"a":{}}})"),
                  "expected a string, got an object"},
        Rejection{"MetadataKeyTwice", test::safetensors(R"({"__metadata__":{"a":"","a":""}})"),
                  "has the key 'a' twice"},
        Rejection{"MetadataTwice", test::safetensors(R"({"__metadata__":{},"__metadata__":{}})"),
                  "'__metadata__' appears twice in the header"},
        Rejection{"NameTwice",
                  test::safetensors(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"t":{}})"),
                  "'t' appears twice in the header"},
        Rejection{"UnknownField", tensor(R"("color":1)"), "tensor 't': unknown field 'color'"},
        Rejection{"FieldTwice", tensor(R"("dtype":"U8","dtype":"U8")"), "tensor 't': has dtype twice"},
        Rejection{"NoDType", tensor(R"("shape":[4],"data_offsets":[0,4])"), "tensor 't': has no dtype"},
        Rejection{"NoShape", tensor(R"("dtype":"U8","data_offsets":[0,4])"), "tensor 't': has no shape"},
        Rejection{"NoOffsets", tensor(R"("dtype":"U8","shape":[4])"), "tensor 't': has no data_offsets"},
        Rejection{"DTypeIsNumber", tensor(R"("dtype":8)"), "dtype: expected a string, got a number"},
        Rejection{"ShapeIsNumber", tensor(R"("shape":8)"), "shape: expected an array of sizes, got a number"},
        Rejection{"ShapeIsNested", tensor(R"("shape":[[8]])"), "shape: expected a size, got an array"},
        Rejection{"ShapeIsNegative", tensor(R"("shape":[-1])"),
                  "shape: expected a size, got a negative number"},
        Rejection{"ShapeIsFraction", tensor(R"("shape":[1.5])"),
                  "shape: expected a size, got the number '1.5'"},
        Rejection{"ShapeIsBoolean", tensor(R"("shape":[true])"), "shape: expected a size, got a boolean"},
        Rejection{"ShapeBeyond63Bits", tensor(R"("shape":[9223372036854775808])"),
                  "got a number beyond 2^63 - 1"},
        Rejection{"ShapeBeyond64Bits", tensor(R"("shape":[18446744073709551616])"), "no 64-bit integer"},
        Rejection{"OffsetsAreStrings", tensor(R"("data_offsets":["0"])"),
                  "data_offsets: expected a number of bytes, got the string '0'"},
        Rejection{"OneOffset", tensor(R"("dtype":"U8","shape":[4],"data_offsets":[0])"),
                  "data_offsets has fewer than two numbers"},
        Rejection{"ThreeOffsets", tensor(R"("data_offsets":[0,4,4])"),
                  "data_offsets has more than two numbers"}),
    [](const auto& info) { return info.param.title; });

INSTANTIATE_TEST_SUITE_P(
    Data, Rejected,
    testing::Values(
        Rejection{"UnknownDType", tensor(R"("dtype":"F7","shape":[4],"data_offsets":[0,4])"),
                  "tensor 't': unknown dtype 'F7'"},
        Rejection{"EndBeforeBegin", tensor(R"("dtype":"U8","shape":[4],"data_offsets":[4,0])"),
                  "tensor 't': data_offsets [4, 0] end before they begin"},
        Rejection{"BeyondTheData", tensor(R"("dtype":"U8","shape":[5],"data_offsets":[0,5])"),
                  "tensor 't': data_offsets [0, 5] reach beyond the 4 bytes of data; the file is truncated"},
        Rejection{"WrongSize", tensor(R"("dtype":"F16","shape":[3],"data_offsets":[0,4])"),
                  "tensor 't': F16 of shape [3] has 6 bytes, data_offsets [0, 4] have 4"},
        Rejection{"ScalarOfWrongSize", tensor(R"("dtype":"F16","shape":[],"data_offsets":[0,4])"),
                  "F16 of shape [] has 2 bytes"},
        Rejection{"ProductOverflows",
                  tensor(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,4])"),
                  "shape [4294967296, 4294967296] of U8 overflows 64 bits"},
        Rejection{"BitsOverflow",
                  tensor(R"("dtype":"I64","shape":[288230376151711744],"data_offsets":[0,4])"),
                  "overflows 64 bits"},
        Rejection{"OverflowBesideZero",
                  tensor(R"("dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"),
                  "overflows 64 bits"},
        Rejection{"PartOfAByte", tensor(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"),
                  "shape [3] of F4 does not fill whole bytes"},
        Rejection{"Overlap",
                  test::safetensors(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                                    "1234"),
                  "tensor 'b': begins at byte 2 of the data, expected 3: tensors overlap"},
        Rejection{"Gap",
                  test::safetensors(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]},)"
                                    R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                                    "1234"),
                  "tensor 'b': begins at byte 3 of the data, expected 2: there is a gap"},
        Rejection{"DataLeftOver", tensor(R"("dtype":"U8","shape":[3],"data_offsets":[0,3])"),
                  "the tensors cover 3 bytes of data, the file has 4"}),
    [](const auto& info) { return info.param.title; });

TEST(SafetensorsHeader, PrintsHostileNamesSafely) {
    const std::string file = test::safetensors(R"({"a\u0000\n)" + std::string(500, 'x') + R"(":1})");
    const std::string message = message_of([&] { parse(file); });
    EXPECT_THAT(message, HasSubstr("'a\\x00\\x0axxx"));
    EXPECT_THAT(message, HasSubstr("x...'"));
    EXPECT_LT(message.size(), 250u);
}

TEST(SafetensorsHeader, SurvivesDeepNesting) {
    const std::string file = test::safetensors("{\"t\":" + std::string(1'000'000, '['));
    EXPECT_THAT(message_of([&] { parse(file); }), HasSubstr("tensor 't': expected an object, got an array"));
}

}  // namespace
}  // namespace weft
