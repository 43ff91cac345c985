#include "training/block_kernel.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace carve {

// The versions that CMake compiles, the most demanding one first.
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
#else
namespace plain {
extern const BlockKernel kernel;
}
#endif

namespace {

const BlockKernel& choose_kernel() {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
    const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512bw") != 0 &&
                            __builtin_cpu_supports("avx512vl") != 0 &&
                            __builtin_cpu_supports("avx512dq") != 0;
    const char* const wanted = std::getenv("CARVEGBM_ISA");
    const std::string name = wanted != nullptr ? wanted : "";
    if (!name.empty() && name != "sse2" && name != "avx2" && name != "avx512")
        throw std::invalid_argument("CARVEGBM_ISA must be sse2, avx2 or avx512, got " + name);
    if ((name == "avx2" && !has_avx2) || (name == "avx512" && !has_avx512))
        throw std::invalid_argument("this processor has no " + name + " (CARVEGBM_ISA)");
    if (name.empty() ? has_avx512 : name == "avx512")
        return avx512::kernel;
    return (name.empty() ? has_avx2 : name == "avx2") ? avx2::kernel : sse2::kernel;
#else
    return plain::kernel;
#endif
}

} // namespace

const BlockKernel& block_kernel() {
    static const BlockKernel& chosen = choose_kernel();
    return chosen;
}

} // namespace carve
