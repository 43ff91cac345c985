#include "training/block_kernel.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace carve {

// The versions that CMake compiles.
#if defined(__x86_64__) && defined(__GNUC__)
namespace avx512 {
extern const BlockKernel kernel;
}
namespace avx2 {
extern const BlockKernel kernel;
}
namespace sse2 {
extern const BlockKernel kernel;
}

std::vector<const BlockKernel*> supported_kernels() {
    std::vector<const BlockKernel*> found{&sse2::kernel};
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") == 0)
        return found;
    found.insert(found.begin(), &avx2::kernel);
    if (__builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
        __builtin_cpu_supports("avx512dq") != 0)
        found.insert(found.begin(), &avx512::kernel);
    return found;
}
#else
namespace plain {
extern const BlockKernel kernel;
}
std::vector<const BlockKernel*> supported_kernels() { return {&plain::kernel}; }
#endif

const BlockKernel& block_kernel() {
    static const BlockKernel& chosen = [&]() -> const BlockKernel& {
        const char* const given = std::getenv("CARVEGBM_ISA");
        const std::string wanted = given != nullptr ? given : "";
        for (const BlockKernel* const kernel : supported_kernels())
            if (wanted.empty() || kernel->name == wanted)
                return *kernel;
        throw std::invalid_argument("this processor has no " + wanted +
                                    "; CARVEGBM_ISA may be sse2, avx2 or avx512");
    }();
    return chosen;
}

} // namespace carve
