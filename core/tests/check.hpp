// Tests without a framework: TEST(name) { CHECK(claim); } anywhere, and main.cpp runs them all.
//
// A claim that does not hold ends its test; others go on. CHECK_THROWS(type, expression) claims an
// exception.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

namespace carve::tests {

struct Test {
    const char* name;
    void (*run)();
};

inline std::vector<Test>& all_tests() {
    static std::vector<Test> tests;
    return tests;
}

struct Registered {
    Registered(const char* name, void (*run)()) { all_tests().push_back({name, run}); }
};

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void check(bool holds, const char* claim,
                  std::source_location where = std::source_location::current()) {
    if (!holds)
        throw Failure(std::string(where.file_name()) + ":" + std::to_string(where.line()) + ": " +
                      claim);
}

template <class Exception, class Function> bool throws(Function&& function) {
    try {
        function();
    } catch (const Exception&) {
        return true;
    }
    return false;
}

} // namespace carve::tests

#define TEST(name)                                                                                 \
    static void name();                                                                            \
    static const carve::tests::Registered registered_##name(#name, name);                          \
    static void name()

#define CHECK(...) carve::tests::check((__VA_ARGS__), #__VA_ARGS__)
#define CHECK_THROWS(type, ...)                                                                    \
    carve::tests::check(carve::tests::throws<type>([&] { __VA_ARGS__; }), #__VA_ARGS__ " throws")
