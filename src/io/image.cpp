// Reading photographs: binary PPM (P6), 8 bits a channel.
#include "io/image.h"

#include "io/io_error.h"
#include "io/mapped_file.h"

namespace weft {
namespace {

// The text part of a PPM: numbers between white space and comments.
class PpmHeader {
   public:
    PpmHeader(std::span<const std::byte> file, const std::string& file_name)
        : file_(file), file_name_(file_name) {}

    void expect_magic() {
        if (next() != 'P' || next() != '6')
            fail_io("{}: not a binary PPM (expected it to begin with P6)", file_name_);
    }

    std::int64_t number(const char* what, std::int64_t largest) {
        const std::size_t before = at_;
        skip_space();
        if (at_ == before) fail_io("{}: expected white space before the {} of the PPM", file_name_, what);
        std::int64_t value = 0;
        int digits = 0;
        for (; is_digit(peek()); ++digits) {
            value = value * 10 + (next() - '0');
            if (value > largest) fail_io("{}: the {} of the PPM exceeds {}", file_name_, what, largest);
        }
        if (digits == 0) fail_io("{}: expected the {} of the PPM in decimal", file_name_, what);
        if (value == 0) fail_io("{}: the {} of the PPM is 0", file_name_, what);
        return value;
    }

    // The pixels begin after exactly one white space.
    std::span<const std::byte> rest() {
        if (!is_space(next())) fail_io("{}: expected white space before the pixels of the PPM", file_name_);
        return file_.subspan(at_);
    }

   private:
    static constexpr int kEnd = -1;

    static bool is_digit(int c) { return c >= '0' && c <= '9'; }
    static bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
    int peek() const { return at_ < file_.size() ? static_cast<int>(file_[at_]) : kEnd; }
    int next() {
        const int c = peek();
        if (c != kEnd) ++at_;
        return c;
    }

    void skip_space() {
        while (is_space(peek()) || peek() == '#') {
            if (next() != '#') continue;
            while (peek() != '\n' && peek() != kEnd) next();
        }
    }

    std::span<const std::byte> file_;
    const std::string& file_name_;
    std::size_t at_ = 0;
};

}  // namespace

Image parse_ppm(std::span<const std::byte> file, const std::string& file_name) {
    constexpr std::int64_t kLargestSide = 1 << 20;
    constexpr std::int64_t kMaximum = 255;
    PpmHeader header(file, file_name);
    header.expect_magic();
    Image image;
    image.width = header.number("width", kLargestSide);
    image.height = header.number("height", kLargestSide);
    const std::int64_t maximum = header.number("maximum", 65535);
    if (maximum != kMaximum)
        fail_io("{}: the maximum of the PPM is {}, expected {}", file_name, maximum, kMaximum);
    const std::span<const std::byte> pixels = header.rest();
    const auto expected = static_cast<std::size_t>(image.width * image.height * 3);
    if (pixels.size() != expected) {
        fail_io("{}: a PPM of {} x {} has {} bytes of pixels, the file {}", file_name, image.width,
                image.height, expected, pixels.size());
    }
    const auto* const first = reinterpret_cast<const std::uint8_t*>(pixels.data());
    image.pixels.assign(first, first + pixels.size());
    return image;
}

Image read_ppm(const std::filesystem::path& path) {
    const MappedFile file(path);
    return parse_ppm(file.bytes(), path.string());
}

}  // namespace weft
