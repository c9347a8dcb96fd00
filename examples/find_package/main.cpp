// Runs one op on the CPU, and shows what a wrong argument gets.
#include <weft/ops.h>
#include <weft/weft.h>

#include <cstdio>
#include <vector>

int main() {
    std::vector<float> x = {1, 2, 3, 4, 5, 6}, residual = {10, 20, 30, 40, 50, 60}, sum(6);
    const auto matrix = [](std::vector<float>& values) {
        return weft::Tensor(values.data(), weft::DType::fp32, {2, 3});
    };
    weft::run(
        weft::ResidualAdd{.x = matrix(x), .residual = matrix(residual), .bias = {}, .out = matrix(sum)});
    for (const float value : sum) std::printf("%g ", value);
    std::printf("\n");

    try {
        const weft::Tensor narrow(x.data(), weft::DType::fp32, {2, 2});
        weft::run(
            weft::ResidualAdd{.x = narrow, .residual = matrix(residual), .bias = {}, .out = matrix(sum)});
    } catch (const weft::Error& error) {
        std::printf("%s\n", error.what());
    }
}
