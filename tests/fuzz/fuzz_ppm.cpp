// Hostile photographs.
#include "io/image.h"
#include "targets.h"
#include "weft/error.h"

namespace weft::fuzz {

void ppm(Input input) {
    try {
        const Image image = parse_ppm(input, "photograph");
        must(image.width > 0 && image.height > 0, "an empty image");
        must(image.pixels.size() == static_cast<std::size_t>(image.width * image.height * 3),
             "a size differs");
    } catch (const Error& error) {
        must(error.code() == ErrorCode::io, error.what());
    }
}

}  // namespace weft::fuzz
