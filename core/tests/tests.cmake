# Two programs: all tests, and those of numbers once more with the 128-bit numbers that compilers
# without their own get. Neither knows Python: the bindings are left out.
enable_testing()

function(carvegbm_test name)
  add_executable(${name} ${ARGN})
  carvegbm_compile(${name})
  # Most of the time of compiling goes into these.
  target_precompile_headers(
    ${name} PRIVATE <algorithm> <atomic> <chrono> <cmath> <functional> <memory> <span> <string>
    <thread> <vector>)
  if(CARVEGBM_SANITIZE)
    # Not only memory that is not there, but elements that are not there; and numbers that a cast to
    # whole numbers cannot hold.
    set(watched -fsanitize=${CARVEGBM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    if(CARVEGBM_SANITIZE MATCHES "undefined")
      list(APPEND watched -fsanitize=float-cast-overflow)
    endif()
    target_compile_options(${name} PRIVATE -O1 -g1 ${watched})
    target_compile_definitions(${name} PRIVATE _GLIBCXX_ASSERTIONS)
    target_link_options(${name} PRIVATE ${watched})
  endif()
  add_test(NAME ${name} COMMAND ${name})
endfunction()

list(FILTER core_sources EXCLUDE REGEX "/core/bindings/")
file(GLOB test_sources CONFIGURE_DEPENDS core/tests/*.cpp)
carvegbm_test(core_tests ${core_sources} ${test_sources})

set(number_sources ${core_sources})
list(FILTER number_sources INCLUDE REGEX "/(core/numbers/|large_spread/knapsack)[^/]*$")
carvegbm_test(
  number_tests ${number_sources} core/tests/main.cpp core/tests/test_exact.cpp
  core/tests/test_knapsack.cpp core/tests/test_wide.cpp)
target_compile_definitions(number_tests PRIVATE CARVE_TWO_LIMBS)
