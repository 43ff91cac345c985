// Runs all tests, or those whose names contain an argument; exits with 1 if one fails.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>

#include "tests/check.hpp"

int main(int count, char** arguments) {
    const std::span wanted(arguments + 1, static_cast<std::size_t>(std::max(count - 1, 0)));
    int ran = 0;
    int failed = 0;
    for (const auto& test : carve::tests::all_tests()) {
        const auto named = [&test](const char* part) {
            return std::string_view(test.name).find(part) != std::string_view::npos;
        };
        if (!wanted.empty() && std::ranges::none_of(wanted, named))
            continue;
        ++ran;
        const auto start = std::chrono::steady_clock::now();
        const char* result = "ok";
        try {
            test.run();
        } catch (const std::exception& error) {
            ++failed;
            result = "FAILED";
            std::printf("%s\n", error.what());
        }
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        std::printf("%-6s %6.2f s  %s\n", result, took.count(), test.name);
        std::fflush(stdout);
    }
    std::printf("%d of %d tests passed\n", ran - failed, ran);
    return ran == 0 || failed > 0 ? 1 : 0;
}
