// The pipeline's input: what it makes of pictures and prompts before the layers.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "tests/cli/model_file.h"

namespace weft {
namespace {

using test::change;
using test::copy_with;
using test::expect_same;
using test::kWidth;
using test::place_of;
using test::run;

SessionOptions small() { return test::small(WEFT_SOURCE_DIR "/assets/coffee.ppm"); }

std::vector<float> rows(const std::vector<float>& all, std::int64_t first, std::int64_t end) {
    return {all.begin() + first * kWidth, all.begin() + end * kWidth};
}

// Patches of each view, then the prompt: a token's embedding does not depend on where it stands.
TEST(Pipeline, EmbedsEachViewAndTheWholePrompt) {
    const SessionResult one = run(small());
    ASSERT_EQ(one.tokens, 4 + 4);
    SessionOptions options = small();
    options.views = 2;
    std::reverse(options.prompt.begin(), options.prompt.end());
    const SessionResult two = run(options);
    ASSERT_EQ(two.tokens, 2 * 4 + 4);
    expect_same(rows(two.embeddings, 0, 4), rows(one.embeddings, 0, 4));
    expect_same(rows(two.embeddings, 4, 8), rows(one.embeddings, 0, 4));
    for (std::int64_t i = 0; i < 4; ++i)
        expect_same(rows(two.embeddings, 8 + i, 9 + i), rows(one.embeddings, 7 - i, 8 - i));
    // The centre of the centre: the middle four patches of 4 by 4 are the smaller image's.
    options = small();
    options.crop = 56;
    const SessionResult larger = run(options);
    expect_same(rows(larger.embeddings, 5, 7), rows(one.embeddings, 0, 2));
    expect_same(rows(larger.embeddings, 9, 11), rows(one.embeddings, 2, 4));
}

// A picture whose pixels say where they are, so many rows and columns into a larger one.
std::string picture(const std::string& name, int high, int wide, int top, int left) {
    const std::string path = testing::TempDir() + "/weft_" + name + ".ppm";
    std::ofstream file(path, std::ios::binary);
    file << "P6\n" << wide << " " << high << "\n255\n";
    for (int i = 0; i < high * wide * 3; ++i) {
        const int y = i / 3 / wide + top, x = i / 3 % wide + left;
        file << static_cast<char>((y * 7 + x * 3 + y * x + i % 3 * 50) % 251);
    }
    return path;
}

TEST(Pipeline, CropsTheCentreOfAPictureThatIsNotSquare) {
    for (const auto& [high, wide] : {std::pair{70, 42}, std::pair{36, 90}}) {
        SessionOptions options = small();
        options.image = picture("whole", high, wide, 0, 0);
        const SessionResult cropped = run(options);
        options.image = picture("centre", 28, 28, (high - 28) / 2, (wide - 28) / 2);
        options.crop = 0;
        expect_same(cropped.embeddings, run(options).embeddings);
    }
}

TEST(Pipeline, AddsTheBiasOfPatches) {
    const SessionResult plain = run(small());
    SessionOptions options = small();
    options.checkpoint = copy_with("bias", [](std::string& file, std::size_t data) {
        change(file, place_of(file, data, "patch_embed.bias"), [](float value) { return value + 0.5f; });
    });
    const SessionResult raised = run(options);
    ASSERT_EQ(raised.embeddings.size(), plain.embeddings.size());
    for (std::size_t i = 0; i < plain.embeddings.size(); ++i) {
        const float by = i < 4 * kWidth ? 0.5f : 0.0f;  // the picture's four patches, then the prompt
        ASSERT_NEAR(raised.embeddings[i] - plain.embeddings[i], by, 1e-4) << i;
    }
}

// Pixels run from -1 to 1: without a bias what white makes is what black makes, negated.
TEST(Pipeline, TakesPixelsFromMinusOneToOne) {
    SessionOptions options = small();
    options.checkpoint = copy_with("unbiased", [](std::string& file, std::size_t data) {
        change(file, place_of(file, data, "patch_embed.bias"), [](float) { return 0.0f; });
    });
    std::vector<float> of[2];
    for (const int white : {0, 1}) {
        options.image = testing::TempDir() + "/weft_plain" + std::to_string(white) + ".ppm";
        std::ofstream(options.image, std::ios::binary)
            << "P6\n28 28\n255\n"
            << std::string(28 * 28 * 3, white == 1 ? '\xff' : '\0');
        of[white] = rows(run(options).embeddings, 0, 4);
    }
    for (float& value : of[0]) value = -value;
    EXPECT_LT(closeness(of[1], of[0]).relative_error, 1e-5);
    EXPECT_GT(*std::ranges::max_element(of[1]), 0.01f);
}

}  // namespace
}  // namespace weft
