// Runs all tests, or those whose names contain the first argument; exits with 1 if one fails.
#include <chrono>
#include <cstdio>
#include <exception>
#include <string_view>

#include "tests/check.hpp"

int main(int count, char** arguments) {
    const std::string_view wanted = count > 1 ? arguments[1] : "";
    int ran = 0;
    int failed = 0;
    for (const auto& test : carve::tests::all_tests()) {
        if (std::string_view(test.name).find(wanted) == std::string_view::npos)
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
