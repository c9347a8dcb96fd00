// The PPM reader, on the shipped photograph and on everything it must refuse.
#include "files.h"
#include "io/image.h"

namespace weft {
namespace {

using test::message_of;
using testing::HasSubstr;

Image parse(const std::string& file) { return parse_ppm(test::as_bytes(file), "p"); }

TEST(Ppm, ReadsTheShippedPhotograph) {
    Image image = read_ppm(WEFT_SOURCE_DIR "/assets/coffee.ppm");
    EXPECT_EQ(to_string(image.view()), "uint8[224,224,3]");
    std::uint64_t sum = 0;
    for (const std::uint8_t value : image.pixels) sum += value;
    EXPECT_GT(sum / image.pixels.size(), 60u);
    EXPECT_LT(sum / image.pixels.size(), 200u);
}

TEST(Ppm, ReadsCommentsAndAnyWhiteSpace) {
    const Image image = parse("P6 # a comment\n#another\n\t2\r\n1 #\n255\n123456");
    EXPECT_EQ(image.width, 2);
    EXPECT_EQ(image.height, 1);
    EXPECT_EQ(image.pixels, (std::vector<std::uint8_t>{'1', '2', '3', '4', '5', '6'}));
    EXPECT_EQ(parse("P6 1 1 255\n\n\n\n").pixels.size(), 3u);  // pixels may look like white space
}

TEST(Ppm, RejectsEverythingElseByItsMessage) {
    const std::pair<std::string, const char*> cases[] = {
        {"", "not a binary PPM"},
        {"P", "not a binary PPM"},
        {"P3\n1 1\n255\n1 2 3", "not a binary PPM (expected it to begin with P6)"},
        {"\x89PNG\r\n", "not a binary PPM"},
        {"P61 1 255\n123", "expected white space before the width"},
        {"P6", "expected white space before the width"},
        {"P6\n", "expected the width of the PPM in decimal"},
        {"P6\n-1 1 255\n", "expected the width of the PPM in decimal"},
        {"P6\n1", "expected white space before the height"},
        {"P6\n1x", "expected white space before the height"},
        {"P6\n1 x", "expected the height of the PPM in decimal"},
        {"P6\n0 1 255\n", "the width of the PPM is 0"},
        {"P6\n1 0 255\n", "the height of the PPM is 0"},
        {"P6\n99999999999999999999 1 255\n", "the width of the PPM exceeds 1048576"},
        {"P6\n1 1 65536\n", "the maximum of the PPM exceeds 65535"},
        {"P6\n1 1 65535\n123456", "the maximum of the PPM is 65535, expected 255"},
        {"P6\n1 1 254\n123", "the maximum of the PPM is 254, expected 255"},
        {"P6\n1 1 255", "expected white space before the pixels"},
        {"P6\n1 1 255#\n123", "expected white space before the pixels"},
        {"P6\n1 1 255\n12", "a PPM of 1 x 1 has 3 bytes of pixels, the file 2"},
        {"P6\n1 1 255\n1234", "a PPM of 1 x 1 has 3 bytes of pixels, the file 4"},
        {"P6\n1048576 1048576 255\n", "has 3298534883328 bytes of pixels, the file 0"},
    };
    for (const auto& [file, expected] : cases) {
        const std::string message = message_of([&] { parse(file); });
        EXPECT_THAT(message, testing::StartsWith("p: ")) << file;
        EXPECT_THAT(message, HasSubstr(expected)) << file;
    }
    EXPECT_THAT(message_of([] { read_ppm("/nonexistent/p.ppm"); }),
                HasSubstr("/nonexistent/p.ppm: cannot open"));
}

}  // namespace
}  // namespace weft
